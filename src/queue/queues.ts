// The queues of one store, each with what it needs of its surroundings: clocks, timers, and the store, which it reaches through
// here. An entry that was given up is remembered until it can be granted no more: should it be granted all the same, it is
// released at once.
import { noLock, warn, warningsWanted } from '../core/events';
import { newNonce, newToken } from '../core/token';
import { loseFreed, type Scope } from '../hold/scope';
import {
  type AcquireReply,
  type AcquireRequest,
  clockOf,
  type GrantSource,
  type Holder,
  type Moment,
  now,
  type ReleaseReply,
  type ReleaseRequest,
  type Store,
  yieldMs,
} from '../store/contract';
import { pollEveryMs } from '../store/protocol';
import {
  type OwnEntry,
  Queue,
  type QueueKey,
  type QueuePort,
  type ReleaseAndRequest,
  type ReplyCallbacks,
  type Waiter,
  type WakeUp,
} from './queue';
import { type Alarm, SharedTimers } from './shared-timers';
import { SharedGrants } from './shared-waiter';
import { WakeUps } from './wake-ups';

/** All queues of a process at rest make no more than so many requests in a second, until each makes one in `maxPollMs`. */
const maxRequestsPerSecond = 1250;
/**
 * Its entries expire after twice as long without a request, but after 10 s at most: Redis accepts no deadline that is further away by its
 * clock, which may be set. So there is time for one request that is lost to be made again before they do.
 */
const maxPollMs = 8000;

const queuesOfStores = new WeakMap<Store, Queues>(); // H75c
/** Stores of which it was said that they have no wake-ups. */
const warned = new WeakSet<Store>();

/** The queues of a store, joined by the scope. Undefined for a store without wake-ups: its waiters poll. */
export function queuesOf(scope: Scope, store: Store): Queues | undefined {
  if (store.listen === undefined) {
    if (warningsWanted() && !warned.has(store)) {
      warned.add(store);
      const message = 'waiting polls: this client (a pool, GLIDE) has no messages to give';
      warn({ code: 'no-wake-ups', message, ...noLock(store.kind) });
    }
    return undefined;
  }
  let queues = queuesOfStores.get(store);
  if (queues === undefined) {
    queues = new Queues(store, store.listen);
    queuesOfStores.set(store, queues);
  }
  if (!scope.joined.has(queues.wakeUps)) {
    scope.joined.add(queues.wakeUps);
    queues.wakeUps.join();
  }
  return queues;
}

export class Queues implements QueuePort {
  readonly wakeUps: WakeUps;
  /** Where grants of keys that several may hold come from. */
  readonly shared: GrantSource;
  readonly #store: Store;
  readonly #timers: SharedTimers;
  readonly #queues = new Map<string, Queue>();
  /** The last queue used; skips building the map key. */
  #last: Queue | undefined;
  /** Queues whose entries are on their way, or in Redis's queue. */
  readonly #entries = new Map<string, Queue>();
  /** Entries that were given up, with what releases them. */
  readonly #abandoned = new Map<string, ReleaseRequest>();

