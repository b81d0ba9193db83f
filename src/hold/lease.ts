// The lease: a function that releases the lock, with the properties of the lock. The held lock behind it (held-lock.ts) does all
// the work and does not refer to its lease, so that a lease that nobody keeps can be collected.
import { LockBackendError, NotAcquiredLockError, unknownOptionError } from '../core/errors';
import { warn } from '../core/events';
import { describe, type Key, listOf } from '../core/keys';
import { checkValue, lifetimeRule } from '../core/options';
import { nextTick } from '../core/real-timers';
import type { HeldLock } from './held-lock';
import { eventOf } from './observation';

/** A function that releases the lock, with the properties of the lock. `done` of a callback is one, too. */
export interface Lease {
  /** Releases the lock as `release` does. The callback gets `(err, released)` once, on a fresh stack. */
  (callback: (err: Error | null, released?: boolean) => void): void;
  /** Releases the lock as `release` does. */
  (): Promise<boolean>;
  /**
   * Releases the lock. All calls share one script call and its answer.
   *
   * Resolves to true if the lock was still ours, to false if it no longer was (no other holder's key is touched).
   * The promise counts as handled; a caller that awaits it still sees the error.
   *
   * @throws {LockBackendError} no answer. The release may be tried again; at worst `lifetime` frees the key.
   */
  release(): Promise<boolean>;
  /** The key as it was given. */
  readonly key: Key;
  /** The key or keys as a list. */
  readonly keys: readonly string[];
  /**
   * The token that names this holder in Redis. A secret: whoever has it can release the lock. Not enumerable. Readers that share
   * a holder in Redis have a token each, and Redis has the token of the first reader.
   */
  readonly token: string;
  /** The fencing token: larger with each grant of the key. Pass it along with your writes. 0 with `fencing: false`. */
  readonly fence: number;
  /** The number of attempts after the first. */
  readonly retries: number;
  /**
   * Aborts with a LockLostError when the lock may be lost, no later than the end of its validity if the event loop permits.
   * Our own release does not abort it. The signal and its timer are made when the signal is first read.
   */
  readonly signal: AbortSignal;
  /** Ms for which the lock is surely ours by our own clocks; 0 once released or lost, Infinity with `lifetime: null`. */
  remaining(): number;
  /**
   * Sets the end to `lifetime` ms from now (default: the lease's own lifetime; integer ≥ 1).
   *
   * Resolves to true if the lock was extended, to false if it was no longer ours (the lock is then lost).
   *
   * @throws {RangeError | TypeError} `ERR_LOCK_OPTION` for an impossible lifetime. Still held.
   * @throws {LockBackendError} no answer. Still held; the validity stays what it was.
   */
  extend(lifetime?: number): Promise<boolean>;
  /**
   * Gives up the lock here without releasing it, so that `withLock.adopt` can take it over elsewhere. Renewal stops, and Redis
   * keeps the key until its lifetime ends. Afterwards `release()` and `extend()` of this lease resolve to false and send nothing,
   * `remaining()` is 0, and `signal` does not abort. For a mutex of one key or several.
   *
   * @throws {NotAcquiredLockError} the lock was released, detached or lost (the loss is the `cause`).
   * @throws {LockBackendError} an `extend` of this lease has no answer yet, and could still shorten the adopter's validity.
   *         Still held; try again once the `extend` is answered.
   * @throws {TypeError} `ERR_LOCK_OPTION`: a lease of an RWLock or a Semaphore. Still held.
   */
  detach(): DetachedLease;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A detached lock as plain JSON: `lease.detach()` returns it, `withLock.adopt()` takes it. The token is secret: it can release. */
export interface DetachedLease {
  /** The key as it was given, without the prefix. */
  key: Key;
  token: string;
  fence: number;
  /** The end of the lifetime in ms of the epoch, by the clock of the detaching process. 2 ** 53 − 1: no end. */
  until: number;
}

/** The argument that makes a lease return its held lock: no property leads there. */
const reveal = Symbol('held lock');

/**
 * @internal Makes the lease of `held`. With `autoExtend`, the lock is renewed until the lease is collected.
 *
 * @param takenAt An error with the stack of the acquire, if locks that are never released shall be warned of.
 */
export function leaseOf(
  held: HeldLock,
  autoExtend: boolean,
  takenAt: Error | undefined,
  methods: object = leaseMethods,
): Lease {
  const lease: Lease = Object.setPrototypeOf(release.bind(held), methods); // H11c
  if (autoExtend) held.keeper.startRenewing(lease);
  if (takenAt !== undefined) warnIfForgotten(held, takenAt); // H69b
  return lease;
}

function warnIfForgotten(held: HeldLock, takenAt: Error): void {
  held.keeper.whenForgotten(() => {
    const message = `${describe(held.key)} was never released: its lifetime has freed it`;
    warn({ ...eventOf(held), code: 'never-released', message, error: takenAt }); // H69c
  });
}

async function extend(held: HeldLock, lifetime?: number): Promise<boolean> {
  if (lifetime !== undefined) checkValue('lifetime', lifetimeRule, lifetime); // H13f
  return held.keeper.extend(lifetime ?? held.context.settings.lifetimeMs);
}

function detach(held: HeldLock): DetachedLease {
  const { key, token, fence } = held;
  if (held.mode !== undefined) {
    throw unknownOptionError('detach', 'only a mutex can be detached, not what readers, writers or permits hold');
  }
  if (!held.check()) throw new NotAcquiredLockError(`${describe(key)} is not held`, { key, cause: held.loss });
  if (held.mayShorten) {
    const message = `an extension of ${describe(key)} has no answer yet: wait for that before detach()`;
    throw new LockBackendError(message, { key });
  }
  const until = Math.min(Math.floor(Date.now() + held.leftMs()), Number.MAX_SAFE_INTEGER);
  held.letGo();
  return { key, token, fence, until };
}

/** The body of a lease. Bound and not a closure: a bound function takes half the memory. */
function release(this: HeldLock, callback?: unknown): unknown {
  if (callback === reveal) return this;
  const released = this.release();
  return typeof callback === 'function' ? deliver(released, callback as ReleaseCallback) : released;
}

type ReleaseCallback = (err: Error | null, released?: boolean) => void;

function deliver(released: Promise<boolean>, callback: ReleaseCallback): void {
  released.then(
    (value) => nextTick(callback, null, value), // H68c
    (error) => nextTick(callback, error), // H68d
  );
}

/** Asks a joined lease if it was released. */
const isLeft = Symbol('is left');

/** @internal Makes the lease of a call that joins `held`. Its release releases nothing: the outermost function does. */
export function joinedLeaseOf(held: HeldLock): Lease {
  let left: Promise<boolean> | undefined;
  return Object.setPrototypeOf((callback?: unknown): unknown => {
    if (callback === reveal) return held;
    if (callback === isLeft) return left !== undefined;
    left ??= Promise.resolve(held.check());
    return typeof callback === 'function' ? deliver(left, callback as ReleaseCallback) : left;
  }, joinedMethods);
}

/** @internal The held lock behind a lease. */
export function heldLockOf(lease: unknown): HeldLock {
  return (lease as (key: typeof reveal) => HeldLock)(reveal);
}

/** @internal The prototype of leases. A class whose leases can do more puts another prototype in between. */
export const leaseMethods: object = Object.create(Function.prototype, {
  key: getter((held) => held.key),
  keys: getter((held) => [...listOf(held.key)]),
  token: getter((held) => held.token),
  fence: getter((held) => held.fence),
  retries: getter((held) => held.retries),
  signal: getter((held) => held.signal),
  release: method((held) => held.release()),
  // If a stall has left 0 ms, the check aborts the signal at once, before any timer runs.
  remaining: method((held) => (held.check() ? held.remaining() : 0)), // H18c
  extend: method(extend),
  detach: method((held) => detach(held)),
  [Symbol.for('nodejs.util.inspect.custom')]: { value: shown },
  ...(Symbol.asyncDispose && {
    [Symbol.asyncDispose]: method(async (_held, _argument, lease) => void (await lease())),
  }),
});

const joinedMethods: object = Object.create(leaseMethods, {
  release: method((_held, _argument, lease) => lease()),
  remaining: method((held, _argument, lease) => (!(lease as any)(isLeft) && held.check() ? held.remaining() : 0)),
  extend: method(async (held, lifetime, lease) => !(lease as any)(isLeft) && extend(held, lifetime)),
  detach: method(() => {
    throw unknownOptionError('detach', 'only the outermost function of a reentrant lock can detach it');
  }),
});

/** The text that `console.log` and `util.inspect` print: never the token. */
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

/** @internal A property that a lease reads from its held lock. */
export function getter(read: (held: HeldLock) => unknown): PropertyDescriptor {
  return {
    get(this: unknown) {
      return read(heldLockOf(this));
    },
  };
}

/** @internal A method of a lease that calls its held lock. */
export function method(call: (held: HeldLock, argument: any, lease: Lease) => unknown): PropertyDescriptor {
  return {
    value(this: Lease, argument: unknown) {
      return call(heldLockOf(this), argument, this);
    },
    writable: true,
    configurable: true,
  };
}
