// Waiting for a key that several may hold: each waiter has its own entry in Redis's queue, with what decides over its grant (its
// kind, how much it wants). Nothing is granted there: a waiter that can be admitted is woken, and its next attempt is granted.
// So a wake-up that is lost costs a delay and nothing else: a waiter that hears nothing polls, less often the further back it is.
//
// A waiter that cannot be woken is queued as well: it says how long it will be silent, and its entry has expired after that.
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

/** A waiter that polls may be late by so much, and by as much again as it pauses, before its entry has expired. */
const latenessMs = 100;

export class SharedWaiter {
  /** How the key is to be held. */
  readonly mode: Mode;
  /** Whether its entry may be in the queue. */
  isQueued = false;
  /** The key was busy while it was queued. */
  hasWaited = false;
  /** Woken while an attempt was under way, which may have been answered before. */
  wasWoken = false;
  #subscription: WakeUpSubscription | undefined;
  #ticket = 0;
  #before = 0;
  #leftMs = 0;

  constructor(mode: Mode) {
    this.mode = mode;
  }

  /** Whether it is woken; otherwise it polls. */
  get isSubscribed(): boolean {
    return this.#subscription !== undefined;
  }

  /** From now on it is woken. */
  subscribe(wakeUps: WakeUps, key: string, wake: Wake): void {
    // Of what a writer releases, a reader takes next to nothing, and a writer all.
    const { kind, permits } = this.mode;
    const takes = kind === 'counted' ? permits : kind === 'exclusive' ? Number.POSITIVE_INFINITY : 0;
    this.#subscription ??= wakeUps.subscribe(key, takes, wake);
  }

  /** Where it is queued if its attempt is in vain; next after `pauseMs`, of a waiter that polls. */
  place(pauseMs: number | undefined): QueueEntry | undefined {
    const ticket = this.#queuedWith;
    if (this.#subscription !== undefined) {
      const { channel, id } = this.#subscription;
      return this.#queued({ channel, id, ticket });
    }
    // One that is to be woken makes sure first that it would hear.
    if (pauseMs === undefined) return undefined;
    return this.#queued({ channel: noChannel, id: '0', ticket, silenceMs: Math.ceil(2 * pauseMs + latenessMs) });
  }

  busy({ leftMs, position }: AcquireReply & { granted: false }): void {
    this.hasWaited ||= this.isSubscribed;
    this.#leftMs = leftMs;
    this.#ticket = position?.ticket ?? this.#ticket;
    this.#before = position?.before ?? 0;
  }

  /** Ms after which it polls although it was not woken, at least `minMs`. */
  pollAfterMs(minMs: number): number {
    if (this.wasWoken) return 0;
    const everyMs = pollEveryMs(this.#before) * (0.8 + 0.2 * Math.random());
    return Math.max(this.#leftMs > 0 ? Math.min(this.#leftMs + 1 + this.#before, everyMs) : everyMs, minMs);
  }

  leave(): void {
    this.#subscription?.leave();
    this.#subscription = undefined;
  }

  /** -1: perhaps, but no answer came; 0: it was not queued yet. */
  get #queuedWith(): number {
    return this.isQueued ? this.#ticket || -1 : 0;
  }

  #queued(queueAs: QueueEntry): QueueEntry {
    this.isQueued = true;
    this.wasWoken = false;
    return queueAs;
  }
}

/** Where grants to such waiters come from: on a release, those of this process that may be next are woken in the same command. */
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
