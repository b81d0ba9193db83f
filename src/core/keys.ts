// The keys of one lock in Redis's words: the lock keys themselves and their companions. A companion lives in the same
// cluster slot as its lock (same hash tag), so that one script may touch both, and no lock key can be mistaken for one.
import { type Key, optionError } from './errors';

export type { Key };

/** Names that follow a lock key: refused at the end of a lock key. */
const companions = ['queue', 'value', 'limit', 'slot'] as const;
type Companion = (typeof companions)[number];
/** The counter that all fences of a server come from; in a cluster there is one for each slot. */
export const fenceKey = 'redis-exp-lock:fence';
/** @internal Where an operator says of a new quorum's server that it has nothing to forget: its `run_id`. */
export const newServerKey = `${fenceKey}:new`;

const looksLikeCompanion = new RegExp(`:(?:fence|${companions.join('|')})\\.?$|^${fenceKey}:`);
/** A companion also has a hash tag. */
const companionEnd = new RegExp(`:(?:${companions.join('|')})\\.?$`);
const maxKeyBytes = 1024;
/** UTF-8 needs at most 3 bytes for each UTF-16 unit: shorter strings need not be measured. */
const surelyShort = Math.floor(maxKeyBytes / 3);

/**
 * @internal The full lock keys, prefix included, each once. A single key stays the plain string it is: one is kept per held lock.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`, before any I/O.
 */
export function lockKeys(key: Key, prefix: string): Key {
  if (typeof key === 'string') return lockKey(key, prefix); // H12
  if (!Array.isArray(key)) throw optionError('key', 'a string, or an array of strings', key); // H12b
  if (key.length === 0) throw optionError('key', 'at least one key in the array', key, 'range');
  if (key.length === 1) return lockKey(key[0], prefix);
  const keys: string[] = [];
  for (let n = 0; n < key.length; n += 1) keys.push(lockKey(key[n], prefix));
  keys.sort();
  const each = keys.filter((full, n) => full !== keys[n - 1]);
  return each.length === 1 ? each[0]! : each;
}

/** @internal A key, or several, as a list. */
export function listOf(keys: Key): readonly string[] {
  return typeof keys === 'string' ? [keys] : keys;
}

/** @internal A key, or several, for a message. */
export function describe(keys: Key): string {
  return listOf(keys)
    .map((each) => JSON.stringify(each))
    .join(', ');
}

/** @internal The key as it was given, for us alone: a list is the caller's own, and may change. */
export function ownKey(key: Key): Key {
  return Array.isArray(key) ? Object.freeze(Array.from(key)) : key;
}

/** @internal One validated lock key, prefix included. */
export function lockKey(key: unknown, prefix: string): string {
  const full = fullKey(key, prefix);
  // H12f
  if (isTooLong(full)) {
    throw optionError('key', 'at most 1024 bytes, prefix included', `${Buffer.byteLength(full)} bytes`, 'range');
  }
  if (looksLikeCompanion.test(full)) {
    throw optionError(
      'key',
      `a name that does not end like one of our companion keys (:fence, :${companions.join(', :')})`,
      key,
      'range',
    );
  }
  return full;
}

/**
 * @internal A key of a program written for another library, prefix included: of any length, and with any ending that makes it no key
 * of ours. Only the shims lock one that `lockKey` refuses, and nobody queues for it.
 */
export function peerKey(key: unknown, prefix: string): string {
  return unusedName(fullKey(key, prefix));
}

/** @internal The name, unless it is that of a companion or of a fence counter. */
export function unusedName(full: string): string {
  const isCompanion = companionEnd.test(full) && hashTag(full) !== null;
  if (isCompanion || full === fenceKey || full.startsWith(`${fenceKey}:`)) {
    throw optionError('key', 'a name that none of the library’s own keys can have', full, 'range');
  }
  return full;
}

/** The rules for every lock key: text that Redis keeps as it is, and a cluster slot that its companions can share. */
function fullKey(key: unknown, prefix: string): string {
  if (typeof key !== 'string') throw optionError('key', 'a string', key); // H51
  if (key === '') throw optionError('key', 'a string of 1 to 1024 bytes', key, 'range');
  const full = prefix + key;
  // H12e
  if (!full.isWellFormed()) {
    throw optionError('key', 'well-formed Unicode (a lone surrogate would become another key)', key, 'range');
  }
  if (full.includes('}') && hashTag(full) === null) {
    throw optionError(
      'key',
      'braces that form a hash tag such as "{user}:1", or no closing brace at all',
      key,
      'range',
    );
  }
  return full;
}

/** @internal Whether a key of Redis may be a lock: it is none of ours beside one. */
export function mayBeLock(key: string): boolean {
  return !looksLikeCompanion.test(key) && key !== '' && !isTooLong(key);
}

function isTooLong(key: string): boolean {
  return key.length > surelyShort && Buffer.byteLength(key) > maxKeyBytes;
}

/** @internal The companion key of a lock key, in the same cluster slot. */
export function companionOf(key: string, name: Companion): string {
  const tag = key.includes('}') ? hashTag(key) : null;
  if (tag === null) return `{${key}}:${name}`; // H57 H58c
  // The bare key "{x}" would otherwise share its companions with the key "x".
  return tag.length + 2 === key.length ? `${key}:${name}.` : `${key}:${name}`;
}

/** @internal Where a Redis Cluster keeps a key: CRC-16 (XMODEM) of what it hashes, 0 to 16383. */
export function slotOf(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTag(key) ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16384;
}

/** By slot, a hash tag that lies there, as far as they were needed. */
const tags = new Map<number, string>();
let tagsTried = 0;

/** @internal The fence counter of the cluster slot where a key lies. The first of a slot takes 3 ms to find, on average. */
export function fenceKeyBeside(key: string): string {
  const slot = slotOf(key);
  for (; !tags.has(slot); tagsTried += 1) {
    const tag = tagsTried.toString(36);
    const found = slotOf(tag);
    if (!tags.has(found)) tags.set(found, tag);
  }
  return `${fenceKey}:{${tags.get(slot)!}}`;
}

/** What Redis Cluster hashes instead of the whole key; null where it hashes the whole. */
function hashTag(key: string): string | null {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : null;
}
