// The base of every simulated world: events in the order of their time, and chances from a seed.

export interface Timed {
  atMs: number;
  order: number;
}

/** A binary heap, by time and then by order. */
export class Heap<Event extends Timed> {
  readonly #events: Event[] = [];

  push(event: Event): void {
    const events = this.#events;
    let at = events.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent]!)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  pop(): Event | undefined {
    const events = this.#events;
    const top = events[0];
    const last = events.pop();
    if (last === undefined || last === top) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child += 1;
      if (!isBefore(events[child]!, last)) break;
      events[at] = events[child]!;
      at = child;
    }
    events[at] = last;
    return top;
  }
}

function isBefore(a: Timed, b: Timed): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** A small generator of random numbers, 0 to 1, from a seed. By Tommy Ettinger, public domain. */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * The promise that a variant breaks, by the first world that says so; undefined if no world does.
 *
 * @param BrokenPromise The class of the world: a bundled world has a class of its own.
 */
export async function firstBroken(
  BrokenPromise: new () => Error,
  simulate: (seed: number) => unknown,
  { from = 0, worlds = 300 } = {},
): Promise<string | undefined> {
  for (let seed = from; seed < from + worlds; seed += 1) {
    try {
      await simulate(seed);
    } catch (error) {
      if (error instanceof BrokenPromise) return error.message;
      throw error;
    }
  }
  return undefined;
}
