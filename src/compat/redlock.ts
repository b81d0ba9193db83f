// redlock 5.0.0-beta.2 on our acquisitions and held locks: the same names, settings, errors and events, and the same keys in Redis, so
// that old and new processes exclude each other. docs/migration.md lists the differences with their reasons.
//
// Each operation is repeated by `settings` until it succeeds. An attempt to acquire is one acquisition of the library, without a
// wait; several clients are a quorum. A call for one key on a single client spends its pauses in the queue.

import { Bell, earlier, now } from '../core/clock';
import { optionError } from '../core/errors';
import type { Key } from '../core/keys';
import type { HeldLock } from '../hold/held-lock';
import { trustedMs } from '../hold/validity';
import {
  type Ballot,
  type Client,
  type ClientExecutionResult,
  checkDuration,
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  noQuorum,
  pauseMs,
  type RedlockSettings,
  ResourceLockedError,
  VotingAttempts,
} from './redlock/attempts';
import { QueuedCall } from './redlock/queued';
import { RedlockServers } from './redlock/servers';
import { PollingCall } from './waiters';

export {
  type Client,
  type ClientExecutionResult,
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  RedlockLock as Lock,
  type RedlockSettings as Settings,
  ResourceLockedError,
};

/** The signal of `using`. `error` is the reason of its abort. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** Ms between two checks of the wall clock, which may be set. */
const wallCheckMs = 1000;

/** The held lock of each Lock, unless the Lock was made by hand and not used yet. */
const heldLocks = new WeakMap<RedlockLock, HeldLock>();

