// One lock as a row: its holder with its end, and its queue. Plain data, so that a table can keep it as text.
import type { Mode, QueueEntry } from '../../contract';

/** An end so far away that it is none; finite, so that a table can keep it as text. */
export const neverMs = 2 ** 53;

export interface LockRow {
  readonly key: string;
  token: string | undefined;
  /** From `neverMs` on: no end. */
  endMs: number;
  queue: QueuedRow[];
  queueEndMs: number;
  /** The number of hand-offs in a row, without the lock being free. */
  handOffs: number;
  /** The end of the yield: until then only callers outside the queue may take the key. */
  yieldUntilMs: number;
  poll?: Poll | undefined;
  shared?: Shared | undefined;
  value?: { readonly text: string; readonly endMs: number } | undefined;
  /** The start and the end of the last slot whose job has run. */
  slot?: { readonly startMs: number; readonly endMs: number } | undefined;
}

export interface QueuedRow extends Pick<QueueEntry, 'channel' | 'id' | 'ticket'> {
  readonly token: string;
  readonly lifetimeMs: number;
  readonly fences: number;
  readonly deadlineMs: number;
}

/** Callers that poll beside a queue: their longest pause, the moment since which they poll in vain, and the expiry of this mark. */
interface Poll {
  readonly pauseMs: number;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** The holders and the queue of a key with a mode. */
export interface Shared {
  holders: SharedHolder[];
  queue: SharedEntry[];
  /** The time, in µs, of the last writer's grant. */
  phase: number;
  /** The ticket of the last waiter that was notified when more could be admitted; 0: all of them were notified. */
  notified: number;
  /** The number of permits of the semaphore; 0: not known. Tables of the host have it by this name. */
  most: number;
}

export interface SharedHolder extends Pick<Mode, 'group' | 'kind' | 'permits' | 'step'> {
  readonly token: string;
  fence: number;
  endMs: number;
}

export interface SharedEntry
  extends Omit<QueuedRow, 'fences' | 'lifetimeMs'>,
    Pick<Mode, 'group' | 'permits' | 'prefer'> {
  readonly kind: Mode['kind'] | 'upgrade';
}

/** The rows of a table. */
export interface Rows {
  /** The row of a key, a new one if there is none. It may be changed in place until the command is done. */
  row(key: string): LockRow;
  /** The keys of all rows, including those of free locks that were not yet removed. */
  keys(): Iterable<string>;
  /** The last fence minted for any row; 0: none is remembered. */
  fence: number;
}

export class MemoryRows extends Map<string, LockRow> implements Rows {
  fence = 0;

  row(key: string): LockRow {
    let row = this.get(key);
    if (row === undefined) {
      row = newRow(key);
      this.set(key, row);
    }
    return row;
  }
}

/** The whole ms of a time in µs. */
export function msOf(micros: number): number {
  return Math.floor(micros / 1000);
}

/** The ms left of a lifetime that may have no end. */
export function remainingOf(leftMs: number): number {
  return leftMs > neverMs / 2 ? Number.POSITIVE_INFINITY : leftMs;
}

export function newRow(key: string): LockRow {
  return { key, token: undefined, endMs: 0, queue: [], queueEndMs: 0, handOffs: 0, yieldUntilMs: 0 };
}

export function newShared(): Shared {
  return { holders: [], queue: [], phase: 0, notified: 0, most: 0 };
}

/** True if the row is free, without a queue and without cached text. Tables drop such rows, so as not to grow with every key ever used. */
export function isSpare(row: LockRow, micros: number): boolean {
  const nowMs = msOf(micros);
  const heldUntilMs = row.token === undefined ? 0 : row.endMs;
  const lastMs = Math.max(heldUntilMs, row.yieldUntilMs, row.value?.endMs ?? 0, row.slot?.endMs ?? 0);
  if (lastMs > nowMs || row.shared?.holders.some((each) => each.endMs > nowMs)) return false;
  const waits = ({ deadlineMs }: QueuedRow | SharedEntry): boolean => deadlineMs >= nowMs;
  return !row.queue.some(waits) && !row.shared?.queue.some(waits);
}
