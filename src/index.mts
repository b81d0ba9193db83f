// The face for `import`: the same objects that `require` gets, by default and by name.
import redisExpLock from './index.js';

export default redisExpLock;
export { redisExpLock };

export import Lock = redisExpLock.Lock;
export import RWLock = redisExpLock.RWLock;
export import Semaphore = redisExpLock.Semaphore;
export import Election = redisExpLock.Election;

export import LockError = redisExpLock.LockError;
export import LockBusyError = redisExpLock.LockBusyError;
export import TooManyLockAttemptsError = redisExpLock.TooManyLockAttemptsError;
export import LockTimeoutError = redisExpLock.LockTimeoutError;
export import AlreadyAcquiredLockError = redisExpLock.AlreadyAcquiredLockError;
export import NotAcquiredLockError = redisExpLock.NotAcquiredLockError;
export import LockLostError = redisExpLock.LockLostError;
export import LockDeadlockError = redisExpLock.LockDeadlockError;
export import LockBackendError = redisExpLock.LockBackendError;
export import LockClosedError = redisExpLock.LockClosedError;
export import memoryStore = redisExpLock.memoryStore;
export import sharedMemoryStore = redisExpLock.sharedMemoryStore;
export import HostLock = redisExpLock.HostLock;

export type LockErrorCode = redisExpLock.LockErrorCode;
export type LossReason = redisExpLock.LossReason;
export type LockEvents = redisExpLock.LockEvents;
export type LockEvent = redisExpLock.LockEvent;
export type LockKind = redisExpLock.LockKind;
export type AcquireEvent = redisExpLock.AcquireEvent;
export type ReleaseEvent = redisExpLock.ReleaseEvent;
export type ExtendEvent = redisExpLock.ExtendEvent;
export type LostEvent = redisExpLock.LostEvent;
export type WarningEvent = redisExpLock.WarningEvent;

export type NodeRedisLike = redisExpLock.NodeRedisLike;
export type IORedisLike = redisExpLock.IORedisLike;
export type GlideLike = redisExpLock.GlideLike;
export type UpstashLike = redisExpLock.UpstashLike;
export type BunRedisLike = redisExpLock.BunRedisLike;
export type Store = redisExpLock.Store;
export type MemoryStore = redisExpLock.MemoryStore;
export type MemoryStoreOptions = redisExpLock.MemoryStoreOptions;
export type HostLockOptions = redisExpLock.HostLockOptions;
export type RedisLike = redisExpLock.RedisLike;
export type Key = redisExpLock.Key;
export type WaitOptions = redisExpLock.WaitOptions;
export type Options = redisExpLock.Options;
export type CloseOptions = redisExpLock.CloseOptions;
export type LockOptions = redisExpLock.LockOptions;
export type RWLockOptions = redisExpLock.RWLockOptions;
export type PermitOptions = redisExpLock.PermitOptions;
export type CachedOptions = redisExpLock.CachedOptions;
export type OnceOptions = redisExpLock.OnceOptions;
export type ElectionOptions = redisExpLock.ElectionOptions;
export type Lease = redisExpLock.Lease;
export type DetachedLease = redisExpLock.DetachedLease;
export type RWLease = redisExpLock.RWLease;
export type LockCallback = redisExpLock.LockCallback;
export type TryRunResult<T> = redisExpLock.TryRunResult<T>;
export type OnceResult<T> = redisExpLock.OnceResult<T>;
export type LockState = redisExpLock.LockState;
export type Slot = redisExpLock.Slot;
export type Leader = redisExpLock.Leader;
export type Term = redisExpLock.Term;
export type WithLock = redisExpLock.WithLock;
