// Things that are worth something only while somebody else keeps them: a factory outlives its clients, and keeps none of them.
// What was collected leaves a hollow reference; those are cleared away whenever there are twice as many as were left the last time.

const smallestSweep = 64;

/** Each thing once. */
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

  /** Those that are still there, in the order in which they came. */
  all(): T[] {
    return this.#refs.flatMap((ref) => ref.deref() ?? []);
  }

  #sweep(): void {
    this.#refs = this.#refs.filter((ref) => ref.deref() !== undefined);
    this.#sweepAt = Math.max(smallestSweep, 2 * this.#refs.length);
  }
}
