// HostLock: the object of lua-resty-lock (by Yichun Zhang), for the processes of one host. The object attempts, sleeps a step, and
// attempts again; each step is longer than the last. An object is idle, attempting, or has a lock, and has one lock at most.
//
// Invariant: an object changes a key only by the token of its own lock. Once that lock has ended, the object leaves the key alone,
// held or free. A collected object does the same.
import { maxTimerMs } from './core/clock';
import { AlreadyAcquiredLockError, LockBackendError, LockTimeoutError, NotAcquiredLockError } from './core/errors';
import { lockKey } from './core/keys';
import { checkValue, lifetimeRule, milliseconds, optionsOf, type Rule } from './core/options';
import { newToken } from './core/token';
import type { ReleaseRequest, Store } from './store/contract';
import { sharedMemoryStore } from './store/embedded/shared-memory/shared-memory';
import { embeddedStore } from './store/embedded/store';

export interface HostLockOptions {
  /** Ms until the key is freed by itself. Default 30,000; integer ≥ 1. */
  lifetime?: number | undefined;
  /** Longest wait in ms; 0 = one attempt. Default 5000. A given value is cut to `lifetime`. */
  timeout?: number | undefined;
  /** Ms of the first sleep between two attempts. Default 1; > 0. A given value is cut to `timeout`. */
  step?: number | undefined;
  /** Each sleep is the last × this, at least 1 ms. Default 2; > 0. */
  ratio?: number | undefined;
  /** Longest sleep in ms. Default 500; > 0. */
  maxStep?: number | undefined;
}

const pauseRule = milliseconds('milliseconds, more than 0', (value) => value > 0 && value <= maxTimerMs);
type HostLockSettings = Record<keyof HostLockOptions, number>;
const rules: Readonly<Record<keyof HostLockSettings, Rule>> = {
  lifetime: lifetimeRule,
  timeout: milliseconds('milliseconds to wait, at least 0', (value) => value >= 0),
  step: pauseRule,
  ratio: { ...pauseRule, expected: 'a number, more than 0', possible: (v) => v > 0 && Number.isFinite(v) },
  maxStep: pauseRule,
};

/** The lock that an object holds. It does not refer to the object, so that a collected object's lock can be released. */
interface Holding extends ReleaseRequest {
  readonly store: Store;
  readonly keys: string;
}

const collected = new FinalizationRegistry<Holding>((holding) => void release(holding).catch(() => {}));

/**
 * A lock for the processes of one host and user. Processes that open the same name share one table. Needs SQLite: Node 22.13 or
 * later, Bun and Deno have it; an older Node uses better-sqlite3.
 * @example
 * ```ts
 * const host = new HostLock('my_locks', { timeout: 5000 });
 * await host.lock('bankAccount');
 * try {
 *   await work();
 * } finally {
 *   await host.unlock();
 * }
 * ```
 */
export class HostLock {
  readonly name: string;
  readonly #store: Store;
  readonly #settings: Readonly<HostLockSettings>;
  #holding: Holding | undefined;
  #attempting = false;

  /**
   * Makes an object that holds no lock yet, and opens the table of `name`.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible name, an unknown option or an impossible value.
   * @throws {LockBackendError} this runtime has no SQLite, or the table has no folder.
   */
  constructor(name: string, options?: HostLockOptions) {
    const given = optionsOf<Partial<HostLockSettings>>(options, rules);
    const { lifetime = 30_000 } = given;
    const timeout = given.timeout === undefined ? 5000 : Math.min(given.timeout, lifetime);
    this.#settings = { step: 1, ratio: 2, maxStep: 500, ...given, lifetime, timeout };
    this.name = name;
    this.#store = embeddedStore(sharedMemoryStore(name))!;
  }

  /** The key that this object holds; null if none. The lifetime may have ended: `unlock` tells. */
  get key(): string | null {
    return this.#holding?.keys ?? null;
  }

