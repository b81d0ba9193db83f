// A list that keeps none of its members from the collector: a factory may outlive its clients. A collected member leaves an empty
// reference. Empty references are swept whenever the list is twice as long as after the last sweep.

const smallestSweep = 64;

/** A list of weak references, to each thing once. */
export class WeakList<T extends object> {
  readonly #known = new WeakSet<T>();
  #refs: WeakRef<T>[] = [];
  #sweepAt = smallestSweep;

  has(thing: T): boolean {
    return this.#known.has(thing);
  }

  add(thing: T): void {
    if (this.#known.has(thing)) return;
    this.#known.add(thing);
    this.#refs.push(new WeakRef(thing)); // H77
    if (this.#refs.length >= this.#sweepAt) this.#sweep();
  }

  /** The members that were not collected, in the order in which they were added. */
  all(): T[] {
    return this.#refs.flatMap((ref) => ref.deref() ?? []);
  }

  #sweep(): void {
    this.#refs = this.#refs.filter((ref) => ref.deref() !== undefined);
    this.#sweepAt = Math.max(smallestSweep, 2 * this.#refs.length);
  }
}
