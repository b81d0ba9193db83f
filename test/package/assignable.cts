// What we export is what face.d.ts promises: each function here compiles only while it is. Compiled, never run, as
// consumers/ is. A part of the face that comes in a later version gets its lines with it.
import type { promisify } from 'node:util';

import type ours = require('../../src/index');
import type face = require('./face');

// ---- what callers give: all that the face allows, except that so far locks live in one place

type Client = face.RedisLike;
type Given = Omit<face.Options, 'redis'> & { redis?: Client | undefined };

export const options = (given: Given): ours.Options => given;
export const waitOptions = (given: face.WaitOptions): ours.WaitOptions => given;
export const closeOptions = (given: face.CloseOptions): ours.CloseOptions => given;
export const key = (given: face.Key): ours.Key => given;
export const redis = (given: Client): ours.RedisLike => given;
export const callback = (given: face.LockCallback): ours.LockCallback => given;

// ---- what they keep in a variable of our type

export const keptOptions = (kept: ours.Options): face.Options => kept;
export const keptWaitOptions = (kept: ours.WaitOptions): face.WaitOptions => kept;
export const keptCloseOptions = (kept: ours.CloseOptions): face.CloseOptions => kept;
export const keptKey = (kept: ours.Key): face.Key => kept;
export const keptRedis = (kept: ours.RedisLike): face.RedisLike => kept;
export const keptCallback = (kept: ours.LockCallback): face.LockCallback => kept;

// ---- what they get

/** The face's calls, with `Given` for its Options; and its methods. */
interface Calls {
  (key: face.Key, callback: face.LockCallback): void;
  (key: face.Key, options: Given, callback: face.LockCallback): void;
  (key: face.Key, callback: (err: Error | null) => void): void;
  (key: face.Key, options: Given, callback: (err: Error | null) => void): void;
  readonly [promisify.custom]: (key: face.Key, options?: Given) => Promise<face.Lease>;
}
type Methods = Omit<face.WithLock, typeof promisify.custom | 'cached'>;

export const factory = (of: typeof ours): ((config?: Given) => ours.WithLock) => of;
export const withLock = (of: ours.WithLock): Calls & Methods => of;
export const lease = (of: ours.Lease): face.Lease => of;
export const rwLease = (of: ours.RWLease): face.RWLease => of;
type Without<T> = Omit<T, 'redis'>;
export const lockOptions = (given: Without<face.LockOptions>): Without<ours.LockOptions> => given;
export const rwLockOptions = (given: Without<face.RWLockOptions>): Without<ours.RWLockOptions> => given;
export const permitOptions = (given: Without<face.PermitOptions>): Without<ours.PermitOptions> => given;
export const cachedOptions = (given: Without<face.CachedOptions>): Without<ours.CachedOptions> => given;
export const lockState = (of: ours.LockState): face.LockState => of;

export const store = (of: ours.Store): face.Store => of;
export const hostLockOptions = (given: face.HostLockOptions): ours.HostLockOptions => given;
export const keptHostLockOptions = (kept: ours.HostLockOptions): face.HostLockOptions => kept;
export const hostLock = (of: ours.HostLock): face.HostLock => of;
export const HostLock = (of: typeof ours.HostLock): typeof face.HostLock => of;
export const memoryStore = (of: typeof ours.memoryStore): typeof face.memoryStore => of;
export const sharedMemoryStore = (of: typeof ours.sharedMemoryStore): typeof face.sharedMemoryStore => of;

export const lockError = (of: ours.LockError): face.LockError => of;
export const attempts = (of: ours.TooManyLockAttemptsError): face.TooManyLockAttemptsError => of;
export const timeout = (of: ours.LockTimeoutError): face.LockTimeoutError => of;
export const already = (of: ours.AlreadyAcquiredLockError): face.AlreadyAcquiredLockError => of;
export const notAcquired = (of: ours.NotAcquiredLockError): face.NotAcquiredLockError => of;
export const lost = (of: ours.LockLostError): face.LockLostError => of;
export const deadlock = (of: ours.LockDeadlockError): face.LockDeadlockError => of;
export const backend = (of: ours.LockBackendError): face.LockBackendError => of;
export const closed = (of: ours.LockClosedError): face.LockClosedError => of;
