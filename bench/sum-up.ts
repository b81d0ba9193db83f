// From the turns that the processes of one round saw to the figures of the round. The first process's window counts for all:
// it is the one that read the server's figures.
import type { Calls, SteadySeen, Turn } from './round';

export interface SteadySum {
  readonly acquisitions: number;
  readonly elapsedMs: number;
  /** Jain's index of the acquisitions of each waiter: 1 when all had as many, 1 / waiters when one had them all. */
  readonly jain: number;
  /** The longest wait, among those that ended within the window and those that had not ended by then. */
  readonly longestMs: number;
  /** The same of writers where others read; null where there are none. */
  readonly writerMs: number | null;
  /** Medians, in ms; null where there was none. */
  readonly handOffMs: number | null;
  readonly publishMs: number | null;
  readonly calls: Calls;
  /** Holders that were not alone. */
  readonly violations: number;
}

export function sumUp(processes: readonly SteadySeen[]): SteadySum {
  const { window, calls } = processes[0]!;
  const inWindow = (at: number): boolean => at >= window.from && at <= window.to;
  const all = processes.flatMap(({ turns }, index) => turns.map((turn) => ({ index, turn })));
  all.sort((a, b) => acquiredAt(a.turn) - acquiredAt(b.turn));

  const counts = new Float64Array(processes.reduce((sum, { waiters }) => sum + waiters, 0));
  const handOffs: number[] = [];
  let acquisitions = 0;
  let longestMs = 0;
  let overlaps = 0;
  let freeAt = Number.NEGATIVE_INFINITY; // when the last of those before had given it back
  let aloneUntil = Number.NEGATIVE_INFINITY; // the same of holders that do not share it
  let writerMs = 0;
  for (const [at, { index, turn }] of all.entries()) {
    const [waiter, asked, acquired, , shared = false] = turn;
    const before = all[at - 1];
    if (acquired < (shared ? aloneUntil : freeAt)) overlaps++;
    freeAt = Math.max(freeAt, releasingAt(turn));
    if (!shared) aloneUntil = Math.max(aloneUntil, releasingAt(turn));
    if (!inWindow(acquired)) continue;
    acquisitions++;
    counts[waiter]!++;
    longestMs = Math.max(longestMs, acquired - asked);
    if (!shared) writerMs = Math.max(writerMs, acquired - asked);
    if (before && before.index !== index) handOffs.push(acquired - releasingAt(before.turn));
  }
  for (const asked of processes.flatMap((seen) => seen.pendingWriters))
    writerMs = Math.max(writerMs, window.to - asked);
  for (const asked of processes.flatMap(({ pending }) => pending)) longestMs = Math.max(longestMs, window.to - asked);

  const probes = processes.flatMap((seen) => seen.probes).filter(([at]) => inWindow(at));
  return {
    acquisitions,
    elapsedMs: window.to - window.from,
    jain: jain(counts),
    longestMs,
    writerMs: all.some(({ turn }) => turn[4]) ? writerMs : null,
    handOffMs: handOffs.length > 0 ? median(handOffs) : null,
    publishMs: probes.length > 0 ? median(probes.map(([, ms]) => ms)) : null,
    calls,
    violations: overlaps,
  };
}

const acquiredAt = ([, , acquired]: Turn): number => acquired;
const releasingAt = ([, , , releasing]: Turn): number => releasing;

function jain(counts: Float64Array): number {
  const sum = counts.reduce((total, count) => total + count, 0);
  const squares = counts.reduce((total, count) => total + count * count, 0);
  return squares === 0 ? 0 : (sum * sum) / (counts.length * squares);
}

export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
