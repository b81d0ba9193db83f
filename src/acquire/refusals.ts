// The error for every way in which an acquisition can fail.

import { forKey, LockDeadlockError, LockTimeoutError, TooManyLockAttemptsError } from '../core/errors';
import { describe } from '../core/keys';
import type { Settings } from '../core/options';
import { enclosingFrame } from '../hold/async-context';
import { excludes, type HeldLock, mayJoin } from '../hold/held-lock';
import { closedError } from '../hold/scope';
import type { AcquireSpec } from './spec';

/** The locks that are looked at for the text of a timeout: ten thousand callers may time out at once, beside ten thousand held locks. */
const maxLooked = 100;

/** The reason not to make any attempt; undefined if there is none. */
export function refusalOf({ key, keys, settings, scope, store, mode }: AcquireSpec): unknown {
  if (scope.closed) return closedError(key);
  if (settings.signal?.aborted) return abortReason(settings.signal); // H36
  return forKey(store.refuses?.(keys, mode), key);
}

/** The error of a wait that only a grant would end, for a lock that the waiting code itself holds and renews. */
export function deadlockOf(spec: AcquireSpec): LockDeadlockError | undefined {
  const own = isEndless(spec.settings) ? enclosingLock(spec) : undefined;
  if (!own?.isEndless) return undefined; // H70
  const { key } = spec;
  const isJoinable = spec.mayJoin && !spec.settings.reentrant && mayJoin(own, spec.keys, spec.store);
  const advice = isJoinable ? '; with `reentrant: true` the call would join that lock' : '';
  const message = `${describe(key)} would be waited for without end by the code that holds and renews it itself (fence ${own.fence})${advice}`;
  return new LockDeadlockError(message, { key });
}

function isEndless({ timeoutMs = Number.POSITIVE_INFINITY, maxRetries, signal }: Settings): boolean {
  return timeoutMs === Number.POSITIVE_INFINITY && maxRetries === Number.POSITIVE_INFINITY && signal === undefined;
}

/** An enclosing lock of the waiting code that excludes what the code waits for: the code is in its own way. */
function enclosingLock({ calledIn, keys, mode, store }: AcquireSpec): HeldLock | undefined {
  return enclosingFrame(calledIn, (held) => excludes(held, store, keys, mode))?.held;
}

export function timedOut(
  spec: AcquireSpec,
  by: { readonly count: number; readonly wasQueued: boolean },
): LockTimeoutError {
  const { key, settings } = spec;
  const how = by.wasQueued ? 'it was queued' : `attempts: ${by.count}`;
  const reason = heldByCaller(spec) ?? heldNearby(spec) + advice(settings.timeoutMs === 0); // H70b
  return new LockTimeoutError(`${describe(key)} was not free within ${settings.timeoutMs} ms (${how})${reason}`, {
    key,
  });
}

/** The outcome of a single try on a busy key: a result, and not an error. Making the error takes longer than the rest of the try. */
export const triedInVain = Symbol('tried in vain');

export function tooMany(spec: AcquireSpec, attempts: number): TooManyLockAttemptsError {
  const { key } = spec;
  const own = heldByCaller(spec);
  const held = own === undefined ? 'held by somebody else' : 'held';
  const message = `Exceeded max retry count: ${describe(key)} is ${held} (attempts: ${attempts})`;
  return new TooManyLockAttemptsError(message + (own ?? advice(attempts === 1)), { key, attempts });
}

function heldByCaller(spec: AcquireSpec): string | undefined {
  const own = enclosingLock(spec);
  if (own === undefined) return undefined;
  return `: the caller holds it itself, since this call was made inside the function that runs under it (fence ${own.fence})`;
}

function heldNearby({ change, keys, mode, scope, store }: AcquireSpec): string {
  const isInTheWay = (held: HeldLock): boolean => excludes(held, store, keys, mode);
  const near = change === undefined ? scope.find(isInTheWay, maxLooked) : undefined;
  return near ? `: it is held in this process, by another call (fence ${near.fence})` : '';
}

function advice(isSingleAttempt: boolean): string {
  return isSingleAttempt ? '; to wait for it, set `timeout` to the longest wait in milliseconds' : '';
}

/** The error of a wait that its signal gave up. */
export function abortReason(signal: AbortSignal): unknown {
  if (signal.reason instanceof Error) return signal.reason;
  const error = new Error('the wait for the lock was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}
