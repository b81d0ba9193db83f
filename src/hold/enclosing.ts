// The locks that enclose the running code. `run` and its like remember their lock for all code that their function starts, so
// that a function that waits for its own lock is found out. Costs nothing while no such function runs: the storage that follows
// promises is switched off with the last one.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { HeldLock } from './held-lock';
import { observedRun } from './observation';

/** A held lock, and the locks around it. */
interface EnclosingFrame {
  readonly held: HeldLock;
  readonly outer: EnclosingFrame | undefined;
}

const storage = new AsyncLocalStorage<EnclosingFrame>();
let running = 0;

/** Runs `fn` as code that `held` encloses. */
export async function runWithin<T>(held: HeldLock, fn: () => T | PromiseLike<T>): Promise<T> {
  const outer = running > 0 ? storage.getStore() : undefined;
  running += 1;
  try {
    const run = observedRun(held, async () => fn());
    return await storage.run({ held, outer }, run);
  } finally {
    running -= 1;
    if (running === 0) switchOff(storage);
  }
}

/** @internal Stops following promises for a storage. A host that cannot stop (Cloudflare Workers throws) goes on. */
export function switchOff(unused: AsyncLocalStorage<unknown>): void {
  // H90b
  try {
    unused.disable();
  } catch {}
}

/** True if `held` encloses the running code, also if `held` has ended meanwhile. */
export function isEnclosedBy(held: HeldLock): boolean {
  for (let flow = running > 0 ? storage.getStore() : undefined; flow !== undefined; flow = flow.outer) {
    if (flow.held === held) return true;
  }
  return false;
}

/** The locks that enclose the running code, the innermost first. */
export function enclosingLocks(): HeldLock[] {
  const locks: HeldLock[] = [];
  if (running === 0) return locks;
  for (let flow = storage.getStore(); flow !== undefined; flow = flow.outer) {
    if (!flow.held.ended) locks.push(flow.held);
  }
  return locks;
}
