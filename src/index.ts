// The exports. One build serves both module systems: `require` gets the function itself, and index.mts gives `import` the same objects.

import type * as keys from './core/keys';
import type * as state from './core/lock-state';
import type * as options from './core/option-types';
import type * as redisLike from './core/redis-like';
import type * as lease from './hold/lease';
import type * as operations from './inspect/operations';
import type * as leaders from './jobs/leaders';
import type * as once from './jobs/once';
import type * as terms from './jobs/term';

import errors = require('./core/errors');
import events = require('./core/events');
import election = require('./election');
import hostLock = require('./host-lock');
import lock = require('./lock');
import rwLock = require('./rw-lock');
import semaphore = require('./semaphore');
import memory = require('./store/embedded/memory');
import sharedMemory = require('./store/embedded/shared-memory/shared-memory');
import factory = require('./with-lock');

/**
 * Makes a lock function. The module itself is callable.
 *
 * @param config Defaults for every call; `redis` may also be given with each call.
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an unknown option or an impossible value.
 * @example
 * ```ts
 * const withLock = redisExpLock({ redis: client });
 *
 * await withLock.run('bankAccount', { timeout: 5000 }, async (lease) => {
 *   await work(lease.fence, lease.signal);
 * });
 * ```
 */
function redisExpLock(config?: redisExpLock.Options): redisExpLock.WithLock {
  return factory.redisExpLock(config);
}

namespace redisExpLock {
  export import Lock = lock.Lock;
  export import RWLock = rwLock.RWLock;
  export import Semaphore = semaphore.Semaphore;
  export import Election = election.Election;

  export import LockError = errors.LockError;
  export import LockBusyError = errors.LockBusyError;
  export import TooManyLockAttemptsError = errors.TooManyLockAttemptsError;
  export import LockTimeoutError = errors.LockTimeoutError;
  export import AlreadyAcquiredLockError = errors.AlreadyAcquiredLockError;
  export import NotAcquiredLockError = errors.NotAcquiredLockError;
  export import LockLostError = errors.LockLostError;
  export import LockDeadlockError = errors.LockDeadlockError;
  export import LockBackendError = errors.LockBackendError;
  export import LockClosedError = errors.LockClosedError;

  export import memoryStore = memory.memoryStore;
  export import sharedMemoryStore = sharedMemory.sharedMemoryStore;
  export import HostLock = hostLock.HostLock;

  export import eventChannel = events.eventChannel;

  export type LockErrorCode = errors.LockErrorCode;
  export type AnyLockError = errors.AnyLockError;
  export type LossReason = errors.LossReason;
  export type LockEvents = events.LockEvents;
  export type LockChannels = events.LockChannels;
  export type EventChannel<E> = events.EventChannel<E>;
  export type LockEvent = events.LockEvent;
  export type LockKind = events.LockKind;
  export type AcquireEvent = events.AcquireEvent;
  export type ReleaseEvent = events.ReleaseEvent;
  export type ExtendEvent = events.ExtendEvent;
  export type LostEvent = events.LostEvent;
  export type WarningEvent = events.WarningEvent;

  export type NodeRedisLike = redisLike.NodeRedisLike;
  export type IORedisLike = redisLike.IORedisLike;
  export type GlideLike = redisLike.GlideLike;
  export type UpstashLike = redisLike.UpstashLike;
  export type BunRedisLike = redisLike.BunRedisLike;
  export type Store = redisLike.EmbeddedStore;
  export type MemoryStore = memory.MemoryStore;
  export type MemoryStoreOptions = memory.MemoryStoreOptions;
  export type RedisLike = redisLike.RedisLike;
  export type Key = keys.Key;
  export type WaitOptions = options.WaitOptions;
  export type Options = options.Options;
  export type HostLockOptions = hostLock.HostLockOptions;
  export type CloseOptions = options.CloseOptions;
  export type LockOptions = options.LockOptions;
  export type RWLockOptions = options.RWLockOptions;
  export type PermitOptions = options.PermitOptions;
  export type CachedOptions = options.CachedOptions;
  export type OnceOptions = options.OnceOptions;
  export type ElectionOptions = election.ElectionOptions;
  export type Lease = lease.Lease;
  export type DetachedLease = lease.DetachedLease;
  export type RWLease = rwLock.RWLease;
  export type LockCallback = factory.LockCallback;
  export type TryRunResult<T> = factory.TryRunResult<T>;
  export type OnceResult<T> = once.OnceResult<T>;
  export type LockState = state.LockState;
  export type HolderState = state.HolderState;
  export type WaiterState = state.WaiterState;
  export type ListedLock = state.ListedLock;
  export type LockList = operations.LockList;
  export type ListOptions = operations.ListOptions;
  export type FreeOptions = operations.FreeOptions;
  export type Slot = state.Slot;
  export type Leader = leaders.Leader;
  export type Term = terms.Term;
  export type WithLock = factory.WithLock;
}

/** The function under two further names: for `import { redisExpLock }`, and for compilers without esModuleInterop. */
import self = redisExpLock;
declare namespace redisExpLock {
  export { self as default, self as redisExpLock };
}
Object.assign(redisExpLock, { default: redisExpLock, redisExpLock });

export = redisExpLock;
