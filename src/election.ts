// One leader among candidates: the holder of the lock leads. A candidate campaigns in the lock's queue, runs its function while it
// leads, and releases the lock once that function has settled, and not before.
// jobs/candidacy.ts keeps that order.
import { acquireLease } from './acquire/run';
import { AlreadyAcquiredLockError, LockClosedError, optionError } from './core/errors';
import { warn } from './core/events';
import { describe } from './core/keys';
import { onAbort } from './core/on-abort';
import type { CloseOptions, LockOptions } from './core/option-types';
import { defaults, endless, filledTextRule, optionsOf, type Settings, settlerWith, signalRule } from './core/options';
import { hostName, pid } from './core/runtime';
import { newToken } from './core/token';
import { isEnclosedBy, runWithin } from './hold/async-context';
import { heldLockOf, type Lease } from './hold/lease';
import type { Scope } from './hold/scope';
import { scopeFor } from './inspect/registry';
import { Candidacy, type Won } from './jobs/candidacy';
import { changes, type Leader, leaderOf } from './jobs/leaders';
import { HeldTerm, type Term, valueRule } from './jobs/term';
import type { Store } from './store/contract';
import { type Values, valuesOf } from './store/values';

/** The defaults of an Election. A candidate whose client brings no messages soon polls once a second. */
const electionDefaults: Settings = { ...defaults, lifetimeMs: 15_000, retryRatio: 2, maxRetryTimeoutMs: 1000 };
const settleObject = settlerWith<ElectionOptions>({ id: filledTextRule, value: valueRule });

/** Options of an Election. */
export interface ElectionOptions extends LockOptions {
  /** The id of this candidate, which `leader` shows. Default '<host>:<pid>:<8 hex digits>'; 1 to 256 characters. */
  id?: string | undefined;
  /** The text that the candidate proclaims when it is elected, such as an address; at most 4 KiB. Default ''. */
  value?: string | undefined;
}

/** Options of `lead` and `observe`. */
interface Stoppable {
  signal?: AbortSignal | undefined;
}

/**
 * One leader among all Elections of the same name. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * After a resignation the next leader begins within a round trip; after a crash, within the lifetime.
 * @example
 * ```ts
 * const election = new Election('stream-reader', { redis: client });
 * const stopping = new AbortController();
 * process.once('SIGTERM', () => stopping.abort());
 * await election.lead((term) => work(term.fence, term.signal), { signal: stopping.signal });
 * ```
 */
export class Election {
  readonly name: string;
  /** The id of this candidate. */
  readonly id: string;
  readonly #value: string;
  readonly #settings: Settings;
  readonly #scope: Scope;
  readonly #store: Store;
  readonly #key: string;
  readonly #observers = new Set<AbortController>();
  #candidacy: Candidacy<Term> | undefined;

  /**
   * Makes a candidate that does not campaign yet; sends nothing.
   *
   * @param name    Redis key of 1 to 1024 bytes.
   * @param options As of the factory, `id` and `value`; `redis` is required. Defaults here: lifetime 15,000 ms, retryRatio 2,
   *                maxRetryTimeout 1000 ms, and a campaign without end. A leader's lock is renewed at a third of its lifetime.
   */
  constructor(name: string, options: ElectionOptions) {
    const ourId = `${hostName()}:${pid}:${newToken(undefined).slice(0, 8)}`;
    const [{ id = ourId, value = '' }, settings] = settleObject(options, electionDefaults);
    this.#scope = scopeFor(settings);
    if (settings.lifetimeMs === null) throw optionError('lifetime', 'a number: a leader may die', null);
    if (!settings.fencing) throw optionError('fencing', 'true: the fence is the number of the term', false);
    this.#settings = { ...endless(settings), owner: settings.owner ?? id };
    this.#store = this.#scope.store(settings.redis);
    this.#key = this.#scope.fullKey(name, settings);
    this.name = name;
    this.id = id;
    this.#value = value;
  }

