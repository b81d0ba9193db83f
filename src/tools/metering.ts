// The measurements of all locks of this process, made from the events for the exporters (otel.ts, prometheus.ts).
//
// Invariant: each increment of a gauge is followed by one decrement under the same labels, at the latest when the metering ends. No
// label contains a key.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { AcquireEvent, HoldMessage, LockEvent, LostEvent, WarningEvent } from '../core/events';

const waitBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];
const lockLabels = ['lock.name', 'lock.kind'];

/** One metric, in OpenTelemetry's words. */
export interface Metric {
  readonly name: string;
  readonly type: 'histogram' | 'upDownCounter' | 'counter';
  /** `s`, or the counted thing in braces. */
  readonly unit: string;
  readonly description: string;
  readonly labels: readonly string[];
  /** The upper bounds of a histogram, in seconds. */
  readonly buckets?: readonly number[];
}

export const metrics = {
  acquireDuration: {
    name: 'redis_exp_lock.acquire.duration',
    type: 'histogram',
    unit: 's',
    description: 'Time from the call to its outcome.',
    labels: [...lockLabels, 'outcome', 'contended', 'error.type'],
    buckets: waitBuckets,
  },
  holdDuration: {
    name: 'redis_exp_lock.hold.duration',
    type: 'histogram',
    unit: 's',
    description: 'Time from the grant to the release or the loss.',
    labels: [...lockLabels, 'outcome'],
    buckets: [...waitBuckets, 300, 1800],
  },
  held: {
    name: 'redis_exp_lock.held',
    type: 'upDownCounter',
    unit: '{lock}',
    description: 'Locks that this process holds.',
    labels: lockLabels,
  },
  waiting: {
    name: 'redis_exp_lock.waiting',
    type: 'upDownCounter',
    unit: '{acquire}',
    description: 'Calls of this process that have no answer yet.',
    labels: lockLabels,
  },
  lost: {
    name: 'redis_exp_lock.lost',
    type: 'counter',
    unit: '{lock}',
    description: 'Locks that were lost while they were held.',
    labels: ['reason'],
  },
  warnings: {
    name: 'redis_exp_lock.warnings',
    type: 'counter',
    unit: '{warning}',
    description: 'Warnings, by code.',
    labels: ['code'],
  },
} as const satisfies Record<string, Metric>;

export type Labels = Record<string, string | boolean>;
/** Adds to a counter, or puts a duration in seconds into a histogram. */
export type Recorder = (value: number, labels: Labels) => void;

/** Records every measurement until the returned function is called, which takes back the open counts. */
export function meterLocks(recorderOf: (metric: Metric) => Recorder): () => void {
  const recorders = Object.entries(metrics).map(([name, metric]) => [name, recorderOf(metric)]);
  const record: Record<keyof typeof metrics, Recorder> = Object.fromEntries(recorders);
  const waiting = counted(record.waiting);
  const held = counted(record.held);
  const stop = listen({
    'tracing:redis-exp-lock:acquire:start': (event: AcquireEvent) => waiting.add(event),
    'tracing:redis-exp-lock:acquire:asyncEnd': (event: AcquireEvent) => {
      if (waiting.remove(event)) record.acquireDuration(event.waitedMs! / 1000, acquireLabelsOf(event));
    },
    'redis-exp-lock:hold': ({ phase, hold }: HoldMessage) => {
      if (phase === 'granted') held.add(hold);
      else if (phase === 'changed' && held.remove(hold)) held.add(hold);
      else if (phase === 'ended' && held.remove(hold) && hold.outcome !== 'detached') {
        record.holdDuration(hold.heldMs! / 1000, { ...labelsOf(hold), outcome: hold.outcome! });
      }
    },
    'redis-exp-lock:lost': ({ reason }: LostEvent) => record.lost(1, { reason }),
    'redis-exp-lock:warning': ({ code }: WarningEvent) => record.warnings(1, { code }),
  });
  return () => {
    stop();
    waiting.clear();
    held.clear();
  };
}

/** Counts open events on a gauge, each under the labels that it had when it was added. */
function counted(count: Recorder) {
  const open = new Map<LockEvent, Labels>();
  return {
    add(event: LockEvent): void {
      const labels = labelsOf(event);
      open.set(event, labels);
      count(1, labels);
    },
    /** Removes an event. Returns false if the event was not counted. */
    remove(event: LockEvent): boolean {
      const labels = open.get(event);
      if (labels !== undefined) count(-1, labels);
      return open.delete(event);
    },
    clear(): void {
      for (const labels of open.values()) count(-1, labels);
      open.clear();
    },
  };
}

function labelsOf({ name, kind }: LockEvent): Labels {
  return { 'lock.name': name, 'lock.kind': kind };
}

function acquireLabelsOf(event: AcquireEvent): Labels {
  const { outcome, queued, attempts, error } = event;
  // A call that is aborted after an attempt was waiting, for the end of a pause or for a reply.
  const waited = queued! || attempts! > 1 || (outcome === 'aborted' && attempts! > 0);
  const contended = waited || outcome === 'busy' || outcome === 'timeout';
  const labels = { ...labelsOf(event), outcome: outcome!, contended };
  return error === undefined ? labels : { ...labels, 'error.type': errorType(error) };
}

/** @internal The code of an error, or its name if it has no code. */
export function errorType(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  if (typeof code === 'string') return code;
  return typeof name === 'string' ? name : 'Error';
}

/** @internal Calls these listeners, which are given by channel, until the returned function is called. */
export function listen(listeners: Record<string, (message: any) => void>): () => void {
  const entries = Object.entries(listeners);
  for (const [name, listener] of entries) subscribe(name, listener);
  return () => {
    for (const [name, listener] of entries) unsubscribe(name, listener);
  };
}
