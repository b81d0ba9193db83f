// The rows of the page, made from snapshots. Rows have clock times instead of remaining ms, so that a row stays the same while nothing
// happens to its lock. Rows also have badges, and facts that only several snapshots show: the start of a hold, the length of a lease,
// and losses.
import { foreignHolders, type HolderState, type ListedLock, type WaiterState } from '../../core/lock-state';
import type { SeenLock } from '../../inspect/snapshot';
import type { PageSnapshot } from './source';

/** The problems of a lock, the worst first. */
const worst = ['long wait', 'queue stuck', 'holder silent', 'no end', 'foreign'] as const;
export type Badge = (typeof worst)[number];

/** A holder in a row. Times are ms of the epoch, by the clock of this process. */
export interface RowHolder extends Omit<HolderState, 'remaining'> {
  readonly since: number;
  /** False if the hold may have begun before `since`. */
  readonly exact: boolean;
  /** The end of the lease; null if it has no end. */
  readonly until: number | null;
  /** The length of the lease: the longest remaining time that was seen, rounded up to the next usual length. */
  readonly span: number;
}

export interface RowWaiter extends Omit<WaiterState, 'waitingMs'> {
  readonly since: number;
}

export interface PageRow {
  readonly key: string;
  readonly kind: string;
  /** The first holders. `more` is the number of the others. */
  readonly holders: readonly RowHolder[];
  readonly more: number;
  readonly queue: readonly RowWaiter[];
  readonly waiters: number;
  readonly badges: readonly Badge[];
}

/** A snapshot as the ledger reads it, and what it knew before. */
interface LedgerRead extends Pick<PageSnapshot, 'isFirst' | 'silent'> {
  readonly nowMs: number;
  /** The clock of this process less that of the store. */
  readonly offsetMs: number;
  /** The time since which a lock is free although callers wait for it, by key. */
  readonly idle: ReadonlyMap<string, number>;
}

export const maxRows = 1000;
const maxHolders = 16;
const maxWaiters = 50;
/** Times that differ by less count as the same moment. A lease that was renewed by less counts as unchanged. */
const sameMs = 400;
/** Ms for which a lock is free, with a queue, before the queue counts as stuck. A lost message delays a grant by a second at most. */
const stuckMs = 3_000;
/** Ms of a wait without a grant that count as trouble. The holder may hang and renew its lock for ever. */
const longWaitMs = 30_000;
const hourMs = 3_600_000;

const usualMs = [1, 2, 5, 10, 15, 20, 30, 60, 90, 120, 300, 600, 900, 1800, 3600].map((seconds) => seconds * 1000);

export class Ledger {
  #rows = new Map<string, PageRow>();
  #idle = new Map<string, number>();
  /** The time of each loss, by holder and key. */
  readonly #losses = new Map<string, number>();
  #figures = figuresOf([], '');

