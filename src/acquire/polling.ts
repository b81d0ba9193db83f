// Polling: attempts with pauses between them, until one is granted or the wait is over. Two strategies go on from it once the key was
// busy and wake-ups are open (queued.ts, entry.ts).

import { LockBackendError } from '../core/errors';
import { lockEvent, warn } from '../core/events';
import { describe } from '../core/keys';
import type { HeldLock } from '../hold/held-lock';
import { tooLate } from '../hold/validity';
import type { Fetch } from '../queue/group';
import type { Effort, Queue } from '../queue/queue';
import { type Queues, queuesOf } from '../queue/queues';
import type { AcquireReply, Grant } from '../store/contract';
import { type Attempting, Attempts } from './attempts';
import { timedOut, tooMany, triedInVain } from './refusals';
import { type AcquireSpec, isQueued } from './spec';

/** The caller of a strategy: an acquisition, or a group of callers that wait together. */
export interface PollingCaller {
  /** Ms until the end of the wait. */
  readonly leftMs: number;
  /** Receives the grant. `others` is the number of entries still queued for the key. */
  take(grant: Grant, others: number, by: Fetch): void;
  /** Receives the held lock after a change in place. */
  succeed?(held: HeldLock): void;
  /** Goes on in a queue, which makes the attempts from now on. */
  waitIn?(queue: Queue): void;
  /** Reports an attempt in vain: the key is busy, or (with an error) Redis could not be reached. The wait goes on. */
  troubled(error: LockBackendError | undefined): void;
  /** Reports the end of the wait. Nothing is held, and nothing is left behind. */
  failed(error: unknown, by: Fetch): void;
}

export abstract class Polling<Caller extends PollingCaller = PollingCaller> implements Attempting, Effort {
  isSettled = false;
  /** True once the caller waits in a queue. */
  wasQueued = false;
  hasWaited = false;
  protected readonly spec: AcquireSpec;
  protected readonly attempts: Attempts;
  protected readonly caller: Caller;
  /** The queues of the store; undefined if this wait may not be queued. */
  protected readonly queues: Queues | undefined;
  /** True once wake-ups could not be opened in time. */
  #isDeaf = false;
  /** Set when a wake-up came while an attempt was in flight. The store may have answered that attempt before the wake-up. */
  #wasWoken = false;
  /** The pause while the key is busy; undefined: the next one of a caller that polls. */
  protected busyPauseMs: number | undefined;

  constructor(spec: AcquireSpec, caller: Caller) {
    this.spec = spec;
    this.caller = caller;
    const mayQueue = isQueued(spec.settings) && typeof spec.keys === 'string';
    this.queues = mayQueue ? queuesOf(spec.scope, spec.store) : undefined;
    this.attempts = new Attempts(spec, this);
  }

  /** Waits with the queues from now on: their wake-ups are open. */
  protected abstract enqueue(): void;

  get count(): number {
    return this.attempts.count;
  }

  /** True in a pause, which ends no later than the wait. The last attempt follows it. */
  get isPausing(): boolean {
    return this.attempts.isPausing;
  }

  begin(): void {
    const wakeUps = this.queues?.wakeUps;
    // Other callers may wait for this key until wake-ups are open: this one waits behind them.
    if (wakeUps?.isOpen || wakeUps?.isAwaited(this.spec.keys as string)) this.enqueueWhenOpen();
    else this.beginAlone();
  }

  /** Begins if no other caller is known to wait. */
  protected beginAlone(): void {
    this.attempt();
  }

  /** An attempt under way is abandoned, so that a late grant is released. */
  giveUp(): void {
    this.stop();
    this.attempts.drop();
  }

  onReply(reply: AcquireReply, token: string): void {
    if (!reply.granted) return this.next(undefined);
    const { fence, sent, mode, others = 0 } = reply;
    const { key, store, settings } = this.spec;
    const error = tooLate(key, sent, settings.lifetimeMs, store.clock);
    if (error === undefined) {
      this.caller.take({ token, fence, sent, mode, late: this.attempts.late }, others, this);
      return this.stop();
    }
    this.attempts.abandon(); // H6c
    this.next(error);
  }

  onFailure(error: unknown): void {
    // H54c
    if (error instanceof LockBackendError && error.retryable) this.next(error);
    else this.fail(error);
  }

  /** Attempts at once unless an attempt is in flight, as a `Wake` does. */
  wake(isBehind = false): boolean {
    if (!this.isPausing) {
      this.#wasWoken ||= !isBehind;
      return false;
    }
    this.attempts.endPause();
    this.attempt();
    return true;
  }

  protected attempt(): void {
    this.#wasWoken = false;
    this.request();
  }

  protected request(): void {
    // Tells a queue on the same key how long this caller pauses. The first attempt does not: few callers make a second one.
    this.attempts.make(undefined, this.attempts.count > 0 ? this.pauseMs : undefined);
  }

  /** The pause that follows the attempt made now if the key is busy; undefined if the attempt is the last one, or the caller is queued. */
  protected get pauseMs(): number | undefined {
    const polls = !this.isLast && (this.#isDeaf || this.queues === undefined);
    return polls ? this.attempts.nextPauseMs() : undefined;
  }

  protected get isLast(): boolean {
    const { maxRetries, timeoutMs } = this.spec.settings;
    return timeoutMs === 0 || this.attempts.count >= maxRetries || this.caller.leftMs <= 0;
  }

  /** Goes on after an attempt in vain: is queued, or pauses. Fails if `maxRetries` or `timeout` is used up. */
  protected next(failure: LockBackendError | undefined): void {
    const { maxRetries, timeoutMs } = this.spec.settings;
    const { count } = this.attempts;
    if (timeoutMs === 0 || this.caller.leftMs <= 0) return this.fail(failure ?? timedOut(this.spec, this)); // H72b
    if (count > maxRetries) return this.fail(failure ?? (this.spec.isTry ? triedInVain : tooMany(this.spec, count))); // H72
    this.caller.troubled(failure);
    const mayQueue = failure === undefined && !this.wasQueued && this.queues !== undefined;
    const isDeaf = this.#isDeaf && !this.queues?.wakeUps.isOpen; // H27d
    if (mayQueue && !isDeaf) return this.enqueueWhenOpen();
    if (failure !== undefined) return this.#pauseAndAttempt();
    this.#pauseAndAttempt(this.#wasWoken ? 0 : this.busyPauseMs);
  }

  protected fail(error: unknown): void {
    this.giveUp();
    this.caller.failed(error, this);
  }

  protected stop(): void {
    this.isSettled = true;
    this.attempts.endPause();
  }

  /** Is queued once wake-ups are open. Polls if they cannot be opened or take too long. */
  protected enqueueWhenOpen(): void {
    const { keys, settings } = this.spec;
    const { wakeUps } = this.queues!;
    if (wakeUps.isOpen) return this.enqueue();
    const enqueue = (): void => {
      if (!this.isSettled) this.enqueue();
    };
    const poll = (error: unknown): void => {
      if (this.isSettled) return;
      this.#isDeaf = true;
      const message = `${describe(this.spec.key)} is polled for: no message can be heard`;
      warn({ ...lockEvent(this.spec), code: 'no-wake-ups', message, error });
      if (this.attempts.count === 0) this.attempt();
      else this.#pauseAndAttempt();
    };
    wakeUps.whenOpen(keys as string, settings.commandTimeoutMs).then(enqueue, poll);
  }

  #pauseAndAttempt(wantedMs = this.attempts.nextPauseMs()): void {
    this.attempts.pause(Math.max(Math.min(wantedMs, this.caller.leftMs), 0), () => this.attempt());
  }
}
