// The common part of the factory and the lock classes: acquiring a lease, and running a function under it.

import { LockBackendError, LockLostError, optionError } from '../core/errors';
import { warningsWanted } from '../core/events';
import { describe, type Key } from '../core/keys';
import type { Settings } from '../core/options';
import { perObject } from '../core/per-object';
import { enclosingFrame, type Frame, runJoined, runWithin } from '../hold/async-context';
import { type HeldLock, mayJoin } from '../hold/held-lock';
import { heldLockOf, joinedLeaseOf, type Lease, leaseOf } from '../hold/lease';
import type { Scope } from '../hold/scope';
import { acquire } from './acquisition';
import { type AcquireSpec, type AcquireVariant, specFor } from './spec';

/** Splits the arguments `([options], fn)`: the function comes last, the options before it. */
export function optionsThenFunction(
  rest: readonly unknown[],
  name: string,
): [options: unknown, fn: (...args: any[]) => any] {
  const [options, fn] = rest.length > 1 ? rest : [undefined, rest[0]];
  if (typeof fn !== 'function') throw optionError(name, 'a function, as the last argument', fn);
  return [options, fn as (...args: any[]) => any];
}

/** Acquires the lock and resolves with its lease. Throws at once for bad arguments, and rejects as `acquire` does. */
export function acquireLease(key: Key, settings: Settings, scope: Scope, variant: AcquireVariant = {}): Promise<Lease> {
  const spec = specFor(key, settings, scope, variant);
  const frame = spec.mayJoin && settings.reentrant ? frameToJoin(spec) : undefined;
  if (frame !== undefined) return Promise.resolve(joinedLeaseOf(frame.held!));
  const takenAt = warningsWanted() ? new Error('taken here') : undefined;
  const autoExtend = settings.autoExtend ?? variant.autoExtend ?? false;
  const toLease = (held: HeldLock): Lease => leaseOf(held, autoExtend, takenAt, variant.methods);
  return acquire(spec, toLease);
}

/** The frame of the function around a call whose lock the call joins, with `reentrant`; undefined if it takes a lock of its own. */
function frameToJoin({ settings, scope, keys, store, calledIn }: AcquireSpec): Frame | undefined {
  if (scope.closed || settings.signal?.aborted) return undefined;
  return enclosingFrame(calledIn, (held) => mayJoin(held, keys, store));
}

/** Runs `fn` under the lock of a function around the call; undefined if the call takes a lock of its own. */
export function runJoining<T>(
  key: Key,
  settings: Settings,
  scope: Scope,
  fn: (lease: Lease) => T | PromiseLike<T>,
): Promise<T> | undefined {
  const frame = settings.reentrant ? frameToJoin(specFor(key, settings, scope, {})) : undefined;
  if (frame === undefined) return undefined;
  const held = frame.held!;
  const run = async (): Promise<T> => {
    await undefined; // never within the call
    return fn(joinedLeaseOf(held));
  };
  return runJoined(frame, run).then((result) => unlessLost(held, result, held.loss));
}

/** Makes one attempt, whatever the wait settings are; null if the lock is busy. Throws, or rejects, as `acquireLease` does. */
export async function tryLease(
  key: Key,
  settings: Settings,
  scope: Scope,
  variant: AcquireVariant = {},
): Promise<Lease | null> {
  return await acquireLease(key, forOneAttempt(settings), scope, { ...variant, isTry: true });
}

/** Settings for one attempt, made once for each settings object so that leases share them: 5 % of a sequential pair. */
const forOneAttempt = perObject((settings: Settings): Settings => {
  return Object.freeze({ ...settings, maxRetries: 0, timeoutMs: undefined, queued: false });
});

/** Returns the lease. Throws if the grant expired before it could be used. */
export function checkFresh<L extends Lease>(lease: L): L {
  const { loss } = heldLockOf(lease);
  if (loss === undefined) return lease; // H7
  void heldLockOf(lease).releaseQuietly(); // H7b
  const message = `the grant of ${describe(lease.key)} was over before it could be used`;
  throw new LockBackendError(message, { key: lease.key, cause: loss });
}

/** Runs `fn` and releases the lock. An error of `fn` goes before a loss of the lock. */
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
  return unlessLost(held, result, lostMeanwhile ?? held.loss);
}

function unlessLost<T>({ key }: HeldLock, result: T, loss: LockLostError | undefined): T {
  if (loss === undefined) return result;
  throw new LockLostError(loss.message, { key, reason: loss.reason, result, cause: loss });
}
