// The replies of our scripts, read strictly: an answer of any other form never counts.
import { LockBackendError } from '../../core/errors';
import { describe, type Key } from '../../core/keys';

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
