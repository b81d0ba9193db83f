// Waiting for a key with several holders. Each waiter has its own entry in the Redis queue, with the kind of lock and the number of
// permits that decide its grant. Redis grants nothing to an entry: it wakes a waiter that can be admitted, and the waiter's next
// attempt is granted. So a lost wake-up costs only a delay: a waiter that is not woken polls, less often the further back it is.
//
// A waiter that cannot be woken is queued too. Its entry says how long the waiter will be silent, and expires after that time.
import {
  type AcquireReply,
  type GrantSource,
  type Holder,
  type Mode,
  noChannel,
  type QueueEntry,
  type ReleaseReply,
  type Store,
} from '../store/contract';
import { pollEveryMs } from '../store/protocol';
import type { Wake, WakeUpSubscription, WakeUps } from './wake-ups';

/** The lateness that a polling waiter is allowed, beside a second pause, before its entry expires. */
const latenessMs = 100;

export class SharedWaiter {
  readonly mode: Mode;
  /** Set when the waiter's entry may be in the queue. */
  isQueued = false;
  /** Set when the key was busy while the waiter was subscribed. */
  hasWaited = false;
  /** Set when a wake-up came while an attempt was in flight. Redis may have answered that attempt before the wake-up. */
  wasWoken = false;
  #subscription: WakeUpSubscription | undefined;
  #ticket = 0;
  #before = 0;
  #leftMs = 0;

  constructor(mode: Mode) {
    this.mode = mode;
  }

  /** Tells if the waiter is woken. Otherwise it polls. */
  get isSubscribed(): boolean {
    return this.#subscription !== undefined;
  }

  /** Has the waiter woken from now on. */
  subscribe(wakeUps: WakeUps, key: string, wake: Wake): void {
    // A reader takes nothing of what a writer releases: every other reader has room beside it. A writer takes everything.
    const { kind, permits } = this.mode;
    const takes = kind === 'counted' ? permits : kind === 'exclusive' ? Number.POSITIVE_INFINITY : 0;
    this.#subscription ??= wakeUps.subscribe(key, takes, wake);
  }

  /** The entry that queues the waiter if its attempt finds the key busy. A polling waiter attempts again after `pauseMs`. */
  place(pauseMs: number | undefined): QueueEntry | undefined {
    const ticket = this.#queuedWith;
    if (this.#subscription !== undefined) {
      const { channel, id } = this.#subscription;
      return this.#queued({ channel, id, ticket });
    }
    // A waiter that wants to be woken is queued only when it would receive the wake-up.
    if (pauseMs === undefined) return undefined;
    return this.#queued({ channel: noChannel, id: '0', ticket, silenceMs: Math.ceil(2 * pauseMs + latenessMs) });
  }

  busy({ leftMs, position }: AcquireReply & { granted: false }): void {
    this.hasWaited ||= this.isSubscribed;
    this.#leftMs = leftMs;
    this.#ticket = position?.ticket ?? this.#ticket;
    this.#before = position?.before ?? 0;
  }

  /** Ms after which the waiter polls without a wake-up, at least `minMs`. */
  pollAfterMs(minMs: number): number {
    if (this.wasWoken) return 0;
    const everyMs = pollEveryMs(this.#before) * (0.8 + 0.2 * Math.random());
    return Math.max(this.#leftMs > 0 ? Math.min(this.#leftMs + 1 + this.#before, everyMs) : everyMs, minMs);
  }

  leave(): void {
    this.#subscription?.leave();
    this.#subscription = undefined;
  }

  /** The ticket of the entry; -1 if the entry may be queued but no reply has come, 0 if it was never queued. */
  get #queuedWith(): number {
    return this.isQueued ? this.#ticket || -1 : 0;
  }

  #queued(queueAs: QueueEntry): QueueEntry {
    this.isQueued = true;
    this.wasWoken = false;
    return queueAs;
  }
}

/** The source of grants to these waiters. A release wakes the waiters of this process that may be next, in the same command. */
export class SharedGrants implements GrantSource {
  readonly #store: Store;
  readonly #wakeUps: WakeUps;

  constructor(store: Store, wakeUps: WakeUps) {
    this.#store = store;
    this.#wakeUps = wakeUps;
  }

  release(held: Holder): Promise<ReleaseReply> {
    const request = held.releaseRequest();
    const { kind, permits } = request.held!.mode;
    const reply = this.#store.release(request);
    if (kind !== 'shared') this.#wakeUps.released(request.keys as string, permits);
    return reply;
  }

  lost(): void {}
}
