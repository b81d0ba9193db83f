// What comes back from a Redis client, read strictly: only the exact answer of one of our scripts counts, and an error is
// classified by its text, because clients and server versions wrap it differently.
import { LockBackendError } from '../errors';
import type { Key } from '../keys';

/** States of a server that pass by themselves. */
const passing = new Set([
  'LOADING',
  'BUSY',
  'READONLY',
  'MASTERDOWN',
  'NOREPLICAS',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MOVED',
  'ASK',
  'OOM',
  'MISCONF',
]);
/** States that somebody has to change. */
const lasting = [
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'WRONGTYPE',
  'CROSSSLOT',
  'NOSCRIPT',
  'VERSION',
  'LIMIT',
  'FENCE',
  'FOREIGN',
];
const known = new RegExp(`\\b(${[...passing, ...lasting].join('|')})\\b`);

/** The client's error as ours. */
export function refusal(error: unknown, key: Key): LockBackendError {
  if (error instanceof LockBackendError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const redisCode = codeOf(text);
  const message = `Redis refused ${describe(key)}: ${text}`;
  // No word of Redis's: the connection broke, or the client gave up. The script may have run, or may still run.
  if (redisCode === undefined) return new LockBackendError(message, { key, cause: error, unknown: true });
  const retryable = passing.has(redisCode) || /max number of clients/i.test(text);
  return new LockBackendError(message, { key, cause: error, redisCode, retryable });
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOSCRIPT');
}

/** Redis's own word for what it refused; undefined where the text is none of Redis's. */
export function codeOf(text: string): string | undefined {
  // Inside a script, 7.0 tells a missing right as plain "ERR … can't run this command …" or "… ACL failure …".
  if (/ACL failure|can't (run|access)|no permissions/i.test(text)) return 'NOPERM';
  const first = /^([A-Z]{2,})\b/.exec(text)?.[1];
  if (first !== undefined && first !== 'ERR') return first;
  // 6.2 wraps what a script met as "ERR Error running script …: … WRONGTYPE …".
  return known.exec(text)?.[1] ?? first;
}

/** The reply, if it is exactly so many integers; anything else never means held. */
export function integers(reply: unknown, length: number, key: Key): number[] {
  if (Array.isArray(reply) && reply.length === length && reply.every(Number.isSafeInteger)) return reply;
  throw strangeReply(reply, key);
}

export function strangeReply(reply: unknown, key: Key): LockBackendError {
  const kind = Array.isArray(reply) ? `an array of ${reply.length}` : reply === null ? 'null' : `a ${typeof reply}`;
  const message = `the answer about ${describe(key)} is none that our scripts give (${kind})`;
  return new LockBackendError(message, { key, unknown: true });
}

export function silence(key: Key, timeoutMs: number): LockBackendError {
  return new LockBackendError(`Redis was silent about ${describe(key)} for ${timeoutMs} ms`, { key, unknown: true });
}

/** A key, or several, for a message. */
export function describe(key: Key): string {
  return listOf(key)
    .map((each) => JSON.stringify(each))
    .join(', ');
}

export function listOf(keys: Key): readonly string[] {
  return typeof keys === 'string' ? [keys] : keys;
}
