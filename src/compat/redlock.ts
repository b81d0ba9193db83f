// redlock 5.0.0-beta.2 on our leases and stores: the same names, settings, errors and events, and the same keys in Redis, so that old
// and new processes exclude each other. docs/migration.md lists the differences with their reasons.
//
// Each operation is repeated by `settings` until it succeeds, and identifies the lock by its value. An attempt asks the store once.
// The reply of a single client is its vote. With several clients (a quorum), the votes are noted on a ballot as the replies arrive. A
// call for one key on a single client spends its pauses in the queue, which grants a lease.

import type { Key } from '../core/keys';
import { trustedMs } from '../hold/validity';
import { type Moment, now } from '../store/contract';
import { keysOf } from './keys';
import { Asking } from './redlock/asking';
import {
  type Attempt,
  checkDuration,
  driftMs,
  ExecutionError,
  pauseMs,
  type RedlockSettings,
  refuseScripts,
} from './redlock/attempts';
import {
  type Ballot,
  type Client,
  type ClientExecutionResult,
  type ExecutionResult,
  type ExecutionStats,
  type RedlockAbortSignal,
  ResourceLockedError,
} from './redlock/ballot';
import type { HeldValue } from './redlock/electorate';
import { extendOnce, leftMs, type RedlockHold, releaseOnce, sentOf, signalOf } from './redlock/held';
import { yieldMs } from './redlock/queued';
import { RedlockRenewal } from './redlock/renewal';
import { after, Tenure } from './redlock/tenure';
import { wakeFor } from './several';
import { quit } from './stores';

export {
  type Client,
  type ClientExecutionResult,
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  type RedlockAbortSignal,
  RedlockLock as Lock,
  type RedlockSettings as Settings,
  ResourceLockedError,
};

/** The hold of a Lock; undefined if the Lock was made by hand. */
let holdIn: (lock: RedlockLock) => RedlockHold | undefined;
let keepIn: (lock: RedlockLock, hold: RedlockHold) => void;

/** A held lock, made by `redlock.acquire` or `extend`. A Lock that was made by hand releases and extends the lock of its `value`. */
class RedlockLock {
  readonly redlock: Redlock;
  readonly resources: string[];
  /** The value of the keys in Redis. Keep it secret: it is all that a release needs. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** The end of the lock, in ms of the epoch; 0 after `release`, and after `extend`, whose result replaces this lock. */
  expiration: number;
  #hold: RedlockHold | undefined;

  static {
    holdIn = (lock) => lock.#hold;
    keepIn = (lock, hold) => {
      lock.#hold = hold;
    };
  }

  /** Makes a lock by hand from a `value` that was kept. */
  constructor(
    redlock: Redlock,
    resources: string[],
    value: string,
    attempts: ReadonlyArray<Promise<ExecutionStats>>,
    expiration: number,
  ) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
  }

  /** The fencing token, larger with each grant and kept by `extend`; 0 in a lock that was made by hand. */
  get fence(): number {
    return holdOf(this).fence;
  }

  /** Aborts with a LockLostError when the lock may have ended, but not when it is released. */
  get signal(): AbortSignal {
    return holdOf(this).signal;
  }

  /** Releases the lock, as `redlock.release(lock)` does. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** Extends the lock, as `redlock.extend(lock, duration)` does. */
  extend(duration: number): Promise<RedlockLock> {
    return this.redlock.extend(this, duration);
  }
}

/**
 * Locks with the methods of redlock 5.0.0-beta.2, on one Redis or on a majority of several.
 *
 * @example
 * ```ts
 * import Redlock from 'redis-exp-lock/redlock';
 *
 * const redlock = new Redlock([client], { retryCount: 3 });
 * await redlock.using(['bankAccount'], 5000, (signal) => work(signal));
 * ```
 */
export class Redlock extends Asking {
  /**
   * Makes an object that holds nothing yet.
   *
   * @param clients  One client or more, each of an independent server.
   * @param settings Default: the defaults of `Settings`.
   * @param scripts  Refused if it contains custom scripts.
   * @throws {Error} no client.
   * @throws {TypeError} `ERR_LOCK_OPTION`: an unknown kind of client, or a custom script.
   */
  constructor(clients: Iterable<Client>, settings: Partial<RedlockSettings> = {}, scripts: object = {}) {
    super(clients, settings);
    refuseScripts(scripts);
  }

