// START HERE. The factory: `redisExpLock(config)` returns `withLock`, which has the original's callback form and the promise
// forms, documented in WithLock below. Each form checks its arguments (core/options.ts), acquires the lock (acquire/run.ts, and from
// there acquire/acquisition.ts), and hands out a lease (hold/lease.ts). All that is under way belongs to a scope (hold/scope.ts).
import type { promisify } from 'node:util';
import * as adoption from './acquire/adopt';
import { acquireLease, checkFresh, optionsThenFunction, runJoining, runUnder, tryLease } from './acquire/run';
import type { AcquireVariant } from './acquire/spec';
import type { Key } from './core/keys';
import type { LockState, Slot } from './core/lock-state';
import type { CachedOptions, CloseOptions, OnceOptions, Options } from './core/option-types';
import { settle, settleFor } from './core/options';
import { nextTick } from './core/real-timers';
import type { DetachedLease, Lease } from './hold/lease';
import { type FreeOptions, freeLock, type ListOptions, type LockList, lockList } from './inspect/operations';
import { scopeFor } from './inspect/registry';
import * as cache from './jobs/cached';
import * as slots from './jobs/once';

const asIs: AcquireVariant = { mayJoin: true };
const renewed: AcquireVariant = { mayJoin: true, autoExtend: true };

const promisified = Symbol.for('nodejs.util.promisify.custom');

/** Makes a lock function; documented in index.ts. */
export function redisExpLock(config?: Options): WithLock {
  const base = settle(config);
  const settleCall = settleFor(base);
  const scope = scopeFor(base);
  if (base.redis !== undefined) scope.store(base.redis);

  function withLock(key: Key, ...rest: unknown[]): void {
    const [options, callback] = optionsThenFunction(rest, 'callback');
    const settings = settleCall(options);
    acquireLease(key, settings, scope, asIs).then(
      (lease) => nextTick(deliver, lease, callback), // H68
      (error) => nextTick(callback, error), // H68b
    );
  }

  const forms: Omit<WithLock, typeof promisify.custom> = {
    // Not `async`: the two further promises would add a tenth to the time of a lock in memory.
    promise(key, options) {
      try {
        const settings = settleCall(options);
        return acquireLease(key, settings, scope, asIs);
      } catch (error) {
        return Promise.reject(error);
      }
    },

    tryLock: async (key, options) => tryLease(key, settleCall(options), scope, asIs),

    async tryRun(key: Key, ...rest: unknown[]): Promise<TryRunResult<any>> {
      const [options, fn] = optionsThenFunction(rest, 'fn');
      const settings = settleCall(options);
      const joined = runJoining(key, settings, scope, fn);
      if (joined !== undefined) return { ran: true, value: await joined };
      const lease = await tryLease(key, settings, scope, renewed);
      return lease === null ? { ran: false } : { ran: true, value: await runUnder(lease, fn) };
    },

    async run(key: Key, ...rest: unknown[]): Promise<any> {
      const [options, fn] = optionsThenFunction(rest, 'fn');
      const settings = settleCall(options);
      return runJoining(key, settings, scope, fn) ?? runUnder(await acquireLease(key, settings, scope, renewed), fn);
    },

    once: (key, options, fn) => slots.once(key, options, fn, base, scope),
    adopt: async (detached, options) => adoption.adopt(detached, settleCall(options), scope),
    cached: (key, options, load) => cache.cached(key, options, load, base, scope),

    async inspect(key) {
      return scope.ask(key, base, (store, full, timeoutMs) => store.inspect(full, timeoutMs));
    },

    list: (options) => lockList(options, base, scope),
    free: (key, options) => freeLock(key, options, base, scope),
    close: async (options) => scope.close(options),
  };

  Object.defineProperty(withLock, promisified, { value: forms.promise });
  return Object.assign(withLock, forms) as WithLock;
}

function deliver(lease: Lease, callback: (...args: any[]) => unknown): void {
  try {
    checkFresh(lease);
  } catch (error) {
    return void callback(error);
  }
  callback(null, lease);
}

/** Called exactly once, asynchronously, on a fresh stack, with an error, or with `null` and the lease. */
export type LockCallback = (...args: [err: Error, done: undefined] | [err: null, done: Lease]) => void;

/** The result of `tryRun`. */
export type TryRunResult<T> = { ran: true; value: T } | { ran: false };

