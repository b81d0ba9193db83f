// A host as Cloudflare Workers are: timers are numbers, and an AsyncLocalStorage can be neither disabled nor entered. Imported first, so that
// the library finds nothing else.
import { AsyncLocalStorage } from 'node:async_hooks';

const timers = new Map<number, NodeJS.Timeout>();
let last = 0;

function numbered(set: typeof setTimeout | typeof setInterval): typeof setTimeout {
  const start = (work: (...args: unknown[]) => void, ms?: number, ...args: unknown[]): number => {
    last += 1;
    timers.set(last, (set as typeof setTimeout)(work, ms, ...args));
    return last;
  };
  return start as unknown as typeof setTimeout;
}

const { clearTimeout: clear } = globalThis;
const clearNumbered = (timer: unknown): void => {
  if (typeof timer !== 'number') return clear(timer as NodeJS.Timeout);
  clear(timers.get(timer));
  timers.delete(timer);
};

Object.assign(globalThis, {
  setTimeout: numbered(globalThis.setTimeout),
  setInterval: numbered(globalThis.setInterval),
  clearTimeout: clearNumbered,
  clearInterval: clearNumbered,
});

const { run, enterWith } = AsyncLocalStorage.prototype;
Object.assign(AsyncLocalStorage.prototype, {
  // From Node 24 on it enters, and for itself it may.
  run(this: { enterWith?: unknown }, store: unknown, fn: (...args: unknown[]) => unknown, ...args: unknown[]) {
    const within = (): unknown => {
      delete this.enterWith;
      try {
        return fn(...args);
      } finally {
        this.enterWith = enterWith;
      }
    };
    this.enterWith = enterWith;
    try {
      return run.call(this as never, store, within);
    } finally {
      delete this.enterWith;
    }
  },
  disable() {
    throw new Error('asyncLocalStorage.disable() is not implemented');
  },
  enterWith() {
    throw new Error('asyncLocalStorage.enterWith() is not implemented');
  },
});
