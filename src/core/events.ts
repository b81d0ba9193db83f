// The public events, on channels of node:diagnostics_channel. Acquires are traced in acquire/acquire-trace.ts, held locks are
// published in hold/observation.ts, and warnings here. Nothing is built or measured unless somebody listens. A listener that throws
// cannot reach the lock: diagnostics_channel reports its error as an uncaught exception.
import type { LossReason } from './errors';
import type { Key } from './keys';
import { kindOfMode, type StoreKind } from './lock-state';
import { channel, emitWarning } from './runtime';

/** The kind of a lock, as its callers see it. */
export type LockKind = 'mutex' | 'read' | 'write' | 'permits' | 'election' | 'once';

/** The fields that every event has. */
export interface LockEvent {
  /** The full key, prefix included; a list if there are several keys. */
  key: Key;
  /** The option `name`; '' if none was given. */
  name: string;
  kind: LockKind;
  store: StoreKind;
}

/**
 * The outcome of an acquire. `busy`: `maxRetries` used up, or a `tryLock` in vain. `timeout`: `timeout` over. `aborted`: by its
 * signal or by `close()`. `lost`: an upgrade of a lock that was lost meanwhile. `error`: everything else.
 */
export type AcquireOutcome = 'granted' | 'busy' | 'timeout' | 'aborted' | 'lost' | 'error';

/**
 * `redis-exp-lock:acquire`, a tracingChannel: one trace for each acquire. The optional fields are set from `error` and
 * `asyncStart` on. An upgrade is an acquire of kind `write`. A busy `tryLock` or `tryRun` is no error: its result is null.
 */
export interface AcquireEvent extends LockEvent {
  /** Ms from the call to its end. */
  waitedMs?: number;
  /** The number of attempts that the caller made by itself; 1 if it was queued. */
  attempts?: number;
  /** True if the caller waited in a queue. */
  queued?: boolean;
  /** 0: nothing was granted, or `fencing: false`. */
  fence?: number;
  outcome?: AcquireOutcome;
  /** The lease; null for a busy `tryLock` or `tryRun`. */
  result?: unknown;
  error?: unknown;
}

/** `redis-exp-lock:release`: a release was answered. */
export interface ReleaseEvent extends LockEvent {
  /** Ms from the grant to the answer, or to an earlier loss. */
  heldMs: number;
  /** False if the lock was no longer ours. */
  released: boolean;
  fence: number;
}

/** `redis-exp-lock:extend`: an extension, or a renewal, was answered. */
export interface ExtendEvent extends LockEvent {
  /** False if the lock was no longer ours. */
  extended: boolean;
  /** The requested lifetime in ms; null: no end. */
  lifetime: number | null;
}

/** `redis-exp-lock:lost`: a lock that was held here may belong to another holder now. */
export interface LostEvent extends LockEvent {
  reason: LossReason;
  /** Ms from the grant to the moment at which the loss was noticed. */
  heldMs: number;
  fence: number;
}

/** A number of servers that adds no safety; a server that does not report when it was started; a silent server. */
type QuorumWarning = 'quorum-size' | 'no-restart-guard' | 'node-silent';

/** `redis-exp-lock:warning`: something to check that changes no result. */
export interface WarningEvent {
  code:
    | 'never-released'
    | 'release-failed'
    | 'eviction'
    | 'missed-failover'
    | 'renewal-failed'
    | 'no-wake-ups'
    | 'lead-failed'
    | 'proclaim-failed'
    | 'no-authorize'
    | QuorumWarning;
  message: string;
  /** The full key, prefix included; null if the warning is about no lock. */
  key: Key | null;
  name: string;
  kind: LockKind | null;
  store: StoreKind;
  error?: unknown;
}

/** A held lock as our own instruments see it; the same object from `granted` to `ended`. */
export interface ObservedHold extends LockEvent {
  fence: number;
  heldMs?: number;
  /** The end. `detached`: Redis keeps the lock for another process. */
  outcome?: 'released' | 'lost' | 'detached';
}

