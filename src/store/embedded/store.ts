// A store without a server: the machine runs in this process, on a table in its memory or shared by the processes of the host.
// When a call returns, its command has been carried out, alone. So no outcome is unknown, no request comes too late, nothing
// has to be batched, and an abandoned token is gone at once.

import { LockBackendError } from '../../core/errors';
import type { Key } from '../../core/keys';
import type { EmbeddedStore } from '../../core/redis-like';
import { Abandoned } from '../abandoned';
import type {
  AcquireReply,
  AcquireRequest,
  Clock,
  ExtendReply,
  ExtendRequest,
  LockState,
  ReleaseReply,
  ReleaseRequest,
  Store,
} from '../contract';
import { stateFor } from '../inspected';
import type { HolderText, ProclaimRequest, ValueRequest, Values } from '../values';
import { EmbeddedOperator } from './operator';
import { runOn, type Table } from './table';
import { EmbeddedVerbs } from './verbs';

const tables = new WeakMap<object, Table>();
const stores = new WeakMap<Table, Embedded>();

/** @internal The store behind a handle that one of our functions made; undefined for anything else. */
export function embeddedStore(given: object): Store | undefined {
  const table = tables.get(given);
  if (table === undefined) return undefined;
  let store = stores.get(table);
  if (store === undefined) {
    store = new Embedded(table, (given as EmbeddedStore).kind);
    stores.set(table, store);
  }
  return store;
}

/** @internal Makes `handle` stand for a table. */
export function standFor<Handle extends EmbeddedStore>(handle: Handle, table: Table): Handle {
  tables.set(handle, table);
  return handle;
}

/** @internal The table behind one of our own handles. */
export function tableOf(handle: EmbeddedStore): Table {
  return tables.get(handle)!;
}

class Embedded implements Store {
  readonly kind: Store['kind'];
  readonly keyPrefix = '';
  readonly channels: Table;
  readonly synchronous: EmbeddedVerbs;
  readonly clock: Clock | undefined;
  readonly operator: EmbeddedOperator;
  readonly values: EmbeddedValues;
  readonly #table: Table;
  readonly #abandoned = new Abandoned((request) => this.release(request));

  constructor(table: Table, kind: Store['kind']) {
    this.kind = kind;
    this.#table = table;
    this.channels = table;
    this.synchronous = new EmbeddedVerbs(table);
    this.clock = table.clock;
    this.operator = new EmbeddedOperator(table);
    this.values = new EmbeddedValues(table);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.synchronous.acquire(request);
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    return this.synchronous.extend(request);
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.synchronous.release(request);
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    return this.synchronous.releaseAndAcquire(release, acquire);
  }

  /** Abandons a token. All its commands have been carried out, so a single release is enough, once the table can be written. */
  abandon(request: ReleaseRequest): Promise<void> {
    return this.#abandoned.add(request, undefined);
  }

  async inspect(key: string, _commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    return stateFor(
      runOn(this.#table, key, (machine, micros) => machine.inspect(key, micros)),
      token,
    );
  }

  join(): void {}

  leave(): Promise<void> {
    return this.#abandoned.settled();
  }
}

class EmbeddedValues implements Values {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async read(key: string): Promise<string | null> {
    return this.#table.run((machine, micros) => machine.readValue(key, micros));
  }

  async write({ key, token, text, ttlMs }: ValueRequest): Promise<boolean> {
    return runOn(this.#table, key, (machine, micros) => machine.writeValue(key, token, text, ttlMs, micros));
  }

  async proclaim(request: ProclaimRequest): Promise<boolean> {
    return runOn(this.#table, request.key, (machine, micros) => machine.proclaim(request, micros));
  }

  async readHolder(key: string): Promise<HolderText | null> {
    return runOn(this.#table, key, (machine, micros) => {
      const { token, state } = machine.inspect(key, micros);
      if (token === undefined || state.mode !== 'exclusive') return null;
      return { token, leftMs: state.remaining, text: machine.readValue(key, micros) };
    });
  }
}

/** @internal The error of a call on a store that was closed. */
export function closedStore(key: Key = ''): LockBackendError {
  return new LockBackendError('the store was closed: make another one', { key, retryable: false });
}
