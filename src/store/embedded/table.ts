// The table in which a store without a server keeps its rows, and the renewed locks of a table that only this process uses.
import { type Key, listOf } from '../../core/keys';
import type { Channels, Checkable, Clock, Listening, Renewed } from '../contract';
import type { Machine } from './machine/mutex-machine';

/** @internal The rows, their clock, and the listeners for grants. */
export interface Table extends Channels {
  /** Opens the table before its first command; otherwise `run` does so. */
  open?(): void;
  /**
   * Runs one command; nobody else sees or changes the rows meanwhile.
   *
   * @param keys The keys whose renewed locks are checked first. The command counts from before the check, so that a process that
   *             stands still between the two loses no lock. A late renewal of one lock lets time pass for the other locks.
   * @param monoMs A reading of this table's clock from which the command counts, if no later command has run. Absent: now. A table
   *               that other processes use reads its clock anew.
   * @throws {LockBackendError} the table is closed or full.
   */
  run<T>(work: (machine: Machine, micros: number) => T, keys?: Key, monoMs?: number): T;
  /** The largest lag of `micros` behind the clock of another process at the same table. Default 0. */
  lagMs?(): number;
  /** The table's own clock; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** The renewed locks, if only this process uses the table. */
  readonly renewed?: RenewedLocks | undefined;
  listen(channel: string, onMessage: (text: string) => void): Promise<Listening>;
  /** The keys of all rows, including those of free locks that were not yet removed. */
  keys(): string[];
}

/**
 * Renewed locks of a store that only this process uses. Before any command on its key, each may renew itself as it would have in
 * time: nothing can take a lock while the event loop is blocked, so a blocked loop loses none.
 */
export class RenewedLocks implements Renewed {
  readonly #byKey = new Map<string, Set<Checkable>>();

  add(keys: Key, held: Checkable): void {
    for (const key of listOf(keys)) this.#byKey.set(key, (this.#byKey.get(key) ?? new Set()).add(held));
  }

  remove(keys: Key, held: Checkable): void {
    for (const key of listOf(keys)) {
      const all = this.#byKey.get(key);
      if (all?.delete(held) && all.size === 0) this.#byKey.delete(key);
    }
  }

  /** @param keys Default: all keys. */
  check(keys: Key = [...this.#byKey.keys()]): void {
    if (this.#byKey.size === 0) return;
    for (const key of listOf(keys)) for (const held of this.#byKey.get(key) ?? []) held.check();
  }
}