/** A held lock, made by `redlock.acquire` or `extend`. A Lock that was made by hand releases and extends the lock of its `value`. */
class RedlockLock {
  readonly redlock: Redlock;
  readonly resources: string[];
  /** The value of the keys in Redis. Keep it secret: it is all that a release needs. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** The end of the lock, in ms of the epoch; 0 after `release`, and after `extend`, whose result replaces this lock. */
  expiration: number;

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
    return heldLocks.get(this)?.fence ?? 0;
  }

  /** Aborts with a LockLostError when the lock may have ended, but not when it is released. */
  get signal(): AbortSignal {
    return this.redlock._heldOf(this).signal;
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
export class Redlock extends VotingAttempts {
  readonly #servers: RedlockServers;

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
    this.#servers = new RedlockServers(this.clients);
    for (const name of ['acquireScript', 'extendScript', 'releaseScript']) {
      const given = (scripts as Record<string, unknown>)[name];
      if (given === undefined) continue;
      throw optionError(name, 'no script: the scripts of this library mint fences and cannot be replaced', given);
    }
  }

  /** Runs `quit()` on all clients. Held locks stay until their end. */
  async quit(): Promise<void> {
    const quitOne = async (client: Client): Promise<void> => {
      // node-redis 6 and GLIDE close.
      const { quit, close } = client as { quit?: () => unknown; close?: () => unknown };
      await (quit ?? close)?.call(client);
    };
    await Promise.all(Array.from(this.clients, quitOne));
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
    const servers = this.#servers;
    const keys = servers.keysOf(resources);
    if (!servers.isSingle) await servers.ready();
    let waiting = servers.isQueued(keys) ? this.#wait(resources, keys, duration) : undefined;
    let last: Ballot;
    const ask = (ballot: Ballot): Promise<HeldLock | 0> | 0 => {
      last = ballot;
      if (waiting?.isKnownBusy()) return 0;
      const attempt = (): Promise<HeldLock | 0> => servers.acquire(resources, keys, duration, ballot);
      return waiting === undefined ? attempt() : waiting.attempt(attempt);
    };
    const pause = (ms: number): Promise<HeldLock | undefined> => {
      waiting ??= this.#wait(resources, keys, duration);
      const call = waiting;
      const attempt = (): Promise<HeldLock | 0> => servers.acquire(resources, keys, duration);
      // The next scheduled attempt reports an error.
      return call.pause(ms, async () => (await call.attempt(attempt).catch(() => undefined)) || undefined);
    };
    try {
      const pauseInQueue = servers.isSingle ? pause : undefined;
      const { attempts, result } = await this._repeat(settings, resources, ask, pauseInQueue);
      return this.#lock(resources, attempts, result, duration, settings);
    } catch (error) {
      if (error instanceof ExecutionError) {
        await error.attempts.at(-1);
        await (await this._attempt(resources, (ballot) => servers.undo(keys, last, ballot))).stats;
      }
      throw error;
    } finally {
      await waiting?.end();
    }
  }

  /**
   * Releases all resources of a lock.
   *
   * @throws {ExecutionError} a majority says that the lock no longer holds all resources, or could not be asked. The release may be
   *                          repeated; at worst the lock expires.
   */
  async release(lock: RedlockLock, settings?: Partial<RedlockSettings>): Promise<ExecutionResult> {
    lock.expiration = 0;
    const held = this._heldOf(lock);
    const release = (ballot: Ballot): Promise<true | number> => this.#servers.release(held, ballot);
    const { attempts } = await this._repeat(settings, lock.resources, release);
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
    const held = this._heldOf(existing);
    const extend = (ballot: Ballot): Promise<true | 0> => this.#servers.extend(held, duration, ballot);
    const { attempts } = await this._repeat(settings, existing.resources, extend);
    existing.expiration = 0;
    return this.#lock(existing.resources, attempts, held, duration, settings);
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
    const failed: Promise<ExecutionStats>[] = [];
    const signal = signalOf(this._heldOf(acquired), failed);
    const stopped = new Bell();
    const renewing = this.#renew(acquired, duration, settings, stopped, failed);
    let failure: { error: unknown } | undefined;
    try {
      return await routine(signal);
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      stopped.ring();
      await this.release(await renewing).catch((error) => {
        throw failure === undefined ? error : Object.assign(error, { cause: failure.error });
      });
    }
  }

  /** Extends the lock of `using` until `stopped` rings or the lock may have ended. Resolves with the result of the last extension. */
  async #renew(
    lock: RedlockLock,
    duration: number,
    settings: RedlockSettings,
    stopped: Bell,
    failed: Promise<ExecutionStats>[],
  ): Promise<RedlockLock> {
    const held = this._heldOf(lock);
    const thresholdMs = settings.automaticExtensionThreshold;
    let current = lock;
    const dueMs = (): number => Math.min(current.expiration - Date.now() - thresholdMs, wallCheckMs);
    let waitMs = dueMs();
    while (!(await stopped.wait(waitMs)) && held.check()) {
      waitMs = dueMs();
      if (waitMs > 0) continue;
      try {
        current = await this.extend(current, duration, { ...settings, retryCount: 0 });
        waitMs = dueMs();
      } catch (error) {
        if (error instanceof ExecutionError) failed.push(...error.attempts);
        waitMs = Math.min(pauseMs(settings), thresholdMs / 4);
      }
    }
    return current;
  }

  /** @internal The held lock of a Lock. A Lock that was made by hand gets one that ends at its `expiration`. */
  _heldOf(lock: RedlockLock): HeldLock {
    let held = heldLocks.get(lock);
    if (held === undefined) {
      const { resources, value, expiration } = lock;
      held = this.#servers.heldByHand(resources, value, expiration - Date.now());
      heldLocks.set(lock, held);
    }
    return held;
  }

  #lock(
    resources: string[],
    attempts: Promise<ExecutionStats>[],
    held: HeldLock,
    duration: number,
    settings: Partial<RedlockSettings> | undefined,
  ): RedlockLock {
    // 1 ms is for the precision of Redis's expiry, and redlock adds 1 ms.
    const untrustedMs = Math.round((settings?.driftFactor ?? this.settings.driftFactor) * duration) + 2;
    // Just before the request that Redis confirmed last was sent.
    const sent = earlier(now(), trustedMs(duration) - held.remaining());
    const earlyMs = untrustedMs - (duration - trustedMs(duration));
    // A lock that was handed off counts for as long as its next holder may count on it.
    if (earlyMs > 0 && held.context.store === this.#servers.store) held.confirm(earlier(sent, earlyMs), duration, true);
    const expiration = Math.floor(sent.wallMs) + duration - untrustedMs;
    const lock = new RedlockLock(this, resources, held.token, attempts, expiration);
    heldLocks.set(lock, held);
    return lock;
  }

  /** Waits between the attempts with a single client: in the queue, or for several keys, which have no queue, by polling. */
  #wait(resources: string[], keys: Key, duration: number): PollingCall<HeldLock> {
    if (typeof keys === 'string') return new QueuedCall(this.#servers, resources[0]!, keys, duration);
    return new PollingCall(this.#servers.client, JSON.stringify(keys), true);
  }
}

/** The signal of `using` under this lock. `failed` are the attempts in vain to extend it. */
function signalOf({ signal }: HeldLock, failed: readonly Promise<ExecutionStats>[]): RedlockAbortSignal {
  const aborter = new AbortController();
  const ours: RedlockAbortSignal = aborter.signal;
  const abort = (): void => {
    ours.error = new ExecutionError(noQuorum, failed, { cause: signal.reason });
    aborter.abort(ours.error);
  };
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort);
  return ours;
}

export default Redlock;
