// The operator's view of a table of this process or of this host, where all keys are at hand.

import { clockOf } from '../../core/clock';
import { mayBeLock } from '../../core/keys';
import { changedChannel, isOfRegistry, type Operator, processKey } from '../operator';
import type { Table } from './table';

const keysAtOnce = 1000;

export function operatorOf(table: Table): Operator {
  return {
    isLocal: true,
    get offsetMs() {
      return table.run((_, micros) => micros / 1000 - clockOf(table).nowMs());
    },
    async inspect(keys) {
      return table.run((machine, micros) => keys.map((key) => machine.inspect(key, micros).state), keys);
    },
    async permitsOut(key) {
      return table.run((machine, micros) => machine.permitsOut(key, micros), key);
    },
    async free(key, id = '') {
      return table.run((machine, micros) => machine.free(key, id, micros), key);
    },
    async register({ id, text, ttlMs }) {
      return table.run((machine, micros) => machine.write(processKey(id), text, ttlMs, micros, changedChannel, id));
    },
    async processes() {
      const keys = table.keys().filter(isOfRegistry);
      return table.run((machine, micros) => ({
        atMs: Math.floor(micros / 1000),
        texts: keys.flatMap((key) => machine.readValue(key, micros) ?? []),
      }));
    },
    async *keys(prefix) {
      const keys = table.keys().filter((key) => key.startsWith(prefix) && mayBeLock(key) && !isOfRegistry(key));
      for (let n = 0; n < keys.length; n += keysAtOnce) yield keys.slice(n, n + keysAtOnce);
    },
  };
}
