// Which holds the running code stands in: every `run`, and its like, is remembered for what its function starts, so that a wait
// which that function makes for its own lock can be told from a wait for somebody else's. Costs nothing while no such function
// runs: the storage that follows promises is switched off with the last one.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './lease';

/** A hold, and those around it. */
interface Flow {
  readonly hold: Hold;
  readonly outer: Flow | undefined;
}

const storage = new AsyncLocalStorage<Flow>();
let running = 0;

/** Runs `fn` as code that stands in `hold`. */
export async function runWithin<T>(hold: Hold, fn: () => T | PromiseLike<T>): Promise<T> {
  const outer = running > 0 ? storage.getStore() : undefined;
  running += 1;
  try {
    return await storage.run({ hold, outer }, async () => fn());
  } finally {
    running -= 1;
    if (running === 0) storage.disable();
  }
}

/** The holds that the running code stands in, the innermost first. */
export function ownHolds(): Hold[] {
  const holds: Hold[] = [];
  if (running === 0) return holds;
  for (let flow = storage.getStore(); flow !== undefined; flow = flow.outer) {
    if (!flow.hold.ended) holds.push(flow.hold);
  }
  return holds;
}