  /**
   * Campaigns, and runs `fn` while leading. When `fn` settles, resigns and settles as `fn` did. If the leadership is lost,
   * `term.signal` aborts. Once `fn` has then settled, campaigns again and calls `fn` anew. A rejection of that `fn` is published
   * as `redis-exp-lock:warning`, `lead-failed`.
   *
   * @param options `signal`: while campaigning, `lead` rejects with the signal's reason. While leading, `term.signal` aborts with
   *                that reason; the lock is renewed until `fn` has settled and then released, and `lead` settles as `fn` did.
   * @returns the result of `fn`; undefined after `resign()` if this candidate did not lead.
   * @throws {AlreadyAcquiredLockError} this Election campaigns or leads already, and goes on.
   * @throws as an acquire, while campaigning: {LockBackendError} Redis refused; {LockClosedError} after `close()`; with `timeout`
   *         or `maxRetries` given, {LockBusyError}. Nothing is held.
   */
  async lead<T>(fn: (term: Term) => T | PromiseLike<T>, options?: Stoppable): Promise<T | undefined> {
    if (typeof fn !== 'function') throw optionError('fn', 'a function', fn);
    const { signal } = optionsOf<Stoppable>(options, { signal: signalRule });
    this.#values();
    const { name } = this;
    if (this.#candidacy !== undefined) {
      throw new AlreadyAcquiredLockError(`${describe(name)}: this Election leads or campaigns already`, { key: name });
    }
    const campaign = async (stop: AbortSignal): Promise<Won<Term>> => {
      const settings = { ...this.#settings, signal: stop };
      const lease = await acquireLease(name, settings, this.#scope, { autoExtend: true, kind: 'election' });
      return elected(lease, this.id, this.#value);
    };
    const candidacy = new Candidacy<Term>(campaign, (error) => this.#warn(error));
    this.#candidacy = candidacy;
    try {
      return await candidacy.run(fn, signal ?? this.#settings.signal);
    } finally {
      this.#candidacy = undefined;
    }
  }

  /**
   * Ends `lead` as if its signal had aborted, but quietly: `lead` resolves with the result of `fn`, or with undefined. Resolves once
   * `fn` has settled and the lock is released; at once if `fn` itself calls `resign`, or if there is nothing to resign.
   */
  async resign(): Promise<void> {
    await this.#candidacy?.resign();
  }

  /**
   * Reads the present leader in one request; null if there is none, or if a leader was elected this moment.
   *
   * @throws {LockBackendError} Redis could not be reached, which is never reported as null.
   */
  async leader(): Promise<Leader | null> {
    const values = this.#values();
    return leaderOf(await this.#scope.ask(this.name, this.#settings, (_, key, ms) => values.readHolder(key, ms)));
  }

  /**
   * Yields the present leader (or null) at once, then each change: always the latest leader, never two equal ones (id, value, term)
   * in a row. Costs one request per lifetime while nothing changes, and one per message. While Redis cannot be reached, it waits.
   *
   * @param options `signal`: ends the iteration.
   * @throws {LockBackendError} (in the iteration) Redis refused for good.
   */
  observe(options?: Stoppable): AsyncIterable<Leader | null> {
    const { signal = this.#settings.signal } = optionsOf<Stoppable>(options, { signal: signalRule });
    return { [Symbol.asyncIterator]: () => this.#iterate(signal) };
  }

  /**
   * Closes this Election. A campaign rejects with a LockClosedError, and observers end. A leader is asked to stop by its signal and
   * is awaited (`drain`). If the lock is held after that, it is taken away (`closed`). Never closes the Redis client.
   */
  async close(options?: CloseOptions): Promise<void> {
    const closed = this.#scope.close(options);
    this.#candidacy?.stop(new LockClosedError(`${describe(this.name)}: this Election was closed`, { key: this.name }));
    for (const observer of this.#observers) observer.abort();
    return closed;
  }

  /** Iterates over changes. A plain generator would end only after the change that its pending `next()` waits for. */
  #iterate(signal: AbortSignal | undefined): AsyncGenerator<Leader | null, void> {
    const stop = new AbortController();
    const observing = this.#observe(signal, stop);
    const end = observing.return.bind(observing);
    observing.return = (value) => {
      stop.abort(); // H98b
      return end(value);
    };
    return observing;
  }

  async *#observe(signal: AbortSignal | undefined, stop: AbortController): AsyncGenerator<Leader | null, void> {
    this.#values();
    if (signal?.aborted) return;
    const stopListening = signal && onAbort(signal, () => stop.abort());
    this.#observers.add(stop);
    try {
      yield* changes(this.#store, this.#key, this.#settings.lifetimeMs!, stop.signal, () => this.leader());
    } finally {
      this.#observers.delete(stop);
      stopListening?.();
    }
  }

  #warn(error: unknown): void {
    const message = `the function that led ${describe(this.name)} rejected after its leadership was lost; it campaigns again`;
    const { name } = this.#settings;
    warn({ code: 'lead-failed', message, key: this.#key, name, kind: 'election', store: this.#store.kind, error });
  }

  /** Refuses a closed Election, and a quorum. */
  #values(): Values {
    const { name: key } = this;
    if (this.#scope.closed) throw new LockClosedError(`${describe(key)}: this Election was closed`, { key });
    return valuesOf(this.#store, key, 'an election');
  }
}

/** The lease of an elected candidate, with its term. */
function elected(lease: Lease, id: string, value: string): Won<Term> {
  const held = heldLockOf(lease);
  const term = new HeldTerm(held, id, value);
  return {
    term,
    signal: held.signal,
    get isLost() {
      return held.loss !== undefined;
    },
    run: (fn) => runWithin(held, fn),
    encloses: () => isEnclosedBy(held),
    abort: (reason) => term.abort(reason),
    release: () => {
      term.end(); // In one command with the release, so that observers hear of it when the lock is free or has its next holder.
      // The lease is kept until here: the lock of a collected lease is not renewed.
      return heldLockOf(lease).releaseQuietly(); // H86e
    },
  };
}
