// The only waiting loop. An acquisition attempts (one request is with the store), pauses (a timer runs), is queued, or is
// settled. It settles once: with a held lock, with the last answer's error, or because its signal, its timeout or `close` gave
// it up. Giving up never waits for the store: an attempt under way is abandoned, so that a late grant is released.
//
// If only `timeout` is set, the acquisition makes one attempt and then joins a queue (queue/queue.ts). The queue makes the
// requests for all its callers and notifies each of its grant. Without wake-ups, the acquisition polls (attempts.ts).

import { AcquireTrace, type Effort, tracesAcquires } from '../core/acquire-trace';
import { clockOf } from '../core/clock';
import { forKey, LockBackendError, type LockTimeoutError, rejectAtCaller } from '../core/errors';
import { type LockKind, lockEvent, warn } from '../core/events';
import { describe, type Key, lockKeys, ownKey } from '../core/keys';
import { onAbort } from '../core/on-abort';
import type { Settings } from '../core/options';
import { nextTick } from '../core/real-timers';
import type { HeldLock } from '../hold/held-lock';
import type { Granted } from '../hold/kept-lock';
import type { Cancellable, Scope } from '../hold/scope';
import { trustedMs } from '../hold/validity';
import type { Fetch, Fetcher, ShareWaiter } from '../queue/group';
import { fencesInBlock, type Position, tooLate } from '../queue/queue';
import type { Queues } from '../queue/queues';
import { SharedWaiter } from '../queue/shared-waiter';
import type { AcquireReply, Clock, GrantSource, Mode } from '../store/contract';
import { type Attempting, Attempts, type Once } from './attempts';
import { Deadline, noDeadline } from './deadline';
import {
  type AcquireSpec,
  abortReason,
  deadlock,
  enclosingLock,
  heldLock,
  isEndless,
  placeFor,
  queuesFor,
  refusalOf,
  timedOut,
  tooMany,
} from './spec';

/** The arguments of `acquire`, besides the key. */
export interface AcquireCall {
  readonly settings: Settings;
  readonly scope: Scope;
  /** The mode of an RWLock or a Semaphore. */
  readonly mode?: Mode | undefined;
  /** Set for a job that runs once per slot. */
  readonly once?: Once | undefined;
  /** Set when the mutex backs an election or a once-job. */
  readonly kind?: LockKind | undefined;
  /** Observers see a busy lock as a result, not as an error. */
  readonly isTry?: boolean | undefined;
}

/**
 * Acquires every key and resolves with the result of `wrap(held)`. Impossible arguments throw at once, before any I/O.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key or a missing client.
 * @throws {TooManyLockAttemptsError} (rejects) `maxRetries` used up. Nothing is held.
 * @throws {LockTimeoutError} (rejects) `timeout` over. Nothing is held.
 * @throws {LockBackendError} (rejects) no usable answer. If the outcome is unknown, a release was sent.
 * @throws {LockClosedError} (rejects) `close()` was called. Nothing is held.
 * @throws the signal's reason (rejects), if the signal aborts before the grant. Nothing is held.
 */
export function acquire<T>(key: Key, terms: AcquireCall, wrap: (held: HeldLock) => T): Promise<T> {
  const { settings, scope, mode, once, kind, isTry = false } = terms;
  const store = scope.store(settings.redis);
  const given = ownKey(key);
  const keys = lockKeys(given, store.keyPrefix + settings.prefix);
  const wanted = { key: given, keys, settings, scope, store, mode, once, kind, change: undefined, trace: undefined };
  return tracesAcquires() ? tracedWait(wanted, wrap, isTry) : wait(wanted, wrap);
}

/** @internal Like `wait`, and published on `redis-exp-lock:acquire`. */
export function tracedWait<T>(wanted: AcquireSpec, wrap: (held: HeldLock) => T, isTry: boolean): Promise<T> {
  const trace = new AcquireTrace(wanted, wanted.settings.signal, isTry);
  return trace.run(() => wait({ ...wanted, trace }, wrap));
}