/** A message on `redis-exp-lock:hold`, a channel for our own instruments. */
export type HoldMessage =
  | { readonly phase: 'granted' | 'changed' | 'ended'; readonly hold: ObservedHold }
  /** A function is about to run under the lock. A subscriber may replace `run`. */
  | { readonly phase: 'run'; readonly hold: ObservedHold; run: () => Promise<unknown> };

/** The events by the names of their channels; the first is a tracingChannel. */
export interface LockEvents {
  'redis-exp-lock:acquire': AcquireEvent;
  'redis-exp-lock:release': ReleaseEvent;
  'redis-exp-lock:extend': ExtendEvent;
  'redis-exp-lock:lost': LostEvent;
  'redis-exp-lock:warning': WarningEvent;
}

/** The events by the names of their channels, in any runtime; the tracing channel by its five parts. */
export type LockChannels = Omit<LockEvents, 'redis-exp-lock:acquire'> & {
  [P in 'start' | 'end' | 'asyncStart' | 'asyncEnd' | 'error' as `tracing:redis-exp-lock:acquire:${P}`]: AcquireEvent;
};

/** A channel as `node:diagnostics_channel` has them. */
export interface EventChannel<E> {
  readonly hasSubscribers: boolean;
  /** Calls `listener` with each event from now on. */
  subscribe(listener: (event: E) => void): void;
  unsubscribe(listener: (event: E) => void): unknown;
}

/**
 * A channel of events: that of `node:diagnostics_channel`, or of the library's own in a runtime without that module.
 *
 * @example
 * ```ts
 * eventChannel('redis-exp-lock:lost').subscribe(({ key, reason }) => console.warn(key, reason));
 * ```
 */
export function eventChannel<N extends keyof LockChannels>(name: N): EventChannel<LockChannels[N]> {
  return channel(name) as EventChannel<LockChannels[N]>;
}

const warningChannel = channel('redis-exp-lock:warning');

/** @internal The argument of `lockEvent`. */
export interface Observable {
  readonly keys: Key;
  /** The mode of an RWLock or a Semaphore; undefined for a mutex. */
  readonly mode: { readonly kind: keyof typeof kindOfMode } | undefined;
  /** Set when the mutex backs an election or a once-job. */
  readonly kind: LockKind | undefined;
  readonly settings: { readonly name: string };
  readonly store: { readonly kind: StoreKind };
}

/** @internal The fields that every event has. */
export function lockEvent({ keys, mode, kind = 'mutex', settings, store }: Observable): LockEvent {
  return { key: keys, name: settings.name, kind: mode ? kindOfMode[mode.kind] : kind, store: store.kind };
}

/** @internal The fields of a warning that is about no lock. */
export function noLock(store: StoreKind): Pick<WarningEvent, 'key' | 'name' | 'kind' | 'store'> {
  return { key: null, name: '', kind: null, store };
}

/** True in a development process. Read once: reading the environment costs more than everything else here. */
const inDevelopment = isDevelopment();

/** Deno refuses to read the environment without a permission, and a lock needs no variable. */
function isDevelopment(): boolean {
  try {
    return process.env.NODE_ENV === 'development';
  } catch {
    return false;
  }
}

/** True if somebody sees warnings: a listener exists, or this is a development process. */
export function warningsWanted(): boolean {
  return warningChannel.hasSubscribers || inDevelopment;
}

/** Publishes a warning. In development, or if `isLoud`, the process emits it too, so that it is seen without any set-up. */
export function warn(event: WarningEvent, isLoud = inDevelopment): void {
  if (warningChannel.hasSubscribers) warningChannel.publish(event);
  if (!isLoud) return;
  const detail = event.error instanceof Error ? event.error.stack : undefined;
  emitWarning(event.message, { type: 'RedisExpLockWarning', code: event.code, ...(detail && { detail }) });
}
