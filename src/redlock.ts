// redlock 5.0.0-beta.2, over our leases and stores: same names, settings, errors and events, and the same keys in Redis, so that
// old and new processes exclude each other. What differs, and why, is in docs/migration.md.
//
// Each operation is repeated by `settings` until it succeeds. One key on one client is a lease, and waits in its queue. Several
// keys, several clients (a quorum), and locks that were made by hand go by their value: an attempt asks the store once, and
// beside the store's own word stands a ballot, on which each client's answer is noted as it comes in.
import {
  type Attempt,
  Attempts,
  checkDuration,
  ExecutionError,
  noQuorum,
  pauseMs,
  refuseScripts,
  type Settings,
} from './compat/attempts';
import { Ballot, type Client, type ExecutionStats, ResourceLockedError } from './compat/ballot';
import { Electorate, type Value } from './compat/electorate';
import { owner, QueuedCall } from './compat/queued';
import { Renewal } from './compat/renewal';
import { commandTimeoutMs, connectIfLazy } from './compat/stores';
import { after, Tenure } from './compat/tenure';
import { optionError } from './errors';
import { type Key, lockKeys } from './keys';
import type { Lease } from './lease';
import { type Moment, now, trustedMs } from './store';
import { redisExpLock, type WithLock } from './with-lock';

export { type Client, ExecutionError, type ExecutionStats, ResourceLockedError, type Settings };

export type ClientExecutionResult =
  | { client: Client; vote: 'for'; value: number }
  | { client: Client; vote: 'against'; error: Error };

export interface ExecutionResult {
  attempts: ReadonlyArray<Promise<ExecutionStats>>;
}

/** The signal of `using`: `error` is why it aborted. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** Redis expires with a precision of 1 ms; the other is redlock's own. */
const leastDriftMs = 2;

/** What a Lock is held by. */
const held = new WeakMap<Lock, Lease | Tenure>();
/** Leases that were released: another release finds nothing. */
const released = new WeakSet<Lease>();

/** A lock that is held. `redlock.acquire` and `extend` make it; made by hand, it releases and extends what `value` holds. */
export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  /** What the keys hold in Redis. A secret: it is all that releasing the lock takes. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** Ms of the epoch until which it is held; 0 after `release`, and after `extend`, whose result replaces it. */
  expiration: number;

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

  /** The fencing token: larger with each grant, kept by `extend`. 0 in a lock that was made by hand. */
  get fence(): number {
    return holdOf(this).fence;
  }

  /** Aborts with a LockLostError when the lock may have ended; not when it is released. */
  get signal(): AbortSignal {
    return holdOf(this).signal;
  }

  /** As `redlock.release(lock)`. */
  async release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** As `redlock.extend(lock, duration)`. */
  async extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}

export class Redlock extends Attempts {
  readonly #electorate: Electorate;
  /** For one key on one client. */
  readonly #withLock: WithLock | undefined;

  /**
   * @param clients  One or more, of independent servers.
   * @param settings Default: those of `Settings`.
   * @param scripts  Scripts of one's own are not taken.
   * @throws {Error} no client.
   * @throws {TypeError} `ERR_LOCK_OPTION`: no client that is known here, or a script.
   */
  constructor(clients: Iterable<Client>, settings: Partial<Settings> = {}, scripts: object = {}) {
    super(clients, settings);
    refuseScripts(scripts);
    this.#electorate = new Electorate(this.clients);
    const [redis] = this.clients;
    if (this.clients.size === 1)
      this.#withLock = redisExpLock({ redis: redis!, owner, commandTimeout: commandTimeoutMs });
  }

  /** Runs `quit()` on all clients. Locks that are held stay until their end. */
  async quit(): Promise<void> {
    await Promise.all([...this.clients].map(quit));
  }

