// The attempts that one caller makes by itself, and the pauses between them.
//
// All attempts use one token until a release for that token is sent: an attempt whose reply was lost is simply made again, finds
// its own token, and gets the same grant. Once a release for the token was sent, the token is never used again. A token is
// abandoned if an attempt of unknown outcome was given up, or if a grant came too late. The next attempt then uses a new token.

import { clockOf } from '../core/clock';
import { forKey, LockBackendError } from '../core/errors';
import type { Key } from '../core/keys';
import type { Settings } from '../core/options';
import { newToken } from '../core/token';
import type { AcquireReply, AcquireRequest, Mode, QueueEntry, ReleaseRequest, Slot, Store } from '../store/contract';
import { LateRequest } from '../store/late-request';
import type { Slots } from '../store/slots';
import { pauses } from './backoff';

/** Everything that attempts need to know. */
export interface AttemptSpec {
  readonly key: Key;
  /** Full keys, prefix included. */
  readonly keys: Key;
  readonly settings: Settings;
  readonly store: Store;
  /** The mode of an RWLock or a Semaphore; undefined for a mutex. */
  readonly mode: Mode | undefined;
  /** Number of fences to mint. Default 1. */
  readonly fences?: number | undefined;
  /** Set for a job that runs once per slot. */
  readonly once?: Once | undefined;
  /** Set for a change in place, which keeps the token of the held lock. That token is never released here. */
  readonly change: KeptToken | undefined;
}

export interface Once {
  readonly slots: Slots;
  /** Receives the current slot, granted or not, and whether the slot's job has run. */
  onSlot(slot: Slot, isDone: boolean): void;
}

export interface KeptToken {
  readonly token: string;
  /** Undoes a change that was given up, although `request` may have been granted, or may still be. */
  revert(request: AcquireRequest, late: LateRequest | undefined): void;
}

/** Receives replies until it settles. */
export interface Attempting {
  readonly isSettled: boolean;
  onReply(reply: AcquireReply, token: string): void;
  onFailure(error: unknown): void;
  giveUp(error: unknown): void;
}

export class Attempts {
  count = 0;
  /** An attempt with this token whose outcome is unknown. */
  late: LateRequest | undefined;
  readonly #target: AttemptSpec;
  readonly #caller: Attempting;
  /** The request of all attempts with one token; made at the first attempt. */
  #request: AcquireRequest | undefined;
  #isUnderWay = false;
  /** True once the attempt under way was sent. */
  #isSent = false;
  #nextPauseMs: (() => number) | undefined;
  #plannedPauseMs: number | undefined;
  /** The token of the queue entry on a quorum, where each attempt has its own token. */
  #queuedAs: string | undefined;
  /** The ticket of the token's queue entry; -1 if unknown. */
  #ticket = -1;
  #pause: NodeJS.Timeout | undefined;

  constructor(target: AttemptSpec, caller: Attempting) {
    this.#target = target;
    this.#caller = caller;
  }

  get isPausing(): boolean {
    return this.#pause !== undefined;
  }

  /**
   * Makes one attempt; the caller hears of the reply.
   *
   * @param queueAs The queue entry of this caller if the key is busy. Not for a mutex.
   * @param pauseMs The pause of a polling caller if the key is busy, for a queue on the same key.
   */
  make(queueAs: QueueEntry | undefined, pauseMs: number | undefined): void {
    try {
      this.#make(queueAs, pauseMs);
    } catch (error) {
      this.#broke(error);
    }
  }

  #make(queueAs: QueueEntry | undefined, pauseMs: number | undefined): void {
    const { store, settings } = this.#target;
    this.count += 1;
    this.#isUnderWay = true;
    this.#isSent = false;
    if (store.isQuorum) this.#request = undefined; // H2 H62f
    this.#request ??= this.#newRequest();
    const { token } = this.#request;
    const isPlain = queueAs === undefined && pauseMs === undefined;
    const request = isPlain ? this.#request : { ...this.#request, queueAs: queueAs && this.#asSame(queueAs), pauseMs };
    // A caller with a signal may give up before the end of the turn.
    if (store.synchronous !== undefined && settings.signal === undefined) return this.#makeNow(request); // S18
    store
      .acquire(request)
      .then(
        (reply) => this.#onReply(reply, token),
        (error) => this.#onFailure(error),
      )
      .catch((error) => this.#broke(error));
  }

