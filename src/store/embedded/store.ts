// A store without a server: the machine runs in this process, on a table in its memory or shared by the processes of the host.
// When a call returns, its command has been carried out, alone. So no outcome is unknown, no request comes too late, nothing
// has to be batched, and an abandoned token is gone at once.

import { LockBackendError } from '../../core/errors';
import type { EmbeddedStore } from '../../core/redis-like';
import { Abandoned } from '../abandoned';
import type { ReleaseReply, ReleaseRequest, Store } from '../contract';
import { stateFor } from '../inspected';
import type { Values } from '../values';
import { operatorOf } from './operator';
import type { Table } from './table';
import { EmbeddedVerbs } from './verbs';

/** The tables and their stores, by handle. */
const places = new WeakMap<object, { readonly table: Table; readonly store: Store }>();

/** @internal The store behind a handle that one of our functions made; undefined for anything else. */
export function embeddedStore(given: object): Store | undefined {
  return places.get(given)?.store;
}

/** @internal Makes `handle` stand for a table. */
export function standFor<Handle extends EmbeddedStore>(handle: Handle, table: Table): Handle {
  places.set(handle, { table, store: storeOn(table, handle.kind) });
  return handle;
}

/** @internal The table behind one of our own handles. */
export function tableOf(handle: EmbeddedStore): Table {
  return places.get(handle)!.table;
}

function storeOn(table: Table, kind: Store['kind']): Store {
  const verbs = new EmbeddedVerbs(table);
  const release = async (request: ReleaseRequest): Promise<ReleaseReply> => verbs.release(request);
  const abandoned = new Abandoned(release);
  return {
    kind,
    keyPrefix: '',
    clock: table.clock,
    channels: table,
    synchronous: verbs,
    operator: operatorOf(table),
    values: valuesBeside(table),
    acquire: async (request) => verbs.acquire(request),
    extend: async (request) => verbs.extend(request),
    release,
    releaseAndAcquire: async (...requests) => verbs.releaseAndAcquire(...requests),
    // All commands of the token have been carried out, so a single release is enough, once the table can be written.
    abandon: (request) => abandoned.add(request, undefined),
    async inspect(key, _commandTimeoutMs, token) {
      const inspected = table.run((machine, micros) => machine.inspect(key, micros), key);
      return stateFor(inspected, token);
    },
    join() {},
    leave: () => abandoned.settled(),
  };
}

function valuesBeside(table: Table): Values {
  return {
    async read(key) {
      return table.run((machine, micros) => machine.readValue(key, micros));
    },
    async write({ key, token, text, ttlMs }) {
      return table.run((machine, micros) => machine.writeValue(key, token, text, ttlMs, micros), key);
    },
    async proclaim(request) {
      return table.run((machine, micros) => machine.proclaim(request, micros), request.key);
    },
    async readHolder(key) {
      return table.run((machine, micros) => {
        const { token, state } = machine.inspect(key, micros);
        if (token === undefined || state.mode !== 'exclusive') return null;
        return { token, leftMs: state.remaining, text: machine.readValue(key, micros) };
      }, key);
    },
  };
}

/** @internal The error of a call on a store that was closed. */
export function closedStore(): LockBackendError {
  return new LockBackendError('the store was closed: make another one', { retryable: false });
}
