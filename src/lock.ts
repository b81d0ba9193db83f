// One lock as an object, as Ruby's redis_exp_lock has it: it remembers what it holds, and says so. A thin face over `acquire`;
// each grant has an identity of its own, so that concurrent callers of one object never share one (hold/taken.ts).

import { acquireLease, optionsThenFunction, tryLease } from './acquire/run';
import { AlreadyAcquiredLockError, forKey, NotAcquiredLockError } from './core/errors';
import { describe, type Key, listOf, lockKeys, ownKey } from './core/keys';
import {
  type CloseOptions,
  defaults,
  type LockOptions,
  type Settings,
  settle,
  settleDrain,
  settleWait,
  type WaitOptions,
} from './core/options';
import { runWithin } from './hold/enclosing';
import { heldLockOf, type Lease } from './hold/lease';
import type { Scope } from './hold/scope';
import { beginTaking, runAs, TakenLock, takenHere } from './hold/taken';
import { scopeFor } from './inspect/registry';

const lockDefaults: Settings = { ...defaults, lifetimeMs: 60_000, retryTimeoutMs: 10 };

/**
 * A lock that one object holds, or does not. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * Several callers may share one object. What a caller asks of it after its own `lock()` (`unlock`, `extend`, `fence`, `signal`,
 * `locked`, `keyOwned`) is about its own grant, also when that has expired and another caller has locked meanwhile: it cannot
 * unlock the other's lock. It knows them apart by the asynchronous flow (AsyncLocalStorage). Code without a `lock()` in its flow, such as a
 * listener or another request, means what the object holds now; and of two `lock()` in one flow the later counts. Where
 * that is not enough, give each caller an object of its own, or use `synchronize` or `withLock`.
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
  /** What was granted last. */
  #taken: TakenLock | undefined;

  /**
   * Makes an object that holds no lock yet; sends nothing.
   *
   * @param key     Redis key of 1 to 1024 bytes, or several: all or nothing.
   * @param options As of the factory; `redis` is needed. Defaults here: lifetime 60,000 ms, maxRetries 0, retryTimeout 10 ms.
   */
  constructor(key: Key, options: LockOptions) {
    this.#settings = settle(options, lockDefaults);
    this.#scope = scopeFor(this.#settings);
    this.key = ownKey(key);
    lockKeys(this.key, this.#scope.store(this.#settings.redis).keyPrefix + this.#settings.prefix);
  }

  /** Whether this object holds the lock, by our own clocks; no I/O. For a caller whose own grant is over: false. */
  get locked(): boolean {
    return isHeld(this.#lease);
  }

  /** The fence of what it holds; 0 when it holds nothing, or with `fencing: false`. */
  get fence(): number {
    const lease = this.#lease;
    return isHeld(lease) ? lease!.fence : 0;
  }

  /** Aborts with a LockLostError when what it holds may be lost; aborted (NotAcquiredLockError) when it holds nothing. */
  get signal(): AbortSignal {
    const lease = this.#lease;
    if (lease !== undefined) return lease.signal;
    return AbortSignal.abort(new NotAcquiredLockError(`${describe(this.key)} is not held`, { key: this.key }));
  }

  /**
   * Whether anybody holds the key now (with several keys: any of them), by Redis.
   *
   * @throws {LockBackendError} Redis could not be reached: it does not say false.
   */
  async keyLocked(): Promise<boolean> {
    return (await this.#inspect('')).some(({ locked }) => locked); // H72f
  }

  /**
   * Whether this object holds the key now (with several keys: all of them), by Redis.
   *
   * @throws {LockBackendError} Redis could not be reached: it does not say false.
   */
  async keyOwned(): Promise<boolean> {
    const lease = this.#lease;
    if (lease === undefined) return false;
    return (await this.#inspect(lease.token)).every(({ owned }) => owned);
  }

  /**
   * One attempt. Resolves to whether this object holds the lock now.
   *
   * @throws {AlreadyAcquiredLockError} it holds one already, and still does.
   * @throws {LockBackendError} Redis gave no usable answer: it does not say false. Nothing is held.
   */
  async tryLock(): Promise<boolean> {
    this.#refuseIfLocked();
    return (await this.#take(beginTaking(this), () => tryLease(this.key, this.#settings, this.#scope))) !== null;
  }

  /**
   * Resolves to the attempts that it took (≥ 1; 1 when it was queued) once this object holds the lock.
   *
   * @throws {AlreadyAcquiredLockError} it holds one already, and still does.
   * @throws {TooManyLockAttemptsError} `maxRetries` used up. Nothing is held.
   * @throws {LockTimeoutError} `timeout` over. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable answer. A release was sent; at worst `lifetime` frees the key.
   */
  async lock(options?: WaitOptions): Promise<number> {
    const settings = this.#settle(options);
    const acquire = (): Promise<Lease> => acquireLease(this.key, settings, this.#scope);
    return (await this.#take(beginTaking(this), acquire)).retries + 1;
  }

  /**
   * Releases what the caller locked. Resolves to true; or to false when it was never acquired, or had expired (the present holder
   * is left alone, also one of this same object). `locked` is false afterwards.
   *
   * @throws {LockBackendError} no answer. May be tried again; at worst `lifetime` frees the key.
   */
  async unlock(): Promise<boolean> {
    const taken = takenHere(this) ?? this.#taken; // H26b
    if (taken?.lease === undefined) return false;
    const released = await taken.lease.release();
    this.#forget(taken);
    return released;
  }

  /**
   * Sets the end to `lifetime` ms from now (default: its own lifetime). False: not held, or no longer.
   *
   * @throws {LockBackendError} no answer. Still held until the validity that it had.
   */
  async extend(lifetime?: number): Promise<boolean> {
    const lease = this.#lease;
    return lease === undefined ? false : lease.extend(lifetime);
  }

  /**
   * Locks, runs `fn` with the attempts that it took, and unlocks, whatever `fn` does. Resolves to what `fn` resolves to, also
   * when the lock was lost meanwhile (check `signal`). Errors are those of `lock`, and those of `fn`.
   */
  synchronize<T>(fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  synchronize<T>(options: WaitOptions, fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  async synchronize<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const settings = this.#settle(options);
    const taken = new TakenLock(this);
    const lease = await this.#take(taken, () => acquireLease(this.key, settings, this.#scope));
    try {
      return (await runAs(taken, () => runWithin(heldLockOf(lease), () => fn(lease.retries + 1)))) as T;
    } finally {
      await heldLockOf(lease).releaseQuietly();
      this.#forget(taken);
    }
  }

  /** As `withLock.close`: refuses newcomers, rejects waiters, awaits the holder. */
  async close(options?: CloseOptions): Promise<void> {
    return this.#scope.close(settleDrain(options));
  }

  /** Of the running code, where that can be told. */
  get #lease(): Lease | undefined {
    return (takenHere(this) ?? this.#taken)?.lease; // H26c
  }

  #settle(options: unknown): Settings {
    const settings = settleWait(options, this.#settings);
    this.#refuseIfLocked();
    return settings;
  }

  async #take<L extends Lease | null>(taken: TakenLock, acquire: () => Promise<L>): Promise<L> {
    try {
      const lease = await acquire();
      if (lease === null) taken.end();
      else this.#keep(taken, lease);
      return lease;
    } catch (error) {
      taken.end();
      throw error;
    }
  }

  #keep(taken: TakenLock, lease: Lease): void {
    taken.lease = lease;
    this.#taken = taken;
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
