// Letting go of a lock without releasing it: Redis keeps it, for a process that adopts it (adopt.ts).
import { LockBackendError, NotAcquiredLockError, unknownOptionError } from '../core/errors';
import { describe, type Key } from '../core/keys';
import type { HeldLock } from './held-lock';

/** What `lease.detach()` gives and `withLock.adopt()` takes: plain JSON. Its token is a secret: it is all that releasing takes. */
export interface DetachedLease {
  /** The key as it was given, without the prefix. */
  key: Key;
  token: string;
  fence: number;
  /** Ms of the epoch, by the clock of the process that detached it, at which its lifetime ends. 2 ** 53 − 1: it has no end. */
  until: number;
}

/** @internal See `Lease.detach`. Ends here, and goes on in Redis. */
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