/** @internal Waits for the lock and resolves with the result of `wrap(held)`. */
export function wait<T>(wanted: AcquireSpec, wrap: (held: HeldLock) => T): Promise<T> {
  const { trace } = wanted;
  return new Promise((resolve, reject) => {
    const refusal = refusalOf(wanted);
    if (refusal !== undefined) {
      trace?.failed(refusal, { attempts: 0, queued: false });
      return reject(refusal);
    }
    let calling = true;
    const succeed = (held: HeldLock): void => {
      try {
        const wrapped = wrap(held);
        trace?.granted(held.fence, acquisition.effort);
        resolve(wrapped);
      } catch (error) {
        // No caller has the held lock. Released on the next tick: its queue knows it as the holder only after this call.
        if (wanted.change === undefined) nextTick(() => void held.releaseQuietly()); // H90c
        fail(error); // H90d
      }
    };
    const fail = (error: unknown): void => {
      trace?.failed(error, acquisition.effort);
      if (calling) reject(error);
      else resolve(rejectAtCaller(error));
    };
    const acquisition = new Acquisition(wanted, succeed, fail);
    acquisition.start();
    calling = false;
  });
}

/** Longest attempt, in multiples of `commandTimeout`: two waits for a client that is not ready, and a reply. */
const attemptsInOne = 4;

class Acquisition implements Attempting, ShareWaiter, Cancellable {
  before: Cancellable | undefined;
  after: Cancellable | undefined;
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  isSettled = false;
  readonly awaited: AcquireSpec;
  readonly #clock: Clock;
  readonly #resolve: (held: HeldLock) => void;
  readonly #reject: (error: unknown) => void;
  readonly #attempts: Attempts;
  readonly #shared: SharedWaiter | undefined;
  #deadline = noDeadline;
  #stopListening: (() => void) | undefined;
  /** The error of the last answered attempt; undefined after a plain "busy". */
  #failure: LockBackendError | undefined;
  /** The place in a queue; undefined before this acquisition is queued. */
  #position: Position | undefined;
  /** Set when wake-ups could not be opened in time. From then on this acquisition polls. */
  #isDeaf = false;
  #stopOpening: (() => void) | undefined;

  constructor(wanted: AcquireSpec, resolve: (held: HeldLock) => void, reject: (error: unknown) => void) {
    this.commandTimeoutMs = wanted.settings.commandTimeoutMs;
    this.retryTimeoutMs = wanted.settings.retryTimeoutMs;
    this.awaited = wanted;
    this.#clock = clockOf(wanted.store);
    this.#resolve = resolve;
    this.#reject = reject;
    this.#attempts = new Attempts(wanted, this);
    this.#shared = wanted.mode && new SharedWaiter(wanted.mode); // H33
  }

