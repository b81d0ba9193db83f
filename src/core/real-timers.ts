// Timers for deliveries: a callback, a message within this process, a batch of commands. They are taken when this module loads, so
// that fake timers that a test installs later delay no delivery. Code that waits for time to pass looks up the global timers each
// time, so that a fake clock controls it.
export const nextTick: typeof process.nextTick = process.nextTick.bind(process);
export const setImmediate: typeof globalThis.setImmediate = globalThis.setImmediate;
export const setTimeout: typeof globalThis.setTimeout = globalThis.setTimeout;
