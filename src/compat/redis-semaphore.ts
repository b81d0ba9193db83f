// redis-semaphore 5 on our stores: the same names, options, errors and callbacks, and the same keys in Redis, so that old and new
// processes exclude each other. docs/migration.md lists the differences with their reasons.
//
// The key holds the identifier of an object, which is the same for each acquire. So an object requests a lock only while no other
// request under its identifier is under way, and never takes its own lock for a new one.

import { now } from '../core/clock';
import { LockBackendError } from '../core/errors';
import { peerKey, unusedName } from '../core/keys';
import type { RedisLike } from '../core/redis-like';
import { trustedMs } from '../hold/validity';
import type { AcquireRequest, Node, Store } from '../store/contract';
import { storeOf } from '../store/open';
import { redisStore } from '../store/redis/store';
import { type PeerGrant, PeerLock, type PeerLockOptions } from './redis-semaphore/lock';
import { askPermits, releaseScript, takeScript } from './redis-semaphore/permits';
import { atOnce, commandTimeoutMs } from './stores';
import { wakeNext } from './waiters';

export {
  defaultTimeoutOptions,
  type LockLostCallback,
  LostLockError,
  type PeerLockOptions as LockOptions,
  TimeoutError,
  type TimeoutOptions,
} from './redis-semaphore/lock';
export { PeerSemaphore as Semaphore };

/** A client of Redis: ioredis, as with redis-semaphore, or any other that this library knows. */
export type RedisClient = RedisLike;

/**
 * A lock of one holder. Its key is `mutex:<key>`.
 *
 * @example
 * ```ts
 * import { Mutex } from 'redis-exp-lock/redis-semaphore';
 *
 * const lock = new Mutex(client, 'bankAccount', { acquireTimeout: 5000 });
 * await lock.acquire();
 * await work().finally(() => lock.release());
 * ```
 */
export class Mutex extends PeerLock {
  protected _kind = 'mutex';
  protected _key: string;
  protected _client: RedisClient;

  /**
   * Makes an object that holds nothing yet.
   *
   * @throws {Error} no client or no key; `ERR_LOCK_OPTION` for an impossible key.
   */
  constructor(client: RedisClient, key: string, options?: PeerLockOptions) {
    super(client, options);
    if (!client) throw new Error('"client" is required');
    this._key = this._named(key);
    this._client = client;
  }

  /** @internal The key in Redis. */
  protected _named(key: string): string {
    return mutexKey(key);
  }

  /** @internal */
  protected get _store(): Store {
    return storeOf(this._client);
  }

  protected async _refresh(): Promise<boolean> {
    const { outcome } = await this._store.extend(this._extendRequest());
    if (outcome === 'late') throw new LockBackendError(`${this._key} was refreshed too late`, { key: this._key });
    return outcome === 'extended';
  }

  protected async _release(): Promise<void> {
    const { _store: store, _isConfirmed: isConfirmed } = this;
    await atOnce(store, store.release({ ...this._requestTo(store), isConfirmed }));
    wakeNext(this._client, this._key, 1);
  }

  /** @internal */
  protected async _isOurs(): Promise<boolean> {
    const { owned } = await this._store.inspect(this._keysAt(), commandTimeoutMs, this._identifier);
    return owned === true;
  }

  /** @internal */
  protected async _request(): Promise<PeerGrant | false> {
    const store = this._store;
    const reply = await atOnce(store, store.acquire(this._requestTo(store)));
    return reply.granted && reply;
  }
}

/**
 * At most `limit` holders. Its key is `semaphore:<key>`.
 *
 * @example
 * ```ts
 * import { Semaphore } from 'redis-exp-lock/redis-semaphore';
 *
 * const lock = new Semaphore(client, 'reports', 5, { acquireTimeout: 5000 });
 * await lock.acquire();
 * await work().finally(() => lock.release());
 * ```
 */