  start(): void {
    const { timeoutMs, signal } = this.awaited.settings;
    if (timeoutMs) this.#deadline = new Deadline(this.#clock, timeoutMs);
    this.#begin();
    // A settled acquisition waits for nothing. A fetch is not registered either: the callers that it serves are.
    if (this.isSettled || this.awaited.fetcher !== undefined) return;
    this.awaited.scope.beginWait(this);
    if (signal !== undefined) {
      this.#stopListening = onAbort(signal, () => this.giveUp(abortReason(signal)));
    }
    // A deadline past the end of the first attempt needs no timer yet: `#next` sets it if the wait goes on.
    if (this.#attempts.count === 0 || timeoutMs! <= attemptsInOne * this.commandTimeoutMs) this.#deadline.arm(this);
  }

  granted(grant: Granted, source?: GrantSource): HeldLock {
    return this.#succeed(this.#heldLock(grant, source));
  }

  fetch(fetcher: Fetcher): Fetch {
    return fetchFor(this.awaited, fetcher);
  }

  failed(error: LockBackendError): void {
    this.#fail(forKey(error, this.awaited.key));
  }

  troubled(error: LockBackendError | undefined): void {
    this.#failure = error && (forKey(error, this.awaited.key) as LockBackendError);
    this.awaited.fetcher?.busy(this.#failure);
  }

  /** Ends the wait now, in whatever state. */
  giveUp(error: unknown): void {
    this.#attempts.giveUp(); // H8
    this.#fail(error);
    if (this.#position !== undefined) this.#position.queue.leave(this.#position); // H36b
  }

  onReply(reply: AcquireReply, token: string): void {
    const { key, settings, change, fetcher } = this.awaited;
    this.#failure = undefined;
    const ended = change?.ended(this.#attempts.late);
    if (ended !== undefined) return this.#end(ended);
    if (!reply.granted) return this.#onBusy(reply);
    if (change !== undefined) return void this.#succeed(change.granted(reply));
    const { fence, sent, others = 0 } = reply;
    const grant = { token, fence, sent, late: this.#attempts.late };
    const tookMs = this.#clock.nowMs() - sent.monoMs;
    // H63
    if (fetcher !== undefined && tookMs < trustedMs(settings.lifetimeMs!)) {
      this.#settle();
      return fetcher.granted(this, grant, others);
    }
    const held = this.#heldLock(grant, undefined, reply.mode);
    if (held.remaining() > 0) return void this.#succeed(held); // H6b H63b
    this.troubled(tooLate(key, tookMs, settings.lifetimeMs));
    this.#abandon(); // H6c
    this.#next();
  }

  onFailure(error: unknown): void {
    if (!(error instanceof LockBackendError)) return this.#fail(error);
    this.troubled(error);
    // H54c
    if (error.retryable) this.#next();
    else this.#fail(error);
  }

  #begin(): void {
    const { key, settings, fetcher } = this.awaited;
    const own = isEndless(settings) && fetcher === undefined ? enclosingLock(this.awaited) : undefined;
    if (own?.isEndless) return this.#fail(deadlock(key, own)); // H70
    const place = placeFor(this.awaited, this);
    this.#position = place;
    if (place !== undefined) return place.queue.join(place);
    const queues = queuesFor(this.awaited);
    if (queues?.wakeUps.isOpen) this.#enqueue(queues);
    // Other callers wait for this key until wake-ups are open: this one waits behind them.
    else if (queues?.wakeUps.isAwaited(this.awaited.keys as string)) this.#enqueueOrPoll(queues);
    else this.#attempt();
  }

  #enqueue(queues: Queues): void {
    const key = this.awaited.keys as string;
    if (this.#shared !== undefined) {
      this.#shared.subscribe(queues.wakeUps, key, (isBehind) => this.#wake(isBehind));
      return this.#attempt();
    }
    // The queue requests with its own token: the token of the attempts made here is given up.
    if (this.#attempts.late !== undefined) this.#abandon();
    else this.#attempts.forget();
    const { lifetimeMs, fencing, owner } = this.awaited.settings;
    this.#position = queues.queue({ key, lifetimeMs: lifetimeMs!, fencing, owner }).join(this);
  }

  /** Joins the queue once wake-ups are open. Polls if wake-ups cannot be opened or take too long. */
  #enqueueOrPoll(queues: Queues): void {
    const enqueue = (): void => this.#enqueue(queues);
    const poll = (error: unknown): void => {
      this.#isDeaf = true;
      warnOfPolling(this.awaited, error);
      if (this.#attempts.count === 0) this.#attempt();
      else this.#pauseAndAttempt();
    };
    this.#stopOpening = queues.wakeUps.whenOpen(this.awaited.keys as string, this.commandTimeoutMs, enqueue, poll);
  }

  #wake(isBehind: boolean): boolean {
    if (this.isSettled) return false;
    if (!this.#attempts.isPausing) {
      this.#shared!.wasWoken ||= !isBehind;
      return false;
    }
    this.#attempts.endPause();
    this.#attempt();
    return true;
  }

  /** Gives up, except in a pause. A pause ends no later than the wait, and the last attempt follows it. */
  timeIsOver(): void {
    if (!this.#attempts.isPausing) this.giveUp(this.#failure ?? this.#timedOut()); // H33b H72c
  }

  #attempt(): void {
    if (this.#shared === undefined && this.#attempts.count === 0) return this.#attempts.make(undefined, undefined);
    const polls = !this.#isLast && (this.#isDeaf || queuesFor(this.awaited) === undefined);
    const pauseMs = polls ? this.#attempts.nextPauseMs() : undefined;
    const place = this.#isLast ? undefined : this.#shared?.place(pauseMs);
    // Tells a queue on the same key how long this caller pauses. The first attempt does not: few callers make a second one.
    this.#attempts.make(place, this.#shared === undefined ? pauseMs : undefined);
  }

  /** True when the attempt made now is the last one. */
  get #isLast(): boolean {
    const { maxRetries, timeoutMs } = this.awaited.settings;
    return timeoutMs === 0 || this.#attempts.count >= maxRetries || this.#deadline.leftMs <= 0;
  }

  #onBusy(reply: AcquireReply & { granted: false }): void {
    const { change } = this.awaited;
    if (change !== undefined && reply.impossible !== undefined) return this.#fail(change.refused(reply.impossible));
    this.#shared?.busy(reply);
    this.awaited.fetcher?.busy(undefined);
    this.#next();
  }

  /** Queues, or pauses and attempts again; fails if `maxRetries` or `timeout` is used up. */
  #next(): void {
    const { maxRetries, timeoutMs } = this.awaited.settings;
    if (timeoutMs === 0 || this.#deadline.leftMs <= 0) return this.#fail(this.#failure ?? this.#timedOut()); // H72b
    const { count } = this.#attempts;
    if (count > maxRetries) return this.#fail(this.#failure ?? tooMany(this.awaited, count)); // H72
    this.#deadline.arm(this);
    if (this.#shared?.isSubscribed && this.#failure === undefined) {
      return this.#pauseAndAttempt(this.#shared.pollAfterMs(Math.max(this.retryTimeoutMs, 1)));
    }
    const mayQueue = this.#failure === undefined && !this.#shared?.isSubscribed && !this.#isDeaf;
    const queues = mayQueue ? queuesFor(this.awaited) : undefined;
    if (queues === undefined) this.#pauseAndAttempt();
    else if (queues.wakeUps.isOpen) this.#enqueue(queues);
    else this.#enqueueOrPoll(queues);
  }

  #pauseAndAttempt(wantedMs = this.#attempts.nextPauseMs()): void {
    this.#attempts.pause(Math.max(Math.min(wantedMs, this.#deadline.leftMs), 0), () => this.#attempt());
  }

  #heldLock(grant: Granted, queue: GrantSource | undefined, mode = this.awaited.mode): HeldLock {
    const retries = this.#shared?.isSubscribed ? 0 : Math.max(this.#attempts.count - 1, 0);
    return heldLock(this.awaited, grant, { source: queue, mode, retries });
  }