  /**
   * Takes the key. Resolves with the ms waited: the sum of the steps slept, 0 if the key was free at once.
   *
   * @throws {TypeError | RangeError} (rejects) `ERR_LOCK_OPTION`: no key, or an impossible one.
   * @throws {AlreadyAcquiredLockError} (rejects) 'locked': this object has a lock, which it keeps, or is asking for one.
   * @throws {LockTimeoutError} (rejects) 'timeout': others had the key for all of `timeout`. Nothing is held.
   * @throws {LockBackendError} (rejects) the table is full (`redisCode` 'FULL') or cannot be opened; or another process stood
   *         still in a write ('BUSY') for all of `timeout`. Nothing is held.
   */
  async lock(key: string): Promise<number> {
    const full = lockKey(key, '');
    if (this.#holding !== undefined || this.#attempting) throw new AlreadyAcquiredLockError('locked', { key });
    this.#attempting = true;
    try {
      return await this.#lock(full);
    } finally {
      this.#attempting = false;
    }
  }

  /**
   * Releases the key. Resolves to true if the lock was ours, to false if it had ended; a new holder is then left alone. Nothing
   * is held afterwards.
   *
   * @throws {NotAcquiredLockError} (rejects) 'unlocked': this object has no lock.
   */
  async unlock(): Promise<boolean> {
    const holding = this.#held();
    const released = await release(holding); // H49
    if (this.#holding === holding) this.#holding = undefined; // H49b
    collected.unregister(holding);
    return released;
  }

  /**
   * Gives the key a new lifetime, from now.
   *
   * @param ms Default: the constructor's `lifetime`; integer ≥ 1.
   * @throws {RangeError | TypeError} (rejects) `ERR_LOCK_OPTION`: an impossible time. Nothing was changed.
   * @throws {NotAcquiredLockError} (rejects) 'unlocked': this object has no lock; 'not found': the lock had ended.
   */
  async expire(ms?: number): Promise<true> {
    if (ms !== undefined) checkValue('ms', lifetimeRule, ms);
    const holding = this.#held();
    const change = { lifetimeMs: ms ?? this.#settings.lifetime, exact: true, validUntilMs: Number.POSITIVE_INFINITY };
    const { outcome } = await this.#store.extend({ ...holding, ...change, begin: () => true });
    if (outcome !== 'extended') throw new NotAcquiredLockError('not found', { key: holding.keys });
    return true;
  }

  async #lock(keys: string): Promise<number> {
    const { timeout, step, ratio, maxStep } = this.#settings;
    let waitedMs = 0;
    let stepMs = step;
    for (;;) {
      const holding = { store: this.#store, keys, token: newToken(undefined), commandTimeoutMs: 1000 };
      const obstacle = await this.#take(holding);
      if (obstacle === undefined) {
        this.#holding = holding;
        collected.register(this, holding, holding);
        return waitedMs;
      }
      const leftMs = timeout - waitedMs;
      if (leftMs <= 0) throw obstacle;
      stepMs = Math.min(stepMs, maxStep, leftMs);
      await new Promise((resolve) => setTimeout(resolve, stepMs));
      waitedMs += stepMs;
      stepMs = Math.max(stepMs * ratio, 1);
    }
  }

  /** Makes one attempt. Returns undefined if the lock is ours; else the error if the wait ends now: held, or a stalled write. */
  async #take(holding: Holding): Promise<Error | undefined> {
    const request = { ...holding, lifetimeMs: this.#settings.lifetime, fences: 1, minReplicas: 0 };
    try {
      const { granted } = await this.#store.acquire({ ...request, begin: () => true });
      return granted ? undefined : new LockTimeoutError('timeout', { key: holding.keys });
    } catch (error) {
      if (error instanceof LockBackendError && error.redisCode === 'BUSY') return error; // H93b
      throw error;
    }
  }

  #held(): Holding {
    if (this.#holding === undefined) throw new NotAcquiredLockError('unlocked', { key: '' });
    return this.#holding;
  }
}

async function release(holding: Holding): Promise<boolean> {
  return (await holding.store.release(holding)) === 'released';
}
