// What is published about a held lock, from its grant to its end. `redis-exp-lock:hold` is for our own instruments (otel.ts, prometheus.ts)
// and no part of the public face: it says of each held lock once that it began, and once that it ended, with the same object, and
// lets a function that runs under it be wrapped.
//
// Invariant: where nobody listens, nothing is built, no clock is read, and no timer runs for it.
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

/** A held lock; the same object from `granted` to `ended`. */
export interface ObservedHold extends LockEvent {
  fence: number;
  heldMs?: number;
  /** How it ended; `detached`: Redis keeps it for another process. */
  outcome?: 'released' | 'lost' | 'detached';
}

/** `redis-exp-lock:hold`. */
export type HoldMessage =
  | { readonly phase: 'granted' | 'changed' | 'ended'; readonly hold: ObservedHold }
  /** A function is about to run under it: what `run` is set to runs instead. */
  | { readonly phase: 'run'; readonly hold: ObservedHold; run: () => Promise<unknown> };

/** A held lock, as it is published. */
export interface ObservedLock {
  readonly keys: Observable['keys'];
  readonly mode: Observable['mode'];
  readonly context: Omit<Observable, 'keys' | 'mode'>;
  readonly fence: number;
  /** Since it is held, where that was not observed: monotonic ms. */
  readonly sentMs: number;
  readonly observation: Observation | undefined;
}

/** Of a lock that was granted while somebody listened. */
export class Observation {
  readonly sinceMs = performance.now();
  /** Where our own instruments listened. */
  readonly hold: ObservedHold | undefined;
  endMs: number | undefined;

  constructor(held: ObservedLock) {
    if (!holdChannel.hasSubscribers) return;
    this.hold = { ...eventOf(held), fence: held.fence };
    publish({ phase: 'granted', hold: this.hold });
  }
}

/** Whether somebody wants to hear of held locks. */
export function holdsAreObserved(): boolean {
  return holdChannel.hasSubscribers || releaseChannel.hasSubscribers || lostChannel.hasSubscribers;
}

/** How it is held has changed. */
export function tellChanged(held: ObservedLock): void {
  const hold = held.observation?.hold;
  if (hold === undefined || hold.outcome !== undefined) return;
  Object.assign(hold, eventOf(held), { fence: held.fence });
  publish({ phase: 'changed', hold });
}

/** A release was answered. */
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

/** An extension was answered. */
export function tellExtension(held: ObservedLock, extended: boolean, lifetime: number | null): void {
  if (!extendChannel.hasSubscribers) return;
  const event: ExtendEvent = { ...eventOf(held), extended, lifetime };
  extendChannel.publish(event);
}

/** It ended; what comes later of it is no second end. */
export function tellEnd({ observation }: ObservedLock, outcome: NonNullable<ObservedHold['outcome']>): void {
  if (observation === undefined || observation.endMs !== undefined) return;
  observation.endMs = performance.now();
  const { hold, sinceMs, endMs } = observation;
  if (hold === undefined) return;
  hold.outcome = outcome;
  hold.heldMs = endMs - sinceMs;
  publish({ phase: 'ended', hold });
}

/** What is to run in place of `fn`, under a held lock. */
export function observedRun<T>(held: ObservedLock, fn: () => Promise<T>): () => Promise<T> {
  const hold = held.observation?.hold;
  if (hold === undefined || !holdChannel.hasSubscribers) return fn;
  const message: HoldMessage = { phase: 'run', hold, run: fn };
  publish(message);
  return message.run as () => Promise<T>;
}

/** @internal What an event says of a held lock. */
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
