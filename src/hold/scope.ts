// Everything that one factory, or one lock object, has under way: what waits, what is held, which stores it uses. Closing it leaves
// nothing behind. A held lock that was never released is forgotten once its lifetime has passed.
import { Bell, maxTimerMs } from '../core/clock';
import { forKey, LockClosedError, optionError } from '../core/errors';
import type { LockKind } from '../core/events';
import { describe, type Key, listOf, lockKey } from '../core/keys';
import { type Linked, LinkedList } from '../core/linked-list';
import type { CloseOptions } from '../core/option-types';
import { type Settings, settleDrain } from '../core/options';
import { perObject } from '../core/per-object';
import type { RedisLike } from '../core/redis-like';
import { hashOf } from '../core/token';
import type { GrantSource, Store } from '../store/contract';
import { storeOf } from '../store/open';
import { HeldLock, type LeaseContext } from './held-lock';
import type { Granted, LockSpec } from './kept-lock';
import { WeakList } from './weak-list';

const minSweep = 64;

export interface Cancellable extends Linked<Cancellable> {
  readonly awaited: LockSpec;
  giveUp(error: unknown): void;
}

/** An observer of the locks and waits that scopes have on one store. */
export interface ScopeObserver {
  began(scope: Scope, one: HeldLock | Cancellable): void;
  ended(scope: Scope, one: HeldLock | Cancellable): void;
  /** Called when the scope has closed and ended all its locks and waits. */
  part(scope: Scope): Promise<void>;
}

const scopes = new WeakMap<LeaseContext, Scope>();
const scopesOn = perObject((_store: Store) => new WeakList<Scope>());

export function scopeOf(context: LeaseContext): Scope {
  return scopes.get(context)!;
}