  /**
   * Locks all resources, or none.
   *
   * @param duration Ms; an integer, at least 1.
   * @throws {ExecutionError} no majority in any attempt. Nothing is held, and what a minority granted is released.
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible resource.
   */
  async acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration);
    const keys = this.#keysOf(resources);
    if (this.#withLock === undefined || typeof keys !== 'string')
      return this.#acquireAll(resources, keys, duration, settings);
    return this.#acquireOne(this.#withLock, resources, duration, settings);
  }

  /**
   * Releases all resources of a lock.
   *
   * @throws {ExecutionError} a majority says that they are not all its own any more, or could not be asked. It may be tried
   *                          again; at worst they end by themselves.
   */
  async release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    lock.expiration = 0;
    const hold = holdOf(lock);
    const release = hold instanceof Tenure ? this.#releaseValue(lock, hold) : this.#releaseLease(lock, hold);
    const { attempts } = await this._repeat(settings, release);
    return { attempts };
  }

  /**
   * Lets a lock end `duration` ms from now. Resolves with the lock that replaces it, of the same value and fence.
   *
   * @throws {ExecutionError} it has ended, or no majority in any attempt: then the old lock is what it was.
   */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration);
    if (existing.expiration < Date.now()) throw new ExecutionError('Cannot extend an already-expired lock.', []);
    const hold = holdOf(existing);
    const endOf = (sent: Moment): Moment => this.#endOf(sent, duration, settings);
    const { resources } = existing;
    const extend =
      hold instanceof Tenure
        ? () =>
            this._attempt(resources, (ballot) =>
              this.#electorate.extend(this.#valueOf(existing), hold, duration, endOf, ballot),
            )
        : () => this._attemptAlone(resources, () => extendOnce(hold, duration));
    const { attempts, result } = await this._repeat(settings, extend);
    existing.expiration = 0;
    return this.#lock(resources, existing.value, attempts, hold, result, duration, settings);
  }

  /**
   * Runs `routine` under a lock, which is extended while it runs, and released then.
   *
   * The routine's signal aborts, and its `error` says why, as soon as the lock may have ended: at the latest `duration` ms after
   * Redis last answered.
   *
   * @throws what `routine` threw; ExecutionError when the lock could not be acquired, or was not ours any more at the end.
   */
  async using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
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
    settingsOrRoutine?: Partial<Settings> | ((signal: RedlockAbortSignal) => Promise<T>),
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
    const acquired = await this.acquire(resources, duration, settings);
    // The attempts to extend it that failed.
    const failed: Promise<ExecutionStats>[] = [];
    const renewal = new Renewal(acquired, {
      thresholdMs: settings.automaticExtensionThreshold,
      pauseMs: () => pauseMs(settings),
      extend: (lock: Lock) =>
        this.extend(lock, duration, { ...settings, retryCount: 0 }).catch((error) => {
          if (error instanceof ExecutionError) failed.push(...error.attempts);
          throw error;
        }),
    });
    const signal = signalOf(acquired, failed);
    let failure: { error: unknown } | undefined;
    try {
      return await routine(signal);
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      const lock = await renewal.stop();
      await lock.release().catch((error) => {
        throw failure === undefined ? error : Object.assign(error, { cause: failure.error });
      });
    }
  }

  async #acquireOne(
    withLock: WithLock,
    resources: string[],
    duration: number,
    settings: Partial<Settings> | undefined,
  ): Promise<Lock> {
    const call = new QueuedCall(withLock, resources[0]!, duration);
    // The same each time: a crowd that waits should not make an error for each of its attempts.
    let busy: { stats: Promise<ExecutionStats>; error: Error } | undefined;
    const attempt = async (): Promise<Attempt<Lease>> => {
      if (!call.isKnownBusy) return this._attemptAlone(resources, () => call.ask());
      busy ??= Ballot.refused(this.clients, resources.length);
      this._tell(busy.error);
      return { stats: busy.stats, result: undefined };
    };
    try {
      const { attempts, result: lease } = await this._repeat(settings, attempt, (ms) => call.pause(ms));
      return this.#lock(resources, lease.token, attempts, lease, sentOf(lease, duration), duration, settings);
    } catch (error) {
      // redlock releases then, and tells that there was nothing to release.
      if (error instanceof ExecutionError) this._tell(Ballot.refused(this.clients, resources.length).error);
      throw error;
    } finally {
      if (call.isQueued) await call.leave();
    }
  }

  async #acquireAll(
    resources: string[],
    keys: Key,
    duration: number,
    settings: Partial<Settings> | undefined,
  ): Promise<Lock> {
    this.#electorate.uses(duration);
    const call = this.#electorate.call(keys, duration);
    for (const client of this.clients) connectIfLazy(client);
    await this.#electorate.ready();
    try {
      const { attempts, result } = await this._repeat(settings, () =>
        this._attempt(resources, (ballot) => call.ask(ballot)),
      );
      const { token, fence, sent } = result;
      const tenure = new Tenure(resources, fence, this.#endOf(sent, duration, settings));
      return this.#lock(resources, token, attempts, tenure, sent, duration, settings);
    } catch (error) {
      call.retract();
      if (error instanceof ExecutionError) {
        await error.attempts.at(-1);
        const value = { keys, token: call.token };
        await (await this._attempt(resources, (ballot) => this.#electorate.release(value, ballot))).stats;
      }
      throw error;
    }
  }

  #lock(
    resources: string[],
    value: string,
    attempts: Promise<ExecutionStats>[],
    hold: Lease | Tenure,
    sent: Moment,
    duration: number,
    settings: Partial<Settings> | undefined,
  ): Lock {
    const expiration = Math.floor(sent.wallMs) + duration - this.#driftMs(duration, settings);
    const lock = new Lock(this, resources, value, attempts, expiration);
    held.set(lock, hold);
    return lock;
  }

  #endOf(sent: Moment, duration: number, settings: Partial<Settings> | undefined): Moment {
    return after(sent, Math.min(duration - this.#driftMs(duration, settings), trustedMs(duration)));
  }

  #driftMs(duration: number, settings: Partial<Settings> | undefined): number {
    return Math.round((settings?.driftFactor ?? this.settings.driftFactor) * duration) + leastDriftMs;
  }

  #releaseValue(lock: Lock, tenure: Tenure): () => Promise<Attempt<true>> {
    tenure.release();
    const value = this.#valueOf(lock);
    return () => this._attempt(lock.resources, (ballot) => this.#electorate.release(value, ballot));
  }

  #releaseLease(lock: Lock, lease: Lease): () => Promise<Attempt<true>> {
    return () => this._attemptAlone(lock.resources, () => releaseOnce(lease));
  }

  #valueOf({ resources, value }: Lock): Value {
    return { keys: this.#keysOf(resources), token: value };
  }

  #keysOf(resources: unknown): Key {
    if (!Array.isArray(resources)) throw optionError('resources', 'an array of strings', resources);
    return lockKeys(resources, this.#electorate.store.keyPrefix);
  }
}

