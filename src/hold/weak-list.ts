// A list of weak references, to each thing once: a factory may outlive its clients. A collected member leaves an empty reference.
// Empty references are swept whenever the list is twice as long as after the last sweep.

import { weakly } from '../core/runtime';

const minSweep = 64;

export class WeakList<T extends object> {
  readonly #known = new WeakSet<T>();
  #refs: { deref(): T | undefined }[] = [];
  #sweepAt = minSweep;

  /** Adds a member. False if the list has it already. */
  add(thing: T): boolean {
    if (this.#known.has(thing)) return false;
    this.#known.add(thing);
    this.#refs.push(weakly(thing)); // H77
    if (this.#refs.length < this.#sweepAt) return true;
    this.#refs = this.#refs.filter((ref) => ref.deref() !== undefined);
    this.#sweepAt = Math.max(minSweep, 2 * this.#refs.length);
    return true;
  }

  /** The members that were not collected, in the order in which they were added. */
  all(): T[] {
    return this.#refs.flatMap((ref) => ref.deref() ?? []);
  }
}
