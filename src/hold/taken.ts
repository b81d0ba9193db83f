// Which grant of a Lock object the running code took. An object is often one for a whole module, and so has several callers: when
// the lock of one has expired and the next has locked, the first must neither unlock the other's lock nor go on under its fence.
// So a `lock()` is remembered for the flow of code that called it, up to its `unlock()`.
//
// It cannot always be told. Code that has no `lock()` behind it in its own flow (an event listener, another request) means what the
// object holds now; so do two callers of one flow. The storage is off again once all that was taken has been unlocked.
import { AsyncLocalStorage } from 'node:async_hooks';
import { switchOff } from './enclosing';
import type { Lease } from './lease';

/** One `lock()` of one object, until its `unlock()`. */
export class TakenLock {
  readonly by: object;
  lease: Lease | undefined;
  /** Taken later by what this flow called, which comes back here to unlock it. */
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

  /** Unlocked, or never had. Nothing is kept of it. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.lease = undefined;
    underWay -= 1;
    if (underWay === 0) switchOff(storage);
  }
}

/** What the running code took, the latest first. */
interface TakenFrame {
  readonly taken: TakenLock;
  readonly outer: TakenFrame | undefined;
}

const storage = new AsyncLocalStorage<TakenFrame>();
let underWay = 0;

/** The running code begins to take the lock of `by`. Called before anything is awaited: the caller's own flow goes on with it. */
export function beginTaking(by: object): TakenLock {
  const before = takenHere(by);
  const taken = new TakenLock(by);
  before?.followedBy(taken);
  try {
    storage.enterWith({ taken, outer: withoutOver(storage.getStore()) });
  } catch {} // a host that cannot (Cloudflare Workers): the code that calls it counts as any other
  return taken;
}

/** Runs `fn` as code that took this. */
export function runAs<T>(taken: TakenLock, fn: () => T): T {
  return storage.run({ taken, outer: withoutOver(storage.getStore()) }, fn);
}

/** What the running code took of `by`, and has not unlocked; undefined where that cannot be told. */
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
