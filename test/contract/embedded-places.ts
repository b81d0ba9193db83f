/**
 * The places without a server: the memory of this process, and a table that the processes of this host share. Each has a
 * clock of its own, which a test's fake one does not touch, as a server has.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { systemClock } from '../../src/core/clock';
import type { Key } from '../../src/core/keys';
import type { EmbeddedStore } from '../../src/core/redis-like';
import type { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { neverMs } from '../../src/store/embedded/machine/row';
import { handleOf, MemoryTable } from '../../src/store/embedded/memory';
import { sharedMemoryStore } from '../../src/store/embedded/shared-memory/shared-memory';
import { standFor, type Table } from '../../src/store/embedded/store';
import { noEngine } from '../embedded/engine';
import { tableOf } from '../support/embedded-table';
import type { Connection, Here, Place } from './places';

export const stranger = 'a stranger';

const { performance } = globalThis;
const { now } = performance;

/** The table of the memory store, on real time also while a test fakes the clock of this process. */
class RealTimeTable extends MemoryTable {
  override run<T>(work: (machine: Machine, micros: number) => T, keys?: Key, monoMs?: number): T {
    const isFaked = globalThis.performance.now !== now;
    return super.run(work, keys, isFaked ? now.call(performance) : monoMs);
  }
}

/** No connection that could be cut, nothing that resends. */
const without = { faults: false, resends: false, advice: 'the store was closed' };

const memory: Place = {
  ...without,
  name: 'memory',
  shared: false,
  create() {
    return new EmbeddedHere(memory, '', () => {
      const table = new RealTimeTable();
      return () => handleOf(table);
    });
  },
  async join(_address, seized) {
    const store = handleOf(new RealTimeTable());
    if (seized !== undefined) store.seize(seized);
    return { redis: store, leave: () => store.close() };
  },
};

const sharedMemory: Place = {
  ...without,
  name: 'shared memory',
  shared: true,
  pending: noEngine,
  create: () => new SharedMemoryHere(sharedMemory, 'contract', () => () => sharedMemoryStore('contract')),
  async join(address) {
    process.env.XDG_RUNTIME_DIR = address;
    const store = sharedMemoryStore('contract');
    return { redis: store, leave: () => store.close() };
  },
};

export const embeddedPlaces: readonly Place[] = [memory, sharedMemory];

class EmbeddedHere implements Here {
  readonly place: Place;
  address: string;
  readonly #begin: () => () => EmbeddedStore;
  #make: () => EmbeddedStore;
  readonly #stores: EmbeddedStore[] = [];
  #redis: EmbeddedStore | undefined;
  #elsewhere: EmbeddedStore | undefined;

  /** @param begin Called at each opening: under Stryker a suite runs more than once in a process. */
  constructor(place: Place, address: string, begin: () => () => EmbeddedStore) {
    this.place = place;
    this.address = address;
    this.#begin = begin;
    this.#make = begin();
  }

  async open(): Promise<void> {
    this.#make = this.#begin();
    this.#redis = this.#another();
    this.#elsewhere = this.#another();
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.splice(0).map((store) => store.close()));
  }

  get redis(): EmbeddedStore {
    return this.#redis!;
  }

  get elsewhere(): EmbeddedStore {
    return this.#elsewhere!;
  }

  async connection(): Promise<Connection> {
    const counted = new Counted(tableOf(this.#another()));
    const redis = standFor<EmbeddedStore>({ kind: this.redis.kind, close: async () => {} }, counted);
    const none = (): never => {
      throw new Error('there is no connection that could be cut');
    };
    return {
      redis,
      async calls() {
        await turn(); // behind what was asked for in this turn
        await turn();
        return counted.calls;
      },
      get proxy() {
        return none();
      },
      heal: none,
    };
  }

  unconnected(): EmbeddedStore {
    // A handle of a table of its own: closing a memory store closes it for everybody.
    const store = this.place.shared ? this.#make() : handleOf(new RealTimeTable());
    void store.close();
    return store;
  }

  async holder(key: string): Promise<string | null> {
    return this.#table.run((machine, micros) => machine.row(key, micros).token) ?? null;
  }

  async leftMs(key: string): Promise<number> {
    return this.#table.run((machine, micros) => Math.max(machine.inspect(key, micros).remaining, 0));
  }

  async seize(key: string, lifetimeMs: number | null = 60_000): Promise<void> {
    this.#table.run((machine, micros) =>
      machine.put(key, stranger, Math.floor(micros / 1000) + (lifetimeMs ?? neverMs)),
    );
  }

  async remove(key: string): Promise<void> {
    this.#table.run((machine) => machine.put(key, undefined, 0));
  }

  async keys(): Promise<string[]> {
    return this.#table.run((machine) => [...machine.rows.keys()]);
  }

  get #table(): Table {
    return tableOf(this.redis);
  }

  #another(): EmbeddedStore {
    const store = this.#make();
    this.#stores.push(store);
    return store;
  }
}

class SharedMemoryHere extends EmbeddedHere {
  #before: string | undefined;

  override async open(): Promise<void> {
    this.#before = process.env.XDG_RUNTIME_DIR;
    this.address = process.env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
    await super.open();
  }

  override async close(): Promise<void> {
    await super.close();
    if (this.#before === undefined) delete process.env.XDG_RUNTIME_DIR;
    else process.env.XDG_RUNTIME_DIR = this.#before;
    rmSync(this.address, { recursive: true, force: true });
  }
}

/** Counts as a server would that is asked in batches: what is asked for in one tick is one request. */
class Counted implements Table {
  calls = 0;
  readonly clock = systemClock;
  readonly listensAlone = false;
  readonly #table: Table;
  #ticking = false;

  constructor(table: Table) {
    this.#table = table;
  }

  run: Table['run'] = (work) => {
    if (!this.#ticking) {
      this.calls += 1;
      this.#ticking = true;
      queueMicrotask(() => {
        this.#ticking = false;
      });
    }
    return this.#table.run(work);
  };

  lagMs = (): number => this.#table.lagMs?.() ?? 0;

  listen: Table['listen'] = (...args) => this.#table.listen(...args);
}
