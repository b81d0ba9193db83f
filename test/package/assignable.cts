// Our exports against the promises of face.d.ts: each function here compiles only while they agree. Compiled, never run, as
// consumers/ is. A part of the face that comes in a later version gets its lines with it.
import type { promisify } from 'node:util';

import type ours = require('../../src/index');
import type face = require('./face');

// ---- what callers give

/** The face's options of any kind. */
type Built<T> = Omit<T, 'redis'>;
type Given = Built<face.Options> & { redis?: face.RedisLike | readonly face.RedisLike[] | undefined };

export const options = (given: Given): ours.Options => given;
export const waitOptions = (given: face.WaitOptions): ours.WaitOptions => given;
export const closeOptions = (given: face.CloseOptions): ours.CloseOptions => given;
export const lockOptions = (given: Built<face.LockOptions>): Built<ours.LockOptions> => given;
export const rwLockOptions = (given: Built<face.RWLockOptions>): Built<ours.RWLockOptions> => given;
export const permitOptions = (given: Built<face.PermitOptions>): Built<ours.PermitOptions> => given;
export const cachedOptions = (given: Built<face.CachedOptions>): Built<ours.CachedOptions> => given;
export const onceOptions = (given: Built<face.OnceOptions>): Built<ours.OnceOptions> => given;
export const hostLockOptions = (given: face.HostLockOptions): ours.HostLockOptions => given;
export const detached = (given: face.DetachedLease): ours.DetachedLease => given;
export const nodeRedis = (given: face.NodeRedisLike): ours.NodeRedisLike => given;
export const ioredis = (given: face.IORedisLike): ours.IORedisLike => given;
export const glide = (given: face.GlideLike): ours.GlideLike => given;
export const key = (given: face.Key): ours.Key => given;
export const upstash = (given: face.UpstashLike): ours.UpstashLike => given;
export const bun = (given: face.BunRedisLike): ours.BunRedisLike => given;
export const redis = (given: face.RedisLike): ours.RedisLike => given;
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
type Methods = Omit<face.WithLock, typeof promisify.custom>;

export const factory = (of: typeof ours): ((config?: Given) => ours.WithLock) => of;
export const withLock = (of: ours.WithLock): Calls & Methods => of;
export const lease = (of: ours.Lease): face.Lease => of;
export const rwLease = (of: ours.RWLease): face.RWLease => of;
export const detachedLease = (of: ours.DetachedLease): face.DetachedLease => of;
export const tryRunResult = (of: ours.TryRunResult<string>): face.TryRunResult<string> => of;
export const leader = (of: ours.Leader): face.Leader => of;
export const term = (of: ours.Term): face.Term => of;
export const onceResult = (of: ours.OnceResult<string>): face.OnceResult<string> => of;
export const slot = (of: ours.Slot): face.Slot => of;
export const lockState = (of: ours.LockState): face.LockState => of;
export const listedLock = (of: ours.ListedLock): face.ListedLock => of;
export const holderState = (of: ours.HolderState): face.HolderState => of;
export const waiterState = (of: ours.WaiterState): face.WaiterState => of;
export const lockList = (of: ours.LockList): face.LockList => of;
export const listOptions = (given: face.ListOptions): ours.ListOptions => given;
export const freeOptions = (given: face.FreeOptions): ours.FreeOptions => given;

export const lock = (of: ours.Lock): face.Lock => of;
export const Lock = (of: typeof ours.Lock): typeof face.Lock => of;
export const rwLock = (of: ours.RWLock): face.RWLock => of;
export const RWLock = (of: typeof ours.RWLock): typeof face.RWLock => of;
export const electionOptions = (given: Built<face.ElectionOptions>): Built<ours.ElectionOptions> => given;
export const election = (of: ours.Election): face.Election => of;
export const Election = (of: typeof ours.Election): typeof face.Election => of;
export const semaphore = (of: ours.Semaphore): face.Semaphore => of;
export const Semaphore = (of: typeof ours.Semaphore): typeof face.Semaphore => of;

