// A lock object that tracks what it holds, as in Ruby's redis_exp_lock. A thin class over `acquire`. Each grant has its own
// identity, so that concurrent callers of one object never share a grant (hold/async-context.ts).

import { acquireLease, optionsThenFunction, tryLease } from './acquire/run';
import { AlreadyAcquiredLockError, forKey, NotAcquiredLockError } from './core/errors';
import { describe, type Key, listOf, lockKeys, ownKey } from './core/keys';
import type { CloseOptions, LockOptions, WaitOptions } from './core/option-types';
import { defaults, type Settings, settle, waitRules } from './core/options';
import { runWithin, TakenLock, takenHere } from './hold/async-context';
import { heldLockOf, type Lease } from './hold/lease';
import type { Scope } from './hold/scope';
import { scopeFor } from './inspect/registry';

const lockDefaults: Settings = { ...defaults, lifetimeMs: 60_000, retryTimeoutMs: 10 };

/**
 * A lock object that tracks what it holds. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * Several callers may share one object. After its own `lock()`, a caller's `unlock`, `extend`, `fence`, `signal`, `locked` and
 * `keyOwned` are about the caller's own grant. That also holds if the grant has expired and another caller has locked meanwhile:
 * the first caller cannot unlock the other's lock. The object tells callers apart by their async context (AsyncLocalStorage). Code
 * without a `lock()` in its context, such as a listener or another request, means what the object holds now. Of two `lock()` in
 * one context the later counts. If that is not enough, give each caller its own object, or use `synchronize` or `withLock`.
 * @example
 * ```ts
 * const lock = new Lock('bankAccount', { redis: client });
 * await lock.lock({ timeout: 5000 });
 * try {
 *   await work(lock.fence);
 * } finally {
 *   await lock.unlock();
 * }
 * ```
 */
export class Lock {
  /** The key as it was given. */
  readonly key: Key;
  readonly #settings: Settings;
  readonly #scope: Scope;
  /** The grant of the latest `lock()`. */
  #taken: TakenLock | undefined;

