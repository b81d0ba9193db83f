// The grant of a Lock object that the running code took. A module often has one object for several callers. If the lock of one
// caller has expired and the next caller has locked, the first must neither unlock that lock nor go on under its fence. So each
// `lock()` is remembered for the async context that called it, up to its `unlock()`.
//
// Not every call has such a context. Code without a `lock()` in its context (an event listener, another request) means what the
// object holds now; so do two callers in one context. The storage is switched off once everything was unlocked.
import { AsyncLocalStorage } from 'node:async_hooks';
import { switchOff } from './enclosing';
import type { Lease } from './lease';

/** One `lock()` of one object, until its `unlock()`. */
export class TakenLock {
  readonly by: object;
  lease: Lease | undefined;
  /** A lock taken later by code that this context called. This context may unlock it. */
  #later: TakenLock | undefined;
  #isOver = false;

  constructor(by: object) {
    this.by = by;
    underWay += 1;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get last(): TakenLock {
    const later = this.#later;
    return later === undefined || later.isOver || later.lease === undefined ? this : later.last;
  }

  followedBy(later: TakenLock): void {
    this.#later = later;
  }

  /** Forgets a lock that was unlocked or never granted. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.lease = undefined;
    underWay -= 1;
    if (underWay === 0) switchOff(storage);
  }
}

/** The locks that the running code took, the latest first. */
interface TakenFrame {
  readonly taken: TakenLock;
  readonly outer: TakenFrame | undefined;
}

const storage = new AsyncLocalStorage<TakenFrame>();
let underWay = 0;

/** Remembers that the running code takes the lock of `by`. Called before any `await`, so that the caller's context keeps it. */
export function beginTaking(by: object): TakenLock {
  const before = takenHere(by);
  const taken = new TakenLock(by);
  before?.followedBy(taken);
  try {
    storage.enterWith({ taken, outer: withoutOver(storage.getStore()) });
  } catch {} // a host that cannot (Cloudflare Workers): the code that calls it counts as any other
  return taken;
}

/** Runs `fn` as code that took `taken`. */
export function runAs<T>(taken: TakenLock, fn: () => T): T {
  return storage.run({ taken, outer: withoutOver(storage.getStore()) }, fn);
}

/** The lock of `by` that the running code took and has not unlocked; undefined if its context has none. */
export function takenHere(by: object): TakenLock | undefined {
  if (underWay === 0) return undefined;
  for (let flow = storage.getStore(); flow !== undefined; flow = flow.outer) {
    if (flow.taken.by === by && !flow.taken.isOver) return flow.taken.last;
  }
  return undefined;
}

function withoutOver(flow: TakenFrame | undefined): TakenFrame | undefined {
  if (flow === undefined) return undefined;
  const outer = withoutOver(flow.outer);
  if (flow.taken.isOver) return outer;
  return outer === flow.outer ? flow : { taken: flow.taken, outer };
}
