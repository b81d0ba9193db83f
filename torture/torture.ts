/** Rounds, one after the other, until the time is over or something is broken; and what they come to, in figures. */

import type { StoreName } from './places';
import { type RoundOptions, type RoundReport, round } from './round';

export interface TortureOptions {
  readonly seed: number;
  readonly ms: number;
  readonly stores: readonly StoreName[];
  readonly processes: number;
  readonly callers: number;
  readonly faultsMs: number;
  readonly calmMs: number;
  readonly onRound?: ((number: number, store: StoreName) => void) | undefined;
  readonly onFault?: ((what: string) => void) | undefined;
  /** A round is over. */
  readonly onReport?: ((report: RoundReport, store: StoreName) => void) | undefined;
  /** A round could not be run to its end. */
  readonly onTrouble?: ((error: Error) => void) | undefined;
}

export interface StoreFigures {
  rounds: number;
  operations: number;
  grants: Record<string, number>;
  faults: Record<string, number>;
  /** Grants across a failover, which is not promised. */
  excused: number;
  longestIdleMs: number;
  violations: number;
}

export interface Figures {
  readonly stores: Partial<Record<StoreName, StoreFigures>>;
  /** The first round that broke a promise. */
  readonly failed: { readonly report: RoundReport; readonly options: RoundOptions } | undefined;
  /** Rounds in which a server did not start, or a failover never came: of them nothing is said. */
  readonly notRun: number;
}

/** The number of rounds in a row that may fail to run before that is an error. */
const maxNotRun = 3;

export async function torture(options: TortureOptions): Promise<Figures> {
  const { stores, ms, seed, processes, callers, faultsMs, calmMs, onFault } = options;
  const figures: Partial<Record<StoreName, StoreFigures>> = {};
  const endMs = performance.now() + ms;
  let notRun = 0;
  let inARow = 0;
  for (let number = 0; number === 0 || performance.now() < endMs; number++) {
    const store = stores[number % stores.length]!;
    options.onRound?.(number, store);
    const own: RoundOptions = { store, seed: seed + number, processes, callers, faultsMs, calmMs, onFault };
    const report = await round(own).catch((error: Error) => error);
    if (report instanceof Error) {
      notRun += 1;
      inARow += 1;
      if (inARow === maxNotRun || ms === 0) throw report;
      options.onTrouble?.(report);
      continue;
    }
    inARow = 0;
    figures[store] = sum(figures[store], report);
    options.onReport?.(report, store);
    if (report.violations.length > 0) return { stores: figures, failed: { report, options: own }, notRun };
  }
  return { stores: figures, failed: undefined, notRun };
}

function sum(before: StoreFigures | undefined, report: RoundReport): StoreFigures {
  const { operations, grants, faults, excused, longestIdleMs, violations } = report;
  return {
    rounds: (before?.rounds ?? 0) + 1,
    operations: (before?.operations ?? 0) + operations,
    grants: added(before?.grants ?? {}, grants),
    faults: added(before?.faults ?? {}, faults),
    excused: (before?.excused ?? 0) + excused,
    longestIdleMs: Math.max(before?.longestIdleMs ?? 0, Math.round(longestIdleMs)),
    violations: (before?.violations ?? 0) + violations.length,
  };
}

function added(one: Readonly<Record<string, number>>, other: Readonly<Record<string, number>>): Record<string, number> {
  const both = { ...one };
  for (const [name, count] of Object.entries(other)) both[name] = (both[name] ?? 0) + count;
  return both;
}