/** The lock function. For bad arguments each form throws (a promise form rejects with) `ERR_LOCK_OPTION` before any I/O. */
export interface WithLock {
  /**
   * Acquires the lock and calls back with `(err)` or `(null, done)`. `done()` or `done((err, released) => …)` releases the
   * lock. If `done` is never called, `lifetime` frees the key.
   *
   * @param key      Redis key of 1 to 1024 bytes, or a list of keys: all or none are locked.
   * @param options  Override the factory's options for this call.
   * @param callback Receives the lease; or, if nothing is held, a TooManyLockAttemptsError, LockTimeoutError, LockBackendError,
   *                 LockClosedError or the signal's reason. From redis-exp-lock-js.
   * @example
   * ```ts
   * withLock('bankAccount', async (err, done) => {
   *   if (err) return;
   *   await work(done.fence);
   *   done();
   * });
   * ```
   */
  (key: Key, callback: LockCallback): void;
  (key: Key, options: Options, callback: LockCallback): void;
  (key: Key, callback: (err: Error | null) => void): void;
  (key: Key, options: Options, callback: (err: Error | null) => void): void;
  /** `util.promisify(withLock)` is `withLock.promise`. */
  readonly [promisify.custom]: (key: Key, options?: Options) => Promise<Lease>;
  /**
   * Resolves with the lease once the lock is held. The lock lasts for `lifetime` only: nothing renews it unless `autoExtend`
   * is on.
   *
   * @throws {TooManyLockAttemptsError} another holder had the key until `maxRetries` was used up. Nothing is held.
   * @throws {LockTimeoutError} another holder had the key for all of `timeout`. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable answer. A release was sent; at worst `lifetime` frees the key.
   * @throws {LockClosedError} after `close()`. Nothing is held.
   * @example
   * ```ts
   * const lease = await withLock.promise('bankAccount', { timeout: 5000, autoExtend: true });
   * try {
   *   await work(lease.fence);
   * } finally {
   *   await lease.release();
   * }
   * ```
   */
  promise(key: Key, options?: Options): Promise<Lease>;
  /**
   * Makes one attempt. Resolves with the lease, or with null if another holder has the key. The lock lasts for `lifetime`
   * only: nothing renews it unless `autoExtend` is on. For work that may take longer, use `tryRun`.
   *
   * @throws {LockBackendError} Redis gave no usable answer, which is never reported as null.
   * @example
   * ```ts
   * const lease = await withLock.tryLock('bankAccount');
   * if (lease !== null) await work(lease.fence).finally(() => lease.release());
   * ```
   */
  tryLock(key: Key, options?: Options): Promise<Lease | null>;
  /**
   * Runs `fn` under the lock and then releases the lock. The lock is renewed while `fn` runs, unless `autoExtend` is false.
   * Resolves to the result of `fn`. Rejects as `promise` does if the lock cannot be acquired.
   *
   * @throws the error of `fn`, always, if `fn` threw.
   * @throws {LockLostError} `fn` resolved, but the lock was lost meanwhile; `result` is the result of `fn`.
   * @example
   * ```ts
   * const result = await withLock.run('bankAccount', { timeout: 5000 }, (lease) => work(lease.fence, lease.signal));
   * ```
   */
  run<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  run<T>(key: Key, options: Options, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  /**
   * Like `run`, with a single attempt, whatever the options for waiting are. Resolves to `{ ran: true, value }`, or at once to
   * `{ ran: false }` if another holder has the key. The lock is renewed while `fn` runs.
   *
   * @throws {LockBackendError} Redis gave no usable answer, which is never reported as `{ ran: false }`.
   * @throws as `run`, for everything else.
   * @example
   * ```ts
   * const result = await withLock.tryRun('cleanup', () => work());
   * console.log(result.ran ? result.value : 'another process does it');
   * ```
   */
  tryRun<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<TryRunResult<T>>;
  tryRun<T>(key: Key, options: Options, fn: (lease: Lease) => T | PromiseLike<T>): Promise<TryRunResult<T>>;
  /**
   * Runs `fn` once per slot across all processes. Resolves to `{ ran: true, slot, value }`, or at once to
   * `{ ran: false, slot, reason }` if the slot is `done` or the lock is `busy`. The lock is also busy while the job of an earlier
   * slot runs. Slots last `every` ms by the server's clock alone: call this in every process when a timer fires, early or late.
   * Makes one attempt and never waits. The lock is renewed while `fn` runs, and `fn` may outlast its slot. One key; not on a quorum.
   *
   * @param options `every`: ms, integer ≥ 1000. `offset` (default 0): ms of the epoch at which some slot begins. `mode`:
   *                'at-most-once' (default) or 'until-success'; see OnceOptions. And the options of `run`, except those for waiting.
   * @throws {LockBackendError} Redis gave no usable answer, or this is a quorum. In 'at-most-once' the slot may then count as done.
   * @throws as `run`, for everything else. In 'until-success' the slot then does not count as done.
   * @example
   * ```ts
   * const result = await withLock.once('nightly-report', { every: 86_400_000 }, (lease, slot) => work(slot.start));
   * if (!result.ran) console.log(result.reason);
   * ```
   */
  once<T>(
    key: string,
    options: OnceOptions,
    fn: (lease: Lease, slot: Slot) => T | PromiseLike<T>,
  ): Promise<slots.OnceResult<T>>;
  /**
   * Takes over a lock that `lease.detach()` gave up here or in another process. Token and fence stay; the lock is held for
   * `lifetime` from now (`autoExtend` renews it). Resolves to null if the lock is no longer held. Sends one request and does not
   * wait. The lifetime that Redis has is never shortened. `redis` and `prefix` must be those of the acquire. Give a detached lease
   * to a single adopter: Redis cannot tell two adopters apart, and both would hold the lock until the first release.
   *
   * @throws {LockBackendError} Redis gave no usable answer. Nothing is held here; the lock may be adopted again.
   * @throws {LockClosedError} after `close()`; or the signal's reason. Nothing is held here; another process may adopt the lock.
   * @example
   * ```ts
   * const lease = await withLock.promise('order:17', { lifetime: 30_000 });
   * const job = JSON.stringify(lease.detach());
   * // In the process that gets the job:
   * const adopted = await withLock.adopt(JSON.parse(job), { autoExtend: true });
   * if (adopted !== null) await work(adopted.fence).finally(() => adopted.release());
   * ```
   */
  adopt(detached: DetachedLease, options?: Options): Promise<Lease | null>;
  /**
   * Reads the cache. If the cache is empty, one of all processes loads the value, and waiters get the stored value. The value
   * is kept as JSON beside the lock, and is stored only while the lock is still held. Waits without end, unless `timeout` or
   * `maxRetries` is set. The lock is renewed while `load` runs.
   *
   * @param options `ttl`: ms for which the value is kept. `emptyTtl` (default 0): ms for which an `undefined` is remembered.
   * @param load    Resolves to the value, or `undefined` for none. If `load` throws, nothing is stored, and the next waiter loads.
   * @throws the error of `load`; otherwise as `promise`.
   * @example
   * ```ts
   * const rates = await withLock.cached('rates', { ttl: 60_000 }, () => work());
   * ```
   */
  cached<T>(
    key: string,
    options: CachedOptions,
    load: (lease: Lease) => T | undefined | PromiseLike<T | undefined>,
  ): Promise<T | undefined>;
  /**
   * Reads the present state of a key from Redis.
   *
   * @throws {LockBackendError} Redis could not be reached.
   * @example
   * ```ts
   * const { locked, owner, remaining, waiters } = await withLock.inspect('bankAccount');
   * ```
   */
  inspect(key: string): Promise<LockState>;
  /**
   * Lists the known locks, each with its full key, in no order. The locks of processes with `register: true` are known. With
   * `scan: true`, which needs a prefix, every key is read, in at most 2 % of the server's time. memoryStore() and
   * sharedMemoryStore() know all locks. `coverage()` reports at the end what was covered.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: at once, an impossible option, or `scan` without a prefix.
   * @throws {LockBackendError} (in the iteration) the store gave no answer, or the client cannot list keys; or the signal's reason.
   * @example
   * ```ts
   * const locks = withLock.list({ prefix: 'order:', scan: true });
   * for await (const { key, owner, remaining } of locks) console.log(key, owner, remaining);
   * ```
   */
  list(options?: ListOptions): LockList;
  /**
   * Takes the lock away from the holder with this `id`, and serves the next caller in the queue in the same step. Other holders
   * keep the lock. The holder's `signal` aborts (`reason: 'taken'`): at once if its process waits for locks or has `register`,
   * else at its next renewal. Resolves to false, with nothing changed, if that holder no longer has the lock.
   *
   * @param options `id`: 8 hex digits, as `inspect` shows them. `force: true`: takes the lock away from all holders.
   * @throws {LockBackendError} Redis gave no usable answer. The lock may have been freed.
   * @example
   * ```ts
   * const { holders } = await withLock.inspect('bankAccount');
   * if (holders[0] !== undefined) await withLock.free('bankAccount', { id: holders[0].id });
   * ```
   */
  free(key: string, options: FreeOptions): Promise<boolean>;
  /**
   * Closes this factory. New calls and waiters get a LockClosedError, and holders are awaited (`drain`). Locks that are still
   * held then are released, and their signals abort (`closed`). Resolves when no lock is left. Never closes the Redis client.
   * @example
   * ```ts
   * await withLock.close({ drain: 5000 });
   * ```
   */
  close(options?: CloseOptions): Promise<void>;
}
