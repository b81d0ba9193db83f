// Renewed locks of a store that only this process uses. While the event loop is blocked nothing can renew them, but nothing can
// take them either. Before any command on its key, each lock may renew itself as it would have in time: a blocked loop loses no
// lock.
import { type Key, listOf } from '../../core/keys';
import type { Checkable, Renewed } from '../contract';

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

  /** Checks the locks on these keys before a command on them. */
  check(keys: Key): void {
    if (this.#byKey.size === 0) return;
    for (const key of listOf(keys)) for (const held of this.#byKey.get(key) ?? []) held.check();
  }

  checkAll(): void {
    for (const key of [...this.#byKey.keys()]) this.check(key);
  }
}