export const store = (of: ours.Store): face.Store => of;
export const keptMemoryStore = (of: ours.MemoryStore): face.MemoryStore => of;
export const keptHostLockOptions = (kept: ours.HostLockOptions): face.HostLockOptions => kept;
export const hostLock = (of: ours.HostLock): face.HostLock => of;
export const HostLock = (of: typeof ours.HostLock): typeof face.HostLock => of;
export const memoryStore = (of: typeof ours.memoryStore): typeof face.memoryStore => of;
export const sharedMemoryStore = (of: typeof ours.sharedMemoryStore): typeof face.sharedMemoryStore => of;

export const code = (of: ours.LockErrorCode): face.LockErrorCode => of;
export const codeGiven = (given: face.LockErrorCode): ours.LockErrorCode => given;
export const LockError = (of: typeof ours.LockError): typeof face.LockError => of;
export const LockBusyError = (of: typeof ours.LockBusyError): typeof face.LockBusyError => of;
export const TooManyLockAttemptsError = (
  of: typeof ours.TooManyLockAttemptsError,
): typeof face.TooManyLockAttemptsError => of;
export const LockTimeoutError = (of: typeof ours.LockTimeoutError): typeof face.LockTimeoutError => of;
export const AlreadyAcquiredLockError = (
  of: typeof ours.AlreadyAcquiredLockError,
): typeof face.AlreadyAcquiredLockError => of;
export const NotAcquiredLockError = (of: typeof ours.NotAcquiredLockError): typeof face.NotAcquiredLockError => of;
export const LockLostError = (of: typeof ours.LockLostError): typeof face.LockLostError => of;
export const LockDeadlockError = (of: typeof ours.LockDeadlockError): typeof face.LockDeadlockError => of;
export const LockBackendError = (of: typeof ours.LockBackendError): typeof face.LockBackendError => of;
export const LockClosedError = (of: typeof ours.LockClosedError): typeof face.LockClosedError => of;
export const lockError = (of: ours.LockError): face.LockError => of;
export const busy = (of: ours.LockBusyError): face.LockBusyError => of;
export const attempts = (of: ours.TooManyLockAttemptsError): face.TooManyLockAttemptsError => of;
export const timeout = (of: ours.LockTimeoutError): face.LockTimeoutError => of;
export const already = (of: ours.AlreadyAcquiredLockError): face.AlreadyAcquiredLockError => of;
export const notAcquired = (of: ours.NotAcquiredLockError): face.NotAcquiredLockError => of;
export const lost = (of: ours.LockLostError): face.LockLostError => of;
export const deadlock = (of: ours.LockDeadlockError): face.LockDeadlockError => of;
export const backend = (of: ours.LockBackendError): face.LockBackendError => of;
export const closed = (of: ours.LockClosedError): face.LockClosedError => of;
export const anyError = (of: ours.AnyLockError): face.AnyLockError => of;
export const anyErrorGiven = (given: face.AnyLockError): ours.AnyLockError['code'] => given.code;
export const LostReason = (of: ours.LossReason): face.LockLostError['reason'] => of;

// ---- what `is` leaves over, where it says no

/** A class without a property of its own has the shape of LockError: then nothing would be left over. */
export const notBusy = (of: typeof ours, error: ours.LockError): ours.LockErrorCode =>
  of.LockBusyError.is(error) ? 'ERR_LOCK_TIMEOUT' : error.code;
export const otherwise = (of: typeof ours, error: ours.AnyLockError): ours.LockErrorCode =>
  of.LockBusyError.is(error) ? 'ERR_LOCK_TIMEOUT' : error.code;

// ---- two more names of the function

export const byName: typeof ours = {} as typeof ours.redisExpLock;
export const byDefault: typeof ours = {} as typeof ours.default;
