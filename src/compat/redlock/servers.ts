// The servers of one Redlock, on which the library's own acquisitions make one attempt at a time and the library's held locks are
// extended and released. The store reports the votes to the ballot of each attempt.
import { wait } from '../../acquire/acquisition';
import { earlier, now } from '../../core/clock';
import type { Key } from '../../core/keys';
import { type Settings, settle } from '../../core/options';
import { HeldLock } from '../../hold/held-lock';
import { Scope } from '../../hold/scope';
import type { LockState, ReleaseRequest, Store } from '../../store/contract';
import { commandTimeoutMs, nodeFor, placeOf, quorumOf, readyWithin, scriptClient } from '../stores';
import { wakeNext } from '../waiters';
import type { Ballot, Client } from './votes';

/** The owner in the tokens of this shim. */
export const owner = 'redlock';
/** Ms for which the key is left free for processes that only poll, after many hand-offs in a row. */
const yieldMs = 20;

const itself = (held: HeldLock): HeldLock => held;

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
  /** Receives the number of released keys, if the single client did not release all of them. */
  #counted: ReleaseRequest['counted'];
  #isReady: boolean;
  #lastSettings: Settings;

  constructor(clients: ReadonlySet<Client>) {
    this.#clients = [...clients];
    this.client = this.#clients[0]!;
    this.isSingle = this.#isReady = clients.size === 1;
    this.settings = settle({ redis: this.client, owner, commandTimeout: commandTimeoutMs, retryTimeout: yieldMs });
    this.#lastSettings = this.settings;
    this.store = this.isSingle ? this.#single(this.client) : this.#several(quorumOf(this.#clients.map(nodeFor)));
  }

  /** Resolves when all clients of several are connected or have had the time of one command for it; undefined after that. */
  ready(): Promise<unknown> | undefined {
    if (this.#isReady) return undefined;
    const waits = this.#clients.map((client) => readyWithin(scriptClient(client), commandTimeoutMs));
    return Promise.all(waits).then(() => {
      this.#isReady = true;
    });
  }

  /** Attempts once to acquire. Resolves with 0 if a key is held. @throws {LockBackendError} no usable reply. */
  async acquire(resources: readonly string[], keys: Key, duration: number, ballot?: Ballot): Promise<HeldLock | 0> {
    const { scope, store } = this;
    const settings = this.#settingsFor(duration);
    const key = keyFor(resources, keys);
    this.#ballot = ballot;
    const spec = { key, keys, settings, scope, store, mode: undefined, kind: undefined, isTry: true };
    return (await wait(spec, itself)) ?? 0;
  }

  /** Attempts once to extend. Resolves with 0 if the lock is no longer held. @throws {LockBackendError} no usable reply. */
  async extend(held: HeldLock, duration: number, ballot?: Ballot): Promise<true | 0> {
    if (ballot !== undefined) this.#extensions.set(held.token, ballot);
    try {
      return (await held.keeper.extend(duration)) || 0;
    } finally {
      if (ballot !== undefined && this.#extensions.get(held.token) === ballot) this.#extensions.delete(held.token);
    }
  }

  /**
   * Attempts once to release. Resolves with a number if not every key was still ours; a single client counts the keys that were.
   *
   * @throws {LockBackendError} no usable reply.
   */
  async release(held: HeldLock, ballot?: Ballot): Promise<true | number> {
    if (answered.has(held)) return 0;
    let released = 0;
    this.#ballot = ballot;
    this.#counted = (count) => {
      released = count;
    };
    const isReleased = await held.release();
    answered.add(held);
    if (isReleased && typeof held.keys !== 'string') wakeNext(this.client, nameOf(held.keys), 1);
    return isReleased || released;
  }

  /** Releases the grants of a minority. Resolves with 0: redlock reports after a failed acquire that there was nothing to release. */
  async undo(keys: Key, token: string, ballot?: Ballot): Promise<0> {
    this.#ballot = ballot;
    if (!this.isSingle) await this.store.release({ keys, token, commandTimeoutMs });
    return 0;
  }

  /** A lock of which the token is known, and the ms that are left of it. */
  heldByHand(resources: readonly string[], keys: Key, token: string, leftMs: number): HeldLock {
    const lifetimeMs = Math.max(leftMs, 1);
    const context = this.scope.context(this.#settingsFor(lifetimeMs), this.store, undefined);
    const sent = earlier(now(), lifetimeMs - leftMs);
    return new HeldLock({ token, fence: 0, sent }, { key: keyFor(resources, keys), keys, retries: 0, context });
  }

  inspect(key: string): Promise<LockState> {
    return placeOf(this.client).store.inspect(key, commandTimeoutMs);
  }

  #settingsFor(lifetimeMs: number): Settings {
    if (this.#lastSettings.lifetimeMs !== lifetimeMs) this.#lastSettings = { ...this.settings, lifetimeMs };
    return this.#lastSettings;
  }

  #single(client: Client): Store {
    const { store, direct } = placeOf(client);
    return {
      ...membersOf(store),
      acquire: (request) => direct.acquire(request),
      release: ({ keys, token, yieldMs, isConfirmed }) =>
        direct.release({ keys, token, commandTimeoutMs, yieldMs, isConfirmed, counted: this.#counted }),
    } as Store;
  }

  #several(quorum: Store): Store {
    return {
      ...membersOf(quorum),
      acquire: (request) => {
        this.#ballot!.token = request.token;
        return quorum.acquire({ ...request, votes: this.#ballot });
      },
      extend: (request) => quorum.extend({ ...request, votes: this.#extensions.get(request.token) }),
      release: (request) => quorum.release({ ...request, votes: this.#ballot }),
    } as Store;
  }
}

/** Locks whose release was answered. Another release finds nothing to release. */
const answered = new WeakSet<HeldLock>();

/** The name under which callers wait for several keys. */
export function nameOf(keys: readonly string[]): string {
  return JSON.stringify(keys);
}

function keyFor(resources: readonly string[], keys: Key): Key {
  return typeof keys === 'string' ? resources[0]! : resources;
}

/** The members of a store that acquisitions and held locks use. */
function membersOf(store: Store): Partial<Store> {
  const { kind, keyPrefix, isQuorum } = store;
  return {
    ...{ kind, keyPrefix, isQuorum },
    acquire: (request) => store.acquire(request),
    extend: (request) => store.extend(request),
    release: (request) => store.release(request),
    abandon: (request, late) => store.abandon(request, late),
  } as Partial<Store>;
}
