// The rows of the page, made from snapshots. Rows have clock times instead of remaining ms, so that a row stays the same while nothing
// happens to its lock. Rows also have badges, and facts that only several snapshots show: the start of a hold, the length of a lease,
// and losses.
import type { PageSnapshot, SeenHolder, SeenLock, SeenWaiter } from './source';

/** A problem of a lock, the worst first. */
export type Badge = 'long wait' | 'queue stuck' | 'holder silent' | 'no end' | 'foreign';

/** A holder in a row. Times are ms of the epoch, by the clock of this process. */
export interface RowHolder {
  readonly id: string;
  readonly owner: string | null;
  readonly kind: string;
  readonly permits: number;
  readonly since: number;
  /** False if the hold may have begun before `since`. */
  readonly exact: boolean;
  /** The end of the lease; null if it has no end. */
  readonly until: number | null;
  /** The length of the lease: the longest remaining time that was seen, rounded up to the next usual length. */
  readonly span: number;
}

export interface RowWaiter {
  readonly owner: string | null;
  readonly kind: string;
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

export interface Summary {
  readonly held: number;
  readonly waiting: number;
  /** The start of the oldest hold. */
  readonly oldest: number | null;
  readonly exact: boolean;
  /** Losses in the last hour. */
  readonly lost: number;
  /** The number of all rows. At most `maxRows` are shown. */
  readonly total: number;
  readonly coverage: string;
}

type Figures = Pick<Summary, 'held' | 'waiting' | 'total' | 'coverage'>;

interface LedgerEntry {
  readonly row: PageRow;
  readonly text: string;
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

const worst: readonly Badge[] = ['long wait', 'queue stuck', 'holder silent', 'no end', 'foreign'];

export class Ledger {
  #entries = new Map<string, LedgerEntry>();
  /** The time since which a lock is free although callers wait for it, by key. */
  #idle = new Map<string, number>();
  /** The time of each loss, by holder and key. */
  readonly #losses = new Map<string, number>();
  #figures: Figures = { held: 0, waiting: 0, total: 0, coverage: '' };

