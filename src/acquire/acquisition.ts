// An acquisition is a promise, a deadline, a signal and one strategy. It settles once: with a held lock, with the last answer's error,
// or because its signal, its timeout or `close` gave it up. Giving up never waits for the store.
//
// The strategies: a mutex makes an attempt, and then joins a queue of its process or polls (queued.ts). A caller of a key with several
// holders waits with other callers of its process for one member (queue/group.ts), or has its own entry in the Redis queue (entry.ts).

import { type Alarm, clearAlarm } from '../core/clock';
import { forKey, type LockBackendError, rejectAtCaller } from '../core/errors';
import { onAbort } from '../core/on-abort';
import { nextTick } from '../core/real-timers';
import type { HeldLock } from '../hold/held-lock';
import type { Granted } from '../hold/kept-lock';
import type { Cancellable } from '../hold/scope';
import type { Fetch, GroupPosition, ShareWaiter, WaitGroup } from '../queue/group';
import { Position, type Queue } from '../queue/queue';
import { sharedSourceOf } from '../queue/queues';
import type { Grant, GrantSource } from '../store/contract';
import { AcquireTrace, tracesAcquires } from './acquire-trace';
import { EntryPolling } from './entry';
import type { PollingCaller } from './polling';
import { lineSourceOf, Queued } from './queued';
import { abortReason, deadlockOf, refusalOf, timedOut, triedInVain } from './refusals';
import { type AcquireSpec, groupFor, groupsOf, isQueued, mayBeQueued, termsOf } from './spec';

type Strategy = Queued | EntryPolling | Position | GroupPosition;

/** Acquires the lock and resolves with the result of `wrap(held)`. Publishes this on `redis-exp-lock:acquire` if `isTraced`. */
export function acquire<T>(spec: AcquireSpec, wrap: (held: HeldLock) => T, isTraced = tracesAcquires()): Promise<T> {
  const trace = isTraced ? new AcquireTrace(spec, spec.settings.signal) : undefined;
  const begin = (): Promise<T> =>
    new Promise((resolve, reject) => {
      new Acquisition(spec, wrap, trace, resolve as (result: unknown) => void, reject).start();
    });
  return trace === undefined ? begin() : trace.run(begin);
}

/** Longest attempt, in multiples of `commandTimeout`: two waits for a client that is not ready, and a reply. */
const commandTimeoutsPerAttempt = 4;

class Acquisition implements PollingCaller, ShareWaiter, Cancellable {
  before: Cancellable | undefined;
  after: Cancellable | undefined;
  readonly awaited: AcquireSpec;
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  readonly #wrap: (held: HeldLock) => unknown;
  readonly #trace: AcquireTrace | undefined;
  readonly #resolve: (result: unknown) => void;
  readonly #reject: (error: unknown) => void;
  /** True within the call that began the wait: its errors have its caller's stack. */
  #isStarting = true;
  #isSettled = false;
  #strategy: Strategy | undefined;
  /** Monotonic ms of the end of the wait. Its alarm is set only when the wait may last until then. */
  #endMs = Number.POSITIVE_INFINITY;
  #alarm: Alarm | undefined;
  #stopListening: (() => void) | undefined;
  /** The error of the last answered attempt; undefined after a plain "busy". */
  #failure: LockBackendError | undefined;

