// One leader among candidates: who holds the lock leads. A candidate campaigns in the lock's queue, runs its function while it
// leads, and gives the lock back once that has settled, and not before.
//
// Invariant: never two functions of one Election at once, and no release while one runs. A function that goes on after the
// leadership was lost is waited for before the next campaign; one that is told to stop keeps the lock, renewed, until it has.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { abortReason } from './acquire';
import { AlreadyAcquiredLockError, forKey, LockBackendError, LockClosedError, optionError } from './errors';
import { warn } from './events';
import { isEnclosedBy, runWithin } from './flow';
import type { HeldLock } from './held-lock';
import { describe, lockKey } from './keys';
import { changes, type Leader, leaderOf } from './leaders';
import { heldLockOf, type Lease } from './lease';
import {
  type CloseOptions,
  defaults,
  type ElectionOptions,
  optionsOf,
  type Rule,
  type Settings,
  settle,
  settleDrain,
  signalRule,
  takeOwn,
  textRule,
} from './options';
import { acquireLease } from './run';
import { Scope } from './scope';
import type { Store } from './store';
import { HeldTerm, type Term, valueRule } from './term';

/** A candidate that has to poll, because its client has no messages to give, soon does so once a second. */
const electionDefaults: Settings = { ...defaults, lifetimeMs: 15_000, retryRatio: 2, maxRetryTimeoutMs: 1000 };

const idRule: Rule = {
  ...textRule,
  expected: 'well-formed text of 1 to 256 characters',
  possible: (value: string) => value !== '' && textRule.possible(value),
};

type Fn<T> = (term: Term) => T | PromiseLike<T>;

/** Of `lead` and `observe`. */
interface Stoppable {
  signal?: AbortSignal | undefined;
}

/**
 * One leader among all Elections of the same name. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * A handover in order begins within a round trip of the old leader's end; after a crash the next one leads within the lifetime.
 */
export class Election {
  readonly name: string;
  /** Which candidate this is. */
  readonly id: string;
  readonly #value: string;
  readonly #settings: Settings;
  readonly #scope = new Scope();
  readonly #store: Store;
  readonly #key: string;
  readonly #observers = new Set<AbortController>();
  #candidacy: Candidacy | undefined;

  /**
   * @param name    Redis key of 1 to 1024 bytes.
   * @param options As of the factory, `id` and `value`; `redis` is needed. Defaults here: lifetime 15,000 ms, retryRatio 2,
   *                maxRetryTimeout 1000 ms, and a campaign without end. A leader's lock is renewed at a third of its lifetime.
   */
  constructor(name: string, options: ElectionOptions) {
    const [own, given] = takeOwn(options, { id: idRule, value: valueRule });
    const { id = ourId(), value = '' } = own as { id?: string; value?: string };
    const settings = settle(given, electionDefaults);
    if (settings.lifetimeMs === null) throw optionError('lifetime', 'a number: a leader may die', null);
    if (!settings.fencing) throw optionError('fencing', 'true: the fence is the number of the term', false);
    this.#settings = { ...endless(settings), owner: settings.owner ?? id };
    this.#store = this.#scope.store(settings.redis);
    this.#key = lockKey(name, this.#store.keyPrefix + settings.prefix);
    this.name = name;
    this.id = id;
    this.#value = value;
  }

