// The timers that deliver what is decided already: a callback, a message within this process, a batch of commands. They are
// taken when this module loads, so that the fake ones that a test installs later hold up no delivery. What waits for time to
// pass asks for the global timers each time, so that a fake clock owns it.
export const nextTick: typeof process.nextTick = process.nextTick.bind(process);
export const setImmediate: typeof globalThis.setImmediate = globalThis.setImmediate;
export const setTimeout: typeof globalThis.setTimeout = globalThis.setTimeout;
export const clearTimeout: typeof globalThis.clearTimeout = globalThis.clearTimeout;