export default Redlock;

/** What the lock is held by; of one that was made by hand, what its own `expiration` says. */
function holdOf(lock: Lock): Lease | Tenure {
  let hold = held.get(lock);
  if (hold === undefined) {
    hold = new Tenure(lock.resources, 0, after(now(), lock.expiration - Date.now()));
    held.set(lock, hold);
  }
  return hold;
}

/** The signal of `using`. `failed` is filled as extensions fail. */
function signalOf({ signal: lost }: Lock, failed: Promise<ExecutionStats>[]): RedlockAbortSignal {
  const aborter = new AbortController();
  const signal: RedlockAbortSignal = aborter.signal;
  const abort = (): void => {
    signal.error = new ExecutionError(noQuorum, failed, { cause: lost.reason });
    aborter.abort(signal.error);
  };
  if (lost.aborted) abort();
  else lost.addEventListener('abort', abort);
  return signal;
}

/** Whether it was still ours. Another release finds nothing. */
async function releaseOnce(lease: Lease): Promise<true | undefined> {
  if (released.has(lease) || !(await lease.release())) return undefined;
  released.add(lease);
  return true;
}

/** When the request was sent that extended it; undefined where it is not ours any more. */
async function extendOnce(lease: Lease, duration: number): Promise<Moment | undefined> {
  return (await lease.extend(duration)) ? sentOf(lease, duration) : undefined;
}

/** When what Redis last confirmed of a lease was sent. */
function sentOf(lease: Lease, duration: number): Moment {
  return after(now(), lease.remaining() - trustedMs(duration));
}

async function quit(client: Client): Promise<unknown> {
  const { quit, close } = client as { quit?: () => unknown; close?: () => unknown };
  return quit === undefined ? close?.call(client) : quit.call(client);
}
