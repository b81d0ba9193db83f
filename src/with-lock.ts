// START HERE. The factory: `redisExpLock(config)` gives `withLock`, the original's callback form, and its promise forms. Each
// checks its arguments, has the lock acquired (acquire/acquisition.ts), and hands out a lease.
import { promisify } from 'node:util';
import * as adoption from './acquire/adopt';
import { acquireLease, checkFresh, optionsThenFunction, runUnder, tryLease } from './acquire/run';
import { forKey } from './core/errors';
import { type Key, lockKey } from './core/keys';
import { LastOptions } from './core/last-options';
import type { LockState, Slot } from './core/lock-state';
import {
  type CachedOptions,
  type CloseOptions,
  type OnceOptions,
  type Options,
  settle,
  settleDrain,
} from './core/options';
import { nextTick } from './core/real-timers';
import type { DetachedLease, Lease } from './hold/lease';
import { type FreeOptions, freeLock } from './inspect/free';
import { type ListOptions, type LockList, lockList } from './inspect/list';
import { scopeFor } from './inspect/registry';
import * as cache from './jobs/cached';
import * as slots from './jobs/once';

/** Called exactly once, asynchronously, on a fresh stack: with an error, or with `null` and what releases the lock. */
export type LockCallback = (...args: [err: Error, done: undefined] | [err: null, done: Lease]) => void;

/** What `tryRun` resolves to. */
export type TryRunResult<T> = { ran: true; value: T } | { ran: false };

