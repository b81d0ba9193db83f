// The events of a held lock, from its grant to its end. The channel `redis-exp-lock:hold` is for our own instruments (otel.ts,
// prometheus.ts) and not public: it has one object for each held lock, and lets a subscriber wrap the function that runs under the lock.
//
// Invariant: if nobody listens, nothing is built, no clock is read, and no timer runs for it.
import type { LossReason } from '../core/errors';
import {
  type ExtendEvent,
  type HoldMessage,
  type LockEvent,
  type LostEvent,
  lockEvent,
  type ObservedHold,
  type ReleaseEvent,
} from '../core/events';
import { channel } from '../core/runtime';
import type { KeptLock, Observation } from './kept-lock';

const releaseChannel = channel('redis-exp-lock:release');
const extendChannel = channel('redis-exp-lock:extend');
const lostChannel = channel('redis-exp-lock:lost');
const holdChannel = channel('redis-exp-lock:hold');

export function holdsAreObserved(): boolean {
  return holdChannel.hasSubscribers || releaseChannel.hasSubscribers || lostChannel.hasSubscribers;
}

/** Publishes that a caller holds the lock. Returns the observation of the lock if somebody listens. */
export function observe(held: KeptLock): Observation | undefined {
  if (!holdsAreObserved()) return undefined;
  const sinceMs = performance.now();
  const hold = holdChannel.hasSubscribers ? { ...eventOf(held), fence: held.fence } : undefined;
  if (hold !== undefined) holdChannel.publish({ phase: 'granted', hold } satisfies HoldMessage);
  return { sinceMs, hold, endMs: undefined };
}

/** Publishes that a change in place was made. */
export function tellChanged(held: KeptLock): void {
  const hold = held.observation?.hold;
  if (hold === undefined || hold.outcome !== undefined) return;
  Object.assign(hold, eventOf(held), { fence: held.fence });
  holdChannel.publish({ phase: 'changed', hold } satisfies HoldMessage);
}

export function tellRelease(held: KeptLock, released: boolean): void {
  tellEnd(held, 'released');
  if (!releaseChannel.hasSubscribers) return;
  const event: ReleaseEvent = { ...eventOf(held), heldMs: heldMs(held), released, fence: held.fence }; // H11b H78d
  releaseChannel.publish(event);
}

export function tellLost(held: KeptLock, reason: LossReason): void {
  tellEnd(held, 'lost');
  if (!lostChannel.hasSubscribers) return;
  const event: LostEvent = { ...eventOf(held), reason, heldMs: heldMs(held), fence: held.fence };
  lostChannel.publish(event); // H9
}

export function tellExtension(held: KeptLock, extended: boolean, lifetime: number | null): void {
  if (!extendChannel.hasSubscribers) return;
  extendChannel.publish({ ...eventOf(held), extended, lifetime } satisfies ExtendEvent);
}

/** Publishes the end of a held lock, once: later calls do nothing. */
export function tellEnd({ observation }: KeptLock, outcome: NonNullable<ObservedHold['outcome']>): void {
  if (observation === undefined || observation.endMs !== undefined) return;
  observation.endMs = performance.now();
  const { hold, sinceMs, endMs } = observation;
  if (hold === undefined) return;
  hold.outcome = outcome;
  hold.heldMs = endMs - sinceMs;
  holdChannel.publish({ phase: 'ended', hold } satisfies HoldMessage);
}

/** The function to run under a held lock: `fn`, or the wrapped function of a subscriber. */
export function observedRun<T>(held: KeptLock, fn: () => Promise<T>): () => Promise<T> {
  const hold = held.observation?.hold;
  if (hold === undefined || !holdChannel.hasSubscribers) return fn;
  const message: HoldMessage = { phase: 'run', hold, run: fn };
  holdChannel.publish(message);
  return message.run as () => Promise<T>;
}

export function eventOf({ keys, mode, context }: Pick<KeptLock, 'keys' | 'mode' | 'context'>): LockEvent {
  const { kind, settings, store } = context;
  return lockEvent({ keys, mode, kind, settings, store });
}

function heldMs({ observation, validity }: KeptLock): number {
  return (observation?.endMs ?? performance.now()) - (observation?.sinceMs ?? validity.sent.monoMs);
}
