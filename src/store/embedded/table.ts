// What a store without a server keeps its rows in.
import type { Clock, Listening } from '../contract';
import type { Machine } from './mutex-machine';
import type { RenewedLocks } from './renewed';

/** @internal Rows, a clock, and who hears of grants. */
export interface Table {
  /** Makes it ready for its first command, which `run` does otherwise. */
  open?(): void;
  /**
   * Runs one command; nobody else sees or changes the rows meanwhile.
   *
   * @param monoMs The monotonic clock, where it was just read: a table whose clock that is need not read it again.
   * @throws {LockBackendError} closed, or full.
   */
  run<T>(work: (machine: Machine, micros: number) => T, monoMs?: number): T;
  /** How far `micros` may lag behind the clock of another process at the same table. Default 0. */
  lagMs?(): number;
  /** Its own; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** Where only this process uses it. */
  readonly renewed?: RenewedLocks | undefined;
  listen(channel: string, onMessage: (text: string) => void): Promise<Listening>;
  /** Only one can listen to a channel. */
  readonly listensAlone?: boolean;
  /** Of every row there is, those of free locks that were not yet forgotten included. */
  keys(): string[];
}
