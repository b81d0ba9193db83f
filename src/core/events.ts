// What others may listen to, through node:diagnostics_channel, and what each event says: acquires are traced in acquire-trace.ts, held locks
// published in observation.ts, warnings here. Nothing is built or measured unless somebody listens, and a listener that throws
// cannot reach the lock: diagnostics_channel reports it as an uncaught exception of its own.
import { channel } from 'node:diagnostics_channel';
import { environmentVariable } from './environment';
import type { LossReason } from './errors';
import type { Key } from './keys';
import type { StoreKind } from './lock-state';

/** What a lock is to its callers. */
export type LockKind = 'mutex' | 'read' | 'write' | 'permits' | 'election' | 'once';

/** What every event says of its lock. */
export interface LockEvent {
  /** As in Redis, prefix included; of several keys their list. */
  key: Key;
  /** The option `name`; '' where none was given. */
  name: string;
  kind: LockKind;
  store: StoreKind;
}

/**
 * How an acquire ended. `busy`: `maxRetries` used up, or `tryLock` in vain. `timeout`: `timeout` over. `aborted`: by its signal
 * or by `close()`. `lost`: an upgrade of what was lost meanwhile. `error`: everything else.
 */
export type AcquireOutcome = 'granted' | 'busy' | 'timeout' | 'aborted' | 'lost' | 'error';

/**
 * `redis-exp-lock:acquire`, a tracingChannel: one trace for each acquire. What is optional is there from `error` and
 * `asyncStart` on. An upgrade is an acquire of kind `write`. A busy `tryLock` or `tryRun` is no error: its result is null.
 */
export interface AcquireEvent extends LockEvent {
  /** Ms from the call to its end. */
  waitedMs?: number;
  /** Made by itself; 1 where it was queued. */
  attempts?: number;
  /** Whether it waited in a queue. */
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
  /** Ms from the grant to the answer, or to the loss before that. */
  heldMs: number;
  /** false: it was no longer ours. */
  released: boolean;
  fence: number;
}

/** `redis-exp-lock:extend`: an extension, or a renewal, was answered. */
export interface ExtendEvent extends LockEvent {
  /** false: it was no longer ours. */
  extended: boolean;
  /** Ms that were asked for; null: no end. */
  lifetime: number | null;
}

/** `redis-exp-lock:lost`: a lock that was held here may belong to another holder now. */
export interface LostEvent extends LockEvent {
  reason: LossReason;
  /** Ms from the grant to the moment at which the loss was noticed. */
  heldMs: number;
  fence: number;
}

/** A number of servers that gains nothing; a server that does not tell when it was started; one that is silent. */
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
  /** As in Redis; null where it is about no lock. */
  key: Key | null;
  name: string;
  kind: LockKind | null;
  store: StoreKind;
  error?: unknown;
}

/** What is published, by the name of its channel; the first is a tracingChannel. */
export interface LockEvents {
  'redis-exp-lock:acquire': AcquireEvent;
  'redis-exp-lock:release': ReleaseEvent;
  'redis-exp-lock:extend': ExtendEvent;
  'redis-exp-lock:lost': LostEvent;
  'redis-exp-lock:warning': WarningEvent;
}

const warningChannel = channel('redis-exp-lock:warning');

/** @internal What `lockEvent` reads. */
export interface Observable {
  readonly keys: Key;
  /** How it is held, where several may hold the key. */
  readonly mode: { readonly kind: keyof typeof kindsOfModes } | undefined;
  /** Of a mutex that is more than one. */
  readonly kind: LockKind | undefined;
  readonly settings: { readonly name: string };
  readonly store: { readonly kind: StoreKind };
}

const kindsOfModes = { shared: 'read', exclusive: 'write', counted: 'permits' } as const;

/** @internal What every event says of a lock. */
export function lockEvent({ keys, mode, kind = 'mutex', settings, store }: Observable): LockEvent {
  return { key: keys, name: settings.name, kind: mode ? kindsOfModes[mode.kind] : kind, store: store.kind };
}

/** @internal What a warning says that is about no lock. */
export function noLock(store: StoreKind): Pick<WarningEvent, 'key' | 'name' | 'kind' | 'store'> {
  return { key: null, name: '', kind: null, store };
}

/** Read once: reading the environment costs more than everything else here. */
const inDevelopment = environmentVariable('NODE_ENV') === 'development';

/** Whether warnings are worth looking for: somebody listens, or this is a development process. */
export function warningsWanted(): boolean {
  return warningChannel.hasSubscribers || inDevelopment;
}

/** Tells the channel; in development, or if it is loud, also the process, so that it is seen without any set-up. */
export function warn(event: WarningEvent, isLoud = inDevelopment): void {
  if (warningChannel.hasSubscribers) warningChannel.publish(event);
  if (!isLoud) return;
  const detail = event.error instanceof Error ? event.error.stack : undefined;
  process.emitWarning(event.message, { type: 'RedisExpLockWarning', code: event.code, ...(detail && { detail }) });
}
