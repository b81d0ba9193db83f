// The servers of one Redlock, on which the library's own acquisitions make one attempt at a time and the library's held locks are
// extended and released. The store reports the votes to the ballot of each attempt.
import { acquire } from '../../acquire/acquisition';
import { earlier, now } from '../../core/clock';
import { optionError } from '../../core/errors';
import { type Key, mayBeLock, peerKey } from '../../core/keys';
import { type Settings, settle } from '../../core/options';
import { HeldLock } from '../../hold/held-lock';
import { Scope } from '../../hold/scope';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { Quorum } from '../../store/quorum/store';
import { scriptClient } from '../../store/redis/clients/script-client';
import { readyWithin } from '../../store/redis/pipeline/sender';
import { redisStore } from '../../store/redis/store';
import { atOnce, commandTimeoutMs } from '../stores';
import { isAwaited, wakeNext } from '../waiters';
import type { Ballot, Client } from './attempts';

/** The owner in the tokens of this shim. */
const owner = 'redlock';
/** Ms for which the key is left free for processes that only poll, after many hand-offs in a row. */
const yieldMs = 20;
const checkEveryMs = 20;
const besidePollersMs = 5000;

export class RedlockServers {
  readonly isSingle: boolean;
  /** The single client, or the first of several. */
  readonly client: Client;
  readonly scope = new Scope();
  /** The settings of a lock, without its duration. */
  readonly settings: Settings;
  /** The store that reports votes. */
  readonly store: Store;
  readonly #clients: readonly Client[];
  /** The ballots of extensions, by token: an extension waits for the one before it. */
  readonly #extensions = new Map<string, Ballot>();
  /** The ballot of the acquire or release that is about to be sent. */
  #ballot: Ballot | undefined;
  #ready: Promise<unknown> | undefined;
  #lastSettings: Settings;
  /** Monotonic ms until which all calls poll. */
  #pollUntilMs = 0;
  #checkAtMs = 0;

  constructor(clients: ReadonlySet<Client>) {
    this.#clients = [...clients];
    this.client = this.#clients[0]!;
    this.isSingle = clients.size === 1;
    this.settings = settle({ redis: this.client, owner, commandTimeout: commandTimeoutMs, retryTimeout: yieldMs });
    this.#lastSettings = this.settings;
    this.store = this.#reporting(this.isSingle ? storeOf(this.client) : new Quorum(this.#clients.map(redisStore)));
  }

  /** Resolves when all clients of several are connected, or have had the time of one command for it. */
  ready(): Promise<unknown> {
    this.#ready ??= Promise.all(this.#clients.map((client) => readyWithin(scriptClient(client), commandTimeoutMs)));
    return this.#ready;
  }

  /**
   * The full keys. A key that the library itself would refuse has no queue, and neither have several keys. Callers of such keys poll,
   * as redlock does, so a single key of that kind stays a list.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`, before any I/O.
   */
  keysOf(resources: unknown): Key {
    if (!Array.isArray(resources)) throw optionError('resources', 'an array of strings', resources);
    if (resources.length === 0) throw optionError('resources', 'at least one key in the array', resources, 'range');
    const keys = [...new Set(resources.map((each) => peerKey(each, this.store.keyPrefix)))].sort();
    const [first] = keys;
    return keys.length === 1 && mayBeLock(first!) ? first! : keys;
  }

  /** Tells if calls wait in the queue of a key. */
  isQueued(keys: Key): boolean {
    return this.isSingle && typeof keys === 'string' && isAwaited(this.client, keys);
  }

  /** True for a while after another program was found to hold a lock here: it may have callers that only poll. */
  get havePollers(): boolean {
    return performance.now() < this.#pollUntilMs;
  }

