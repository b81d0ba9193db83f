// The only waiting loop. An acquisition attempts (one request is with the store), pauses (a timer runs), is queued, or is
// settled. It settles once: with a held lock, with the last answer's error, or because it is given up (its signal, its timeout,
// close). Giving up never waits for the store: an attempt under way is abandoned, so that a late grant is released.
//
// With `timeout` alone it makes one attempt by itself, and is then queued (wait/queue.ts), which requests for all that are; it
// is told that it was granted, or leaves. Where there are no wake-ups it polls: attempts, with pauses (wait/attempt.ts).
import { forKey, LockBackendError, type LockTimeoutError, rejectAtCaller } from './errors';
import { type LockKind, lockEvent, warn } from './events';
import { HeldLock } from './held-lock';
import { describe, type Key, lockKeys, ownKey } from './keys';
import { longestTimerMs, type Settings } from './options';
import type { Cancellable, Scope } from './scope';
import {
  type AcquireReply,
  type Clock,
  clockOf,
  type Grant,
  type GrantSource,
  type Mode,
  type QueueEntry,
} from './store';
import { AcquireTrace, type Effort, tracesAcquires } from './trace';
import { type Attempting, Attempts, type Once } from './wait/attempt';
import { type Position, tooLate, type Waiter } from './wait/queue';
import type { Queues } from './wait/queues';
import { SharedWaiter } from './wait/shared-waiter';
import { abortReason, deadlock, enclosingLock, isEndless, refusalOf, timedOut, tooMany, type Wanted } from './wanted';

/** What is to be acquired. */
export interface Terms {
  readonly settings: Settings;
  readonly scope: Scope;
  /** How the key is to be held, where several may hold it. */
  readonly mode?: Mode | undefined;
  /** For a job that runs once a slot. */
  readonly once?: Once | undefined;
  /** Of a mutex that is more than one. */
  readonly kind?: LockKind | undefined;
  /** Busy is an answer, and no error, to those that observe. */
  readonly isTry?: boolean | undefined;
}

/**
 * Resolves with what `wrap` makes of the held lock, once every key is ours. Impossible arguments throw at once, before any I/O.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key or a missing client.
 * @throws {TooManyLockAttemptsError} (rejects) `maxRetries` used up. Nothing is held.
 * @throws {LockTimeoutError} (rejects) `timeout` over. Nothing is held.
 * @throws {LockBackendError} (rejects) no usable answer. A release was sent where the outcome is unknown.
 * @throws {LockClosedError} (rejects) `close()` was called. Nothing is held.
 * @throws the signal's reason (rejects), when it aborts before the grant. Nothing is held.
 */
export function acquire<T>(key: Key, terms: Terms, wrap: (held: HeldLock) => T): Promise<T> {
  const { settings, scope, mode, once, kind, isTry = false } = terms;
  const store = scope.store(settings.redis);
  const given = ownKey(key);
  const keys = lockKeys(given, store.keyPrefix + settings.prefix);
  const wanted = { key: given, keys, settings, scope, store, mode, once, kind, change: undefined, trace: undefined };
  return tracesAcquires() ? tracedWait(wanted, wrap, isTry) : wait(wanted, wrap);
}

/** @internal As `wait`, told on `redis-exp-lock:acquire`. */
export function tracedWait<T>(wanted: Wanted, wrap: (held: HeldLock) => T, isTry: boolean): Promise<T> {
  const trace = new AcquireTrace(wanted, wanted.settings.signal, isTry);
  return trace.run(() => wait({ ...wanted, trace }, wrap));
}

