// The memory store: the machine with a clock, for all locks of one process. No other process sees it.
//
// Invariant: time only goes forward, whatever its clock does, so that fences do too.
import { Clock, systemClock } from '../../core/clock';
import { type Key, listOf, lockKey } from '../../core/keys';
import { checkValue, functionRule, lifetimeRule, optionsOf } from '../../core/options';
import { nextTick } from '../../core/real-timers';
import type { EmbeddedStore } from '../../core/redis-like';
import type { Checkable, Listening, Renewed } from '../contract';
import { Machine } from './machine/mutex-machine';
import { isSpare, MemoryRows, msOf, neverMs } from './machine/row';
import { closedStore, standFor, type Table } from './store';

export interface MemoryStoreOptions {
  /**
   * The clock of this store, in monotonic ms. Waits, leases and expiry depend on this clock alone; if it leaps, everything that
   * is due then happens within about 10 ms. Default: `performance.now()`, looked up each time, so that a test's fake timers
   * control this clock too.
   */
  now?: (() => number) | undefined;
}

/**
 * Locks of this process alone. A renewed lock is lost only by `expire`, `seize`, `maxHold` or `close`: while the event loop is
 * blocked the lock cannot be renewed, but nobody else can take it either. `expire` and `seize` are for tests: they do what a
 * server or an operator may do to a lock.
 */
export interface MemoryStore extends EmbeddedStore {
  readonly kind: 'memory';
  /**
   * Ends the lock on a key as the end of its lifetime would: the first in its queue is granted the lock. The holder finds out
   * at its next extension, as with Redis. True: the lock was held.
   *
   * @param key The whole key, `prefix` included.
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key.
   */
  expire(key: string): boolean;
  /**
   * Takes the key away from its holder, if it has one, for a stranger, who keeps it for `lifetime` ms (default: for ever).
   * `expire` ends that.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key or lifetime.
   */
  seize(key: string, lifetime?: number): void;
}

const stranger = 'a stranger';
/** The number of rows below which a sweep is not worth its cost. */
const smallestSweep = 4096;
/** The pause after which timers look at a given clock again: it may leap. */
const leapCheckMs = 10;

/**
 * A place for locks that only this process uses: no server, no package, nothing to connect. Each call makes another place.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an unknown option or an impossible value.
 * @example
 * ```ts
 * const withLock = redisExpLock({ redis: memoryStore() });
 * ```
 */
export function memoryStore(options?: MemoryStoreOptions): MemoryStore {
  const { now } = optionsOf<MemoryStoreOptions>(options, {
    now: functionRule('a function that gives monotonic milliseconds'),
  });
  return handleOf(new MemoryTable(now));
}

/** @internal Another handle of the same table. */
export function handleOf(table: MemoryTable): MemoryStore {
  const handle: MemoryStore = {
    kind: 'memory',
    close: async () => table.close(),
    expire(key) {
      const full = lockKey(key, '');
      return table.run((machine, micros) => {
        const { token } = machine.row(full, micros);
        if (token !== undefined) machine.release({ keys: full, token }, micros);
        return token !== undefined;
      }, full);
    },
    seize(key, lifetime) {
      const full = lockKey(key, '');
      if (lifetime !== undefined) checkValue('lifetime', lifetimeRule, lifetime);
      table.run((machine, micros) => machine.put(full, stranger, msOf(micros) + (lifetime ?? neverMs)));
    },
  };
  return standFor(handle, table);
}

/** @internal */
export class MemoryTable implements Table {
  readonly clock: Clock;
  readonly listensAlone = false;
  readonly renewed = new RenewedLocks();
  readonly #rows = new MemoryRows();
  readonly #machine: Machine;
  readonly #listeners = new Set<{ readonly channel: string; readonly onMessage: (text: string) => void }>();
  readonly #startMs = Date.now();
  #readMs: number;
  #passedMs = 0;
  /** The time of the last command. */
  #commandMicros = 0;
  #sweepAt = smallestSweep;
  #closed = false;

  constructor(now?: () => number) {
    this.#readMs = now?.() ?? performance.now();
    const nowMs = (): number => this.#microsAt(now!()) / 1000;
    this.clock = now === undefined ? systemClock : new Clock(nowMs, nowMs, leapCheckMs);
    this.#machine = new Machine((channel, id, key) => this.#tell(channel, `${id} ${key}`), this.#rows);
  }

  run<T>(work: (machine: Machine, micros: number) => T, keys?: Key, monoMs?: number): T {
    const beforeMs = monoMs ?? this.clock.nowMs();
    if (keys !== undefined) this.renewed.check(keys);
    if (this.#closed) throw closedStore();
    // A reading of our own clock is a time of the table. Later readings, as after a renewal, do not count for this command.
    const nowMicros = this.clock === systemClock ? this.#microsAt(beforeMs) : Math.round(beforeMs * 1000);
    const micros = Math.max(nowMicros, this.#commandMicros);
    this.#commandMicros = micros;
    // A sweep may renew locks late, by commands of its own. This command still counts from before them.
    if (this.#rows.size >= this.#sweepAt) this.#sweep(micros);
    return work(this.#machine, micros);
  }

  async listen(channel: string, onMessage: (text: string) => void): Promise<Listening> {
    if (this.#closed) throw closedStore();
    const listener = { channel, onMessage };
    this.#listeners.add(listener);
    return { close: () => void this.#listeners.delete(listener) };
  }

  close(): void {
    this.#closed = true;
    this.#listeners.clear();
  }

  /**
   * Removes spare rows when there are twice as many rows as the last sweep left: a constant cost for each row. A sweep never
   * runs in the middle of a command, which may use a row that is still spare.
   */
  #sweep(micros: number): void {
    this.#sweepAt = Number.POSITIVE_INFINITY;
    this.renewed.check();
    for (const [key, row] of this.#rows) if (isSpare(row, micros)) this.#rows.delete(key);
    this.#sweepAt = Math.max(smallestSweep, 2 * this.#rows.size);
  }

  /** The time in µs at a reading of the clock. If the clock was put back or replaced, the time goes on from here. */
  #microsAt(readMs: number): number {
    const passedMs = readMs - this.#readMs;
    // This reading was taken before the last one, because a renewal came in between: time does not pass twice.
    const isReadBefore = this.clock === systemClock && passedMs < 0 && performance.now() >= this.#readMs;
    if (!isReadBefore) this.#readMs = readMs;
    if (passedMs > 0) this.#passedMs += passedMs;
    return Math.floor((this.#startMs + this.#passedMs) * 1000);
  }

  /** Notifies the listeners of a channel later, never within the call that granted the lock. */
  #tell(channel: string, text: string): void {
    nextTick(() => {
      for (const each of [...this.#listeners]) if (each.channel === channel) each.onMessage(text);
    });
  }
}

/**
 * Renewed locks of a store that only this process uses. Before any command on its key, each may renew itself as it would have in
 * time: nothing can take a lock while the event loop is blocked, so a blocked loop loses none.
 */
class RenewedLocks implements Renewed {
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