  /** Runs `quit()` on all clients. Held locks stay until their end. */
  async quit(): Promise<void> {
    await Promise.all([...this.clients].map(quit));
  }

  /**
   * Locks all resources or none.
   *
   * @param duration Ms; an integer, at least 1.
   * @throws {ExecutionError} no majority in any attempt. Nothing is held, and grants by a minority are released.
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible resource.
   */
  async acquire(resources: string[], duration: number, settings?: Partial<RedlockSettings>): Promise<RedlockLock> {
    checkDuration(duration);
    const keys = this.#keysOf(resources);
    const { attempts, result, call } = await this._ask(resources, keys, duration, settings);
    if (typeof result === 'function')
      return this.#lock(resources, result.token, attempts, result, sentOf(result, duration), duration, settings);
    const { token, fence, sent } = result;
    const tenure = new Tenure(resources, fence, this.#endOf(sent, duration, settings));
    tenure.keys = keys;
    if (call.mayExecute) tenure.request = call;
    return this.#lock(resources, token, attempts, tenure, sent, duration, settings);
  }

  /**
   * Releases all resources of a lock.
   *
   * @throws {ExecutionError} a majority says that the lock no longer holds all resources, or could not be asked. The release may be
   *                          repeated; at worst the lock expires.
   */
  async release(lock: RedlockLock, settings?: Partial<RedlockSettings>): Promise<ExecutionResult> {
    lock.expiration = 0;
    const hold = holdOf(lock);
    const release =
      hold instanceof Tenure
        ? this.#releaseValue(lock, hold)
        : () => this._attemptAlone(lock.resources, () => releaseOnce(hold));
    const first = await release();
    if (typeof first.result !== 'number') return { attempts: [first.stats] };
    const { attempts } = await this._repeat(settings, release, undefined, first);
    return { attempts };
  }

  /**
   * Lets a lock end `duration` ms from now. Resolves with the lock that replaces it, which has the same value and fence.
   *
   * @throws {ExecutionError} the lock has ended, or no majority in any attempt: then the old lock is unchanged.
   */
  async extend(existing: RedlockLock, duration: number, settings?: Partial<RedlockSettings>): Promise<RedlockLock> {
    checkDuration(duration);
    if (existing.expiration < Date.now()) throw new ExecutionError('Cannot extend an already-expired lock.', []);
    const hold = holdOf(existing);
    const endOf = (sent: Moment): Moment => this.#endOf(sent, duration, settings);
    const { resources } = existing;
    const extend =
      hold instanceof Tenure
        ? () =>
            this.#attempt(resources, (ballot) =>
              this._electorate.extend(this.#valueOf(existing, hold), hold, duration, endOf, ballot),
            )
        : () => this._attemptAlone(resources, () => extendOnce(hold, duration));
    const { attempts, result } = await this._repeat(settings, extend);
    existing.expiration = 0;
    return this.#lock(resources, existing.value, attempts, hold, result, duration, settings);
  }

  /**
   * Runs `routine` under a lock. The lock is extended while the routine runs, and then released.
   *
   * The routine's signal aborts as soon as the lock may have ended, at the latest `duration` ms after Redis last replied. The signal's
   * `error` is the reason.
   *
   * @throws the error of `routine`; ExecutionError if the lock could not be acquired, or was no longer ours at the end.
   */
  async using<T>(
    resources: string[],
    duration: number,
    settings: Partial<RedlockSettings>,
    routine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    routine: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    settingsOrRoutine?: Partial<RedlockSettings> | ((signal: RedlockAbortSignal) => Promise<T>),
    optionalRoutine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T> {
    checkDuration(duration);
    const given = typeof settingsOrRoutine === 'function' ? {} : settingsOrRoutine;
    const settings = { ...this.settings, ...given };
    const routine = optionalRoutine ?? settingsOrRoutine;
    if (typeof routine !== 'function') throw new Error('INVARIANT: routine is not a function.');
    if (settings.automaticExtensionThreshold > duration - 100) {
      throw new Error(
        'A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.',
      );
    }
    const acquired = await this.acquire(resources, duration, given);
    const hold = holdOf(acquired);
    // The failed attempts to extend the lock.
    const failed: Promise<ExecutionStats>[] = [];
    const signal = signalOf(hold, failed);
    const renewal = new RedlockRenewal(acquired, {
      thresholdMs: settings.automaticExtensionThreshold,
      pauseMs: () => pauseMs(settings),
      isHeld: () => leftMs(hold) > 0,
      watch: () => hold instanceof Tenure && hold.watch(),
      extend: (lock: RedlockLock) =>
        this.extend(lock, duration, { ...settings, retryCount: 0 }).catch((error) => {
          if (error instanceof ExecutionError) failed.push(...error.attempts);
          throw error;
        }),
    });
    let failure: { error: unknown } | undefined;
    try {
      return await routine(signal);
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      const extending = renewal.stop();
      if (extending !== undefined) await extending;
      await this.release(renewal.lock).catch((error) => {
        throw failure === undefined ? error : Object.assign(error, { cause: failure.error });
      });
    }
  }

  #lock(
    resources: string[],
    value: string,
    attempts: Promise<ExecutionStats>[],
    hold: RedlockHold,
    sent: Moment,
    duration: number,
    settings: Partial<RedlockSettings> | undefined,
  ): RedlockLock {
    const expiration = Math.floor(sent.wallMs) + duration - this.#driftMs(duration, settings);
    const lock = new RedlockLock(this, resources, value, attempts, expiration);
    keepIn(lock, hold);
    return lock;
  }

  #endOf(sent: Moment, duration: number, settings: Partial<RedlockSettings> | undefined): Moment {
    return after(sent, Math.min(duration - this.#driftMs(duration, settings), trustedMs(duration)));
  }

  #driftMs(duration: number, settings: Partial<RedlockSettings> | undefined): number {
    return driftMs(duration, settings?.driftFactor ?? this.settings.driftFactor);
  }

  /** Makes one attempt, with a single client or with several. */
  #attempt<T extends object | true>(
    resources: readonly string[],
    ask: (ballot?: Ballot) => Promise<T | number>,
  ): Promise<Attempt<T>> {
    return this._isAlone ? this._attemptAlone(resources, ask) : this._attempt(resources, ask);
  }

