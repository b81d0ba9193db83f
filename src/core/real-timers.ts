// Timers for deliveries: a callback, a message within this process, a batch of commands. They are taken when this module loads, so
// that fake timers that a test installs later delay no delivery. Code that waits for time to pass looks up the global timers each
// time, so that a fake clock controls it.
//
// A runtime without `process.nextTick` and `setImmediate` has microtasks and the next timer in their place.
const { process, setImmediate: immediate } = globalThis as Partial<typeof globalThis>;

export const nextTick: <A extends unknown[]>(work: (...args: A) => unknown, ...args: A) => void =
  process?.nextTick?.bind(process) ?? ((work, ...args) => queueMicrotask(() => void work(...args)));
export const setTimeout: typeof globalThis.setTimeout = globalThis.setTimeout;
export const setImmediate: typeof globalThis.setImmediate =
  immediate ?? (((work: () => unknown) => setTimeout(work, 0)) as any);
