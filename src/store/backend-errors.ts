// The errors that a store rejects with. An error of a Redis client is classified by its text, because clients and server versions wrap it
// differently.

import { LockBackendError } from '../core/errors';
import { describe, type Key, slotOf } from '../core/keys';
import { cleanError } from './clean-error';

/** States of a server that end by themselves. */
const temporary = 'LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|OOM|MISCONF'; // H54
/** States that an operator or the caller has to change. */
const lasting = 'NOAUTH|WRONGPASS|NOPERM|WRONGTYPE|CROSSSLOT|NOSCRIPT|VERSION|LIMIT|FENCE|FOREIGN';
const known = new RegExp(`\\b(${temporary}|${lasting})\\b`);

/** ioredis 5, iovalkey: what they say instead of sending a command. The client was given to us for good. */
const onlySubscribes = /in subscriber mode/;

const missingRight = ' (`npx redis-exp-lock doctor` names the missing rights)';
/** The answer to EVAL of servers, services and proxies that run no scripts. */
const refusesEval = /(?=.*\beval\b).*(unknown command|not (support|allow|permit)|disabled)/is;
const needsScripts = ' (this server does not run scripts, and no lock works without EVAL)';

/** The client's error as ours. */
export function refusal(error: unknown, key: Key): LockBackendError {
  if (error instanceof LockBackendError) return error;
  const cause = cleanError(error);
  const text = cause instanceof Error ? cause.message : String(cause);
  const redisCode = codeOf(text);
  const across = redisCode === 'CROSSSLOT' ? acrossSlots(key) : undefined;
  if (across !== undefined) return across;
  const advice = redisCode === 'NOPERM' ? missingRight : refusesScripts(text) ? needsScripts : '';
  const message = `Redis refused ${describe(key)}: ${text}${advice}`; // H57c
  // Not Redis's own error: the connection broke, or the client gave up. The script may have run, or may still run.
  if (redisCode === undefined) {
    const mayRun = !onlySubscribes.test(text);
    return new LockBackendError(message, { key, cause, unknown: mayRun, retryable: mayRun });
  }
  const retryable = temporary.split('|').includes(redisCode) || /max number of clients/i.test(text); // H10b H54b
  return new LockBackendError(message, { key, cause, redisCode, retryable });
}

/** The error for keys that no cluster can lock together; undefined if they share a slot. */
export function acrossSlots(keys: Key): LockBackendError | undefined {
  if (typeof keys === 'string' || new Set(keys.map(slotOf)).size === 1) return undefined; // H57b
  const message =
    `${describe(keys)} lie in different slots of the cluster and cannot be locked together: ` +
    'give them one hash tag, such as "{bank}:alice" and "{bank}:bob"';
  return new LockBackendError(message, { key: keys, redisCode: 'CROSSSLOT', retryable: false });
}

/** True for the refusal of EVAL by a server that runs no scripts for anybody. */
export function refusesScripts(text: string): boolean {
  return refusesEval.test(text) && codeOf(text) !== 'NOPERM'; // H96c
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOSCRIPT');
}

/** Redis's own error code; undefined where the error is not Redis's. */
export function codeOf(text: string): string | undefined {
  // Inside a script, 7.0 reports a missing right as plain "ERR … can't run this command …" or "… ACL failure …". A command that
  // was renamed away is missing in the same way.
  if (/ACL failure|can't (run|access)|no permissions|unknown (\w+ )?command called/i.test(text)) return 'NOPERM'; // H54d
  const first = /^([A-Z]{2,})\b/.exec(text)?.[1];
  if (first !== undefined && first !== 'ERR') return first;
  // 6.2 wraps the error of a command in a script as "ERR Error running script …: … WRONGTYPE …".
  return known.exec(text)?.[1] ?? first;
}

export function silence(key: Key, timeoutMs: number): LockBackendError {
  return new LockBackendError(`Redis did not reply within ${timeoutMs} ms about ${describe(key)}`, {
    key,
    unknown: true,
  });
}

/** The request was not sent: its caller had given up. */
export function givenUp(key: Key): LockBackendError {
  return new LockBackendError(`the request for ${describe(key)} was given up before it was sent`, { key });
}

/** The same error, where the request may have taken effect. */
export function asUnknown({ message, key, cause, redisCode, retryable }: LockBackendError): LockBackendError {
  return new LockBackendError(message, { key, cause, redisCode, retryable, unknown: true });
}

/** The same error, where the request has surely had no effect. */
export function unsent({ message, key, cause, retryable }: LockBackendError): LockBackendError {
  return new LockBackendError(message, { key, cause, retryable });
}

const unconnected = 'the Redis client was never connected, or was closed: await client.connect() first';

/** @param closed What to do about a client that is closed. */
export function notReady(key: Key, readiness: string, closed = unconnected): LockBackendError {
  const advice = readiness === 'closed' ? closed : 'the Redis client is not connected (it is still trying)';
  return new LockBackendError(`${describe(key)} could not be locked: ${advice}`, {
    key,
    retryable: readiness !== 'closed',
  });
}