  /** Checks the holder, unless it was checked within the last 20 ms. */
  lookForPollers(key: string, onFound: () => void): void {
    const nowMs = performance.now();
    if (this.havePollers || nowMs < this.#checkAtMs) return;
    this.#checkAtMs = nowMs + checkEveryMs;
    const checked = this.store.inspect(key, commandTimeoutMs).then((state) => {
      if (!state.locked || state.owner === owner) return;
      this.#pollUntilMs = performance.now() + besidePollersMs;
      onFound();
    });
    checked.catch(() => {});
  }

  /** Attempts once to acquire. Resolves with 0 if a key is held. @throws {LockBackendError} no usable reply. */
  async acquire(resources: readonly string[], keys: Key, duration: number, ballot?: Ballot): Promise<HeldLock | 0> {
    const { scope, store } = this;
    const settings = this.#settingsFor(duration);
    const key = keyFor(resources, keys);
    this.#ballot = ballot;
    const spec = { key, keys, settings, scope, store, mode: undefined, kind: undefined, isTry: true };
    return (await acquire(spec, (held) => held)) ?? 0;
  }

  /** Attempts once to extend. Resolves with 0 if the lock is no longer held. @throws {LockBackendError} no usable reply. */
  async extend(held: HeldLock, duration: number, ballot: Ballot): Promise<true | 0> {
    this.#extensions.set(held.token, ballot);
    try {
      return (await held.keeper.extend(duration)) || 0;
    } finally {
      if (this.#extensions.get(held.token) === ballot) this.#extensions.delete(held.token);
    }
  }

  /**
   * Attempts once to release. Resolves with a number if not every key was still ours; a single client counts the keys that were.
   *
   * @throws {LockBackendError} no usable reply.
   */
  async release(held: HeldLock, ballot: Ballot): Promise<true | number> {
    if (answered.has(held)) return 0;
    this.#ballot = ballot;
    const isReleased = await held.release();
    answered.add(held);
    if (isReleased && typeof held.keys !== 'string') wakeNext(this.client, JSON.stringify(held.keys), 1);
    return isReleased || ballot.released;
  }

  /**
   * Releases the grants of a minority, as `failed` got them. Resolves with 0: redlock reports after a failed acquire that there was
   * nothing to release.
   */
  async undo(keys: Key, failed: Ballot, ballot: Ballot): Promise<0> {
    this.#ballot = ballot;
    if (!this.isSingle) await this.store.release({ keys, token: failed.token, commandTimeoutMs });
    return 0;
  }

  /** A lock that was made by hand: only its token and its end are known. */
  heldByHand(resources: readonly string[], token: string, leftMs: number): HeldLock {
    const keys = this.keysOf(resources);
    const lifetimeMs = Math.max(leftMs, 1);
    const context = this.scope.context(this.#settingsFor(lifetimeMs), this.store, undefined);
    const sent = earlier(now(), lifetimeMs - leftMs);
    const spec = { key: keyFor(resources, keys), keys, mode: undefined };
    return new HeldLock({ token, fence: 0, sent }, spec, context, 0);
  }

  #settingsFor(lifetimeMs: number): Settings {
    if (this.#lastSettings.lifetimeMs !== lifetimeMs) this.#lastSettings = { ...this.settings, lifetimeMs };
    return this.#lastSettings;
  }

  /** The members of a store that acquisitions and held locks use. Each request has the ballot or the counter of its attempt. */
  #reporting(store: Store): Store {
    const { kind, clock, keyPrefix, isQuorum } = store;
    const reporting: Partial<Store> = {
      ...{ kind, clock, keyPrefix, isQuorum },
      acquire: (request) => {
        const votes = this.#ballot;
        if (this.isSingle || votes === undefined) return atOnce(store, store.acquire(request));
        votes.token = request.token;
        return store.acquire({ ...request, votes });
      },
      extend: (request) => store.extend({ ...request, votes: this.#extensions.get(request.token) }),
      release: ({ keys, token, yieldMs, isConfirmed }) => {
        const votes = this.#ballot;
        const request = { keys, token, commandTimeoutMs, yieldMs, isConfirmed, votes, counted: votes?.counted };
        return atOnce(store, store.release(request));
      },
      abandon: (request, late) => store.abandon(request, late),
      inspect: (key, timeoutMs) => store.inspect(key, timeoutMs),
    };
    return reporting as Store;
  }
}

/** Locks whose release was answered. Another release finds nothing to release. */
const answered = new WeakSet<HeldLock>();

function keyFor(resources: readonly string[], keys: Key): Key {
  return typeof keys === 'string' ? resources[0]! : resources;
}