  /**
   * Campaigns, and runs `fn` while leading. When `fn` returns, resigns and resolves with its value; when it throws, resigns and
   * rejects with that. When the leadership is lost, `term.signal` aborts; once `fn` has settled, in whatever way (a rejection is
   * told as `redis-exp-lock:warning`, `lead-failed`), it campaigns again and calls `fn` anew.
   *
   * @param options `signal`: while campaigning, rejects with its reason. While leading, `term.signal` aborts with that; the lock is
   *                renewed until `fn` has settled and then given back, and `lead` resolves or rejects as `fn` does.
   * @returns what `fn` resolved to; undefined after `resign()` where it did not lead.
   * @throws {AlreadyAcquiredLockError} this Election campaigns or leads already. It still does.
   * @throws as an acquire, while campaigning: {LockBackendError} Redis refused; {LockClosedError} after `close()`; with `timeout`
   *         or `maxRetries` given, {LockBusyError}. Nothing is held.
   */
  async lead<T>(fn: Fn<T>, options?: Stoppable): Promise<T | undefined> {
    if (typeof fn !== 'function') throw optionError('fn', 'a function', fn);
    const { signal } = optionsOf<Stoppable>(options, { signal: signalRule });
    this.#refuse();
    const { name } = this;
    if (this.#candidacy !== undefined) {
      throw new AlreadyAcquiredLockError(`${describe(name)}: this Election leads or campaigns already`, { key: name });
    }
    const campaign = (stop: AbortSignal): Promise<Lease> =>
      acquireLease(name, { ...this.#settings, signal: stop }, this.#scope, { autoExtend: true });
    const candidacy = new Candidacy(campaign, (held) => new HeldTerm(held, this.id, this.#value));
    this.#candidacy = candidacy;
    try {
      return await candidacy.run(fn, signal ?? this.#settings.signal);
    } finally {
      this.#candidacy = undefined;
    }
  }

  /**
   * Ends what `lead` began, as if its signal had aborted, but quietly: `lead` resolves with what `fn` gives, or undefined. Resolves
   * once the lock is given back, so once `fn` has settled; at once when `fn` itself calls it, and when there is nothing to resign.
   */
  async resign(): Promise<void> {
    await this.#candidacy?.resign();
  }

  /**
   * Who leads now, in one request; null: nobody, or one that was elected this moment.
   *
   * @throws {LockBackendError} Redis could not be reached: it does not say null.
   */
  async leader(): Promise<Leader | null> {
    this.#refuse();
    try {
      return leaderOf(await this.#store.readHolder(this.#key, this.#settings.commandTimeoutMs));
    } catch (error) {
      throw forKey(error, this.name);
    }
  }

  /**
   * The present leader (or null) at once, then each change: always the latest, never two equal ones (id, value, term) in a row.
   * Costs one request a lifetime while nothing changes, and one at each message. While Redis cannot be reached, it waits.
   *
   * @param options `signal`: ends the iteration.
   * @throws {LockBackendError} (in the iteration) Redis refused for good.
   */
  observe(options?: Stoppable): AsyncIterable<Leader | null> {
    const { signal = this.#settings.signal } = optionsOf<Stoppable>(options, { signal: signalRule });
    return { [Symbol.asyncIterator]: () => this.#observe(signal) };
  }

  /**
   * Ends this Election: a campaign rejects with a LockClosedError, observers end; a leader is told to stop as by its signal,
   * and is waited for (`drain`); what is then left is taken away (`closed`). Never closes the Redis client.
   */
  async close(options?: CloseOptions): Promise<void> {
    const drainMs = settleDrain(options);
    this.#candidacy?.stop(new LockClosedError(`${describe(this.name)}: this Election was closed`, { key: this.name }));
    for (const observer of this.#observers) observer.abort();
    return this.#scope.close(drainMs);
  }

  async *#observe(signal: AbortSignal | undefined): AsyncGenerator<Leader | null, void> {
    this.#refuse();
    const stop = new AbortController();
    const onAbort = (): void => stop.abort();
    if (signal?.aborted) return;
    signal?.addEventListener('abort', onAbort);
    this.#observers.add(stop);
    try {
      const [store, key, lifetimeMs] = [this.#store, this.#key, this.#settings.lifetimeMs!];
      yield* changes({ store, key, lifetimeMs, signal: stop.signal, ask: () => this.leader() });
    } finally {
      this.#observers.delete(stop);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #refuse(): void {
    const { name: key } = this;
    if (this.#scope.closed) throw new LockClosedError(`${describe(key)}: this Election was closed`, { key });
    if (!this.#store.isQuorum) return;
    const message = `${describe(key)}: an election cannot be had on a quorum, which keeps nothing beside a lock; use a single Redis`;
    throw new LockBackendError(message, { key, retryable: false });
  }
}

/** How a function ended. */
type Outcome<T> = { readonly value: T } | { readonly error: unknown };

/** One call of `lead`. */
class Candidacy {
  readonly #campaign: (stop: AbortSignal) => Promise<Lease>;
  readonly #newTerm: (held: HeldLock) => HeldTerm;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #end!: () => void;
  #isResigned = false;
  #held: HeldLock | undefined;

  constructor(campaign: (stop: AbortSignal) => Promise<Lease>, newTerm: (held: HeldLock) => HeldTerm) {
    this.#campaign = campaign;
    this.#newTerm = newTerm;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  stop(reason: unknown): void {
    this.#stop.abort(reason);
  }

  async resign(): Promise<void> {
    this.#isResigned ||= !this.#stop.signal.aborted;
    this.stop(Object.assign(new Error('the candidate resigned'), { name: 'AbortError', code: 'ABORT_ERR' }));
    if (this.#held === undefined || !isEnclosedBy(this.#held)) await this.#ended;
  }

  async run<T>(fn: Fn<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
    const onAbort = (): void => this.stop(signal!.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    try {
      for (;;) {
        const lease = await this.#elected();
        if (lease === undefined) return undefined;
        const { outcome, isLost } = await this.#serve(lease, fn);
        if (isLost && !this.#stop.signal.aborted) warnOf(outcome, lease.key);
        else if ('error' in outcome) throw outcome.error;
        else return outcome.value;
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#end();
    }
  }

  /** The lease of a term that begins; undefined after a resignation. */
  async #elected(): Promise<Lease | undefined> {
    const { signal } = this.#stop;
    for (;;) {
      const lease = await this.#campaign(signal).catch((error) => {
        if (this.#isResigned) return undefined;
        throw error;
      });
      if (lease === undefined) return undefined;
      if (heldLockOf(lease).loss === undefined && !signal.aborted) return lease;
      // It was stopped in the moment of its election; or this process was, until the grant was over.
      await heldLockOf(lease).releaseQuietly();
      if (signal.aborted && !this.#isResigned) throw abortReason(signal);
    }
  }

  /** Runs `fn` for one term. Told to stop, or lost, it is waited for; only then the lock is given back. */
  async #serve<T>(lease: Lease, fn: Fn<T>): Promise<{ outcome: Outcome<T>; isLost: boolean }> {
    const held = heldLockOf(lease);
    const term = this.#newTerm(held);
    const [lost, stopped] = [lease.signal, this.#stop.signal];
    const onLost = (): void => term.abort(lost.reason);
    const onStop = (): void => term.abort(stopped.reason);
    lost.addEventListener('abort', onLost);
    stopped.addEventListener('abort', onStop);
    this.#held = held;
    const outcome: Outcome<T> = await runWithin(held, () => fn(term)).then(
      (value) => ({ value }),
      (error) => ({ error }),
    );
    const isLost = heldLockOf(lease).loss !== undefined;
    term.end();
    await held.releaseQuietly();
    this.#held = undefined;
    lost.removeEventListener('abort', onLost);
    stopped.removeEventListener('abort', onStop);
    return { outcome, isLost };
  }
}

/** What a function that lost its term rejected with is told, and changes nothing. */
function warnOf(outcome: Outcome<unknown>, key: Lease['key']): void {
  if (!('error' in outcome)) return;
  const message = `the function that led ${describe(key)} rejected after its leadership was lost; it campaigns again`;
  warn({ code: 'lead-failed', message, key, error: outcome.error });
}

/** Campaigns for as long as it takes, unless the options say how long. */
function endless(settings: Settings): Settings {
  if (settings.waitGiven) return settings;
  return { ...settings, timeoutMs: Number.POSITIVE_INFINITY, maxRetries: Number.POSITIVE_INFINITY, queued: true };
}

function ourId(): string {
  return `${host()}:${process.pid}:${randomBytes(4).toString('hex')}`;
}

/** A runtime may not be permitted to say it. */
function host(): string {
  try {
    return hostname().slice(0, 200) || 'host';
  } catch {
    return 'host';
  }
}
