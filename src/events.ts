// What others may listen to, through node:diagnostics_channel. Nothing is built or measured unless somebody listens, and
// a listener that throws cannot reach the lock: diagnostics_channel reports it as an uncaught exception of its own.
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { environmentVariable } from './environment';
import type { LossReason } from './errors';
import type { Key } from './keys';

/** `redis-exp-lock:acquire`, a tracingChannel: one trace for each acquire; `result` is the lease. */
export interface AcquireEvent {
  key: Key;
}

/** `redis-exp-lock:release`: a release was answered. */
export interface ReleaseEvent {
  key: Key;
  fence: number;
  /** false: it was no longer ours. */
  released: boolean;
}

/** `redis-exp-lock:lost`: a lock that we believed in may belong to somebody else. */
export interface LostEvent {
  key: Key;
  fence: number;
  reason: LossReason;
}

/** A number of servers that gains nothing; a server that does not tell when it was started; one that is silent. */
type QuorumWarning = 'quorum-size' | 'no-restart-guard' | 'node-silent';

/** `redis-exp-lock:warning`: something to look at that changes no result. */
export interface WarningEvent {
  code:
    | 'never-released'
    | 'release-failed'
    | 'eviction'
    | 'renewal-failed'
    | 'no-wake-ups'
    | 'lead-failed'
    | 'proclaim-failed'
    | QuorumWarning;
  message: string;
  key: Key | null;
  error?: unknown;
}

/** What is published, by the name of its channel; the first is a tracingChannel. */
export interface LockEvents {
  'redis-exp-lock:acquire': AcquireEvent;
  'redis-exp-lock:release': ReleaseEvent;
  'redis-exp-lock:lost': LostEvent;
  'redis-exp-lock:warning': WarningEvent;
}

const acquireChannel = tracingChannel<AcquireEvent, AcquireEvent>('redis-exp-lock:acquire');
const { start, end, asyncStart, asyncEnd, error } = acquireChannel;
const releaseChannel = channel('redis-exp-lock:release');
const lostChannel = channel('redis-exp-lock:lost');
const warningChannel = channel('redis-exp-lock:warning');

/** Runs one acquire, traced when somebody listens. */
export function traceAcquire<T>(key: Key, acquire: () => Promise<T>): Promise<T> {
  // Asked part by part: the channel itself has no `hasSubscribers` before Node 20.13.
  const traced =
    start.hasSubscribers ||
    end.hasSubscribers ||
    asyncStart.hasSubscribers ||
    asyncEnd.hasSubscribers ||
    error.hasSubscribers;
  return traced ? acquireChannel.tracePromise(acquire, { key }) : acquire();
}

export function emitRelease(event: ReleaseEvent): void {
  if (releaseChannel.hasSubscribers) releaseChannel.publish(event);
}

export function emitLost(event: LostEvent): void {
  if (lostChannel.hasSubscribers) lostChannel.publish(event);
}

/** Read once: reading the environment costs more than everything else here. */
const inDevelopment = environmentVariable('NODE_ENV') === 'development';

/** Whether warnings are worth looking for: somebody listens, or this is a development process. */
export function warningsWanted(): boolean {
  return warningChannel.hasSubscribers || inDevelopment;
}

/** Tells the channel; in development also the process, so that it is seen without any set-up. */
export function warn(event: WarningEvent): void {
  if (warningChannel.hasSubscribers) warningChannel.publish(event);
  if (!inDevelopment) return;
  const detail = event.error instanceof Error ? event.error.stack : undefined;
  process.emitWarning(event.message, { type: 'RedisExpLockWarning', code: event.code, ...(detail && { detail }) });
}
