// A limit on concurrency across all processes. A thin class over `acquire`: permits are members in Redis with their own ends, never
// a counter. The first caller in the queue is admitted first, however many permits it wants.

import { acquireLease, optionsThenFunction, runUnder } from './acquire/run';
import { optionError } from './core/errors';
import type { CloseOptions, LockOptions, Options, PermitOptions } from './core/option-types';
import { checkValue, integer, type Settings, settle, settlerWith } from './core/options';
import type { Lease } from './hold/lease';
import type { Scope } from './hold/scope';
import { scopeFor } from './inspect/registry';
import type { Mode } from './store/contract';

const permitsRule = integer(1);
const settleRun = settlerWith<PermitOptions>({ permits: permitsRule });

/**
 * A semaphore: limits concurrency across all processes. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * @example
 * ```ts
 * const semaphore = new Semaphore('reports', 5, { redis: client });
 * await semaphore.run({ permits: 2, timeout: 5000 }, () => work());
 * ```
 */
export class Semaphore {
  /** The key as it was given. */
  readonly key: string;
  /** The number of permits of the semaphore. */
  readonly permits: number;
  readonly #settings: Settings;
  readonly #scope: Scope;

  /**
   * Makes an object that holds no permit yet; sends nothing.
   *
   * @param key     Redis key of 1 to 1024 bytes.
   * @param permits The number of permits of the semaphore; integer ≥ 1. All processes must agree: a call with another number,
   *                while any permit is out or waited for, rejects with a LockBackendError with `redisCode: 'LIMIT'`.
   * @param options As of the factory; `redis` is required. On a quorum each permit is a place: an acquire takes two round trips,
   *                and if two callers choose the same place at once, one of them finds it busy.
   */
  constructor(key: string, permits: number, options: LockOptions) {
    checkValue('permits', permitsRule, permits);
    this.#settings = settle(options);
    this.#scope = scopeFor(this.#settings);
    this.#scope.fullKey(key, this.#settings);
    this.key = key;
    this.permits = permits;
  }

  /**
   * Acquires `permits` permits (default 1), all at once, first come, first served, and resolves with the lease. The lease's
   * `fence` identifies the lease; fences of a semaphore order nothing.
   *
   * @throws {RangeError} `ERR_LOCK_OPTION`: more permits than the semaphore has.
   * @throws as `withLock.promise`. Nothing is held then.
   */
  async acquire(permits = 1, options?: Options): Promise<Lease> {
    return this.#acquire(permits, settle(options, this.#settings), false);
  }

  /** Runs `fn` with `permits` permits (default 1), renewed while `fn` runs, like `withLock.run`. */
  run<T>(fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  run<T>(options: PermitOptions, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  async run<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    const [{ permits = 1 }, settings] = settleRun(options, this.#settings);
    return runUnder(await this.#acquire(permits, settings, true), fn);
  }

  /**
   * Resolves to the number of permits that are free now, by Redis's clock.
   *
   * @throws {LockBackendError} Redis could not be reached.
   */
  async available(): Promise<number> {
    const out = await this.#scope.ask(this.key, this.#settings, (store, full, timeoutMs) =>
      store.operator.permitsOut(full, timeoutMs),
    );
    return Math.max(this.permits - out, 0);
  }

  /** As `withLock.close`: refuses new calls, rejects waiters, awaits holders. */
  async close(options?: CloseOptions): Promise<void> {
    return this.#scope.close(options);
  }

  async #acquire(permits: number, settings: Settings, autoExtend: boolean): Promise<Lease> {
    checkValue('permits', permitsRule, permits);
    if (permits > this.permits) {
      throw optionError('permits', `at most ${this.permits}, all that there are`, permits, 'range');
    }
    const mode: Mode = { kind: 'counted', prefer: 'fair', group: '', permits, total: this.permits, step: 0 };
    return acquireLease(this.key, settings, this.#scope, { autoExtend, mode });
  }
}
