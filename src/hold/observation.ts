// The events of a held lock, from its grant to its end. The channel `redis-exp-lock:hold` is for our own instruments (otel.ts,
// prometheus.ts) and not public. It publishes the begin and the end of each held lock once, with the same object, and lets a
// subscriber wrap the function that runs under the lock.
//
// Invariant: if nobody listens, nothing is built, no clock is read, and no timer runs for it.
import { channel } from 'node:diagnostics_channel';
import type { LossReason } from '../core/errors';
import {
  type ExtendEvent,
  type LockEvent,
  type LostEvent,
  lockEvent,
  type Observable,
  type ReleaseEvent,
} from '../core/events';

const releaseChannel = channel('redis-exp-lock:release');
const extendChannel = channel('redis-exp-lock:extend');
const lostChannel = channel('redis-exp-lock:lost');
const holdChannel = channel('redis-exp-lock:hold');

/** A held lock as a subscriber sees it; the same object from `granted` to `ended`. */
export interface ObservedHold extends LockEvent {
  fence: number;
  heldMs?: number;
  /** The end. `detached`: Redis keeps the lock for another process. */
  outcome?: 'released' | 'lost' | 'detached';
}

/** A message on `redis-exp-lock:hold`. */
export type HoldMessage =
  | { readonly phase: 'granted' | 'changed' | 'ended'; readonly hold: ObservedHold }
  /** A function is about to run under the lock. A subscriber may replace `run`. */
  | { readonly phase: 'run'; readonly hold: ObservedHold; run: () => Promise<unknown> };

/** A held lock, as this module reads it. */
export interface ObservedLock {
  readonly keys: Observable['keys'];
  readonly mode: Observable['mode'];
  readonly context: Omit<Observable, 'keys' | 'mode'>;
  readonly fence: number;
  /** Monotonic ms of the grant, for a lock whose grant was not observed. */
  readonly sentMs: number;
  readonly observation: Observation | undefined;
}

/** The observation of a lock that was granted while somebody listened. */
export class Observation {
  readonly sinceMs = performance.now();
  /** Set if our own instruments listened. */
  readonly hold: ObservedHold | undefined;
  endMs: number | undefined;

  constructor(held: ObservedLock) {
    if (!holdChannel.hasSubscribers) return;
    this.hold = { ...eventOf(held), fence: held.fence };
    publish({ phase: 'granted', hold: this.hold });
  }
}

/** True if somebody listens for events of held locks. */
export function holdsAreObserved(): boolean {
  return holdChannel.hasSubscribers || releaseChannel.hasSubscribers || lostChannel.hasSubscribers;
}

/** Publishes that a change in place was made. */
export function tellChanged(held: ObservedLock): void {
  const hold = held.observation?.hold;
  if (hold === undefined || hold.outcome !== undefined) return;
  Object.assign(hold, eventOf(held), { fence: held.fence });
  publish({ phase: 'changed', hold });
}

/** Publishes that a release was answered. */
export function tellRelease(held: ObservedLock, released: boolean): void {
  tellEnd(held, 'released');
  if (!releaseChannel.hasSubscribers) return;
  const { fence } = held;
  const event: ReleaseEvent = { ...eventOf(held), heldMs: heldMs(held), released, fence }; // H11b H78d
  releaseChannel.publish(event);
}

export function tellLost(held: ObservedLock, reason: LossReason): void {
  tellEnd(held, 'lost');
  if (!lostChannel.hasSubscribers) return;
  const { fence } = held;
  const event: LostEvent = { ...eventOf(held), reason, heldMs: heldMs(held), fence };
  lostChannel.publish(event); // H9
}

/** Publishes that an extension was answered. */
export function tellExtension(held: ObservedLock, extended: boolean, lifetime: number | null): void {
  if (!extendChannel.hasSubscribers) return;
  const event: ExtendEvent = { ...eventOf(held), extended, lifetime };
  extendChannel.publish(event);
}

/** Publishes the end of a held lock, once: later calls do nothing. */
export function tellEnd({ observation }: ObservedLock, outcome: NonNullable<ObservedHold['outcome']>): void {
  if (observation === undefined || observation.endMs !== undefined) return;
  observation.endMs = performance.now();
  const { hold, sinceMs, endMs } = observation;
  if (hold === undefined) return;
  hold.outcome = outcome;
  hold.heldMs = endMs - sinceMs;
  publish({ phase: 'ended', hold });
}

/** The function to run under a held lock: `fn`, or the wrapped function of a subscriber. */
export function observedRun<T>(held: ObservedLock, fn: () => Promise<T>): () => Promise<T> {
  const hold = held.observation?.hold;
  if (hold === undefined || !holdChannel.hasSubscribers) return fn;
  const message: HoldMessage = { phase: 'run', hold, run: fn };
  publish(message);
  return message.run as () => Promise<T>;
}

/** @internal The fields that every event of a held lock has. */
export function eventOf({ keys, mode, context }: Pick<ObservedLock, 'keys' | 'mode' | 'context'>): LockEvent {
  const { kind, settings, store } = context;
  return lockEvent({ keys, mode, kind, settings, store });
}

function heldMs({ observation, sentMs }: ObservedLock): number {
  return (observation?.endMs ?? performance.now()) - (observation?.sinceMs ?? sentMs);
}

function publish(message: HoldMessage): void {
  holdChannel.publish(message);
}
