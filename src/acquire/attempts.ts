// The attempts that one caller makes by itself, and the pauses between them. All attempts use one token: an attempt whose reply was
// lost is made again, finds its own token, and gets the same grant. A token whose attempt was given up with an unknown outcome, or
// granted too late, is abandoned: it is released and never used again.

import { type Alarm, clearAlarm } from '../core/clock';
import { forKey, LockBackendError } from '../core/errors';
import type { Settings } from '../core/options';
import { newToken } from '../core/token';
import {
  type AcquireReply,
  type AcquireRequest,
  type QueueEntry,
  type ReleaseRequest,
  unknownTicket,
} from '../store/contract';
import { LateRequest } from '../store/late-request';
import type { AcquireSpec } from './spec';

const defaultLongestPauseMs = 500;

/** Receives replies until it settles. */
export interface Attempting {
  readonly isSettled: boolean;
  onReply(reply: AcquireReply, token: string): void;
  onFailure(error: unknown): void;
}

export class Attempts {
  count = 0;
  /** An attempt with this token whose outcome is unknown. */
  late: LateRequest | undefined;
  /** The ticket of the token's queue entry; 0: never queued; `unknownTicket`: perhaps queued, because no answer came. */
  ticket = 0;
  readonly #spec: AcquireSpec;
  readonly #caller: Attempting;
  /** The request of all attempts with one token. */
  #request: AcquireRequest | undefined;
  /** True while an attempt that was sent has no answer. */
  #isUnderWay = false;
  #nextPauseMs: (() => number) | undefined;
  #plannedPauseMs: number | undefined;
  /** The token of the queue entry on a quorum, where each attempt has its own token. */
  #queuedAs: string | undefined;
  #pause: Alarm | undefined;

  constructor(spec: AcquireSpec, caller: Attempting) {
    this.#spec = spec;
    this.#caller = caller;
  }

  get isPausing(): boolean {
    return this.#pause !== undefined;
  }

  /** Makes one attempt. If the key is busy, queues the entry `queueAs` (not for a mutex), or tells a queue on the key the caller's pause. */
  make(queueAs: QueueEntry | undefined, pauseMs: number | undefined): void {
    try {
      this.#make(queueAs, pauseMs);
    } catch (error) {
      this.#onFailure(error, true);
    }
  }

  #make(queueAs: QueueEntry | undefined, pauseMs: number | undefined): void {
    const { store, settings, mode } = this.#spec;
    this.count += 1;
    if (store.isQuorum) this.#request = undefined; // H2 H62f
    this.#request ??= this.#newRequest();
    if (queueAs !== undefined) this.ticket ||= unknownTicket;
    const { token } = this.#request;
    const isPlain = queueAs === undefined && pauseMs === undefined;
    const request = isPlain ? this.#request : { ...this.#request, queueAs: queueAs && this.#asSame(queueAs), pauseMs };
    // A caller with a signal may give up before the end of the turn, and all readers that come in a turn share a member.
    const mayGrantNow = mode === undefined && settings.signal === undefined;
    if (store.synchronous !== undefined && mayGrantNow) return this.#makeNow(request); // S18
    store
      .acquire(request)
      .then(
        (reply) => this.#onReply(reply, token),
        (error) => this.#onFailure(error),
      )
      .catch((error) => this.#onFailure(error, true));
  }

  /** The next pause in ms; the same value until `pause` is called. */
  nextPauseMs(): number {
    const { store, settings } = this.#spec;
    // Callers whose votes were split must not meet again after equal pauses.
    this.#nextPauseMs ??= pauses(store.isQuorum ? { ...settings, jitter: 1 } : settings); // H62e
    this.#plannedPauseMs ??= this.#nextPauseMs();
    return this.#plannedPauseMs;
  }