export class Scope {
  readonly waiting = new LinkedList<Cancellable>();
  readonly held = new LinkedList<HeldLock>();
  /** The parts of the queues that the scope uses, which it leaves when it closes. */
  readonly joined = new WeakList<{ part(): void }>();
  /** A store goes with its client. */
  readonly #stores = new WeakList<Store>();
  /** The store of a client. The scope uses the store from then on. */
  readonly #storeOf = perObject((client: RedisLike | readonly RedisLike[]) => {
    const store = storeOf(client);
    if (this.#stores.add(store)) store.join();
    scopesOn(store).add(this);
    return store;
  });
  /** The last context of each store. */
  readonly #contexts = new WeakMap<Store, LeaseContext>();
  #sweepAt = minSweep;
  #closing: Promise<void> | undefined;
  /** Rings when a held lock has ended while the scope closes: `close` waits for that. */
  readonly #ended = new Bell();
  readonly #observerOf: ((store: Store) => ScopeObserver) | undefined;

  constructor(observerOf?: (store: Store) => ScopeObserver) {
    this.#observerOf = observerOf;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** The store of a client. @throws {TypeError} `ERR_LOCK_OPTION`: no client, or an unknown kind of client. */
  store(client: RedisLike | readonly RedisLike[] | undefined): Store {
    if (client === undefined) throw optionError('redis', 'a connected client, in the factory or the call', client);
    return this.#storeOf(client);
  }

  /** The full key of a lock, prefixes included. @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key, or no client. */
  fullKey(key: string, { redis, prefix }: Settings): string {
    return lockKey(key, this.store(redis).keyPrefix + prefix);
  }

  /** Asks the store about one key. An error names the key as the caller gave it. */
  async ask<T>(
    key: string,
    settings: Settings,
    question: (store: Store, full: string, timeoutMs: number) => Promise<T>,
  ): Promise<T> {
    const full = this.fullKey(key, settings);
    try {
      return await question(this.store(settings.redis), full, settings.commandTimeoutMs);
    } catch (error) {
      throw forKey(error, key); // H72e
    }
  }

  /** The context of held locks on the same settings, store and source. Without `source`, the locks are released to the store. */
  context(settings: Settings, store: Store, source: GrantSource | undefined, kind?: LockKind): LeaseContext {
    const last = this.#contexts.get(store);
    if (last?.settings === settings && last.kind === kind && last.source === source) return last;
    const onEnd = (held: HeldLock): void => this.#remove(held);
    const context = { settings, store, source, kind, onEnd };
    scopes.set(context, this);
    this.#contexts.set(store, context);
    return context;
  }

  /** Holds a lock that was granted. Without `source`, the lock is released to the store. */
  hold(grant: Granted, spec: LockSpec, source: GrantSource | undefined, retries: number): HeldLock {
    const { settings, store, kind } = spec;
    const held = new HeldLock(grant, spec, this.context(settings, store, source, kind), retries);
    this.held.add(held);
    held.begin();
    this.#observerOf?.(store).began(this, held);
    if (this.held.size >= this.#sweepAt) this.#sweep();
    return held;
  }

  beginWait(wait: Cancellable): void {
    this.waiting.add(wait);
    this.#observerOf?.(wait.awaited.store).began(this, wait);
  }

  endWait(wait: Cancellable): void {
    this.waiting.delete(wait);
    this.#observerOf?.(wait.awaited.store).ended(this, wait);
  }

  /** The first live lock that matches, among the first `max` locks. Looks at them one by one: for a message, not for a decision. */
  find(matches: (held: HeldLock) => boolean, max: number): HeldLock | undefined {
    let looked = 0;
    for (const held of this.held) {
      if (looked === max) return undefined;
      looked += 1;
      if (!held.ended && matches(held)) return held;
    }
    return undefined;
  }

  /**
   * Refuses new calls, rejects waiters, awaits holders (`drain`), and takes the locks away that are held then. Resolves when all
   * are released; a second call awaits the first.
   */
  close(options: CloseOptions | undefined): Promise<void> {
    const drainMs = settleDrain(options);
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    // The timers of held locks keep no process alive.
    const awake = setInterval(() => {}, maxTimerMs);
    try {
      // Let `closed` be seen before anything reacts to the rejections.
      await undefined;
      for (const wait of [...this.waiting]) wait.giveUp(closedError(wait.awaited.key));
      await this.#drain(drainMs);
      await Promise.all([...this.held].map(forceRelease));
      await Promise.all(this.#stores.all().map((store) => this.#observerOf?.(store).part(this)));
      await Promise.all(this.#stores.all().map((store) => store.leave()));
      for (const each of this.joined.all()) each.part();
    } finally {
      clearInterval(awake);
    }
  }

  async #drain(drainMs: number): Promise<void> {
    const endMs = performance.now() + drainMs;
    for (;;) {
      this.#sweep();
      const leftMs = endMs - performance.now();
      if (this.held.size === 0 || leftMs <= 0) return;
      let waitMs = leftMs;
      // A lock that is being released has no time left: the answer to its release ends the wait.
      for (const held of this.held) {
        if (!held.ended) waitMs = Math.min(waitMs, Math.max(held.leftMs(), 0), held.clock.stepMs); // H35c
      }
      await this.#ended.wait(waitMs);
    }
  }

  #remove(held: HeldLock): void {
    this.held.delete(held);
    this.#observerOf?.(held.context.store).ended(this, held);
    if (this.closed) this.#ended.ring();
  }

  /** Forgets held locks whose time is over. Done when their number has doubled, so that each costs a constant. */
  #sweep(): void {
    for (const held of [...this.held]) held.check();
    this.#sweepAt = Math.max(minSweep, 2 * this.held.size);
  }
}

/** Makes a function that gives each scope one `T` for each store. */
export function perScopeAndStore<T>(make: (store: Store) => T): (scope: Scope, store: Store) => T {
  const perStore = perObject((_scope: Scope) => perObject(make));
  return (scope, store) => perStore(scope)(store);
}

/** The error of a call after `close()`, and of a wait that `close()` ended. */
export function closedError(key: Key): LockClosedError {
  return new LockClosedError(`${describe(key)}: this lock was closed`, { key });
}

/** Loses the locks of a holder that an operator has taken away, by its key and the SHA-1 of its token in the store. */
export function loseFreed(store: Store, key: string, hash: string): void {
  const all = scopesOn(store).all();
  for (const held of all.flatMap((scope) => [...scope.held])) {
    const isOnKey = !held.ended && held.context.store === store && listOf(held.keys).includes(key);
    if (isOnKey && hashOf(held.storedToken) === hash) held.lose('taken'); // H88e
  }
}

/** Takes a lock away that its holder did not release. */
async function forceRelease(held: HeldLock): Promise<void> {
  if (held.check()) held.lose('closed');
  await held.releaseQuietly();
}