class PeerSemaphore extends Mutex {
  protected override _kind = 'semaphore';
  protected _limit: number;

  /**
   * Makes an object that holds nothing yet.
   *
   * @throws {Error} no client, key or limit; `ERR_LOCK_OPTION` for an impossible key.
   */
  constructor(client: RedisClient, key: string, limit: number, options?: PeerLockOptions) {
    super(client, key, options);
    this._limit = required('limit', limit, 'number');
  }

  /** @internal Any text: nothing but the sorted set has its name. */
  protected override _named(key: string): string {
    return unusedName(`semaphore:${required('key', key, 'string')}`);
  }

  /** The holder's members of the sorted set. */
  protected get _members(): readonly string[] {
    return [this._identifier];
  }

  protected override async _refresh(): Promise<boolean> {
    return this.#take('');
  }

  /** @internal */
  protected override async _ask(): Promise<PeerGrant | false> {
    const sent = now(this._store.clock);
    return (await this.#take(this._limit)) && { fence: 0, sent };
  }

  #take(limit: number | ''): Promise<boolean> {
    const terms = [this._acquireOptions.lockTimeout, limit, ...this._members];
    return askPermits(this._client, takeScript, this._key, terms);
  }

  protected override async _release(): Promise<void> {
    await askPermits(this._client, releaseScript, this._key, this._members);
    wakeNext(this._client, this._key, this._members.length);
  }
}

/**
 * At most `limit` permits out, of which each holder has `permits`. Its key is `semaphore:<key>`.
 *
 * @example
 * ```ts
 * import { MultiSemaphore } from 'redis-exp-lock/redis-semaphore';
 *
 * const lock = new MultiSemaphore(client, 'reports', 5, 2, { acquireTimeout: 5000 });
 * await lock.acquire();
 * await work().finally(() => lock.release());
 * ```
 */
export class MultiSemaphore extends PeerSemaphore {
  protected override _kind = 'multi-semaphore';
  protected _permits: number;

  /**
   * Makes an object that holds nothing yet.
   *
   * @throws {Error} no client, key, limit or permits; `ERR_LOCK_OPTION` for an impossible key.
   */
  constructor(client: RedisClient, key: string, limit: number, permits: number, options?: PeerLockOptions) {
    super(client, key, limit, options);
    this._permits = required('permits', permits, 'number');
  }

  protected override get _members(): readonly string[] {
    return Array.from({ length: this._permits }, (_, n) => `${this._identifier}_${n}`);
  }
}

/**
 * A lock of one holder on a majority of independent servers. Its key there is `mutex:<key>`.
 *
 * @example
 * ```ts
 * import { RedlockMutex } from 'redis-exp-lock/redis-semaphore';
 *
 * const lock = new RedlockMutex([client, client2, client3], 'bankAccount', { acquireTimeout: 5000 });
 * await lock.acquire();
 * await work().finally(() => lock.release());
 * ```
 */
export class RedlockMutex extends PeerLock {
  protected _kind = 'redlock-mutex';
  protected _key: string;
  protected _clients: RedisClient[];

  /**
   * Makes an object that holds nothing yet.
   *
   * @throws {Error} no clients or no key; `ERR_LOCK_OPTION` for an impossible key.
   */
  constructor(clients: RedisClient[], key: string, options?: PeerLockOptions) {
    super(clients, options);
    if (!clients || !Array.isArray(clients)) throw new Error('"clients" array is required');
    this._key = mutexKey(key);
    this._clients = clients;
  }

  /** @internal */
  protected get _store(): Store {
    return this.#nodes[0]!;
  }

