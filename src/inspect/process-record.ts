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
  /** The id of the process. */
  readonly process: string;
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

/** The registered locks, waits and losses of all processes. */
export interface Registered {
  /** The ids of the processes that have a record. */
  readonly processes: ReadonlySet<string>;
  readonly held: readonly RegisteredHold[];
  readonly waiting: readonly RegisteredWait[];
  /** The losses of the last hour. */
  readonly lost: readonly RegisteredLoss[];
}

/** Reads the records of all processes. A process with very many locks writes its record in parts, with its id in each. */
export function registeredIn(texts: readonly string[]): Registered {
  const records = texts.flatMap((text) => readRecord(text) ?? []);
  return {
    processes: new Set(records.map(({ id }) => id)),
    held: records.flatMap(({ id, held }) => held.filter(isHold).map((each) => Object.assign(each, { process: id }))),
    waiting: records.flatMap(({ waiting }) => waiting.filter(isWait)),
    lost: records.flatMap(({ lost }) => lost.filter(isLoss)),
  };
}

/** Parses a record. Returns undefined if the record as a whole is malformed. */
function readRecord(text: string): { id: string; held: any[]; waiting: any[]; lost: any[] } | undefined {
  try {
    const { id, held, waiting, lost } = JSON.parse(text);
    if (typeof id !== 'string' || !Array.isArray(held) || !Array.isArray(waiting)) return undefined;
    return { id, held, waiting, lost: Array.isArray(lost) ? lost : [] };
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
  if (typeof each?.key !== 'string' || typeof each.kind !== 'string') return false;
  const { since, permits, owner } = each;
  return Number.isFinite(since) && Number.isFinite(permits) && (owner === null || typeof owner === 'string');
}

function isLoss(each: Partial<RegisteredLoss> | null): boolean {
  return typeof each?.key === 'string' && typeof each.id === 'string' && Number.isFinite(each.at);
}
