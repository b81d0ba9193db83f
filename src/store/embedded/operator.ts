// The operator's view of a table of this process or of this host, where all keys are at hand.

import { clockOf } from '../../core/clock';
import type { LockBackendError } from '../../core/errors';
import { mayBeLock } from '../../core/keys';
import type { LockState } from '../../core/lock-state';
import {
  changedChannel,
  isOfRegistry,
  type Operator,
  type Processes,
  processKey,
  type Registration,
} from '../operator';
import { runOn, type Table } from './table';

const keysAtOnce = 1000;

export class EmbeddedOperator implements Operator {
  readonly isLocal = true;
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  get offsetMs(): number {
    return this.#table.run((_, micros) => micros / 1000 - clockOf(this.#table).nowMs());
  }

  async inspect(keys: readonly string[]): Promise<(LockState | LockBackendError)[]> {
    return runOn(this.#table, keys, (machine, micros) => keys.map((key) => machine.inspect(key, micros).state));
  }

  async permitsOut(key: string): Promise<number> {
    return runOn(this.#table, key, (machine, micros) => machine.permitsOut(key, micros));
  }

  async free(key: string, id: string | undefined): Promise<boolean> {
    return runOn(this.#table, key, (machine, micros) => machine.free(key, id ?? '', micros));
  }

  async register({ id, text, ttlMs }: Registration): Promise<boolean> {
    return this.#table.run((machine, micros) => machine.write(processKey(id), text, ttlMs, micros, changedChannel, id));
  }

  async processes(): Promise<Processes> {
    const keys = this.#table.keys().filter(isOfRegistry);
    return this.#table.run((machine, micros) => ({
      atMs: Math.floor(micros / 1000),
      texts: keys.flatMap((key) => machine.readValue(key, micros) ?? []),
    }));
  }

  readonly keys = async function* (this: EmbeddedOperator, prefix: string): AsyncGenerator<readonly string[], void> {
    const keys = this.#table.keys().filter((key) => key.startsWith(prefix) && mayBeLock(key) && !isOfRegistry(key));
    for (let n = 0; n < keys.length; n += keysAtOnce) yield keys.slice(n, n + keysAtOnce);
  }.bind(this);
}
