// The record in which a process registers the locks that it holds and waits for, and the reader of such records.
//
// Invariant: anybody can write a record. Malformed parts are left out, and a record is used for nothing but lists.

import type { HoldKind } from '../core/lock-state';

/** A lock that a process waits for. Times are ms of the epoch, by the store's clock. */
export interface RegisteredWait {
  readonly key: string;
  readonly kind: HoldKind;
  readonly since: number;
  readonly owner: string | null;
  readonly permits: number;
}

/** A lock that a process holds. */
export interface RegisteredHold extends RegisteredWait {
  readonly fence: number;
  /** The first 8 hex digits of the SHA-1 of the holder's token. */
  readonly id: string;
  /** The time at which the lock ends unless it is renewed; null: never. */
  readonly until: number | null;
}

/** A lock that a process held and lost. */
export interface RegisteredLoss {
  readonly key: string;
  readonly id: string;
  /** The time at which the process noticed the loss. */
  readonly at: number;
}

/** The record of one process. Its host and its process id are there for people who read the key. */
export interface ProcessRecord {
  readonly id: string;
  readonly held: readonly RegisteredHold[];
  readonly waiting: readonly RegisteredWait[];
  /** The losses of the last hour. */
  readonly lost: readonly RegisteredLoss[];
}

/** Reads one record for each process. A process with very many locks writes its record in parts, which are merged. */
export function recordsOf(texts: readonly string[]): ProcessRecord[] {
  const parts = new Map<string, ProcessRecord[]>();
  for (const part of texts.flatMap((text) => readRecord(text) ?? [])) addTo(parts, part.id, part);
  return [...parts].map(([id, all]) => ({
    id,
    held: all.flatMap(({ held }) => held),
    waiting: all.flatMap(({ waiting }) => waiting),
    lost: all.flatMap(({ lost }) => lost),
  }));
}

export function addTo<T>(lists: Map<string, T[]>, name: string, each: T): void {
  const others = lists.get(name);
  if (others === undefined) lists.set(name, [each]);
  else others.push(each);
}

/** Parses a record. Returns undefined if the record as a whole is malformed. */
function readRecord(text: string): ProcessRecord | undefined {
  try {
    const { id, held, waiting, lost = [] } = JSON.parse(text) as ProcessRecord;
    if (typeof id !== 'string' || !Array.isArray(held) || !Array.isArray(waiting)) return undefined;
    const losses = Array.isArray(lost) ? lost.filter(isLoss) : [];
    return { id, held: held.filter(isHold), waiting: waiting.filter(isWait), lost: losses };
  } catch {
    return undefined;
  }
}

// These checks avoid loops over field names, because there may be 100,000 entries.

function isHold(each: Partial<RegisteredHold> | null): boolean {
  if (!isWait(each)) return false;
  const { id, fence, until } = each!;
  return typeof id === 'string' && Number.isFinite(fence) && (until === null || Number.isFinite(until));
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
