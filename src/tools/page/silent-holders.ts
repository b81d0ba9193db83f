// The holders whose processes fell silent without releasing their locks.
import type { HolderState } from '../../core/lock-state';
import type { ProcessRecord, RegisteredHold } from '../../inspect/process-record';

export class SilentHolders {
  /** The last known holds of each process. */
  #holds = new Map<string, readonly RegisteredHold[]>();
  /** The ids of silent holders, by key. */
  readonly #ids = new Map<string, Set<string>>();

  /** Takes in the present records. The holders of a process without a record are silent from now on. */
  update(records: readonly ProcessRecord[]): void {
    const before = this.#holds;
    this.#holds = new Map(records.map(({ id, held }) => [id, held]));
    for (const [process, held] of before) {
      if (this.#holds.has(process)) continue;
      for (const { key, id } of held) this.#ids.set(key, new Set(this.#ids.get(key)).add(id));
    }
    if (this.#ids.size === 0) return;
    for (const { key, id } of [...this.#holds.values()].flat()) this.#ids.get(key)?.delete(id);
  }

  keys(): Iterable<string> {
    return this.#ids.keys();
  }

  /** Tells if one of these holders of a key is silent. */
  has(key: string, holders: readonly HolderState[]): boolean {
    const ids = this.#ids.get(key);
    return ids !== undefined && holders.some(({ id }) => ids.has(id));
  }

  /** Takes the present holders of a key. Forgets the silent holders of the key if none of them holds it. */
  settle(key: string, holders: readonly HolderState[]): void {
    if (!this.has(key, holders)) this.#ids.delete(key);
  }
}
