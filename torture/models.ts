/**
 * The models that a history is checked with: each is a promise of the README, as a function from what was seen to what breaks it.
 *
 * Invariant: a model reports only what is certain. Two grants conflict only while both were certainly valid; a fence counts
 * only if its grant was certainly valid at some time.
 */
import type { Account, Hold, Operation, Written } from './history';

export interface Violation {
  readonly model: string;
  readonly message: string;
  /** The operations that it is about. */
  readonly ids: readonly string[];
  /** The stretch of the history to show. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** From the beginning of a failover to its end. A lock that was granted before it may be granted once more. */
export interface Failover {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A lock that expires: no two grants are valid at the same time. Also for leaders' terms. */
export function mutex(holds: readonly Hold[]): Violation[] {
  return excluding('mutex', holds, () => false);
}

/** Readers of one group share; all others exclude one another. */
export function readersWriter(holds: readonly Hold[]): Violation[] {
  return excluding('readers-writer', holds, bothRead);
}

/** No more permits are held than there are. */
export function semaphore(holds: readonly Hold[], most: number): Violation[] {
  const violations: Violation[] = [];
  for (const some of byKey(holds)) {
    let active: Hold[] = [];
    for (const hold of some) {
      active = active.filter(({ untilMs }) => untilMs > hold.fromMs);
      active.push(hold);
      const out = active.reduce((sum, { permits }) => sum + permits, 0);
      if (out > most) violations.push(between('semaphore', `${out} permits of ${most} are out at ${hold.key}`, active));
    }
  }
  return violations;
}

function bothRead(one: Hold, other: Hold): boolean {
  return one.kind === 'read' && other.kind === 'read' && one.group === other.group;
}

/** @param mayShare Whether two may hold a key at the same time. */
function excluding(model: string, holds: readonly Hold[], mayShare: (a: Hold, b: Hold) => boolean): Violation[] {
  const violations: Violation[] = [];
  for (const some of byKey(holds)) {
    let active: Hold[] = [];
    for (const hold of some) {
      active = active.filter(({ untilMs }) => untilMs > hold.fromMs);
      for (const other of active) {
        if (mayShare(hold, other)) continue;
        const ms = Math.min(hold.untilMs, other.untilMs) - hold.fromMs;
        const message = `${other.id} and ${hold.id} hold ${hold.key} at the same time, for ${ms.toFixed(3)} ms`;
        violations.push(between(model, message, [other, hold]));
      }
      active.push(hold);
    }
  }
  return violations;
}

/**
 * Later holders have larger fences. Readers of one phase share theirs, and after a writer that became a reader its own. A
 * lock that is adopted keeps its fence. On a quorum, readers of one phase may have different ones, and permits the same.
 * Permits have fences of their own, in no order.
 */
export function fences(holds: readonly Hold[], isQuorum = false): Violation[] {
  const violations: Violation[] = [];
  // Also of grants that were over at once.
  const shared = new Set(holds.filter(({ downgraded }) => downgraded).map(({ key, fence }) => `${fence} of ${key}`));
  for (const some of byKey(holds.filter(({ fence, kind }) => fence > 0 && kind !== 'permits'))) {
    const largest = new Map<string, Hold>();
    for (const hold of some) {
      for (const earlier of largest.values()) {
        const isAdopted = earlier.id === hold.id && hold.kind === 'mutex';
        const mayBeSame =
          isAdopted || bothRead(earlier, hold) || (hold.kind === 'read' && shared.has(`${hold.fence} of ${hold.key}`));
        if (hold.fence > earlier.fence || (hold.fence === earlier.fence && mayBeSame)) continue;
        if (isQuorum && bothRead(earlier, hold)) continue;
        const message = `the fence of ${hold.key} is ${hold.fence} (${hold.id}) after ${earlier.fence} (${earlier.id})`;
        violations.push(between('fence', message, [earlier, hold]));
      }
      const sort = `${hold.kind} ${hold.group}`;
      if (hold.fence >= (largest.get(sort)?.fence ?? 0)) largest.set(sort, hold);
    }
  }
  return isQuorum ? violations : [...violations, ...ofPermits(holds)];
}

function ofPermits(holds: readonly Hold[]): Violation[] {
  const violations: Violation[] = [];
  const seen = new Map<string, Hold>();
  for (const hold of sorted(holds.filter(({ fence, kind }) => fence > 0 && kind === 'permits'))) {
    const name = `${hold.fence} of ${hold.key}`;
    const other = seen.get(name);
    const message = `the fence ${name} was given to ${other?.id} and to ${hold.id}`;
    if (other !== undefined) violations.push(between('fence', message, [other, hold]));
    seen.set(name, hold);
  }
  return violations;
}

/** Every call settles in time, unless its process was killed; and with an answer that is documented. */
export function settles(operations: readonly Operation[], world: World): Violation[] {
  const violations: Violation[] = [];
  for (const operation of operations) {
    const { id, p, job, askedMs, boundMs, doneMs, outcome } = operation;
    if (outcome !== undefined && !world.outcomes.test(outcome)) {
      violations.push(about(operation, 'answers', `${job} ${id} ended with ${outcome}`, doneMs!));
    }
    const endMs = doneMs ?? world.endOf(p);
    if (endMs === undefined) continue; // killed
    const tookMs = endMs - askedMs - world.pausedMs(askedMs, endMs, p);
    if (tookMs <= boundMs + world.slackMs) {
      if (doneMs !== undefined) continue;
      if (world.isFinished(p)) violations.push(about(operation, 'settles', `${job} ${id} never settled`, endMs));
      continue;
    }
    const what = doneMs === undefined ? 'has not settled after' : 'took';
    const message = `${job} ${id} ${what} ${tookMs.toFixed(0)} ms; ${boundMs} ms were promised`;
    violations.push(about(operation, 'settles', message, endMs));
  }
  return violations;
}

/** The facts that a model must know of the processes. */
export interface World {
  /** Answers that are allowed. */
  readonly outcomes: RegExp;
  /** The tolerance for a machine that is busy. */
  readonly slackMs: number;
  /** When the process wrote its last word; undefined: it was killed. */
  endOf(p: string): number | undefined;
  /** True if the process ended in order, and so leaves nothing open. */
  isFinished(p: string): boolean;
  /** The part of that time in which the process, or what all of them need, was paused. */
  pausedMs(fromMs: number, toMs: number, p?: string): number;
}

/** Checks that, once the faults have ended, no lock is idle that callers are queued for. @returns also the longest such time. */
export function idle(
  { holds, operations }: Account,
  window: { readonly fromMs: number; readonly toMs: number },
  maxMs: number,
  world: World,
): { violations: Violation[]; longestMs: number } {
  const violations: Violation[] = [];
  let longestMs = 0;
  for (const [key, waits] of queuedByKey(operations)) {
    for (const gap of gapsOf(
      holds.filter((hold) => hold.key === key),
      window,
    )) {
      for (const wait of waits) {
        const fromMs = Math.max(gap.fromMs, wait.askedMs);
        const toMs = Math.min(gap.toMs, wait.heldMs ?? wait.doneMs ?? fromMs);
        const ms = toMs - fromMs - world.pausedMs(fromMs, toMs);
        longestMs = Math.max(longestMs, ms);
        if (ms <= maxMs) continue;
        const message = `${key} was held by nobody for ${ms.toFixed(0)} ms while ${wait.id} was queued`;
        violations.push({ model: 'waiting', message, ids: [wait.id], fromMs, toMs });
      }
    }
  }
  return { violations, longestMs };
}

function queuedByKey(operations: readonly Operation[]): Map<string, Operation[]> {
  const waits = new Map<string, Operation[]>();
  for (const operation of operations) {
    const key = operation.queued && operation.keys.length === 1 ? operation.keys[0]! : undefined;
    if (key !== undefined) waits.set(key, [...(waits.get(key) ?? []), operation]);
  }
  return waits;
}

/** When it was certainly free. */
function gapsOf(holds: readonly Hold[], window: { readonly fromMs: number; readonly toMs: number }) {
  const gaps: { fromMs: number; toMs: number }[] = [];
  let freeMs = window.fromMs;
  for (const { fromMs, overMs } of [...holds].sort((a, b) => a.fromMs - b.fromMs)) {
    if (fromMs > freeMs && fromMs <= window.toMs) gaps.push({ fromMs: freeMs, toMs: fromMs });
    freeMs = Math.max(freeMs, overMs);
  }
  if (freeMs < window.toMs) gaps.push({ fromMs: freeMs, toMs: window.toMs });
  return gaps;
}

/**
 * A job runs once a slot: it begins once where the slot is marked before; else it does not begin again once it was done. A caller that was
 * stopped between its grant and its job may begin late; then its lock had ended before the job of the other one was done.
 */
export function once(events: readonly Written[]): Violation[] {
  const violations: Violation[] = [];
  const ends = new Map(events.flatMap((event) => (event.e === 'hold' ? [[event.id, event.until]] : [])));
  const first = new Map<string, Written & { e: 'slot' }>();
  for (const event of events) {
    if (event.e !== 'slot') continue;
    const slot = `${event.mode} ${event.slot}`;
    const before = first.get(slot);
    const isLate = before?.done && (ends.get(event.id) ?? Number.POSITIVE_INFINITY) <= before.t;
    if (before !== undefined && !event.done && before.id !== event.id && !isLate) {
      const message = `slot ${slot} was run by ${before.id} and again by ${event.id}`;
      violations.push({ model: 'once', message, ids: [before.id, event.id], fromMs: before.t, toMs: event.t });
    }
    if (before === undefined && (event.done || event.mode === 'at-most-once')) first.set(slot, event);
  }
  return violations;
}

/** A cached value was loaded by a caller, and not longer ago than values are kept. */
export function cached(events: readonly Written[], operations: readonly Operation[], ttlMs: number): Violation[] {
  const violations: Violation[] = [];
  const loads = new Map<string, number>();
  const asked = new Map(operations.map((operation) => [operation.id, operation]));
  for (const event of events) {
    if (event.e !== 'value') continue;
    if (event.loaded) {
      loads.set(event.value, event.t);
      continue;
    }
    const operation = asked.get(event.id)!;
    const loadedMs = loads.get(event.value);
    if (loadedMs !== undefined && loadedMs + ttlMs >= operation.askedMs) continue;
    const age =
      loadedMs === undefined ? 'nobody had loaded' : `was loaded ${(event.t - loadedMs).toFixed(0)} ms before`;
    violations.push(about(operation, 'cached', `${event.id} was given ${event.value}, which ${age}`, event.t));
  }
  return violations;
}

/** The violations without those that a failover explains: one of the two was granted before it, and the other after it began. */
export function promised(violations: readonly Violation[], failovers: readonly Failover[]): Violation[] {
  return violations.filter(({ fromMs, toMs }) => !failovers.some((each) => each.fromMs < toMs && each.toMs > fromMs));
}

function byKey(holds: readonly Hold[]): Iterable<Hold[]> {
  const keys = new Map<string, Hold[]>();
  for (const hold of sorted(holds)) {
    const some = keys.get(hold.key);
    if (some === undefined) keys.set(hold.key, [hold]);
    else some.push(hold);
  }
  return keys.values();
}

/** The holds in the order in which they began, without those that were never certainly valid. */
function sorted(holds: readonly Hold[]): Hold[] {
  return holds.filter(({ fromMs, untilMs }) => untilMs > fromMs).sort((a, b) => a.fromMs - b.fromMs);
}

function between(model: string, message: string, holds: readonly Hold[]): Violation {
  const ids = [...new Set(holds.map(({ id }) => id))];
  const fromMs = Math.min(...holds.map((hold) => hold.fromMs));
  return { model, message, ids, fromMs, toMs: Math.max(...holds.map((hold) => hold.fromMs)) };
}

function about({ id, askedMs }: Operation, model: string, message: string, toMs: number): Violation {
  return { model, message, ids: [id], fromMs: askedMs, toMs };
}
