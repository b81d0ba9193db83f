// What a process has written down of what it holds and waits for: its fields, and how others read them.
//
// Invariant: anybody can write there. What is not well formed is left out, and nothing of it is trusted for more than a list.

import type { HoldKind } from '../core/lock-state';
import type { Processes } from '../store/operator';

/** What is held. Times are ms of the epoch, by the store's clock. */
export interface RegisteredHold {
  readonly key: string;
  readonly kind: HoldKind;
  readonly fence: number;
  readonly since: number;
  /** The first 8 hex digits of the SHA-1 of its token. */
  readonly id: string;
  readonly owner: string | null;
  readonly permits: number;
  /** When it ends unless it is renewed; null: never. */
  readonly until: number | null;
}

/** What is waited for. */
export interface RegisteredWait {
  readonly key: string;
  readonly kind: HoldKind;
  readonly since: number;
  readonly owner: string | null;
  readonly permits: number;
}

/** What was held, and lost. */
export interface RegisteredLoss {
  readonly key: string;
  readonly id: string;
  /** When that was noticed. */
  readonly at: number;
}

/** What a process writes down. */
export interface ProcessRecord {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly held: readonly RegisteredHold[];
  readonly waiting: readonly RegisteredWait[];
  /** In the last hour, where anything was. */
  readonly lost?: readonly RegisteredLoss[] | undefined;
}

const known = new WeakMap<Processes, readonly ProcessRecord[]>();

/** One record for each process. Read once, however many ask. */
export function recordsOf(processes: Processes): readonly ProcessRecord[] {
  let records = known.get(processes);
  if (records === undefined) {
    records = merged(processes.texts.flatMap((text) => readRecord(text) ?? []));
    known.set(processes, records);
  }
  return records;
}

/** A process with very many locks writes them down in parts. */
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

/** undefined: nothing of it is well formed. */
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

// Spelled out: there may be 100,000 of them.

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
