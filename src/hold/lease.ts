// What you get: a function that releases the lock, with what there is to know of it. All that happens is done by the held lock
// behind it (held-lock.ts), which knows nothing of its lease: so a lease that is not kept can be collected.

import { warn } from '../core/events';
import { describe, type Key, listOf } from '../core/keys';
import { checkValue, lifetimeRule } from '../core/options';
import { nextTick } from '../core/real-timers';
import { type DetachedLease, detach } from './detach';
import type { HeldLock } from './held-lock';
import { eventOf } from './observation';

export type { DetachedLease };

/** What `done` and `release` are: a function that releases the lock, and what there is to know of it. */
export interface Lease {
  /** Releases the lock; the callback hears `(err, released)` once, on a fresh stack. Same release as below. */
  (callback: (err: Error | null, released?: boolean) => void): void;
  /** Releases the lock. Same release as below. */
  (): Promise<boolean>;
  /**
   * Releases the lock: one script call however often it is called, and one answer to all.
   *
   * Resolves to true when it was still ours, false when it no longer was (no other holder's key is touched).
   * Its promise counts as handled; a caller that awaits it still sees the error.
   *
   * @throws {LockBackendError} no answer. May be tried again; at worst `lifetime` frees the key.
   */
  release(): Promise<boolean>;
  /** The key as it was given. */
  readonly key: Key;
  /** The same as a list. */
  readonly keys: readonly string[];
  /**
   * What Redis holds for us. A secret: it is all that releasing the lock takes. Not enumerable. Readers that share a holder in Redis
   * have one each, and Redis that of the first.
   */
  readonly token: string;
  /** The fencing token: larger with each grant of the key. Hand it to what you write to. 0 with `fencing: false`. */
  readonly fence: number;
  /** Further attempts that it took after the first. */
  readonly retries: number;
  /**
   * Aborts with a LockLostError when the lock may be lost, no later than the end of its validity, event loop permitting.
   * Not by our own release. Made, with its timer, when first read.
   */
  readonly signal: AbortSignal;
  /** Ms for which the lock is surely ours, by our own clocks; 0 once released or lost, Infinity with `lifetime: null`. */
  remaining(): number;
  /**
   * Sets the end to `lifetime` ms from now (default: the lease's own lifetime; integer ≥ 1).
   *
   * Resolves to true when extended, false when no longer ours (then it is lost).
   *
   * @throws {RangeError | TypeError} `ERR_LOCK_OPTION` for an impossible lifetime. Still held.
   * @throws {LockBackendError} no answer. Still held until the validity that it had.
   */
  extend(lifetime?: number): Promise<boolean>;
  /**
   * Forgets the lock here without releasing it, so that `withLock.adopt` can take it over elsewhere. Renewal stops; Redis keeps
   * the key until the lifetime that it has. Afterwards this lease is done: `release()` and `extend()` resolve to false and send
   * nothing, `remaining()` is 0, `signal` does not abort. Of a mutex, or several keys.
   *
   * @throws {NotAcquiredLockError} it was released, detached or lost (the loss is its `cause`).
   * @throws {LockBackendError} an `extend` of this lease has no answer yet, and could still shorten the adopter's validity.
   *         Still held; try again once that is answered.
   * @throws {TypeError} `ERR_LOCK_OPTION`: a lease of an RWLock or a Semaphore. Still held.
   */
  detach(): DetachedLease;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What makes a lease return its held lock: no property of the lease leads there, and none has to be stored. */
const reveal = Symbol('held lock');

/**
 * @internal The function that releases `held`, with the properties of a lease. Renewed while it is kept, if wanted.
 *
 * @param takenAt Where it was acquired, when warnings of locks that were never released are wanted.
 */
export function leaseOf(
  held: HeldLock,
  autoExtend: boolean,
  takenAt: Error | undefined,
  methods: object = leaseMethods,
): Lease {
  const lease: Lease = Object.setPrototypeOf(release.bind(held), methods); // H11c
  if (autoExtend) held.upkeep.startRenewing(lease);
  if (takenAt !== undefined) warnIfForgotten(held, takenAt); // H69b
  return lease;
}

/** Says so when the lifetime has passed and the lock was never released. */
function warnIfForgotten(held: HeldLock, takenAt: Error): void {
  held.upkeep.whenForgotten(() => {
    const message = `${describe(held.key)} was never released: its lifetime has freed it`;
    warn({ ...eventOf(held), code: 'never-released', message, error: takenAt }); // H69c
  });
}

async function extend(held: HeldLock, lifetime?: number): Promise<boolean> {
  if (lifetime !== undefined) checkValue('lifetime', lifetimeRule, lifetime); // H13f
  return held.upkeep.extend(lifetime ?? held.context.settings.lifetimeMs);
}

/** What a lease does when it is called. Bound, not closed over: that takes half the memory. */
function release(this: HeldLock, callback?: unknown): unknown {
  if (callback === reveal) return this;
  const released = this.release();
  if (typeof callback !== 'function') return released;
  released.then(
    (value) => nextTick(callback as (err: null, released: boolean) => void, null, value), // H68c
    (error) => nextTick(callback as (err: Error) => void, error), // H68d
  );
  return undefined;
}

/** @internal The held lock behind a lease. */
export function heldLockOf(lease: unknown): HeldLock {
  return (lease as (key: typeof reveal) => HeldLock)(reveal);
}

/** @internal What every lease can do; a face whose leases can do more puts it in between. */
export const leaseMethods: object = Object.create(Function.prototype, {
  ...getters({
    key: (held) => held.key,
    keys: (held) => [...listOf(held.key)],
    token: (held) => held.token,
    fence: (held) => held.fence,
    retries: (held) => held.retries,
    signal: (held) => held.signal,
  }),
  release: method((held) => held.release()),
  // Where it is 0 after a stall, the signal says so before the timers run.
  remaining: method((held) => (held.check() ? held.remaining() : 0)), // H18c
  extend: method(extend),
  detach: method((held) => detach(held)),
  [Symbol.for('nodejs.util.inspect.custom')]: { value: shown },
  ...(Symbol.asyncDispose && {
    [Symbol.asyncDispose]: method(async (held) => {
      await held.release();
    }),
  }),
});

/** What `console.log` and `util.inspect` print: never the token. */
function shown(
  this: Lease,
  depth: number,
  options: object,
  inspect: (value: unknown, options: object) => string,
): string {
  if (depth < 0 || typeof this !== 'function') return '[Lease]';
  const { key, fence } = this;
  return `Lease ${inspect({ key, fence, remaining: this.remaining() }, options)}`;
}

/** @internal Properties that a lease reads from its held lock. */
export function getters(read: Record<string, (held: HeldLock) => unknown>): PropertyDescriptorMap {
  const entries = Object.entries(read).map(([name, get]) => [
    name,
    {
      get(this: unknown) {
        return get(heldLockOf(this));
      },
    },
  ]);
  return Object.fromEntries(entries);
}

/** @internal A method of a lease that its held lock does. */
export function method(call: (held: HeldLock, argument: any) => unknown): PropertyDescriptor {
  return {
    value(this: unknown, argument: unknown) {
      return call(heldLockOf(this), argument);
    },
    writable: true,
    configurable: true,
  };
}
