// A row is one lock: its holder and until when, and its queue. Plain data, so that a table may keep it as text.
import type { Mode } from '../contract';

export interface LockRow {
  readonly key: string;
  token: string | undefined;
  /** Infinity: never ends. */
  endMs: number;
  queue: QueuedRow[];
  queueEndMs: number;
  /** How often it was handed off in a row without being free. */
  handOffs: number;
  /** Until then the key yields to callers outside the queue. */
  yieldUntilMs: number;
  poll: Poll | undefined;
  /** Of a key that several may hold. */
  shared: Shared | undefined;
  /** What is cached beside it. */
  value: { readonly text: string; readonly endMs: number } | undefined;
  /** When the slot began whose job has run last, and when it ends. */
  slot: { readonly startMs: number; readonly endMs: number } | undefined;
}

export interface QueuedRow {
  readonly ticket: number;
  readonly channel: string;
  readonly id: string;
  readonly token: string;
  readonly lifetimeMs: number;
  readonly fences: number;
  readonly deadlineMs: number;
}

/** Callers that poll beside a queue: the longest of their pauses, in vain since when, and until when that is worth knowing. */
export interface Poll {
  readonly pauseMs: number;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** The holders and the queue of a key that several may hold. */
export interface Shared {
  holders: SharedHolder[];
  queue: SharedEntry[];
  /** When a writer was last granted the lock. */
  phase: number;
  /** The ticket of the last waiter that was notified while more could be admitted; 0: all of them were. */
  notified: number;
  /** How many permits there are, where that is known. */
  most: number;
}

export interface SharedHolder {
  readonly kind: Mode['kind'];
  readonly permits: number;
  readonly step: number;
  fence: number;
  readonly token: string;
  readonly group: string;
  /** Infinity: never ends. */
  endMs: number;
}

export interface SharedEntry {
  readonly ticket: number;
  readonly deadlineMs: number;
  readonly id: string;
  readonly kind: Mode['kind'] | 'upgrade';
  readonly permits: number;
  readonly prefer: Mode['prefer'];
  readonly channel: string;
  readonly token: string;
  readonly group: string;
}

/** The table. A row that was got or set may be changed in place until the command is done. */
export interface Rows {
  get(key: string): LockRow | undefined;
  set(key: string, row: LockRow): void;
  /** The last fence minted for any row; 0: none is remembered. */
  fence: number;
}

/** A table in memory. */
export class MemoryRows extends Map<string, LockRow> implements Rows {
  fence = 0;
}

export function newRow(key: string): LockRow {
  return {
    key,
    token: undefined,
    endMs: 0,
    queue: [],
    queueEndMs: 0,
    handOffs: 0,
    yieldUntilMs: 0,
    poll: undefined,
    shared: undefined,
    value: undefined,
    slot: undefined,
  };
}

export function newShared(): Shared {
  return { holders: [], queue: [], phase: 0, notified: 0, most: 0 };
}

/**
 * Whether nothing is lost with the row: it is free and not queued for, and nothing is cached. A table drops such rows, so that it does not grow with every key that was ever used.
 */
export function isSpare(row: LockRow, micros: number): boolean {
  const nowMs = Math.floor(micros / 1000);
  const isFree = row.token === undefined || row.endMs <= nowMs;
  if (!isFree || row.yieldUntilMs > nowMs) return false;
  if (row.value !== undefined && row.value.endMs > nowMs) return false;
  if (row.slot !== undefined && row.slot.endMs > nowMs) return false;
  const { holders, queue } = row.shared ?? newShared();
  if (holders.some((each) => each.endMs > nowMs) || queue.some((each) => each.deadlineMs >= nowMs)) return false;
  return row.queue.every((each) => each.deadlineMs < nowMs);
}