/** What the factory returns. Every form throws (rejects, in the promise forms) `ERR_LOCK_OPTION` before any I/O for bad arguments. */
export interface WithLock {
  /**
   * Acquires the lock and calls back: `(err)`, or `(null, done)`; `done()` or `done((err, released) => …)` releases it.
   * Where `done` is never called, `lifetime` frees the key.
   *
   * @param key      Redis key of 1 to 1024 bytes, or several: all or nothing.
   * @param options  Override the factory's for this call.
   * @param callback Hears a TooManyLockAttemptsError, LockTimeoutError, LockBackendError, LockClosedError or the signal's
   *                 reason, and then nothing is held; or gets the lease. From redis-exp-lock-js.
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
   * Resolves with the lease once the key is ours. It is held for `lifetime` only: nothing renews it unless `autoExtend` is on.
   *
   * @throws {TooManyLockAttemptsError} held by somebody else, and `maxRetries` used up. Nothing is held.
   * @throws {LockTimeoutError} held by somebody else for all of `timeout`. Nothing is held.
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
   * One attempt: the lease, or null when somebody else holds the key. It is held for `lifetime` only: nothing renews it unless
   * `autoExtend` is on. For work that may take longer, `tryRun`.
   *
   * @throws {LockBackendError} Redis gave no usable answer: it does not say null.
   * @example
   * ```ts
   * const lease = await withLock.tryLock('bankAccount');
   * if (lease !== null) await work(lease.fence).finally(() => lease.release());
   * ```
   */
  tryLock(key: Key, options?: Options): Promise<Lease | null>;
  /**
   * Runs `fn` under the lock, which is renewed while `fn` runs (`autoExtend: false` turns that off), and releases it.
   * Resolves to what `fn` resolves to. Errors of the acquire are those of `promise`.
   *
   * @throws what `fn` threw, always, when it threw.
   * @throws {LockLostError} `fn` resolved, but the lock was lost meanwhile; `result` has what it resolved to.
   * @example
   * ```ts
   * const result = await withLock.run('bankAccount', { timeout: 5000 }, (lease) => work(lease.fence, lease.signal));
   * ```
   */
  run<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  run<T>(key: Key, options: Options, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  /**
   * As `run`, with one attempt, whatever the factory or the call says of waiting: `{ ran: true, value }`; or `{ ran: false }` at
   * once when somebody else holds the key. The lock is renewed while `fn` runs.
   *
   * @throws {LockBackendError} Redis gave no usable answer: it does not say `{ ran: false }`.
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
   * Runs `fn` once a slot, over all processes: `{ ran: true, slot, value }`; or `{ ran: false, slot, reason }` at once when the
   * slot is `done`, or the lock is `busy`, which it also is while the job of an earlier slot still runs. Slots are of `every` ms,
   * by the server's clock alone: call it when a timer of yours fires, in every process, early or late. One attempt, never a
   * wait; the lock is renewed while `fn` runs, which may outlast its slot. One key; not on a quorum.
   *
   * @param options `every`: ms, integer ≥ 1000. `offset` (default 0): ms of the epoch at which some slot begins. `mode`:
   *                'at-most-once' (default) or 'until-success'; see OnceOptions. And those of `run`, but for waiting.
   * @throws {LockBackendError} Redis gave no usable answer, or this is a quorum. In 'at-most-once' the slot may then count as done.
   * @throws as `run`, for everything else. 'until-success': the slot does not count as done then.
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
   * Takes over what `lease.detach()` gave, here or in another process: the same token and fence, held for `lifetime` from now
   * (`autoExtend` renews it). Null when it is no longer held. One request to Redis and no wait; what Redis has is never
   * shortened. `redis` and `prefix` have to be those that it was taken with. Hand a detached lease to one adopter: Redis
   * cannot tell two of them apart, and both would hold it until the first release.
   *
   * @throws {LockBackendError} Redis gave no usable answer. Nothing is held here; the same may be adopted again.
   * @throws {LockClosedError} after `close()`; or the signal's reason. Nothing is held here; another may adopt it.
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
   * Reads the cache, and loads once for all processes where there is nothing: waiters are served the stored value. The value
   * is kept as JSON beside the lock, and only stored while that is still held. Waits without end, unless `timeout` or
   * `maxRetries` is given; the lock is renewed while `load` runs.
   *
   * @param options `ttl`: ms for which it is kept. `emptyTtl` (default 0): ms for which an `undefined` is remembered.
   * @param load    Resolves to the value, or `undefined` for none. When it throws, nothing is stored, and the next waiter loads.
   * @throws what `load` threw; otherwise as `promise`.
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
   * What Redis knows of a key now.
   *
   * @throws {LockBackendError} Redis could not be reached.
   * @example
   * ```ts
   * const { locked, owner, remaining, waiters } = await withLock.inspect('bankAccount');
   * ```
   */
  inspect(key: string): Promise<LockState>;
  /**
   * All locks, as far as they are known: each with its full key, in no order. From what processes with `register: true` have
   * registered; with `scan: true` by reading every key, which takes at most 2 % of the server's time, and needs a prefix.
   * On memoryStore() and sharedMemoryStore() all are known. `coverage()` says, at the end, what was covered.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: at once, an impossible option, or `scan` without a prefix.
   * @throws {LockBackendError} (the iteration) the store could not be asked, or the client cannot list keys; or the signal's reason.
   * @example
   * ```ts
   * const locks = withLock.list({ prefix: 'order:', scan: true });
   * for await (const { key, owner, remaining } of locks) console.log(key, owner, remaining);
   * ```
   */
  list(options?: ListOptions): LockList;
  /**
   * Takes the lock away from the holder with this `id`, if that still has it; the next in the queue is served in the same step.
   * The holder's `signal` aborts (`reason: 'taken'`): at once where its process waits for locks or has `register`, else at its
   * next renewal. Of several holders just that one. True: it was freed; false: that one no longer has it, and nothing changed.
   *
   * @param options `id`: 8 hex digits, as `inspect` shows them. `force: true`: all its holders.
   * @throws {LockBackendError} Redis gave no usable answer. It may have been freed.
   * @example
   * ```ts
   * const { holders } = await withLock.inspect('bankAccount');
   * if (holders[0] !== undefined) await withLock.free('bankAccount', { id: holders[0].id });
   * ```
   */
  free(key: string, options: FreeOptions): Promise<boolean>;
  /**
   * Ends this factory: new calls and waiters get a LockClosedError, holders are awaited (`drain`), what is left is
   * released with its signal aborted (`closed`). Resolves when nothing is left. Never closes the Redis client.
   * @example
   * ```ts
   * await withLock.close({ drain: 5000 });
   * ```
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Makes a lock function.
 *
 * @param config Defaults for every call; `redis` may also be given with each call.
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an unknown option or an impossible value.
 */
export function redisExpLock(config?: Options): WithLock {
  const base = settle(config);
  const last = new LastOptions(base);
  const scope = scopeFor(base);
  if (base.redis !== undefined) scope.store(base.redis);

  function withLock(key: Key, ...rest: unknown[]): void {
    const [options, callback] = optionsThenFunction(rest, 'callback');
    const settings = last.settle(options);
    acquireLease(key, settings, scope).then(
      (lease) => nextTick(deliver, lease, callback), // H68
      (error) => nextTick(callback, error), // H68b
    );
  }

  // Not `async`: that would be two promises more, a tenth of what a lock in memory takes.
  function promise(key: Key, options?: Options): Promise<Lease> {
    try {
      const settings = last.settle(options);
      return acquireLease(key, settings, scope);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async function tryLock(key: Key, options?: Options): Promise<Lease | null> {
    return tryLease(key, last.settle(options), scope);
  }

  async function tryRun<T>(key: Key, ...rest: unknown[]): Promise<TryRunResult<T>> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const lease = await tryLease(key, last.settle(options), scope, { autoExtend: true });
    if (lease === null) return { ran: false };
    return { ran: true, value: await runUnder(lease, fn as (lease: Lease) => T | PromiseLike<T>) };
  }

  async function run<T>(key: Key, ...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const settings = last.settle(options);
    const lease = await acquireLease(key, settings, scope, { autoExtend: true });
    return runUnder(lease, fn as (lease: Lease) => T | PromiseLike<T>);
  }

  async function once<T>(key: string, options: OnceOptions, fn: (lease: Lease, slot: Slot) => T): Promise<unknown> {
    return slots.once(key, options, fn, base, scope);
  }

  async function adopt(detached: DetachedLease, options?: Options): Promise<Lease | null> {
    return adoption.adopt(detached, last.settle(options), scope);
  }

  async function cached<T>(key: string, options: CachedOptions, load: (lease: Lease) => T): Promise<unknown> {
    return cache.cached(key, options, load, base, scope);
  }

  async function inspect(key: string): Promise<LockState> {
    const store = scope.store(base.redis);
    const full = lockKey(key, store.keyPrefix + base.prefix);
    try {
      return await store.inspect(full, base.commandTimeoutMs);
    } catch (error) {
      throw forKey(error, key); // H72e
    }
  }

  function list(options?: ListOptions): LockList {
    return lockList(options, base, scope);
  }

  async function free(key: string, options: FreeOptions): Promise<boolean> {
    return freeLock(key, options, base, scope);
  }

  async function close(options?: CloseOptions): Promise<void> {
    return scope.close(settleDrain(options));
  }

  Object.defineProperty(withLock, promisify.custom, { value: promise });
  return Object.assign(withLock, {
    promise,
    tryLock,
    run,
    tryRun,
    once,
    adopt,
    cached,
    inspect,
    list,
    free,
    close,
  }) as WithLock;
}

function deliver(lease: Lease, callback: (...args: any[]) => unknown): void {
  let fresh: Lease;
  try {
    fresh = checkFresh(lease);
  } catch (error) {
    return void callback(error);
  }
  callback(null, fresh);
}