  constructor(
    spec: AcquireSpec,
    wrap: (held: HeldLock) => unknown,
    trace: AcquireTrace | undefined,
    resolve: (result: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.awaited = spec;
    this.commandTimeoutMs = spec.settings.commandTimeoutMs;
    this.retryTimeoutMs = spec.settings.retryTimeoutMs;
    this.#wrap = wrap;
    this.#trace = trace;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get leftMs(): number {
    return this.#endMs - this.awaited.store.clock.nowMs();
  }

  start(): void {
    const { settings, scope, store, endMs } = this.awaited;
    const { timeoutMs, signal } = settings;
    const refusal = refusalOf(this.awaited) ?? deadlockOf(this.awaited);
    if (refusal !== undefined) return this.#fail(refusal);
    if (timeoutMs) this.#endMs = endMs ?? store.clock.nowMs() + timeoutMs;
    this.#strategy = strategyFor(this.awaited, this); // H33
    this.#strategy.begin();
    this.#isStarting = false;
    // A settled acquisition waits for nothing.
    if (this.#isSettled) return;
    scope.beginWait(this);
    if (signal !== undefined) {
      this.#stopListening = onAbort(signal, () => this.giveUp(abortReason(signal)));
    }
    // A deadline past the end of the first attempt needs no alarm yet: `troubled` sets it if the wait goes on.
    const mayOutlast = timeoutMs! > 0 && this.leftMs <= commandTimeoutsPerAttempt * this.commandTimeoutMs;
    const { count, wasQueued } = this.#strategy;
    if (wasQueued || count === 0 || mayOutlast) this.#setAlarm();
  }

  waitIn(queue: Queue): void {
    this.#strategy = new Position(queue, this);
    this.#strategy.begin();
  }

  granted(grant: Granted, source = sourceOf(this.awaited)): HeldLock {
    const held = this.awaited.scope.hold(grant, this.awaited, source, this.#strategy!.count - 1);
    this.succeed(held);
    return held;
  }

  take(grant: Grant): void {
    this.granted(grant);
  }

  succeed(held: HeldLock): void {
    this.#settle();
    try {
      const result = this.#wrap(held);
      this.#trace?.settled('granted', this.#strategy, held.fence);
      this.#resolve(result);
    } catch (error) {
      // No caller has the held lock. Released on the next tick: its queue knows it as the holder only after this call.
      nextTick(() => void held.releaseQuietly()); // H90c
      this.#fail(error); // H90d
    }
  }

  troubled(error: LockBackendError | undefined): void {
    this.#failure = error && (forKey(error, this.awaited.key) as LockBackendError);
    this.#setAlarm();
  }

  failed(error: unknown): void {
    this.#settle();
    if (error !== triedInVain) return this.#fail(forKey(error, this.awaited.key)); // H72d
    this.#trace?.settled('busy', this.#strategy);
    this.#resolve(null);
  }

  giveUp(error: unknown): void {
    if (this.#isSettled) return;
    this.#strategy!.giveUp();
    this.#settle();
    this.#fail(error);
  }

  /** Gives up when the time is over, except in a pause. */
  #setAlarm(): void {
    if (this.#endMs === Number.POSITIVE_INFINITY) return;
    this.#alarm ??= this.awaited.store.clock.setAlarmAt(() => {
      if (!this.#strategy!.isPausing) this.giveUp(this.#failure ?? timedOut(this.awaited, this.#strategy!)); // H33b H72c
    }, this.#endMs);
  }

  fetch(group: WaitGroup): Fetch {
    const fetch = new EntryPolling({ ...this.awaited, fences: group.fences }, group);
    fetch.begin();
    return fetch;
  }

  #settle(): void {
    this.#isSettled = true;
    clearAlarm(this.#alarm); // H35
    this.#stopListening?.(); // H36e
    this.awaited.scope.endWait(this);
  }

  #fail(error: unknown): void {
    this.#trace?.failed(error, this.#strategy);
    if (this.#isStarting) this.#reject(error);
    else this.#resolve(rejectAtCaller(error));
  }
}

/** The source of a grant that came from no queue; undefined: the store. */
function sourceOf({ mode, settings, store }: AcquireSpec): GrantSource | undefined {
  if (mode !== undefined) return store.channels && sharedSourceOf(store);
  return store.channels === undefined || !mayBeQueued(settings) ? lineSourceOf(store) : undefined;
}

function strategyFor(spec: AcquireSpec, acquisition: Acquisition): Strategy {
  const { change, keys, mode, scope, settings, store } = spec;
  if (mode === undefined) return new Queued(spec, acquisition);
  const groups = groupsOf(scope, store);
  if (mode.kind === 'exclusive') groups.get(keys as string)?.writerWaits();
  // Readers and permits wait in a group; a writer and a change in place wait alone.
  const isAlone = mode.kind === 'exclusive' || change !== undefined || !isQueued(settings) || store.isQuorum;
  if (isAlone) return new EntryPolling(spec, acquisition);
  return new Position(groupFor(groups, termsOf(spec), store), acquisition);
}
