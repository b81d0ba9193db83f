// One lock as an object, as Ruby's redis_exp_lock has it: it remembers what it holds, and says so. A thin face over `acquire`;
// each grant has an identity of its own, so that concurrent callers of one object never share one.
import { acquire } from './acquire';
import { AlreadyAcquiredLockError, forKey, NotAcquiredLockError, TooManyLockAttemptsError } from './errors';
import { traceAcquire, warningsWanted } from './events';
import { runWithin } from './flow';
import { type Key, lockKeys, ownKey } from './keys';
import { holdOf, type Lease, leaseOf } from './lease';
import {
  type CloseOptions,
  defaults,
  type LockOptions,
  type Settings,
  settle,
  settleDrain,
  type WaitOptions,
} from './options';
import { optionsThenFunction } from './run';
import { Scope } from './scope';
import { describe, listOf } from './stores/replies';

const lockDefaults: Settings = { ...defaults, lifetimeMs: 60_000, retryTimeoutMs: 10 };

/** A lock that one object holds, or does not. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O. */
export class Lock {
  /** The key as it was given. */
  readonly key: Key;
  readonly #settings: Settings;
  readonly #scope = new Scope();
  #lease: Lease | undefined;

  /**
   * @param key     Redis key of 1 to 1024 bytes, or several: all or nothing.
   * @param options As of the factory; `redis` is needed. Defaults here: lifetime 60,000 ms, maxRetries 0, retryTimeout 10 ms.
   */
  constructor(key: Key, options: LockOptions) {
    this.#settings = settle(options, lockDefaults);
    this.key = ownKey(key);
    lockKeys(this.key, this.#scope.store(this.#settings.redis).keyPrefix + this.#settings.prefix);
  }

  /** Whether this object holds the lock, by our own clocks; no I/O. */
  get locked(): boolean {
    return this.#lease !== undefined && holdOf(this.#lease).check();
  }

  /** The fence of what it holds; 0 when it holds nothing, or with `fencing: false`. */
  get fence(): number {
    return this.locked ? this.#lease!.fence : 0;
  }

  /** Aborts with a LockLostError when what it holds may be lost; aborted (NotAcquiredLockError) when it holds nothing. */
  get signal(): AbortSignal {
    if (this.#lease !== undefined) return this.#lease.signal;
    return AbortSignal.abort(new NotAcquiredLockError(`${describe(this.key)} is not held`, { key: this.key }));
  }

  /**
   * Whether anybody holds the key now (with several keys: any of them), by Redis.
   *
   * @throws {LockBackendError} Redis could not be asked: it does not say false.
   */
  async keyLocked(): Promise<boolean> {
    return (await this.#inspect('')).some(({ locked }) => locked);
  }

  /**
   * Whether this object holds the key now (with several keys: all of them), by Redis.
   *
   * @throws {LockBackendError} Redis could not be asked: it does not say false.
   */
  async keyOwned(): Promise<boolean> {
    if (this.#lease === undefined) return false;
    return (await this.#inspect(this.#lease.token)).every(({ owned }) => owned);
  }

  /**
   * One attempt. Resolves to whether this object holds the lock now.
   *
   * @throws {AlreadyAcquiredLockError} it holds one already, and still does.
   * @throws {LockBackendError} Redis gave no usable answer: it does not say false. Nothing is held.
   */
  async tryLock(): Promise<boolean> {
    this.#refuseIfLocked();
    try {
      await this.#take({ ...this.#settings, maxRetries: 0, timeoutMs: undefined, byPlace: false });
      return true;
    } catch (error) {
      if (error instanceof TooManyLockAttemptsError) return false;
      throw error;
    }
  }

  /**
   * Resolves to the attempts that it took (≥ 1; 1 when it stood in a queue) once this object holds the lock.
   *
   * @throws {AlreadyAcquiredLockError} it holds one already, and still does.
   * @throws {TooManyLockAttemptsError} `maxRetries` used up. Nothing is held.
   * @throws {LockTimeoutError} `timeout` over. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable answer. A release was sent; at worst `lifetime` frees the key.
   */
  async lock(options?: WaitOptions): Promise<number> {
    return (await this.#lock(options)).retries + 1;
  }

  /**
   * Gives the lock back. Resolves to true; or to false when it was never acquired, or had expired (whoever has it now is left
   * alone). `locked` is false afterwards.
   *
   * @throws {LockBackendError} no answer. May be tried again; at worst `lifetime` frees the key.
   */
  async unlock(): Promise<boolean> {
    const lease = this.#lease;
    if (lease === undefined) return false;
    const released = await lease.release();
    this.#forget(lease);
    return released;
  }

  /**
   * Sets the end to `lifetime` ms from now (default: its own lifetime). False: not held, or no longer.
   *
   * @throws {LockBackendError} no answer. Still held until the validity that it had.
   */
  async extend(lifetime?: number): Promise<boolean> {
    return this.#lease === undefined ? false : this.#lease.extend(lifetime);
  }

  /**
   * Locks, runs `fn` with the attempts that it took, and unlocks, whatever `fn` does. Resolves to what `fn` resolves to, also
   * when the lock was lost meanwhile (look at `signal`). Errors are those of `lock`, and those of `fn`.
   */
  synchronize<T>(fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  synchronize<T>(options: WaitOptions, fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
  async synchronize<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const lease = await this.#lock(options);
    try {
      return (await runWithin(holdOf(lease), () => fn(lease.retries + 1))) as T;
    } finally {
      await holdOf(lease).releaseQuietly();
      this.#forget(lease);
    }
  }

  /** As `withLock.close`: refuses newcomers, rejects waiters, awaits the holder. */
  async close(options?: CloseOptions): Promise<void> {
    return this.#scope.close(settleDrain(options));
  }

  async #lock(options: unknown): Promise<Lease> {
    const settings = settle(options, this.#settings);
    this.#refuseIfLocked();
    return this.#take(settings);
  }

  async #take(settings: Settings): Promise<Lease> {
    const takenAt = warningsWanted() ? new Error('taken here') : undefined;
    const take = (): Promise<Lease> =>
      acquire(this.key, settings, this.#scope, (hold) => leaseOf(hold, settings.autoExtend ?? false, takenAt));
    const lease = await traceAcquire(this.key, take);
    this.#lease = lease;
    return lease;
  }

  #refuseIfLocked(): void {
    if (!this.locked) return;
    throw new AlreadyAcquiredLockError(`this object holds ${describe(this.key)} already`, { key: this.key });
  }

  #forget(lease: Lease): void {
    if (this.#lease === lease) this.#lease = undefined;
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
