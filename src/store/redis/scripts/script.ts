// A Lua script for the rest of the code: a text, its SHA-1, a call with its keys and arguments, and a reply. Replies are read strictly:
// an answer of any other form never counts.
import { LockBackendError } from '../../../core/errors';
import { describe, type Key } from '../../../core/keys';

export interface Script {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
}

/** A call that may be sent as a part of a batch. */
export interface BatchableCall {
  readonly script: { readonly name: string };
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** A call that may also be sent by itself. */
export interface ScriptCall extends BatchableCall {
  readonly script: Script;
}

/** The script as a function in a batch: it reads its keys and arguments from an offset in a longer list. */
export function inBatch(lua: string): string {
  return lua
    .replaceAll('#KEYS', 'kn')
    .replaceAll('#ARGV', 'an')
    .replaceAll('KEYS[', 'KEYS[k+')
    .replaceAll('ARGV[', 'ARGV[a+');
}

/** The reply, if it is exactly that many integers; anything else never means held. */
export function integers(reply: unknown, length: number, key: Key): number[] {
  if (Array.isArray(reply) && reply.length === length && reply.every(Number.isSafeInteger)) return reply; // H5
  throw strangeReply(reply, key);
}

export function strangeReply(reply: unknown, key: Key): LockBackendError {
  const kind = Array.isArray(reply) ? `an array of ${reply.length}` : reply === null ? 'null' : `a ${typeof reply}`;
  const message = `the reply for ${describe(key)} is not one that our scripts give (${kind})`;
  return new LockBackendError(message, { key, unknown: true }); // H5c
}
