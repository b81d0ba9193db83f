// The queues of one store, and the clock, timers and commands that they share. An abandoned entry is remembered until it can no
// longer be granted: a grant that a message reports until then is released at once.

import { type Alarm, clearAlarm } from '../core/clock';
import { noLock, warn, warningsWanted } from '../core/events';
import { perObject } from '../core/per-object';
import { newNonce, newToken } from '../core/token';
import { yieldMs } from '../hold/held-lock';
import { loseFreed, type Scope } from '../hold/scope';
import {
  type AcquireReply,
  type AcquireRequest,
  type Channels,
  type Clock,
  type GrantSource,
  type Holder,
  type ReleaseReply,
  type Store,
  unknownTicket,
} from '../store/contract';
import { silenceFor } from './policy';
import { mayShare, OwnEntry, Queue, type QueuePort, type WaitTerms, type WakeUp } from './queue';
import { WakeUps } from './wake-ups';

/** The maximum of requests per second by all queues of a process at rest, as long as each pauses for at most `maxPollMs`. */
const maxRequestsPerSecond = 1250;
/**
 * The longest pause between two requests of a queue at rest. An entry expires after twice its pause without a request, but after 10 s at
 * most: Redis's clock may be set, so Redis accepts no later deadline. The difference leaves time to repeat one lost request.
 */
const maxPollMs = 8000;

const queuesOfStore = perObject((store: Store) => new Queues(store, store.channels!)); // H75c
/** The stores without wake-ups that were warned of. */
const warned = new WeakSet<Store>();

/** The queues of a store, joined by the scope. Undefined for a store without wake-ups: its waiters poll. */
export function queuesOf(scope: Scope, store: Store): Queues | undefined {
  if (store.channels === undefined) {
    if (warningsWanted() && !warned.has(store)) {
      warned.add(store);
      const message = 'waiting polls: this client (a pool, GLIDE) has no messages to give';
      warn({ code: 'no-wake-ups', message, ...noLock(store.kind) });
    }
    return undefined;
  }
  const queues = queuesOfStore(store);
  if (scope.joined.add(queues.wakeUps)) queues.wakeUps.join();
  return queues;
}

/** The source of grants for keys with several holders. A release wakes the waiters of this process that may be next. */
export const sharedSourceOf = perObject((store: Store): GrantSource => {
  const release = (held: Holder): Promise<ReleaseReply> => {
    const request = held.releaseRequest();
    const { kind, permits } = request.held!.mode;
    const reply = store.release(request);
    if (kind !== 'shared' && store.channels) queuesOfStore(store).wakeUps.released(request.keys as string, permits);
    return reply;
  };
  return { release, lost() {} };
});

export class Queues implements QueuePort {
  readonly wakeUps: WakeUps;
  readonly clock: Clock;
  readonly random = Math.random;
  readonly newNonce = newNonce;
  readonly clearTimer = clearAlarm as (timer: unknown) => void;
  readonly #store: Store;
  readonly #queues = new Map<string, Queue[]>();

  constructor(store: Store, channels: Channels) {
    this.#store = store;
    this.clock = store.clock;
    this.wakeUps = new WakeUps(channels, (key, hash) => loseFreed(store, key, hash));
  }

  queue(terms: WaitTerms): Queue {
    const others = this.#queues.get(terms.key) ?? [];
    const same = others.find((each) => mayShare(each.terms, terms));
    if (same !== undefined) return same;
    const queue = new Queue(terms, this);
    this.#queues.set(terms.key, [...others, queue]);
    return queue;
  }

  empty(queue: Queue): void {
    const { key } = queue.terms;
    const others = this.#queues.get(key)?.filter((each) => each !== queue) ?? [];
    if (others.length > 0) this.#queues.set(key, others);
    else this.#queues.delete(key);
  }

  /** Requests that are not due soon are made up to 50 ms early, so that those of thousands of queues leave in full batches. */
  setTimer(work: () => void, ms: number): Alarm {
    return this.clock.setAlarm(work, ms, ms < 250 ? 0 : 50);
  }

  get minPollMs(): number {
    const { entries, subscribers } = this.wakeUps;
    return Math.min(((entries.size + subscribers) * 1000) / maxRequestsPerSecond, maxPollMs);
  }

  newEntry(queue: Queue): OwnEntry {
    return new OwnEntry(queue, newToken(queue.terms.owner), this.wakeUps.newId());
  }

  request(entry: OwnEntry): Promise<AcquireReply> {
    return this.#store.acquire(this.#requestOf(entry));
  }

  release(held: Holder): Promise<ReleaseReply> {
    return this.#store.release(held.releaseRequest());
  }

  releaseAndRequest(held: Holder, entry: OwnEntry): Promise<[ReleaseReply, AcquireReply]> {
    const { commandTimeoutMs, retryTimeoutMs } = entry.head!;
    const { token, checkedMs } = held.releaseRequest();
    const release = { keys: entry.key, token, commandTimeoutMs, yieldMs: yieldMs(retryTimeoutMs), checkedMs };
    return this.#store.releaseAndAcquire!(release, this.#requestOf(entry));
  }

  granted(entry: OwnEntry): void {
    this.wakeUps.entries.delete(entry.id);
  }

  abandon(entry: OwnEntry): void {
    const { key, token, id, ticket, late } = entry;
    const { commandTimeoutMs } = entry.head!;
    const { entries } = this.wakeUps;
    const request = { keys: key, token, commandTimeoutMs, ticket: ticket || unknownTicket };
    const wake = ({ fence }: WakeUp): unknown => fence !== undefined && this.#store.release(request).catch(() => {});
    entries.set(id, { key, wake }); // H83g
    void this.#store.abandon(request, late).then(() => entries.delete(id));
  }

  #requestOf(entry: OwnEntry): AcquireRequest {
    const { token, id, nonce, ticket, sinceMs, minPollMs } = entry;
    const { key, lifetimeMs, fencing } = entry.queue.terms;
    const { commandTimeoutMs } = entry.head!;
    const { channel, entries } = this.wakeUps;
    entries.set(id, entry);
    // An entry that was abandoned before this request was sent needs no request: its release follows in the same tick.
    const begin = (): boolean => entries.get(id) === entry;
    const fences = fencing ? entry.fences : 0;
    const queueAs = { channel, id: `${id}.${nonce}`, ticket, sinceMs, silenceMs: silenceFor(minPollMs) };
    return { keys: key, token, lifetimeMs, fences, minReplicas: 0, commandTimeoutMs, begin, queueAs };
  }
}
