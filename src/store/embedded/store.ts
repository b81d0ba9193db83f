// A store without a server: the machine runs in this process, on a table in its memory or shared by the processes of the host.
// When a call returns, its command has been carried out, alone. So no outcome is unknown, no request comes too late, nothing
// has to be batched, and an abandoned token is gone at once.

import { clockOf } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { mayBeLock } from '../../core/keys';
import type { EmbeddedStore } from '../../core/redis-like';
import { Abandoned } from '../abandoned';
import type { ReleaseReply, ReleaseRequest, Store } from '../contract';
import { stateFor } from '../inspected';
import { changedChannel, isOfRegistry, type Operator, processKey } from '../operator';
import { newsOf, type Values } from '../values';
import { msOf } from './machine/row';
import { EmbeddedVerbs, type Table } from './verbs';

const keysAtOnce = 1000;

/** The stores by handle. */
const stores = new WeakMap<object, Store>();

/** @internal The store behind a handle that one of our functions made; undefined for anything else. */
export function embeddedStore(given: object): Store | undefined {
  return stores.get(given);
}

/** @internal Makes `handle` stand for a table. */
export function standFor<Handle extends EmbeddedStore>(handle: Handle, table: Table): Handle {
  stores.set(handle, storeOn(table, handle.kind));
  return handle;
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
    operator: operatorOn(table),
    values: valuesOn(table),
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

function valuesOn(table: Table): Values {
  return {
    async read(key) {
      return table.run((machine, micros) => machine.text(key, micros));
    },
    async write({ key, token, text, ttlMs }) {
      return table.run((machine, micros) => {
        const isHeld = machine.holder(key, micros) === token;
        if (isHeld) machine.setText(key, text, ttlMs, micros);
        return isHeld;
      }, key);
    },
    async proclaim({ key, token, text, ttlMs, channel }) {
      return table.run((machine, micros) => {
        if (machine.holder(key, micros) !== token) return false;
        machine.setText(key, text || undefined, ttlMs, micros);
        machine.publish(channel, newsOf, key);
        return true;
      }, key);
    },
    async readHolder(key) {
      return table.run((machine, micros) => {
        const { token, state } = machine.inspect(key, micros);
        if (token === undefined || state.mode !== 'exclusive') return null;
        return { token, leftMs: state.remaining, text: machine.text(key, micros) };
      }, key);
    },
  };
}

function operatorOn(table: Table): Operator {
  return {
    isLocal: true,
    get offsetMs() {
      return table.run((_, micros) => micros / 1000 - clockOf(table).nowMs());
    },
    async inspect(keys) {
      return table.run((machine, micros) => keys.map((key) => machine.inspect(key, micros).state), keys);
    },
    async permitsOut(key) {
      const holders = table.run((machine, micros) => machine.holders(key, micros), key);
      return holders.reduce((sum, { permits }) => sum + permits, 0);
    },
    async free(key, id = '') {
      return table.run((machine, micros) => machine.free(key, id, micros), key);
    },
    async register({ id, text, ttlMs }) {
      const key = processKey(id);
      return table.run((machine, micros) => {
        const kept = text ?? machine.text(key, micros);
        if (kept === null) return false;
        machine.setText(key, kept || undefined, ttlMs, micros);
        if (text !== undefined) machine.publish(changedChannel, id, key);
        return true;
      });
    },
    async processes() {
      return table.run((machine, micros) => {
        const texts = machine.keys().filter(isOfRegistry);
        return { atMs: msOf(micros), texts: texts.flatMap((key) => machine.text(key, micros) ?? []) };
      });
    },
    async *keys(prefix) {
      const all = table.run((machine) => machine.keys());
      const keys = all.filter((key) => key.startsWith(prefix) && mayBeLock(key) && !isOfRegistry(key));
      for (let n = 0; n < keys.length; n += keysAtOnce) yield keys.slice(n, n + keysAtOnce);
    },
  };
}

/** @internal The error of a call on a store that was closed. */
export function closedStore(): LockBackendError {
  return new LockBackendError('the store was closed: make another one', { retryable: false });
}