  #succeed(held: HeldLock): HeldLock {
    if (this.awaited.change === undefined) this.awaited.scope.add(held);
    this.#settle();
    this.#resolve(held);
    return held;
  }

  #fail(error: unknown): void {
    if (this.isSettled) return;
    if (this.#attempts.late !== undefined || this.#shared?.isQueued) this.#abandon(); // H43
    this.#end(error);
  }

  /** Settles with an error when nothing is left to abandon. */
  #end(error: unknown): void {
    this.#settle();
    this.#reject(error);
  }

  #settle(): void {
    this.isSettled = true;
    this.#attempts.endPause();
    this.#deadline.clear(); // H35
    this.#stopOpening?.();
    this.#stopListening?.(); // H36e
    this.#shared?.leave();
    this.awaited.scope.endWait(this);
  }

  #abandon(): void {
    this.#attempts.abandon();
    if (this.#shared) this.#shared.isQueued = false;
  }

  get effort(): Effort {
    const queued = this.#position?.hasWaited ?? this.#shared?.hasWaited ?? false;
    return { attempts: queued || this.#position !== undefined ? 1 : this.#attempts.count, queued };
  }

  #timedOut(): LockTimeoutError {
    const wasQueued = this.#position !== undefined || this.#shared?.isSubscribed;
    return timedOut(this.awaited, wasQueued ? 'it was queued' : `attempts: ${this.#attempts.count}`);
  }
}

/** Starts an acquisition for a group of callers that wait together. The group receives the grant. */
function fetchFor(wanted: AcquireSpec, fetcher: Fetcher): Fetch {
  const settings = {
    ...wanted.settings,
    timeoutMs: undefined,
    maxRetries: Number.POSITIVE_INFINITY,
    signal: undefined,
  };
  const fences = wanted.mode!.kind === 'counted' ? fencesInBlock : undefined;
  const failed = (error: unknown): void => fetcher.failed(fetch, error as LockBackendError);
  const fetch = new Acquisition({ ...wanted, settings, fences, trace: undefined, fetcher }, () => {}, failed);
  fetch.start();
  return fetch;
}

function warnOfPolling(wanted: AcquireSpec, error: unknown): void {
  const message = `${describe(wanted.key)} is polled for: no message can be heard`;
  warn({ ...lockEvent(wanted), code: 'no-wake-ups', message, error });
}
