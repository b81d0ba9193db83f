// The locks of the running code's async context. `run` and its like remember their lock for all code that their function starts, so
// that a function that waits for its own lock is found out. A Lock object remembers each `lock()` for the context that called it, up to
// its `unlock()`, and so tells its callers apart. The storage that follows promises is switched off with the last lock.
import { AsyncLocalStorage } from '../core/runtime';
import type { HeldLock } from './held-lock';
import type { Lease } from './lease';
import { observedRun } from './observation';

/** The locks of a context, the latest first. */
export interface Frame {
  /** A lock that encloses the running code. */
  readonly held?: HeldLock;
  /** A lock that the running code took. */
  readonly taken?: TakenLock | undefined;
  readonly outer: Frame | undefined;
  /** True once the function that runs under `held` has ended, although code that it started may go on. */
  isOver?: boolean;
  /** The functions that have joined `held` and still run (`reentrant: true`). */
  joined?: Set<Promise<unknown>>;
}

const storage = new AsyncLocalStorage<Frame>();
/** The number of functions that run under a lock, and of taken locks. */
let remembered = 0;

export function present(): Frame | undefined {
  return remembered > 0 ? storage.getStore() : undefined;
}

function forgetOne(): void {
  remembered -= 1;
  if (remembered > 0) return;
  // H90b
  try {
    storage.disable();
  } catch {} // a host that cannot (Cloudflare Workers) goes on following promises
}

/** Runs `fn` as code that `held` encloses; with `taken`, as code that took it, too. Ends after the functions that joined. */
export async function runWithin<T>(held: HeldLock, fn: () => T | PromiseLike<T>, taken?: TakenLock): Promise<T> {
  const frame: Frame = { held, taken, outer: present() };
  remembered += 1;
  try {
    const run = observedRun(held, async () => fn());
    return await storage.run(frame, run);
  } finally {
    frame.isOver = true; // H70e
    if (frame.joined !== undefined) await Promise.allSettled(frame.joined); // H70f
    forgetOne();
  }
}

/** The frame of the innermost function that still runs under a lock that matches, in a context. */
export function enclosingFrame(context: Frame | undefined, matches: (held: HeldLock) => boolean): Frame | undefined {
  for (let frame = context; frame !== undefined; frame = frame.outer) {
    if (!frame.isOver && frame.held?.ended === false && matches(frame.held)) return frame;
  }
  return undefined;
}

/** Runs `fn` as code that the lock of `frame` encloses. The function of the frame keeps the lock until `fn` has ended. */
export function runJoined<T>(frame: Frame, fn: () => Promise<T>): Promise<T> {
  const running = runWithin(frame.held!, fn);
  frame.joined ??= new Set();
  const { joined } = frame;
  const end = (): unknown => joined.delete(running);
  joined.add(running);
  running.then(end, end);
  return running;
}

/** True if `held` encloses the running code, also if `held` has ended meanwhile. */
export function isEnclosedBy(held: HeldLock): boolean {
  for (let frame = present(); frame !== undefined; frame = frame.outer) if (frame.held === held) return true;
  return false;
}

/** One `lock()` of one object, until its `unlock()`. */
export class TakenLock {
  readonly by: object;
  lease: Lease | undefined;
  /** A lock taken later by code that this context called. This context may unlock it. */
  #later: TakenLock | undefined;
  isOver = false;

  constructor(by: object) {
    this.by = by;
    remembered += 1;
  }

  /** Remembers that the running code takes the lock of `by`. Called before any `await`, so that the caller's context keeps it. */
  static here(by: object): TakenLock {
    const before = takenHere(by);
    const taken = new TakenLock(by);
    if (before !== undefined) before.#later = taken;
    try {
      storage.enterWith({ taken, outer: withoutOver(storage.getStore()) });
    } catch {} // a host that cannot (Cloudflare Workers): the code that calls it counts as any other
    return taken;
  }

  get last(): TakenLock {
    const later = this.#later;
    return later?.lease === undefined ? this : later.last;
  }

  /** The lock was unlocked or never granted. */
  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.lease = undefined;
    forgetOne();
  }
}

/** The lock of `by` that the running code took and has not unlocked. */
export function takenHere(by: object): TakenLock | undefined {
  for (let frame = present(); frame !== undefined; frame = frame.outer) {
    if (frame.taken?.by === by && !frame.taken.isOver) return frame.taken.last;
  }
  return undefined;
}

/** The frames whose locks were not unlocked. */
function withoutOver(frame: Frame | undefined): Frame | undefined {
  if (frame === undefined) return undefined;
  const outer = withoutOver(frame.outer);
  if (frame.taken?.isOver && frame.held === undefined) return outer;
  return outer === frame.outer ? frame : { ...frame, outer };
}
