// The table in which a store without a server keeps its rows.
import type { Clock, Listening } from '../contract';
import type { Machine } from './mutex-machine';
import type { RenewedLocks } from './renewed';

/** @internal The rows, their clock, and the listeners for grants. */
export interface Table {
  /** Opens the table before its first command; otherwise `run` does so. */
  open?(): void;
  /**
   * Runs one command; nobody else sees or changes the rows meanwhile.
   *
   * @param monoMs A fresh reading of the monotonic clock, if there is one: a table with that clock need not read it again.
   * @throws {LockBackendError} the table is closed or full.
   */
  run<T>(work: (machine: Machine, micros: number) => T, monoMs?: number): T;
  /** The largest lag of `micros` behind the clock of another process at the same table. Default 0. */
  lagMs?(): number;
  /** The table's own clock; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** The renewed locks, if only this process uses the table. */
  readonly renewed?: RenewedLocks | undefined;
  listen(channel: string, onMessage: (text: string) => void): Promise<Listening>;
  /** A channel can have a single listener. */
  readonly listensAlone?: boolean;
  /** The keys of all rows, including those of free locks that were not yet removed. */
  keys(): string[];
}