  /**
   * Makes an object that holds no lock yet; sends nothing.
   *
   * @param key     Redis key of 1 to 1024 bytes, or a list of keys: all or none are locked.
   * @param options As of the factory; `redis` is required. Defaults here: lifetime 60,000 ms, maxRetries 0, retryTimeout 10 ms.
   */
  constructor(key: Key, options: LockOptions) {
    this.#settings = settle(options, lockDefaults);
    this.#scope = scopeFor(this.#settings);
    this.key = ownKey(key);
    lockKeys(this.key, this.#scope.store(this.#settings.redis).keyPrefix + this.#settings.prefix);
  }

  /** True if this object holds the lock, by our own clocks; no I/O. False for a caller whose own grant is over. */
  get locked(): boolean {
    return isHeld(this.#lease);
  }

  /** The fence of the held lock; 0 if nothing is held, or with `fencing: false`. */
  get fence(): number {
    const lease = this.#lease;
    return isHeld(lease) ? lease!.fence : 0;
  }

  /** Aborts with a LockLostError when the held lock may be lost. Already aborted (NotAcquiredLockError) if nothing is held. */
  get signal(): AbortSignal {
    const lease = this.#lease;
    if (lease !== undefined) return lease.signal;
    return AbortSignal.abort(new NotAcquiredLockError(`${describe(this.key)} is not held`, { key: this.key }));
  }

  /**
   * Asks Redis if anybody holds the key now (with several keys: any of them).
   *
   * @throws {LockBackendError} Redis could not be reached, which is never reported as false.
   */
  async keyLocked(): Promise<boolean> {
    return (await this.#inspect('')).some(({ locked }) => locked); // H72f
  }

  /**
   * Asks Redis if this object holds the key now (with several keys: all of them).
   *
   * @throws {LockBackendError} Redis could not be reached, which is never reported as false.
   */
  async keyOwned(): Promise<boolean> {
    const lease = this.#lease;
    if (lease === undefined) return false;
    return (await this.#inspect(lease.token)).every(({ owned }) => owned);
  }

  /**
   * Makes one attempt. Resolves to true if the lock was acquired, to false if another holder has the key.
   *
   * @throws {AlreadyAcquiredLockError} this object holds the lock already, and still holds it.
   * @throws {LockBackendError} Redis gave no usable answer, which is never reported as false. Nothing is held.
   */
  async tryLock(): Promise<boolean> {
    this.#refuseIfLocked();
    return (await this.#take(TakenLock.here(this), () => tryLease(this.key, this.#settings, this.#scope))) !== null;
  }

  /**
   * Acquires the lock. Resolves to the number of attempts (≥ 1; 1 if the caller was queued) once this object holds the lock.
   *
   * @throws {AlreadyAcquiredLockError} this object holds the lock already, and still holds it.
   * @throws {TooManyLockAttemptsError} `maxRetries` used up. Nothing is held.
   * @throws {LockTimeoutError} `timeout` over. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable answer. A release was sent; at worst `lifetime` frees the key.
   */
  async lock(options?: WaitOptions): Promise<number> {
    const settings = this.#settle(options);
    const acquire = (): Promise<Lease> => acquireLease(this.key, settings, this.#scope);
    return (await this.#take(TakenLock.here(this), acquire)).retries + 1;
  }

  /**
   * Releases the caller's lock. Resolves to true; or to false if the lock was never acquired or had expired. The present holder is
   * then left alone, also if it is another caller of this object. `locked` is false afterwards.
   *
   * @throws {LockBackendError} no answer. The release may be tried again; at worst `lifetime` frees the key.
   */
  async unlock(): Promise<boolean> {
    const taken = takenHere(this) ?? this.#taken; // H26b
    if (taken?.lease === undefined) return false;
    const released = await taken.lease.release();
    this.#forget(taken);
    return released;
  }

  /**
   * Sets the end to `lifetime` ms from now (default: this object's lifetime). Resolves to false if the lock is not held.
   *
   * @throws {LockBackendError} no answer. Still held; the validity stays what it was.
   */
  async extend(lifetime?: number): Promise<boolean> {
    const lease = this.#lease;
    return lease === undefined ? false : lease.extend(lifetime);
  }

  /**
   * Locks, runs `fn` with the number of attempts, and unlocks, whatever `fn` does. Resolves to the result of `fn`, also if the
   * lock was lost meanwhile (check `signal`). Rejects with the errors of `lock` and of `fn`.
   */
  synchronize<T>(fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  synchronize<T>(options: WaitOptions, fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  async synchronize<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const settings = this.#settle(options);
    const taken = new TakenLock(this);
    const lease = await this.#take(taken, () => acquireLease(this.key, settings, this.#scope));
    try {
      return await runWithin(heldLockOf(lease), () => fn(lease.retries + 1), taken);
    } finally {
      await heldLockOf(lease).releaseQuietly();
      this.#forget(taken);
    }
  }

  /** As `withLock.close`: refuses new calls, rejects waiters, awaits the holder. */
  async close(options?: CloseOptions): Promise<void> {
    return this.#scope.close(options);
  }

  /** The lease of the running code; the latest lease if the running code has none. */
  get #lease(): Lease | undefined {
    return (takenHere(this) ?? this.#taken)?.lease; // H26c
  }

  #settle(options: unknown): Settings {
    const settings = settle(options, this.#settings, waitRules);
    this.#refuseIfLocked();
    return settings;
  }

  async #take<L extends Lease | null>(taken: TakenLock, acquire: () => Promise<L>): Promise<L> {
    try {
      const lease = await acquire();
      taken.lease = lease ?? undefined;
      if (lease === null) taken.end();
      else this.#taken = taken;
      return lease;
    } catch (error) {
      taken.end();
      throw error;
    }
  }

  #refuseIfLocked(): void {
    if (!isHeld(this.#taken?.lease)) return;
    throw new AlreadyAcquiredLockError(`this object holds ${describe(this.key)} already`, { key: this.key });
  }

  #forget(taken: TakenLock): void {
    taken.end();
    if (this.#taken === taken) this.#taken = undefined;
  }

  async #inspect(token: string): Promise<{ locked: boolean; owned?: boolean }[]> {
    const { redis, prefix, commandTimeoutMs } = this.#settings;
    const store = this.#scope.store(redis);
    const keys = listOf(lockKeys(this.key, store.keyPrefix + prefix));
    try {
      return await Promise.all(keys.map((key) => store.inspect(key, commandTimeoutMs, token)));
    } catch (error) {
      throw forKey(error, this.key);
    }
  }
}

function isHeld(lease: Lease | undefined): boolean {
  return lease !== undefined && heldLockOf(lease).check();
}