  pause(pauseMs: number, attempt: () => void): void {
    this.#plannedPauseMs = undefined;
    this.#pause = this.#spec.store.clock.setAlarm(() => {
      this.#pause = undefined;
      attempt();
    }, pauseMs);
  }

  endPause(): void {
    clearAlarm(this.#pause);
    this.#pause = undefined;
  }

  /** Undoes the attempts so far, granted or not. To Redis, the next attempt is another caller. */
  abandon(): void {
    const { store, change } = this.#spec;
    if (this.#request === undefined) return;
    if (change !== undefined) change.revert(this.#request, this.late);
    else void store.abandon(this.#releaseRequest(this.#request.token), this.late);
    if (this.#queuedAs !== undefined) void store.abandon(this.#releaseRequest(this.#queuedAs), this.late); // H62g
    this.#queuedAs = undefined;
    this.late = undefined;
    this.ticket = 0;
    this.#request = undefined;
  }

  /** Ends the use of the token, and undoes its attempts if one may still be granted or has left an entry in the queue. */
  drop(): void {
    if (this.#isUnderWay) this.#mayExecute(); // H8 H36c
    if (this.late !== undefined || this.ticket !== 0) return this.abandon(); // H43
    this.#request = undefined;
  }

  #asSame(queueAs: QueueEntry): QueueEntry {
    const { store, change, settings } = this.#spec;
    if (!store.isQuorum || change !== undefined) return queueAs;
    this.#queuedAs ??= newToken(settings.owner);
    return { ...queueAs, token: this.#queuedAs };
  }

  #newRequest(): AcquireRequest {
    const { keys, mode, change, settings, once } = this.#spec;
    const { owner, lifetimeMs, fencing, minReplicas, commandTimeoutMs } = settings;
    const begin = (): boolean => {
      this.#isUnderWay = true;
      return !this.#caller.isSettled; // H8c
    };
    const token = change?.token ?? newToken(owner); // H26 H41 H44
    const slots = once?.slots;
    const fences = fencing ? (this.#spec.fences ?? 1) : 0;
    return { keys, token, lifetimeMs, fences, minReplicas, commandTimeoutMs, begin, mode, slots };
  }

  #makeNow(request: AcquireRequest): void {
    let reply: AcquireReply;
    try {
      reply = this.#spec.store.synchronous!.acquire(request);
    } catch (error) {
      return this.#onFailure(error);
    }
    this.#onReply(reply, request.token);
  }

  #onReply(reply: AcquireReply, token: string): void {
    this.#isUnderWay = false;
    if (reply.slot !== undefined) this.#spec.once?.onSlot(reply.slot, !reply.granted && reply.isDone === true);
    if (!reply.granted && this.ticket !== 0) this.ticket = reply.position?.ticket ?? this.ticket;
    if (!this.#caller.isSettled) return this.#caller.onReply(reply, token);
    // Abandoned and yet granted: released at once, not only when the attempt can no longer execute.
    if (!reply.granted || this.#spec.change !== undefined) return;
    this.#spec.store.release(this.#releaseRequest(token)).catch(() => {}); // H20c H36d
  }

  /** After an exception in the attempt or in its caller's handler, too, the attempt may have been granted. */
  #onFailure(error: unknown, isUnknown = error instanceof LockBackendError && error.unknown): void {
    this.#isUnderWay = false;
    if (this.#caller.isSettled) return;
    forKey(error, this.#spec.key);
    if (isUnknown) this.#mayExecute();
    this.#caller.onFailure(error);
  }

  #mayExecute(): void {
    const { store, settings } = this.#spec;
    this.late = new LateRequest(store.clock.nowMs(), settings.commandTimeoutMs);
  }

  #releaseRequest(token: string): ReleaseRequest {
    const { keys, mode, settings } = this.#spec;
    const { commandTimeoutMs } = settings;
    if (mode === undefined) return { keys, token, commandTimeoutMs };
    return { keys, token, commandTimeoutMs, ticket: this.ticket || unknownTicket, held: { mode } };
  }
}

/** The pauses of one wait, in order; each call of the result is the next one, in ms. */
export function pauses(settings: Settings, random: () => number = Math.random): () => number {
  const { retryTimeoutMs, retryRatio, jitter } = settings;
  // An explicit first pause may exceed the default cap.
  const longestMs = settings.maxRetryTimeoutMs ?? Math.max(defaultLongestPauseMs, retryTimeoutMs);
  let nextMs = Math.min(retryTimeoutMs, longestMs);
  return () => {
    const pauseMs = nextMs;
    nextMs = Math.min(nextMs * retryRatio, longestMs);
    return pauseMs * (1 - jitter) + pauseMs * jitter * random();
  };
}
