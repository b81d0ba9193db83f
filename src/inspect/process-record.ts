// The record in which a process registers the locks that it holds and waits for, and the reader of such records.
//
// Invariant: anybody can write a record. Malformed parts are left out, and a record is used for nothing but lists.

import type { HoldKind } from '../core/lock-state';
import type { Processes } from '../store/operator';

/** A lock that a process holds. Times are ms of the epoch, by the store's clock. */
export interface RegisteredHold {
  readonly key: string;
  readonly kind: HoldKind;
  readonly fence: number;
  readonly since: number;
  /** The first 8 hex digits of the SHA-1 of the holder's token. */
  readonly id: string;
  readonly owner: string | null;
  readonly permits: number;
  /** The time at which the lock ends unless it is renewed; null: never. */
  readonly until: number | null;
}

/** A lock that a process waits for. */
export interface RegisteredWait {
  readonly key: string;
  readonly kind: HoldKind;
  readonly since: number;
  readonly owner: string | null;
  readonly permits: number;
}

/** A lock that a process held and lost. */
export interface RegisteredLoss {
  readonly key: string;
  readonly id: string;
  /** The time at which the process noticed the loss. */
  readonly at: number;
}

/** The record of one process. */
export interface ProcessRecord {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly held: readonly RegisteredHold[];
  readonly waiting: readonly RegisteredWait[];
  /** The losses of the last hour; undefined if there were none. */
  readonly lost?: readonly RegisteredLoss[] | undefined;
}

const known = new WeakMap<Processes, readonly ProcessRecord[]>();

/** One record for each process. The texts are parsed once for all callers. */
export function recordsOf(processes: Processes): readonly ProcessRecord[] {
  let records = known.get(processes);
  if (records === undefined) {
    records = merged(processes.texts.flatMap((text) => readRecord(text) ?? []));
    known.set(processes, records);
  }
  return records;
}

/** Merges the parts of each record. A process with very many locks writes its record in parts. */
function merged(parts: readonly ProcessRecord[]): ProcessRecord[] {
  const byId = new Map<string, ProcessRecord[]>();
  for (const part of parts) byId.set(part.id, [...(byId.get(part.id) ?? []), part]);
  return [...byId.values()].map((all) => {
    const [first] = all as [ProcessRecord];
    if (all.length === 1) return first;
    const lost = all.flatMap((each) => each.lost ?? []);
    return { ...first, held: all.flatMap(({ held }) => held), waiting: all.flatMap(({ waiting }) => waiting), lost };
  });
}

/** Parses a record. Returns undefined if the record as a whole is malformed. */
function readRecord(text: string): ProcessRecord | undefined {
  try {
    const { id, host, pid, held, waiting, lost } = JSON.parse(text) as ProcessRecord;
    if (typeof id !== 'string' || !Array.isArray(held) || !Array.isArray(waiting)) return undefined;
    const losses = Array.isArray(lost) ? lost.filter(isLoss) : undefined;
    return { id, host, pid, held: held.filter(isHold), waiting: waiting.filter(isWait), lost: losses };
  } catch {
    return undefined;
  }
}

// These checks avoid loops over field names, because there may be 100,000 entries.

function isHold(each: Partial<RegisteredHold> | null): boolean {
  if (typeof each !== 'object' || each === null) return false;
  const { id, fence, until } = each;
  const isEnd = until === null || Number.isFinite(until);
  return isWait(each) && typeof id === 'string' && Number.isFinite(fence) && isEnd;
}

function isWait(each: Partial<RegisteredWait> | null): boolean {
  if (typeof each !== 'object' || each === null) return false;
  const { key, kind, since, permits, owner } = each;
  const isNamed = typeof key === 'string' && typeof kind === 'string';
  return isNamed && Number.isFinite(since) && Number.isFinite(permits) && (owner === null || typeof owner === 'string');
}

function isLoss(each: Partial<RegisteredLoss> | null): boolean {
  if (typeof each !== 'object' || each === null) return false;
  return typeof each.key === 'string' && typeof each.id === 'string' && Number.isFinite(each.at);
}