/** @internal Resolves with what `wrap` makes of what is held then. */
export function wait<T>(wanted: Wanted, wrap: (held: HeldLock) => T): Promise<T> {
  const { trace } = wanted;
  return new Promise((resolve, reject) => {
    const refusal = refusalOf(wanted);
    if (refusal !== undefined) {
      trace?.failed(refusal, { attempts: 0, queued: false });
      return reject(refusal);
    }
    let calling = true;
    const succeed = (held: HeldLock): void => {
      trace?.granted(held.fence, acquisition.effort);
      resolve(wrap(held));
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

class Acquisition implements Attempting, Waiter, Cancellable {
  before: Cancellable | undefined;
  after: Cancellable | undefined;
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  isSettled = false;
  readonly #wanted: Wanted;
  readonly #clock: Clock;
  readonly #resolve: (held: HeldLock) => void;
  readonly #reject: (error: unknown) => void;
  readonly #attempts: Attempts;
  /** For a key that several may hold. */
  readonly #shared: SharedWaiter | undefined;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #deadline: NodeJS.Timeout | undefined;
  #onAbort: (() => void) | undefined;
  /** What the last answered attempt failed with; undefined after a plain "busy". */
  #failure: LockBackendError | undefined;
  /** Where it is queued, once it is. */
  #position: Position | undefined;
  /** No wake-up could be heard so far: it does not wait for that again. */
  #isDeaf = false;
  #stopOpening: (() => void) | undefined;

  constructor(wanted: Wanted, resolve: (held: HeldLock) => void, reject: (error: unknown) => void) {
    this.commandTimeoutMs = wanted.settings.commandTimeoutMs;
    this.retryTimeoutMs = wanted.settings.retryTimeoutMs;
    this.#wanted = wanted;
    this.#clock = clockOf(wanted.store);
    this.#resolve = resolve;
    this.#reject = reject;
    this.#attempts = new Attempts(wanted, this);
    this.#shared = wanted.mode && new SharedWaiter(wanted.mode);
  }

  get awaited(): Wanted {
    return this.#wanted;
  }

  start(): void {
    const { timeoutMs, signal } = this.#wanted.settings;
    if (timeoutMs) this.#deadlineMs = this.#clock.nowMs() + timeoutMs;
    this.#begin();
    // Where the answer is known at once, hardly any caller waits.
    if (this.isSettled) return;
    this.#wanted.scope.beginWait(this);
    if (signal !== undefined) {
      this.#onAbort = () => this.giveUp(abortReason(signal));
      signal.addEventListener('abort', this.#onAbort);
    }
    if (this.#deadlineMs !== Number.POSITIVE_INFINITY) this.#armDeadline();
  }

  granted(grant: Grant): HeldLock {
    return this.#succeed(this.#heldLock(grant, this.#position!.queue));
  }

  failed(error: LockBackendError): void {
    this.#fail(forKey(error, this.#wanted.key));
  }

  troubled(error: LockBackendError | undefined): void {
    this.#failure = error && (forKey(error, this.#wanted.key) as LockBackendError);
  }

  /** Ends the wait now, whatever it is doing. */
  giveUp(error: unknown): void {
    this.#attempts.giveUp();
    this.#fail(error);
    if (this.#position !== undefined) this.#position.queue.leave(this.#position);
  }

  onReply(reply: AcquireReply, token: string): void {
    const { key, settings, change } = this.#wanted;
    this.#failure = undefined;
    const ended = change?.ended(this.#attempts.mayExecuteUntilMs);
    if (ended !== undefined) return this.#end(ended);
    if (!reply.granted) return this.#onBusy(reply);
    if (change !== undefined) return void this.#succeed(change.granted(reply));
    const { fence, sent } = reply;
    const { mayExecuteUntilMs } = this.#attempts;
    const held = this.#heldLock({ token, fence, sent, mayExecuteUntilMs }, undefined, reply.mode);
    if (held.remaining() > 0) return void this.#succeed(held);
    this.#failure = tooLate(key, this.#clock.nowMs() - sent.monoMs, settings.lifetimeMs);
    this.#abandon();
    this.#next();
  }

  onFailure(error: unknown): void {
    if (!(error instanceof LockBackendError)) return this.#fail(error);
    this.#failure = error;
    if (error.retryable) this.#next();
    else this.#fail(error);
  }

  #begin(): void {
    const own = isEndless(this.#wanted.settings) ? enclosingLock(this.#wanted) : undefined;
    if (own?.isEndless) return this.#fail(deadlock(this.#wanted.key, own));
    const queues = queuesOf(this.#wanted);
    if (queues?.wakeUps.isOpen) this.#enqueue(queues);
    // Behind those that wait for the same already, until a wake-up would be heard.
    else if (queues?.wakeUps.isAwaited(this.#wanted.keys as string)) this.#enqueueOrPoll(queues);
    else this.#attempt();
  }

  #enqueue(queues: Queues): void {
    const key = this.#wanted.keys as string;
    if (this.#shared !== undefined) {
      this.#shared.subscribe(queues.wakeUps, key, (isBehind) => this.#wake(isBehind));
      return this.#attempt();
    }
    // What an attempt of its own has left behind; the queue requests with a token of its own.
    if (this.#attempts.mayExecuteUntilMs > 0) this.#abandon();
    const { lifetimeMs, fencing, owner } = this.#wanted.settings;
    this.#position = queues.queue({ key, lifetimeMs: lifetimeMs!, fencing, owner }).join(this);
  }

  /** Is queued once a wake-up would be heard; polls where none can be, or where that takes too long. */
  #enqueueOrPoll(queues: Queues): void {
    const enqueue = (): void => this.#enqueue(queues);
    const poll = (error: unknown): void => {
      this.#isDeaf = true;
      warnOfPolling(this.#wanted, error);
      if (this.#attempts.count === 0) this.#attempt();
      else this.#pauseAndAttempt();
    };
    this.#stopOpening = queues.wakeUps.whenOpen(this.#wanted.keys as string, this.commandTimeoutMs, enqueue, poll);
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

  /** A pause is cut to end with the wait as well: the last attempt follows it. */
  #armDeadline(): void {
    const leftMs = this.#deadlineMs - this.#clock.nowMs();
    const onDeadline = (): void => {
      if (this.#clock.nowMs() < this.#deadlineMs) this.#armDeadline();
      else if (!this.#attempts.isPausing) this.giveUp(this.#failure ?? this.#timedOut());
    };
    this.#deadline = this.#clock.later(onDeadline, Math.min(Math.ceil(leftMs), longestTimerMs));
  }

  #attempt(): void {
    if (this.#shared !== undefined) return this.#attempts.make(this.#place(this.#shared), undefined);
    // Beside a queue, a caller that polls says how long it pauses; not at its first attempt, which few follow by another.
    const polls = this.#attempts.count > 0 && !this.#isLast && this.#polls;
    this.#attempts.make(undefined, polls ? this.#attempts.nextPauseMs() : undefined);
  }

  /** Where it is queued, for a key that several may hold, if this attempt is in vain and another will follow. */
  #place(shared: SharedWaiter): QueueEntry | undefined {
    if (this.#isLast) return undefined;
    if (shared.isSubscribed) return shared.entry();
    // A waiter that is to be woken makes sure first that it would hear.
    return this.#polls ? shared.pollingEntry(this.#attempts.nextPauseMs()) : undefined;
  }

  /** Whether no attempt would follow the one that is made now. */
  get #isLast(): boolean {
    const { maxRetries, timeoutMs } = this.#wanted.settings;
    return timeoutMs === 0 || this.#attempts.count >= maxRetries || this.#clock.nowMs() >= this.#deadlineMs;
  }

  get #polls(): boolean {
    return this.#isDeaf || queuesOf(this.#wanted) === undefined;
  }

  #onBusy(reply: AcquireReply & { granted: false }): void {
    const { change } = this.#wanted;
    if (change !== undefined && reply.impossible !== undefined) return this.#fail(change.refused(reply.impossible));
    this.#shared?.busy(reply);
    this.#next();
  }

  /** Another attempt after a pause, if the wait allows one. */
  #next(): void {
    const { maxRetries, timeoutMs } = this.#wanted.settings;
    const leftMs = timeoutMs === 0 ? 0 : this.#deadlineMs - this.#clock.nowMs();
    if (leftMs <= 0) return this.#fail(this.#failure ?? this.#timedOut());
    const { count } = this.#attempts;
    if (count > maxRetries) return this.#fail(this.#failure ?? tooMany(this.#wanted.key, count));
    if (this.#shared?.isSubscribed && this.#failure === undefined) {
      return this.#pauseAndAttempt(this.#shared.pollAfterMs(Math.max(this.retryTimeoutMs, 1)));
    }
    const mayQueue = this.#failure === undefined && !this.#shared?.isSubscribed && !this.#isDeaf;
    const queues = mayQueue ? queuesOf(this.#wanted) : undefined;
    if (queues === undefined) this.#pauseAndAttempt();
    else if (queues.wakeUps.isOpen) this.#enqueue(queues);
    else this.#enqueueOrPoll(queues);
  }

  #pauseAndAttempt(wantedMs = this.#attempts.nextPauseMs()): void {
    const pauseMs = Math.min(wantedMs, this.#deadlineMs - this.#clock.nowMs());
    this.#attempts.pause(Math.max(pauseMs, 0), () => this.#attempt());
  }

  #heldLock(grant: Grant, queue: GrantSource | undefined, mode = this.#wanted.mode): HeldLock {
    const { key, keys, kind, scope, settings, store } = this.#wanted;
    const source = mode !== undefined && store.listen !== undefined ? scope.queues(store)?.shared : queue;
    const retries = this.#shared?.isSubscribed ? 0 : Math.max(this.#attempts.count - 1, 0);
    const context = scope.context(settings, store, source, kind);
    return new HeldLock(grant, { key, keys, retries, context, mode });
  }

  #succeed(held: HeldLock): HeldLock {
    if (this.#wanted.change === undefined) this.#wanted.scope.add(held);
    this.#settle();
    this.#resolve(held);
    return held;
  }

  #fail(error: unknown): void {
    if (this.isSettled) return;
    if (this.#attempts.mayExecuteUntilMs > 0 || this.#shared?.isQueued) this.#abandon();
    this.#end(error);
  }

  /** Nothing is left to abandon. */
  #end(error: unknown): void {
    this.#settle();
    this.#reject(error);
  }

  #settle(): void {
    this.isSettled = true;
    this.#attempts.endPause();
    if (this.#deadline !== undefined) clearTimeout(this.#deadline);
    this.#stopOpening?.();
    if (this.#onAbort !== undefined) this.#wanted.settings.signal?.removeEventListener('abort', this.#onAbort);
    this.#shared?.leave();
    this.#wanted.scope.endWait(this);
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
    return timedOut(this.#wanted, wasQueued ? 'it was queued' : `attempts: ${this.#attempts.count}`);
  }
}

function warnOfPolling(wanted: Wanted, error: unknown): void {
  const message = `${describe(wanted.key)} is polled for: no message can be heard`;
  warn({ ...lockEvent(wanted), code: 'no-wake-ups', message, error });
}

/** The queues to wait in, when this wait is to be queued, and is of a kind that can be. */
function queuesOf({ keys, scope, settings, store }: Wanted): Queues | undefined {
  const { queued, lifetimeMs, minReplicas } = settings;
  const isQueued = queued && lifetimeMs !== null && minReplicas === 0 && typeof keys === 'string';
  return isQueued ? scope.queues(store) : undefined;
}