  /** Nodes that lost it get it again, and count from the next refresh on. Without a majority it is released everywhere. */
  protected async _refresh(): Promise<boolean> {
    const lost: Node[] = [];
    const isExtended = await this.#byMajority(async (node) => {
      // A node that is silent is not asked twice: the next refresh of the others must not come too late.
      const { outcome } = await node.extend(this._extendRequest(node, this.#timeoutMs(1 / 4)));
      if (outcome !== 'extended') lost.push(node);
      return outcome === 'extended';
    });
    if (!isExtended) {
      await this._release();
      return false;
    }
    await Promise.allSettled(lost.map((node) => node.acquire(this.#requestTo(node))));
    return true;
  }

  /** @internal */
  protected _isOurs(): Promise<boolean> {
    return this.#byMajority(async (node) => {
      const { owned } = await node.inspect(this._keysAt(node), this.#timeoutMs(), this._identifier);
      return owned === true;
    });
  }

  /** @internal */
  protected async _request(): Promise<PeerGrant | false> {
    const sent = now(this._store.clock);
    const fences = new Map<Node, number>();
    const isGranted = await this.#byMajority(async (node) => {
      const reply = await node.acquire(this.#requestTo(node)).catch((error) => this._failed(error));
      if (reply?.granted) fences.set(node, reply.fence);
      return reply?.granted === true;
    });
    const fence = Math.max(0, ...fences.values());
    const isAgreed = isGranted && (await this.#agree(fences, fence));
    const tookMs = now(this._store.clock).monoMs - sent.monoMs;
    if (isAgreed && tookMs < trustedMs(this._acquireOptions.lockTimeout)) return { fence, sent };
    await this._release();
    return false;
  }

  protected async _release(): Promise<void> {
    await Promise.allSettled(this.#nodes.map((node) => node.release(this.#requestTo(node))));
  }

  get #nodes(): Node[] {
    return this._clients.map(redisStore);
  }

  /** The longest wait for a silent node, far below the lifetime. A refresh waits longer: giving up too early loses the lock. */
  #timeoutMs(share = 1 / 8): number {
    return Math.min(commandTimeoutMs, Math.max(10, Math.floor(this._acquireOptions.lockTimeout * share)));
  }

  #requestTo(node: Node): AcquireRequest {
    return this._requestTo(node, this.#timeoutMs());
  }

  /** Resolves with true if `each` does so for a majority of all nodes. A node that gives no usable reply is none of them. */
  async #byMajority(each: (node: Node) => Promise<boolean>, asked: Iterable<Node> = this.#nodes): Promise<boolean> {
    const answers = await Promise.allSettled(Array.from(asked, each));
    const agreeing = answers.filter((answer) => answer.status === 'fulfilled' && answer.value);
    return agreeing.length > this._clients.length / 2;
  }

  /** Makes a majority of the nodes mint only larger fences than ours from now on. */
  #agree(fences: ReadonlyMap<Node, number>, fence: number): Promise<boolean> {
    return this.#byMajority(async (node) => {
      return fences.get(node)! >= fence || node.raise({ ...this.#requestTo(node), fence });
    }, fences.keys());
  }
}

const unsound =
  'counting permits by majorities is unsound: with 3 nodes and a limit of 2, three holders can have two nodes each. ' +
  'Use a Semaphore or MultiSemaphore on one Redis, or as many RedlockMutexes as there are permits';

/** Not to be had: see the message that its constructor throws. */
export class RedlockSemaphore {
  /**
   * Throws.
   *
   * @throws {Error} always: why, and what to use instead.
   */
  constructor(..._: unknown[]) {
    throw new Error(`${new.target.name}: ${unsound}`);
  }
}

/** Not to be had: see the message that its constructor throws. */
export class RedlockMultiSemaphore extends RedlockSemaphore {}

function mutexKey(key: string): string {
  return peerKey(`mutex:${required('key', key, 'string')}`, '');
}

/** Returns an argument after redis-semaphore's own check. */
function required<T>(name: string, value: T, type: 'string' | 'number'): T {
  if (!value) throw new Error(`"${name}" is required`);
  if (typeof value !== type) throw new Error(`"${name}" must be a ${type}`);
  return value;
}
