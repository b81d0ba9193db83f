// What was seen becomes rows: with times of the clock instead of ms that are left, so that a row is the same as long as nothing
// happened to its lock; with badges; and with what only shows over time: since when, how long a lease is, what was lost.
import type { Seen, SeenHolder, SeenLock, SeenWaiter } from './source';

/** What is wrong with a lock, the worst first. */
export type Badge = 'queue stuck' | 'holder silent' | 'no end' | 'foreign';

/** Times are ms of the epoch, by the clock of this process. */
export interface RowHolder {
  readonly id: string;
  readonly owner: string | null;
  readonly kind: string;
  readonly permits: number;
  readonly since: number;
  /** False: it may have been held for longer. */
  readonly exact: boolean;
  /** Null: no end. */
  readonly until: number | null;
  /** How long its lease is: the longest that was left at any time, up to the next usual length. */
  readonly span: number;
}

export interface RowWaiter {
  readonly owner: string | null;
  readonly kind: string;
  readonly since: number;
}

export interface Row {
  readonly key: string;
  readonly kind: string;
  /** The first ones; `more` says how many others there are. */
  readonly holders: readonly RowHolder[];
  readonly more: number;
  readonly queue: readonly RowWaiter[];
  readonly waiters: number;
  readonly badges: readonly Badge[];
}

export interface Summary {
  readonly held: number;
  readonly waiting: number;
  /** Since when the oldest holder holds. */
  readonly oldest: number | null;
  readonly exact: boolean;
  /** In the last hour. */
  readonly lost: number;
  /** Rows there are; not more than `mostRows` are shown. */
  readonly total: number;
  readonly coverage: string;
}

interface Entry {
  readonly row: Row;
  readonly text: string;
  /** Since when it is free while somebody waits. */
  readonly idleSince: number | undefined;
}

export const mostRows = 1000;
const mostHolders = 16;
const mostWaiters = 50;
/** Two readings of the same moment differ by less: a lease that was renewed by less counts as the same. */
const sameMs = 400;
/** A free lock is granted to its queue at once; a lost message is healed within a second. */
const stuckMs = 3_000;
const hourMs = 3_600_000;

const usualMs = [1, 2, 5, 10, 15, 20, 30, 60, 90, 120, 300, 600, 900, 1800, 3600].map((seconds) => seconds * 1000);

const worst: readonly Badge[] = ['queue stuck', 'holder silent', 'no end', 'foreign'];

export class Ledger {
  #entries = new Map<string, Entry>();
  /** By key and holder, when it was lost. */
  readonly #losses = new Map<string, number>();
  #coverage = '';
  #total = 0;

