// What the faces have in common: `([options], fn)` as arguments, acquiring a lease, a lease that is still worth something, and
// a function that runs under one.

import { LockBackendError, LockLostError, optionError, TooManyLockAttemptsError } from '../core/errors';
import { type LockKind, warningsWanted } from '../core/events';
import { describe, type Key } from '../core/keys';
import type { Settings } from '../core/options';
import { runWithin } from '../hold/enclosing';
import type { HeldLock } from '../hold/held-lock';
import { heldLockOf, type Lease, leaseOf } from '../hold/lease';
import type { Scope } from '../hold/scope';
import type { Mode } from '../store/contract';
import { acquire } from './acquisition';
import type { Once } from './attempts';

/** `([options], fn)`: the function comes last, the options before it. */
export function optionsThenFunction(
  rest: readonly unknown[],
  name: string,
): [options: unknown, fn: (...args: any[]) => unknown] {
  const [options, fn] = rest.length > 1 ? rest : [undefined, rest[0]];
  if (typeof fn !== 'function') throw optionError(name, 'a function, as the last argument', fn);
  return [options, fn as (...args: any[]) => unknown];
}

/** What a face adds to an acquire. */
interface LeaseVariant {
  /** Whether to renew where `autoExtend` was not given. */
  readonly autoExtend?: boolean;
  /** How the key is to be held, where several may held it. */
  readonly mode?: Mode | undefined;
  /** For a job that runs once a slot. */
  readonly once?: Once | undefined;
  /** What observers call it, where it is a mutex that is more than one. */
  readonly kind?: LockKind | undefined;
  /** Busy is an answer: to observers, no error. */
  readonly isTry?: boolean | undefined;
  /** What its leases can do, if more than `leaseMethods`. */
  readonly methods?: object | undefined;
}

/** Resolves with the lease; throws at once for bad arguments, and rejects as acquire does. Renewed if wanted. */
export function acquireLease(key: Key, settings: Settings, scope: Scope, kind: LeaseVariant = {}): Promise<Lease> {
  const takenAt = warningsWanted() ? new Error('taken here') : undefined;
  const autoExtend = settings.autoExtend ?? kind.autoExtend ?? false;
  const toLease = (held: HeldLock): Lease => leaseOf(held, autoExtend, takenAt, kind.methods);
  return acquire(
    key,
    { settings, scope, mode: kind.mode, once: kind.once, kind: kind.kind, isTry: kind.isTry },
    toLease,
  );
}

/** One attempt, whatever the settings say of waiting: null when it is busy. Throws, or rejects, as `acquireLease` does. */
export async function tryLease(
  key: Key,
  settings: Settings,
  scope: Scope,
  kind: LeaseVariant = {},
): Promise<Lease | null> {
  try {
    return await acquireLease(key, forOneAttempt(settings), scope, { ...kind, isTry: true });
  } catch (error) {
    if (error instanceof TooManyLockAttemptsError) return null; // H72d
    throw error;
  }
}

/** Made once for settings that many calls have in common, as their leases then do: 5 % of a sequential pair. */
const oneAttempts = new WeakMap<Settings, Settings>();

function forOneAttempt(settings: Settings): Settings {
  let once = oneAttempts.get(settings);
  if (once === undefined) {
    once = Object.freeze({ ...settings, maxRetries: 0, timeoutMs: undefined, queued: false });
    oneAttempts.set(settings, once);
  }
  return once;
}

/** The lease, unless the process was stopped until it was worth nothing. */
export function checkFresh<L extends Lease>(lease: L): L {
  const { loss } = heldLockOf(lease);
  if (loss === undefined) return lease; // H7
  void heldLockOf(lease).releaseQuietly(); // H7b
  const message = `the grant of ${describe(lease.key)} was over before it could be used`;
  throw new LockBackendError(message, { key: lease.key, cause: loss });
}

/** Runs `fn`, and releases the lock. What `fn` threw goes before everything; then a loss. */
export async function runUnder<L extends Lease, T>(lease: L, fn: (lease: L) => T | PromiseLike<T>): Promise<T> {
  const held = heldLockOf(checkFresh(lease));
  let result: T;
  try {
    result = await runWithin(held, () => fn(lease));
  } catch (error) {
    await held.releaseQuietly(); // H24
    throw error;
  }
  const lostMeanwhile = held.loss;
  await held.releaseQuietly(); // H24b
  const loss = lostMeanwhile ?? held.loss;
  if (loss === undefined) return result;
  throw new LockLostError(loss.message, { key: lease.key, reason: loss.reason, result, cause: loss });
}