  constructor(store: Store, listen: NonNullable<Store['listen']>) {
    this.#store = store;
    this.#timers = new SharedTimers(clockOf(store));
    this.wakeUps = new WakeUps(listen, store.listensAlone === true, {
      wake: (id, key, wakeUp) => this.#wake(id, key, wakeUp),
      freed: (key, hash) => loseFreed(store, key, hash),
      gap: () => {
        for (const queue of this.#queues.values()) queue.gap();
      },
    });
    this.shared = new SharedGrants(store, this.wakeUps);
  }

  queue(key: QueueKey): Queue {
    if (this.#last !== undefined && isSame(this.#last.key, key)) return this.#last; // S17
    const name = nameOf(key);
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = new Queue(key, this);
      this.#queues.set(name, queue);
    }
    this.#last = queue;
    return queue;
  }

  empty(queue: Queue): void {
    const name = nameOf(queue.key);
    if (this.#queues.get(name) === queue) this.#queues.delete(name);
    if (this.#last === queue) this.#last = undefined;
  }

  nowMs(): number {
    return clockOf(this.#store).nowMs();
  }

  now(): Moment {
    return now(clockOf(this.#store));
  }

  random(): number {
    return Math.random();
  }

  setTimer(work: () => void, ms: number): Alarm {
    return this.#timers.set(work, ms);
  }

  clearTimer(timer: unknown): void {
    this.#timers.clear(timer as Alarm);
  }

  get minPollMs(): number {
    return Math.min((this.#entries.size * 1000) / maxRequestsPerSecond, maxPollMs);
  }

  newEntry(owner: string | undefined): OwnEntry {
    const id = this.wakeUps.newId();
    return { token: newToken(owner), id, nonce: '', answered: undefined, ticket: 0, mayExecuteUntilMs: 0, fences: 0 };
  }

  newNonce(): string {
    return newNonce();
  }

  request(
    queue: Queue,
    entry: OwnEntry,
    commandTimeoutMs: number,
    { resolve, reject }: ReplyCallbacks<AcquireReply>,
  ): void {
    this.#store.acquire(this.#requestOf(queue, entry, commandTimeoutMs)).then(resolve, reject);
  }

  release(held: Holder, { resolve, reject }: ReplyCallbacks<ReleaseReply>): void {
    this.#store.release(held.releaseRequest()).then(resolve, reject);
  }

  releaseAndRequest(
    queue: Queue,
    token: string,
    entry: OwnEntry,
    waiter: Waiter,
    answer: ReplyCallbacks<ReleaseAndRequest>,
  ): void {
    const { commandTimeoutMs, retryTimeoutMs } = waiter;
    const release = { keys: queue.key.key, token, commandTimeoutMs, yieldMs: yieldMs(retryTimeoutMs) };
    const request = this.#requestOf(queue, entry, commandTimeoutMs);
    this.#store
      .releaseAndAcquire(release, request)
      .then(([result, next]) => answer.resolve({ result, next }), answer.reject);
  }

  granted(entry: OwnEntry): void {
    this.#entries.delete(entry.id);
  }

  abandon({ key }: Queue, { token, id, ticket, mayExecuteUntilMs }: OwnEntry, commandTimeoutMs: number): void {
    const request = { keys: key.key, token, commandTimeoutMs, ticket: ticket || -1 };
    this.#entries.delete(id);
    this.#abandoned.set(id, request);
    void this.#store.abandon(request, mayExecuteUntilMs).then(() => this.#abandoned.delete(id));
  }

  #requestOf(queue: Queue, { token, id, nonce, ticket, fences }: OwnEntry, commandTimeoutMs: number): AcquireRequest {
    const { key, lifetimeMs, fencing } = queue.key;
    this.#entries.set(id, queue);
    const silenceMs = this.minPollMs > pollEveryMs(0) ? Math.ceil(2 * this.minPollMs) : 0;
    return {
      keys: key,
      token,
      lifetimeMs,
      fencing,
      fences,
      minReplicas: 0,
      commandTimeoutMs,
      // What was given up before it was sent has been abandoned, and its release is behind it in the same tick.
      begin: () => !this.#abandoned.has(id),
      queueAs: { channel: this.wakeUps.channel, id: `${id}.${nonce}`, ticket, silenceMs },
    };
  }

  #wake(id: string, key: string, wakeUp: WakeUp): void {
    const queue = this.#entries.get(id);
    if (queue?.key.key === key && queue.wake(id, wakeUp)) return;
    const request = this.#abandoned.get(id);
    if (request !== undefined) this.#store.release(request).catch(() => {}); // H83g
  }
}

function isSame(one: QueueKey, other: QueueKey): boolean {
  const { key, lifetimeMs, fencing, owner } = other;
  return one.key === key && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner; // H75d
}

function nameOf({ key, lifetimeMs, fencing, owner }: QueueKey): string {
  return `${lifetimeMs} ${fencing} ${owner?.length} ${owner} ${key}`; // H75e
}
