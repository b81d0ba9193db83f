// The attempts that one caller makes by itself, and the pauses between them.
//
// They keep one token for as long as no release for it was sent: an attempt whose reply was lost is simply made again, finds its
// own token, and gets the same grant. Once a release was sent for the token it is never used again: where an attempt was given
// up whose outcome is unknown, and where a grant came too late to be of use, the token is abandoned, and what follows uses a
// new one.
import { forKey, LockBackendError } from '../core/errors';
import type { Key } from '../core/keys';
import type { Settings } from '../core/options';
import { newToken } from '../core/token';
import {
  type AcquireReply,
  type AcquireRequest,
  clockOf,
  type Mode,
  type QueueEntry,
  type ReleaseRequest,
  type Slot,
  type Slots,
  type Store,
} from '../store/contract';
import { pauses } from './backoff';

/** What the attempts are for. */
export interface AttemptSpec {
  readonly key: Key;
  /** In Redis's words, prefix included. */
  readonly keys: Key;
  readonly settings: Settings;
  readonly store: Store;
  /** How it is to be held, where several may hold the key. */
  readonly mode: Mode | undefined;
  /** Fences to mint. Default 1. */
  readonly fences?: number | undefined;
  /** For a job that runs once a slot. */
  readonly once?: Once | undefined;
  /** Of a change in place, which keeps the token of what is held: that is never released here. */
  readonly change: KeptToken | undefined;
}

export interface Once {
  readonly slots: Slots;
  /** The current slot, whether the lock was granted or not; and whether the slot's job has run. */
  onSlot(slot: Slot, isDone: boolean): void;
}

export interface KeptToken {
  readonly token: string;
  /** The change was given up, although this request may have been granted, or may still be. */
  revert(request: AcquireRequest, mayExecuteUntilMs: number): void;
}

/** What hears of the answers, unless it is settled. */
export interface Attempting {
  readonly isSettled: boolean;
  onReply(reply: AcquireReply, token: string): void;
  onFailure(error: unknown): void;
  giveUp(error: unknown): void;
}

export class Attempts {
  count = 0;
  /** Monotonic ms until which an attempt of this token, of unknown outcome, may still execute; 0: none. */
  mayExecuteUntilMs = 0;
  readonly #target: AttemptSpec;
  readonly #caller: Attempting;
  /** Made at the first attempt: a caller that is queued from the beginning makes none. */
  #request: AcquireRequest | undefined;
  #isUnderWay = false;
  /** Whether the attempt under way has left for the store's Redis. */
  #isSent = false;
  #nextPauseMs: (() => number) | undefined;
  #plannedPauseMs: number | undefined;
  /** What it is queued as on a quorum, where each attempt has a token of its own. */
  #queuedAs: string | undefined;
  /** What the token is queued with; -1 where that is not known. */
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
   * @param place   Where it is queued if it is in vain, for a key that several may hold.
   * @param pauseMs Of a caller that polls: the pause that follows if it is in vain, for a queue beside it.
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
    if (store.acquireNow !== undefined && settings.signal === undefined) return this.#makeNow(request); // S18
    store
      .acquire(request)
      .then(
        (reply) => this.#onReply(reply, token),
        (error) => this.#onFailure(error),
      )
      .catch((error) => this.#broke(error));
  }

  /** The next pause, in ms; the same until it is made. */
  nextPauseMs(): number {
    this.#plannedPauseMs ??= this.#newPauseMs();
    return this.#plannedPauseMs;
  }

  #newPauseMs(): number {
    const { store, settings } = this.#target;
    // Those whose votes were split must not meet again after the same pause.
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

  /** The caller does not wait for the attempt under way any more, which may have executed, or may still. */
  giveUp(): void {
    if (this.#isUnderWay && this.#isSent) this.#mayExecute(); // H36c
  }

  /** Makes sure that nothing comes of the attempts that were made. What follows is another caller, to Redis. */
  abandon(): void {
    const { store, change } = this.#target;
    if (this.#request === undefined) return;
    if (change !== undefined) change.revert(this.#request, this.mayExecuteUntilMs);
    else void store.abandon(this.#releaseRequest(this.#request.token), this.mayExecuteUntilMs);
    if (this.#queuedAs !== undefined) void store.abandon(this.#releaseRequest(this.#queuedAs), this.mayExecuteUntilMs); // H62g
    this.#queuedAs = undefined;
    this.mayExecuteUntilMs = 0;
    this.#ticket = -1;
    this.#request = undefined;
  }

  /** All attempts were answered, and none follows before long: the token is not kept for it. */
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
      reply = this.#target.store.acquireNow!(request);
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
    // Abandoned, and granted after all. Its release is on the way; this one does not wait until it can execute no more.
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

  /** An exception while an attempt was made, or while its caller heard of it: whatever was granted is abandoned. */
  #broke(error: unknown): void {
    if (this.#caller.isSettled) return;
    this.#mayExecute();
    this.#caller.giveUp(error);
  }

  #mayExecute(): void {
    const { store, settings } = this.#target;
    this.mayExecuteUntilMs = clockOf(store).nowMs() + settings.commandTimeoutMs;
  }

  #releaseRequest(token: string): ReleaseRequest {
    const { keys, mode, settings } = this.#target;
    const { commandTimeoutMs } = settings;
    if (mode === undefined) return { keys, token, commandTimeoutMs };
    return { keys, token, commandTimeoutMs, ticket: this.#ticket, held: { mode, fence: -1 } };
  }
}