  /**
   * Takes in a snapshot.
   *
   * @param isFirst The earlier state is unknown.
   * @returns the rows that are new or changed, and the keys that are gone.
   */
  update(seen: PageSnapshot, nowMs: number, isFirst: boolean): { rows: PageRow[]; gone: string[]; isNews: boolean } {
    const { locks, losses, coverage } = seen;
    const before = this.#entries;
    this.#idle = new Map(locks.filter(isIdle).map(({ key }) => [key, this.#idle.get(key) ?? nowMs]));
    const all = locks.map((lock) => {
      return rowOf(lock, before.get(lock.key)?.row, this.#idle.get(lock.key), nowMs, isFirst);
    });
    const entries = worstOf(all).map((row) => ({ row, text: JSON.stringify(row) }));
    this.#entries = new Map(entries.map((entry) => [entry.row.key, entry]));
    for (const { key, id, agoMs } of losses) this.lost(key, id, nowMs - agoMs);
    if (!isFirst) for (const { row } of before.values()) this.#noticeLosses(row, nowMs);
    const rows = entries.filter(({ row, text }) => before.get(row.key)?.text !== text).map(({ row }) => row);
    const gone = [...before.keys()].filter((key) => !this.#entries.has(key));
    const figures = figuresOf(locks, coverage);
    const isNews = rows.length > 0 || gone.length > 0 || JSON.stringify(figures) !== JSON.stringify(this.#figures);
    this.#figures = figures;
    return { rows, gone, isNews };
  }

  rows(): PageRow[] {
    return [...this.#entries.values()].map(({ row }) => row);
  }

  /** Notes that a holder lost its lock. A loss counts once, even if several processes report it. */
  lost(key: string, id: string, atMs: number): void {
    const name = `${id} ${key}`;
    if (!this.#losses.has(name)) this.#losses.set(name, atMs);
  }

  summary(nowMs: number): Summary {
    for (const [name, atMs] of this.#losses) if (nowMs - atMs >= hourMs) this.#losses.delete(name);
    const holders = this.rows().flatMap((row) => row.holders);
    const oldest = holders.reduce<RowHolder | undefined>(
      (a, b) => (a === undefined || b.since < a.since ? b : a),
      undefined,
    );
    const { since = null, exact = true } = oldest ?? {};
    return { ...this.#figures, oldest: since, exact, lost: this.#losses.size };
  }

  /** Notes the losses of silent holders, which cannot report them. */
  #noticeLosses(old: PageRow, nowMs: number): void {
    if (!old.badges.includes('holder silent')) return;
    const still = new Set(this.#entries.get(old.key)?.row.holders.map(({ id }) => id));
    for (const { id } of old.holders) if (!still.has(id)) this.lost(old.key, id, nowMs);
  }
}

function figuresOf(locks: readonly SeenLock[], coverage: string): Figures {
  const held = locks.filter(({ holders }) => holders.length > 0).length;
  const waiting = locks.reduce((sum, { waiters }) => sum + waiters, 0);
  return { held, waiting, total: locks.length, coverage };
}

function isIdle({ holders, waiters }: SeenLock): boolean {
  return holders.length === 0 && waiters > 0;
}

/** The rows that are shown: if there are too many, the rows with the worst trouble. */
function worstOf(rows: PageRow[]): PageRow[] {
  return rows.length <= maxRows ? rows : rows.sort(byTrouble).slice(0, maxRows);
}

function byTrouble(a: PageRow, b: PageRow): number {
  return troubleOf(a) - troubleOf(b) || b.waiters - a.waiters || oldestHold(a) - oldestHold(b);
}

function troubleOf({ badges }: PageRow): number {
  return badges.length === 0 ? worst.length : worst.indexOf(badges[0]!);
}

function oldestHold({ holders }: PageRow): number {
  return holders[0]?.since ?? Number.MAX_SAFE_INTEGER;
}

function rowOf(
  lock: SeenLock,
  old: PageRow | undefined,
  idleSince: number | undefined,
  nowMs: number,
  isFirst: boolean,
): PageRow {
  const holders = lock.holders.slice(0, maxHolders).map((holder) => holderOf(holder, old, nowMs, isFirst));
  const queue = lock.queue.slice(0, maxWaiters).map((waiter) => waiterOf(waiter, old, nowMs));
  return {
    key: lock.key,
    kind: lock.kind,
    holders: holders.sort((a, b) => a.since - b.since),
    more: Math.max(0, lock.holders.length - maxHolders),
    queue,
    waiters: lock.waiters,
    badges: badgesOf(lock, idleSince, hasLongWait(holders, queue, nowMs), nowMs),
  };
}

function holderOf(holder: SeenHolder, old: PageRow | undefined, nowMs: number, isFirst: boolean): RowHolder {
  const { id, owner, kind, permits, remaining } = holder;
  const same = old?.holders.find((each) => each.id === id);
  const end = remaining === Number.POSITIVE_INFINITY ? null : Math.round(nowMs + remaining);
  const until = same !== undefined && isSame(same.until, end) ? same.until : end;
  const known =
    holder.heldMs === undefined ? (same?.exact ? same.since : undefined) : Math.round(nowMs - holder.heldMs);
  const since = same !== undefined && isSame(same.since, known ?? same.since) ? same.since : (known ?? nowMs);
  const exact = known !== undefined || (same?.exact ?? !isFirst);
  const span = Math.max(same?.span ?? 1, end === null ? 1 : leaseOf(remaining));
  // A longer lease already shows in its end.
  return { id, owner, kind, permits, since, exact, until, span: until === same?.until ? same!.span : span };
}

/** The probable length of a lease of which a part has passed. People choose round lengths. */
function leaseOf(remainingMs: number): number {
  return usualMs.find((ms) => ms >= remainingMs) ?? Math.ceil(remainingMs / hourMs) * hourMs;
}

function waiterOf({ owner, kind, waitingMs }: SeenWaiter, old: PageRow | undefined, nowMs: number): RowWaiter {
  const since = Math.round(nowMs - waitingMs);
  const same = old?.queue.find((each) => each.owner === owner && each.kind === kind && isSame(each.since, since));
  return same ?? { owner, kind, since };
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

function badgesOf(lock: SeenLock, idleSince: number | undefined, isLongWait: boolean, nowMs: number): Badge[] {
  const endless = lock.holders.some(({ remaining }) => remaining === Number.POSITIVE_INFINITY);
  const isFreeForLong = idleSince !== undefined && nowMs - idleSince >= stuckMs;
  const isHopeless = lock.waiters > 0 && endless && (lock.isSilent || lock.isForeign);
  const has: Record<Badge, boolean> = {
    'long wait': isLongWait,
    'queue stuck': isFreeForLong || isHopeless,
    'holder silent': lock.isSilent,
    'no end': endless,
    foreign: lock.isForeign,
  };
  return worst.filter((badge) => has[badge]);
}
