// One leader among candidates: the holder of the lock leads. A candidate campaigns in the lock's queue, runs its function while it
// leads, and gives the lock back once that has settled, and not before.
//
// Invariant: never two functions of one Election at once, and no release while one runs (candidacy.ts). A function that goes on
// after the leadership was lost is waited for before the next campaign; one that is asked to stop keeps the lock, renewed.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { acquireLease } from './acquire/run';
import { AlreadyAcquiredLockError, forKey, LockBackendError, LockClosedError, optionError } from './core/errors';
import { warn } from './core/events';
import { describe, lockKey } from './core/keys';
import { onAbort } from './core/on-abort';
import {
  type CloseOptions,
  defaults,
  type LockOptions,
  optionsOf,
  type Rule,
  type Settings,
  settle,
  settleDrain,
  signalRule,
  takeOwn,
  textRule,
} from './core/options';
import { isEnclosedBy, runWithin } from './hold/enclosing';
import type { HeldLock } from './hold/held-lock';
import { heldLockOf, type Lease } from './hold/lease';
import type { Scope } from './hold/scope';
import { scopeFor } from './inspect/registry';
import { Candidacy, type Won } from './jobs/candidacy';
import { changes, type Leader, leaderOf } from './jobs/leaders';
import { HeldTerm, type Term, valueRule } from './jobs/term';
import type { Store } from './store/contract';

/** A candidate that has to poll, because its client has no messages to give, soon does so once a second. */
const electionDefaults: Settings = { ...defaults, lifetimeMs: 15_000, retryRatio: 2, maxRetryTimeoutMs: 1000 };

const idRule: Rule = {
  ...textRule,
  expected: 'well-formed text of 1 to 256 characters',
  possible: (value: string) => value !== '' && textRule.possible(value),
};

/** Options of an Election. */
export interface ElectionOptions extends LockOptions {
  /** Which candidate this is; shown by `leader`. Default '<host>:<pid>:<8 hex digits>'; 1 to 256 characters. */
  id?: string | undefined;
  /** What it proclaims when it is elected: text of at most 4 KiB, such as an address. Default ''. */
  value?: string | undefined;
}

type Fn<T> = (term: Term) => T | PromiseLike<T>;

/** Of `lead` and `observe`. */
interface Stoppable {
  signal?: AbortSignal | undefined;
}

/**
 * One leader among all Elections of the same name. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O.
 *
 * A handover in order begins within a round trip of the old leader's end; after a crash the next one leads within the lifetime.
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
  /** Which candidate this is. */
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
   * @param options As of the factory, `id` and `value`; `redis` is needed. Defaults here: lifetime 15,000 ms, retryRatio 2,
   *                maxRetryTimeout 1000 ms, and a campaign without end. A leader's lock is renewed at a third of its lifetime.
   */
  constructor(name: string, options: ElectionOptions) {
    const [own, given] = takeOwn(options, { id: idRule, value: valueRule });
    const { id = ourId(), value = '' } = own as { id?: string; value?: string };
    const settings = settle(given, electionDefaults);
    this.#scope = scopeFor(settings);
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
   * published as `redis-exp-lock:warning`, `lead-failed`), it campaigns again and calls `fn` anew.
   *
   * @param options `signal`: while campaigning, rejects with its reason. While leading, `term.signal` aborts with that; the lock is
   *                renewed until `fn` has settled and then released, and `lead` resolves or rejects as `fn` does.
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
    const campaign = async (stop: AbortSignal): Promise<Elected> => {
      const settings = { ...this.#settings, signal: stop };
      return new Elected(
        await acquireLease(name, settings, this.#scope, { autoExtend: true, kind: 'election' }),
        this.id,
        this.#value,
      );
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
   * Ends what `lead` began, as if its signal had aborted, but quietly: `lead` resolves with what `fn` gives, or undefined. Resolves
   * once the lock is released, so once `fn` has settled; at once when `fn` itself calls it, and when there is nothing to resign.
   */
  async resign(): Promise<void> {
    await this.#candidacy?.resign();
  }

  /**
   * The present leader, in one request; null: none, or one that was elected this moment.
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
    return { [Symbol.asyncIterator]: () => this.#iterate(signal) };
  }

  /**
   * Ends this Election: a campaign rejects with a LockClosedError, observers end; a leader is asked to stop by its signal,
   * and is waited for (`drain`); what is then left is taken away (`closed`). Never closes the Redis client.
   */
  async close(options?: CloseOptions): Promise<void> {
    const drainMs = settleDrain(options);
    this.#candidacy?.stop(new LockClosedError(`${describe(this.name)}: this Election was closed`, { key: this.name }));
    for (const observer of this.#observers) observer.abort();
    return this.#scope.close(drainMs);
  }

  /** A generator alone would end only after the change that its pending `next()` waits for. */
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
    this.#refuse();
    if (signal?.aborted) return;
    const stopListening = signal && onAbort(signal, () => stop.abort());
    this.#observers.add(stop);
    try {
      const [store, key, lifetimeMs] = [this.#store, this.#key, this.#settings.lifetimeMs!];
      yield* changes({ store, key, lifetimeMs, signal: stop.signal, ask: () => this.leader() });
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

  #refuse(): void {
    const { name: key } = this;
    if (this.#scope.closed) throw new LockClosedError(`${describe(key)}: this Election was closed`, { key });
    if (!this.#store.isQuorum) return;
    const message = `${describe(key)}: an election cannot be had on a quorum, which keeps nothing beside a lock; use a single Redis`;
    throw new LockBackendError(message, { key, retryable: false });
  }
}

/** The lease of an elected candidate, and its term. */
class Elected implements Won<Term> {
  readonly term: HeldTerm;
  readonly #lease: Lease;
  readonly #held: HeldLock;

  constructor(lease: Lease, id: string, value: string) {
    this.#lease = lease;
    this.#held = heldLockOf(lease);
    this.term = new HeldTerm(this.#held, id, value);
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  get isLost(): boolean {
    return this.#held.loss !== undefined;
  }

  run<T>(fn: () => T | PromiseLike<T>): Promise<T> {
    return runWithin(this.#held, fn);
  }

  encloses(): boolean {
    return isEnclosedBy(this.#held);
  }

  abort(reason: unknown): void {
    this.term.abort(reason);
  }

  /** Both leave in one command: observers hear of it when the lock is free, or the next one's. */
  release(): Promise<unknown> {
    this.term.end();
    return this.#held.releaseQuietly();
  }
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