  /**
   * Takes in what was seen.
   *
   * @param isFirst What was there before is not known.
   * @returns the rows that are new or another, and the keys that are gone.
   */
  update(seen: Seen, nowMs: number, isFirst: boolean): { rows: Row[]; gone: string[]; isNews: boolean } {
    const before = this.#entries;
    const entries = seen.locks.map((lock) => entryOf(lock, before.get(lock.key), nowMs, isFirst));
    const all = new Map(entries.map((entry) => [entry.row.key, entry]));
    for (const { key, id, agoMs } of seen.losses) this.lost(key, id, nowMs - agoMs);
    if (!isFirst) for (const { row } of before.values()) this.#noticeLosses(row, all.get(row.key)?.row, nowMs);
    this.#total = entries.length;
    this.#entries = entries.length <= mostRows ? all : new Map(entries.sort(byTrouble).slice(0, mostRows).map(keyed));
    const shown = [...this.#entries.values()];
    const rows = shown.filter(({ row, text }) => before.get(row.key)?.text !== text).map(({ row }) => row);
    const gone = [...before.keys()].filter((key) => !this.#entries.has(key));
    const isNews = rows.length > 0 || gone.length > 0 || this.#coverage !== seen.coverage;
    this.#coverage = seen.coverage;
    return { rows, gone, isNews };
  }

  rows(): Row[] {
    return [...this.#entries.values()].map(({ row }) => row);
  }

  /** A holder lost its lock. It counts once, whoever tells. */
  lost(key: string, id: string, atMs: number): void {
    const name = `${id} ${key}`;
    if (!this.#losses.has(name)) this.#losses.set(name, atMs);
  }

  summary(nowMs: number): Summary {
    for (const [name, atMs] of this.#losses) if (nowMs - atMs >= hourMs) this.#losses.delete(name);
    const rows = this.rows();
    const holders = rows.flatMap((row) => row.holders);
    const oldest = holders.reduce<RowHolder | undefined>(
      (a, b) => (a === undefined || b.since < a.since ? b : a),
      undefined,
    );
    return {
      held: rows.filter((row) => row.holders.length > 0).length,
      waiting: rows.reduce((sum, row) => sum + row.waiters, 0),
      oldest: oldest?.since ?? null,
      exact: oldest?.exact ?? true,
      lost: this.#losses.size,
      total: this.#total,
      coverage: this.#coverage,
    };
  }

  /** A silent holder, when its lease is over, can tell nobody. */
  #noticeLosses(old: Row, row: Row | undefined, nowMs: number): void {
    if (!old.badges.includes('holder silent')) return;
    const still = new Set(row?.holders.map(({ id }) => id));
    for (const { id } of old.holders) if (!still.has(id)) this.lost(old.key, id, nowMs);
  }
}

function keyed(entry: Entry): [string, Entry] {
  return [entry.row.key, entry];
}

function byTrouble({ row: a }: Entry, { row: b }: Entry): number {
  return (
    troubleOf(a) - troubleOf(b) || b.waiters - a.waiters || (a.holders[0]?.since ?? 0) - (b.holders[0]?.since ?? 0)
  );
}

function troubleOf({ badges }: Row): number {
  return badges.length === 0 ? worst.length : worst.indexOf(badges[0]!);
}

function entryOf(lock: SeenLock, before: Entry | undefined, nowMs: number, isFirst: boolean): Entry {
  const old = before?.row;
  const holders = lock.holders.slice(0, mostHolders).map((holder) => holderOf(holder, old, nowMs, isFirst));
  const queue = lock.queue.slice(0, mostWaiters).map((waiter) => waiterOf(waiter, old, nowMs));
  const isIdle = lock.holders.length === 0 && lock.waiters > 0;
  const idleSince = isIdle ? (before?.idleSince ?? nowMs) : undefined;
  const row: Row = {
    key: lock.key,
    kind: lock.kind,
    holders: holders.sort((a, b) => a.since - b.since),
    more: Math.max(0, lock.holders.length - mostHolders),
    queue,
    waiters: lock.waiters,
    badges: badgesOf(lock, idleSince, nowMs),
  };
  return { row, text: JSON.stringify(row), idleSince };
}

function holderOf(holder: SeenHolder, old: Row | undefined, nowMs: number, isFirst: boolean): RowHolder {
  const { id, owner, kind, permits, remaining } = holder;
  const same = old?.holders.find((each) => each.id === id);
  const end = remaining === Number.POSITIVE_INFINITY ? null : Math.round(nowMs + remaining);
  const until = same !== undefined && isSame(same.until, end) ? same.until : end;
  const known =
    holder.heldMs === undefined ? (same?.exact ? same.since : undefined) : Math.round(nowMs - holder.heldMs);
  const since = same !== undefined && isSame(same.since, known ?? same.since) ? same.since : (known ?? nowMs);
  const exact = known !== undefined || (same?.exact ?? !isFirst);
  const span = Math.max(same?.span ?? 1, end === null ? 1 : leaseOf(remaining));
  // A longer lease is news by its end already.
  return { id, owner, kind, permits, since, exact, until, span: until === same?.until ? same!.span : span };
}

/** A lease is seen when a part of it is over already: people choose round ones. */
function leaseOf(remainingMs: number): number {
  return usualMs.find((ms) => ms >= remainingMs) ?? Math.ceil(remainingMs / hourMs) * hourMs;
}

function waiterOf({ owner, kind, waitingMs }: SeenWaiter, old: Row | undefined, nowMs: number): RowWaiter {
  const since = Math.round(nowMs - waitingMs);
  const same = old?.queue.find((each) => each.owner === owner && each.kind === kind && isSame(each.since, since));
  return same ?? { owner, kind, since };
}

function isSame(a: number | null, b: number | null): boolean {
  return a === null || b === null ? a === b : Math.abs(a - b) < sameMs;
}

function badgesOf(lock: SeenLock, idleSince: number | undefined, nowMs: number): Badge[] {
  const endless = lock.holders.some(({ remaining }) => remaining === Number.POSITIVE_INFINITY);
  const isIdle = idleSince !== undefined && nowMs - idleSince >= stuckMs;
  const isHopeless = lock.waiters > 0 && endless && (lock.isSilent || lock.isForeign);
  const has: Record<Badge, boolean> = {
    'queue stuck': isIdle || isHopeless,
    'holder silent': lock.isSilent,
    'no end': endless,
    foreign: lock.isForeign,
  };
  return worst.filter((badge) => has[badge]);
}
