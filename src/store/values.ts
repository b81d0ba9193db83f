// The text beside a lock, which its holder writes: a cached value, or the record of a leader.
import { LockBackendError } from '../core/errors';
import { describe } from '../core/keys';

export interface Values {
  read(key: string, commandTimeoutMs: number): Promise<string | null>;
  /** Writes the text while the token holds the lock. False: the token does not hold the lock, and nothing changed. */
  write(request: ValueRequest): Promise<boolean>;
  /** The holder of a lock, and the text beside it; null: no holder. */
  readHolder(key: string, commandTimeoutMs: number): Promise<HolderText | null>;
}

export interface ValueRequest {
  readonly key: string;
  readonly token: string;
  readonly text: string;
  /** 0: no text from now on. */
  readonly ttlMs: number;
  /** The channel on which the observers of the lock are notified, if it has any. */
  readonly channel?: string;
  readonly commandTimeoutMs: number;
}

export interface HolderText {
  readonly token: string;
  /** Infinity: no end. */
  readonly leftMs: number;
  readonly text: string | null;
}

/** The first word of a message to observers of a lock; the lock's key follows. */
export const newsOf = 'news';

/** @throws {LockBackendError} the store is a quorum. */
export function valuesOf(
  { values }: { readonly values?: Values | undefined },
  fullKey: string,
  what: string,
  key = fullKey,
): Values {
  if (values !== undefined) return values;
  const message = `${describe(fullKey)}: ${what} cannot be had on a quorum, which keeps nothing beside a lock; use a single Redis`;
  throw new LockBackendError(message, { key, retryable: false });
}