  /** The next pause in ms; the same value until `pause` is called. */
  nextPauseMs(): number {
    this.#plannedPauseMs ??= this.#newPauseMs();
    return this.#plannedPauseMs;
  }

  #newPauseMs(): number {
    const { store, settings } = this.#target;
    // Callers whose votes were split must not meet again after equal pauses.
    this.#nextPauseMs ??= pauses(store.isQuorum ? { ...settings, jitter: 1 } : settings); // H62e
    return this.#nextPauseMs();
  }

  /** Calls `attempt` after a pause. */
  pause(pauseMs: number, attempt: () => void): void {
    this.#plannedPauseMs = undefined;
    this.#pause = clockOf(this.#target.store).later(() => {
      this.#pause = undefined;
      attempt();
    }, pauseMs);
  }

  endPause(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }

  /** The caller no longer waits for the attempt under way. That attempt may have executed, or may still. */
  giveUp(): void {
    if (this.#isUnderWay && this.#isSent) this.#mayExecute(); // H36c
  }

  /** Undoes the attempts so far, granted or not. To Redis, the next attempt is another caller. */
  abandon(): void {
    const { store, change } = this.#target;
    if (this.#request === undefined) return;
    if (change !== undefined) change.revert(this.#request, this.late);
    else void store.abandon(this.#releaseRequest(this.#request.token), this.late);
    if (this.#queuedAs !== undefined) void store.abandon(this.#releaseRequest(this.#queuedAs), this.late); // H62g
    this.#queuedAs = undefined;
    this.late = undefined;
    this.#ticket = -1;
    this.#request = undefined;
  }

  /** Drops the token. Called when all attempts were answered and no attempt follows soon. */
  forget(): void {
    this.#request = undefined;
  }

  #asSame(queueAs: QueueEntry): QueueEntry {
    const { store, change, settings } = this.#target;
    if (!store.isQuorum || change !== undefined) return queueAs;
    this.#queuedAs ??= newToken(settings.owner);
    return { ...queueAs, token: this.#queuedAs };
  }

  #newRequest(): AcquireRequest {
    const { keys, mode, change, settings, once, fences } = this.#target;
    const { owner, lifetimeMs, fencing, minReplicas, commandTimeoutMs } = settings;
    const begin = (): boolean => {
      this.#isSent = true;
      return !this.#caller.isSettled; // H8c
    };
    const token = change?.token ?? newToken(owner); // H26 H41 H44
    const slots = once?.slots;
    return { keys, token, lifetimeMs, fencing, fences, minReplicas, commandTimeoutMs, begin, mode, slots };
  }

  #makeNow(request: AcquireRequest): void {
    let reply: AcquireReply;
    try {
      reply = this.#target.store.synchronous!.acquire(request);
    } catch (error) {
      return this.#onFailure(error);
    }
    this.#onReply(reply, request.token);
  }

  #onReply(reply: AcquireReply, token: string): void {
    this.#isUnderWay = false;
    if (reply.slot !== undefined) this.#target.once?.onSlot(reply.slot, !reply.granted && reply.isDone === true);
    if (!reply.granted) this.#ticket = reply.position?.ticket ?? this.#ticket;
    if (!this.#caller.isSettled) return this.#caller.onReply(reply, token);
    // Abandoned and yet granted: released at once, not only when the attempt can no longer execute.
    if (!reply.granted || this.#target.change !== undefined) return;
    this.#target.store.release(this.#releaseRequest(token)).catch(() => {}); // H20c H36d
  }

  #onFailure(error: unknown): void {
    this.#isUnderWay = false;
    if (this.#caller.isSettled) return;
    forKey(error, this.#target.key);
    if (error instanceof LockBackendError && error.unknown) this.#mayExecute();
    this.#caller.onFailure(error);
  }

  /** Gives up after an exception in an attempt or in its caller's handler. A possible grant is abandoned. */
  #broke(error: unknown): void {
    if (this.#caller.isSettled) return;
    this.#mayExecute();
    this.#caller.giveUp(error);
  }

  #mayExecute(): void {
    const { store, settings } = this.#target;
    this.late = new LateRequest(clockOf(store).nowMs(), settings.commandTimeoutMs);
  }

  #releaseRequest(token: string): ReleaseRequest {
    const { keys, mode, settings } = this.#target;
    const { commandTimeoutMs } = settings;
    if (mode === undefined) return { keys, token, commandTimeoutMs };
    return { keys, token, commandTimeoutMs, ticket: this.#ticket, held: { mode, fence: -1 } };
  }
}
