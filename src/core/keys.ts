// The keys of a lock in Redis: the lock keys themselves and their companions. A companion has the cluster slot of its lock (the
// same hash tag), so that one script may touch both. No lock key can be mistaken for a companion.
import { type Key, optionError } from './errors';
import { byteLength, utf8 } from './runtime';

export type { Key };

/** Names at the end of companion keys. A lock key that ends like this is refused. */
const companions = ['queue', 'value', 'limit', 'slot'] as const;
type Companion = (typeof companions)[number];
/** The counter that all fences of a server come from. A cluster has one for each slot. */
export const fenceKey = 'redis-exp-lock:fence';
/** @internal The key where an operator writes the `run_id` of a new quorum server, which has nothing to forget. */
export const newServerKey = `${fenceKey}:new`;

const looksLikeCompanion = new RegExp(`:(?:fence|${companions.join('|')})\\.?$|^${fenceKey}:`);
/** The end of a companion key, which also has a hash tag. */
const companionEnd = new RegExp(`:(?:${companions.join('|')})\\.?$`);
const maxKeyBytes = 1024;
/** The maximum length of a string that need not be measured: UTF-8 takes at most 3 bytes for each UTF-16 unit. */
const surelyShort = Math.floor(maxKeyBytes / 3);

/**
 * @internal The full lock keys, prefix included, each once. A single key stays a plain string, since each held lock keeps one.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`, before any I/O.
 */
export function lockKeys(key: Key, prefix: string): Key {
  if (typeof key === 'string') return lockKey(key, prefix); // H12
  if (!Array.isArray(key)) throw optionError('key', 'a string, or an array of strings', key); // H12b
  if (key.length === 0) throw impossible('at least one key in the array', key);
  const keys = [...new Set(Array.from(key, (each) => lockKey(each, prefix)))].sort();
  return keys.length === 1 ? keys[0]! : keys;
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

/** @internal The key as it was given. A list is copied, because the caller may change it. */
export function ownKey(key: Key): Key {
  return Array.isArray(key) ? Object.freeze(Array.from(key)) : key;
}

/** @internal One validated lock key, prefix included. */
export function lockKey(key: unknown, prefix: string): string {
  const full = fullKey(key, prefix);
  if (isTooLong(full)) throw impossible('at most 1024 bytes, prefix included', `${byteLength(full)} bytes`); // H12f
  if (looksLikeCompanion.test(full)) {
    const ends = `:fence, :${companions.join(', :')}`;
    throw impossible(`a name that does not end like one of our companion keys (${ends})`, key);
  }
  return full;
}

/**
 * @internal A full key of a program written for another library. It may have any length, and any end that does not make it a
 * key of ours. Only the shims lock a key that `lockKey` refuses, and nobody queues for such a key.
 */
export function peerKey(key: unknown, prefix: string): string {
  return unusedName(fullKey(key, prefix));
}

/** @internal Returns the name, unless it is the name of a companion or of a fence counter. */
export function unusedName(full: string): string {
  const isCompanion = companionEnd.test(full) && hashTag(full) !== null;
  if (isCompanion || full === fenceKey || full.startsWith(`${fenceKey}:`)) {
    throw impossible('a name that none of the library’s own keys can have', full);
  }
  return full;
}

/** Checks the rules for every lock key: text that Redis keeps unchanged, and a cluster slot that its companions can share. */
function fullKey(key: unknown, prefix: string): string {
  if (typeof key !== 'string') throw optionError('key', 'a string', key); // H51
  if (key === '') throw impossible('a string of 1 to 1024 bytes', key);
  const full = prefix + key;
  // H12e
  if (!full.isWellFormed()) throw impossible('well-formed Unicode (a lone surrogate would become another key)', key);
  if (full.includes('}') && hashTag(full) === null) {
    throw impossible('braces that form a hash tag such as "{user}:1", or no closing brace at all', key);
  }
  return full;
}

function impossible(expected: string, got: unknown): Error {
  return optionError('key', expected, got, 'range');
}

/** @internal True if a key in Redis may be a lock, and not a companion or a fence counter. */
export function mayBeLock(key: string): boolean {
  return !looksLikeCompanion.test(key) && key !== '' && !isTooLong(key);
}

function isTooLong(key: string): boolean {
  return key.length > surelyShort && byteLength(key) > maxKeyBytes;
}

/** @internal The companion key of a lock key, in the same cluster slot. */
export function companionOf(key: string, name: Companion): string {
  const tag = key.includes('}') ? hashTag(key) : null;
  if (tag === null) return `{${key}}:${name}`; // H57 H58c H97
  // The bare key "{x}" would otherwise share its companions with the key "x".
  return tag.length + 2 === key.length ? `${key}:${name}.` : `${key}:${name}`;
}

/** @internal The cluster slot of a key: CRC-16 (XMODEM) of its hash tag or of the whole key, 0 to 16383. */
export function slotOf(key: string): number {
  let crc = 0;
  for (const byte of utf8(hashTag(key) ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16384;
}

/** A hash tag for each slot found so far. */
const tags = new Map<number, string>();
let tagsTried = 0;

/** @internal The fence counter in the cluster slot of a key. Finding the first one of a slot takes 3 ms on average. */
export function fenceKeyBeside(key: string): string {
  const slot = slotOf(key);
  for (; !tags.has(slot); tagsTried += 1) {
    const tag = tagsTried.toString(36);
    const found = slotOf(tag);
    if (!tags.has(found)) tags.set(found, tag);
  }
  return `${fenceKey}:{${tags.get(slot)!}}`;
}

/** The part that Redis Cluster hashes instead of the whole key; null if it hashes the whole key. */
function hashTag(key: string): string | null {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : null;
}