  #releaseValue(lock: RedlockLock, tenure: Tenure): () => Promise<Attempt<true>> {
    tenure.release();
    const value = this.#valueOf(lock, tenure);
    const release = (ballot?: Ballot): Promise<true | number> => {
      const released = this.#released(value, ballot);
      // The late request would take the key that was just released.
      return tenure.request === undefined ? released : released.finally(() => retract(tenure));
    };
    return () => this.#attempt(lock.resources, release);
  }

  async #released(value: HeldValue, ballot: Ballot | undefined): Promise<true | number> {
    const released = await this._electorate.release(value, yieldMs, ballot);
    if (released === true && typeof value.keys !== 'string') wakeFor(this._electorate.store, value.keys);
    return released;
  }

  #valueOf({ resources, value }: RedlockLock, tenure: Tenure): HeldValue {
    const isConfirmed = this._isAlone && tenure.fence > 0 && tenure.request === undefined;
    return { keys: tenure.keys ?? this.#keysOf(resources), token: value, isConfirmed };
  }

  #keysOf(resources: unknown): Key {
    return keysOf(resources, this._electorate.store.keyPrefix);
  }
}

export default Redlock;

function retract({ request }: Tenure): void {
  if (request?.mayExecute) request.retract();
}

/** The hold of a lock. A lock that was made by hand gets a tenure that ends at its `expiration`. */
function holdOf(lock: RedlockLock): RedlockHold {
  let hold = holdIn(lock);
  if (hold === undefined) {
    hold = new Tenure(lock.resources, 0, after(now(), lock.expiration - Date.now()));
    keepIn(lock, hold);
  }
  return hold;
}