  /** Takes in a snapshot. Returns the rows that are new or changed, and the keys that are gone. */
  update(seen: PageSnapshot, nowMs: number): { rows: PageRow[]; gone: string[]; isNews: boolean } {
    const { atMs, isFirst, locks, silent, losses, coverage } = seen;
    const before = this.#rows;
    const idle = locks.filter(({ lock }) => lock.holders.length === 0 && lock.waiters > 0);
    this.#idle = new Map(idle.map(({ lock: { key } }) => [key, this.#idle.get(key) ?? nowMs]));
    const read = { isFirst, silent, nowMs, offsetMs: nowMs - atMs, idle: this.#idle };
    const all = locks.map((each) => rowOf(each, before.get(each.lock.key), read));
    const shown = all.length <= maxRows ? all : all.sort(byTrouble).slice(0, maxRows);
    this.#rows = new Map(shown.map((row) => [row.key, row]));
    for (const { key, id, at } of losses) this.lost(key, id, at + read.offsetMs);
    const rows = this.rows().filter((row) => !isEqual(row, before.get(row.key)));
    const gone = [...before.keys()].filter((key) => !this.#rows.has(key));
    const figures = figuresOf(locks, coverage);
    const isNews = rows.length > 0 || gone.length > 0 || !isEqual(figures, this.#figures);
    this.#figures = figures;
    return { rows, gone, isNews };
  }

  rows(): PageRow[] {
    return [...this.#rows.values()];
  }

  /** Notes that a holder lost its lock. A loss counts once, even if several processes report it. */
  lost(key: string, id: string, atMs: number): void {
    const name = `${id} ${key}`;
    if (!this.#losses.has(name)) this.#losses.set(name, atMs);
  }

  /** The figures, the start of the oldest hold (`exact` as in its row), and the number of losses in the last hour. */
  summary(nowMs: number): object {
    for (const [name, atMs] of this.#losses) if (nowMs - atMs >= hourMs) this.#losses.delete(name);
    // The holders of a row are sorted by their start.
    const [first] = this.rows()
      .flatMap(({ holders }) => holders[0] ?? [])
      .sort((a, b) => a.since - b.since);
    const { since = null, exact = true } = first ?? {};
    return { ...this.#figures, oldest: since, exact, lost: this.#losses.size };
  }
}

/** The figures of a snapshot. `total` is the number of all rows, of which at most `maxRows` are shown. */
function figuresOf(locks: readonly SeenLock[], coverage: string) {
  const held = locks.filter(({ lock }) => lock.holders.length > 0).length;
  const waiting = locks.reduce((sum, { lock }) => sum + lock.waiters, 0);
  return { held, waiting, total: locks.length, coverage };
}

function isEqual(a: object, b: object | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function byTrouble(a: PageRow, b: PageRow): number {
  const trouble = ({ badges }: PageRow): number => (badges.length === 0 ? worst.length : worst.indexOf(badges[0]!));
  const since = ({ holders }: PageRow): number => holders[0]?.since ?? Number.MAX_SAFE_INTEGER;
  return trouble(a) - trouble(b) || b.waiters - a.waiters || since(a) - since(b);
}

function rowOf(seen: SeenLock, old: PageRow | undefined, read: LedgerRead): PageRow {
  const { key, mode, waiters } = seen.lock;
  const holders = seen.lock.holders.slice(0, maxHolders).map((holder) => holderOf(holder, seen, old, read));
  const queue = seen.lock.queue.slice(0, maxWaiters).map((waiter) => waiterOf(waiter, seen, old, read));
  return {
    key,
    kind: mode ?? queue[0]?.kind ?? 'exclusive',
    holders: holders.sort((a, b) => a.since - b.since),
    more: Math.max(0, seen.lock.holders.length - maxHolders),
    queue,
    waiters,
    badges: badgesOf(seen.lock, hasLongWait(holders, queue, read.nowMs), read),
  };
}

function holderOf(holder: HolderState, seen: SeenLock, old: PageRow | undefined, read: LedgerRead): RowHolder {
  const { id, owner, kind, permits, remaining } = holder;
  const same = old?.holders.find((each) => each.id === id);
  const end = remaining === Number.POSITIVE_INFINITY ? null : Math.round(seen.atMs + remaining + read.offsetMs);
  const until = steady(same?.until, end);
  const registered = seen.holds.find((each) => each.id === id);
  const { since, exact } =
    registered === undefined
      ? (same ?? { since: read.nowMs, exact: !read.isFirst })
      : { since: steady(same?.since, Math.round(registered.since + read.offsetMs)), exact: true };
  const span = Math.max(same?.span ?? 1, end === null ? 1 : leaseOf(remaining));
  // A longer lease already shows in its end.
  return { id, owner, kind, permits, since, exact, until, span: until === same?.until ? same!.span : span };
}

/** The probable length of a lease of which a part has passed. People choose round lengths. */
function leaseOf(remainingMs: number): number {
  return usualMs.find((ms) => ms >= remainingMs) ?? Math.ceil(remainingMs / hourMs) * hourMs;
}

function waiterOf(waiter: WaiterState, seen: SeenLock, old: PageRow | undefined, read: LedgerRead): RowWaiter {
  const { owner, kind, waitingMs } = waiter;
  const since = Math.round(seen.atMs - waitingMs + read.offsetMs);
  const same = old?.queue.find((each) => each.owner === owner && each.kind === kind && isSame(each.since, since));
  return same ?? { owner, kind, since };
}

/** The time of the last row, if the present one is about the same. */
function steady<T extends number | null>(last: T | undefined, present: T): T {
  return last !== undefined && isSame(last, present) ? last : present;
}

function isSame(a: number | null, b: number | null): boolean {
  return a === null || b === null ? a === b : Math.abs(a - b) < sameMs;
}

/** Tells if a queue stands still: a process has waited for long, and no holder is known to be new. A queue that moves is only busy. */
function hasLongWait(holders: readonly RowHolder[], queue: readonly RowWaiter[], nowMs: number): boolean {
  const isLong = (since: number): boolean => nowMs - since >= longWaitMs;
  if (holders.length === 0 || !queue.some(({ since }) => isLong(since))) return false;
  return holders.every(({ since, exact }) => !exact || isLong(since));
}

function badgesOf(lock: ListedLock, isLongWait: boolean, { idle, silent, nowMs }: LedgerRead): Badge[] {
  const isSilent = silent.has(lock.key);
  const endless = lock.holders.some(({ remaining }) => remaining === Number.POSITIVE_INFINITY);
  const foreign = lock.holders.some((each) => foreignHolders.has(each));
  const isFreeForLong = nowMs - (idle.get(lock.key) ?? nowMs) >= stuckMs;
  const isHopeless = lock.waiters > 0 && endless && (isSilent || foreign);
  const has: Record<Badge, boolean> = {
    'long wait': isLongWait,
    'queue stuck': isFreeForLong || isHopeless,
    'holder silent': isSilent,
    'no end': endless,
    foreign,
  };
  return worst.filter((badge) => has[badge]);
}
