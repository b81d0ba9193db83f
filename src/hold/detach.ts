// Giving up a lock without releasing it: Redis keeps the lock for a process that adopts it (acquire/adopt.ts).
import { LockBackendError, NotAcquiredLockError, unknownOptionError } from '../core/errors';
import { describe, type Key } from '../core/keys';
import type { HeldLock } from './held-lock';

/** A detached lock as plain JSON: `lease.detach()` returns it, `withLock.adopt()` takes it. The token is secret: it can release. */
export interface DetachedLease {
  /** The key as it was given, without the prefix. */
  key: Key;
  token: string;
  fence: number;
  /** The end of the lifetime in ms of the epoch, by the clock of the detaching process. 2 ** 53 − 1: no end. */
  until: number;
}

/** @internal Implements `Lease.detach`: ends the lock in this process and leaves it in Redis. */
export function detach(held: HeldLock): DetachedLease {
  const { key, token, fence } = held;
  if (held.mode !== undefined) {
    throw unknownOptionError('detach', 'only a mutex can be detached, not what readers, writers or permits hold');
  }
  if (!held.check()) throw new NotAcquiredLockError(`${describe(key)} is not held`, { key, cause: held.loss });
  if (held.mayShorten) {
    const message = `an extension of ${describe(key)} has no answer yet: wait for that before detach()`;
    throw new LockBackendError(message, { key });
  }
  const until = Math.min(Math.floor(Date.now() + held.leftMs()), Number.MAX_SAFE_INTEGER);
  held.letGo();
  return { key, token, fence, until };
}
