// The specification of an acquisition, and the error for every way in which it can fail.

import type { AcquireTrace } from '../core/acquire-trace';
import { forKey, LockDeadlockError, LockTimeoutError, TooManyLockAttemptsError } from '../core/errors';
import type { LockKind } from '../core/events';
import { describe, type Key } from '../core/keys';
import type { Settings } from '../core/options';
import { enclosingLocks } from '../hold/async-context';
import { excludes, HeldLock } from '../hold/held-lock';
import type { Granted } from '../hold/kept-lock';
import { closedError, type Scope } from '../hold/scope';
import type { Fetcher, MemberTerms, SharePosition, ShareWaiter } from '../queue/group';
import { groupsOf } from '../queue/groups';
import { type Queues, queuesOf } from '../queue/queues';
import type { AcquireReply, GrantSource, Mode } from '../store/contract';
import type { LateRequest } from '../store/late-request';
import type { AttemptSpec, KeptToken } from './attempts';

/** Everything that an acquisition needs to know. */
export interface AcquireSpec extends AttemptSpec {
  readonly scope: Scope;
  readonly kind: LockKind | undefined;
  readonly change: Change | undefined;
  /** Set while the channel has subscribers. */
  readonly trace: AcquireTrace | undefined;
  /** Receives the grant instead of a caller: a group of callers that wait together. */
  readonly fetcher?: Fetcher | undefined;
}

/** A change in place: handles the answers to it. */
export interface Change extends KeptToken {
  /** Returns an error if the held lock has ended meanwhile. Everything that Redis keeps of its token is then released. */
  ended(late: LateRequest | undefined): Error | undefined;
  /** Redis made the change. Returns the held lock. */
  granted(reply: AcquireReply & { granted: true }): HeldLock;
  /** Redis can never make the change. Returns the error for the caller. */
  refused(reason: 'deadlock' | 'gone'): Error;
}

/** The reason not to make any attempt; undefined if there is none. */
export function refusalOf({ key, keys, settings, scope, store, mode }: AcquireSpec): unknown {
  if (scope.closed) return closedError(key);
  if (settings.signal?.aborted) return abortReason(settings.signal); // H36
  return forKey(store.refuses?.(keys, mode), key);
}

/** True when only a grant would end the wait. */
export function isEndless({ timeoutMs = Number.POSITIVE_INFINITY, maxRetries, signal }: Settings): boolean {
  return timeoutMs === Number.POSITIVE_INFINITY && maxRetries === Number.POSITIVE_INFINITY && signal === undefined;
}

/** An enclosing lock of the waiting code that excludes what the code waits for: the code is in its own way. */
export function enclosingLock({ change, keys, mode, store }: AcquireSpec): HeldLock | undefined {
  if (change !== undefined) return undefined;
  return enclosingLocks().find((held) => excludes(held, store, keys, mode));
}

/** The queues of the store, if this wait may be queued. */
export function queuesFor({ keys, scope, settings, store }: AcquireSpec): Queues | undefined {
  const { queued, lifetimeMs, minReplicas } = settings;
  const isQueued = queued && lifetimeMs !== null && minReplicas === 0 && typeof keys === 'string';
  return isQueued ? queuesOf(scope, store) : undefined;
}

/** A position among callers of this process that wait together; undefined: this one waits alone. */
export function placeFor(wanted: AcquireSpec, waiter: ShareWaiter): SharePosition | undefined {
  const { keys, mode, scope, store } = wanted;
  if (mode?.kind === 'exclusive') groupsOf(scope, store).close(keys as string);
  const terms = memberTerms(wanted);
  return terms && groupsOf(scope, store).position(terms, waiter);
}

/** The terms that callers must share to wait together; undefined: this one waits alone. */
function memberTerms({ keys, settings, store, mode, change, fetcher }: AcquireSpec): MemberTerms | undefined {
  const { queued, lifetimeMs, minReplicas, fencing, owner } = settings;
  const isShared = queued && lifetimeMs !== null && minReplicas === 0 && store.kind === 'redis';
  if (!isShared || change !== undefined || fetcher !== undefined) return undefined;
  if (mode === undefined || mode.kind === 'exclusive') return undefined;
  return { key: keys as string, lifetimeMs, fencing, owner, mode };
}

/** Makes the held lock of a grant. */
export function heldLock(wanted: AcquireSpec, grant: Granted, { source, mode, retries }: GrantedAs): HeldLock {
  const { key, keys, kind, scope, settings, store } = wanted;
  const shared = mode !== undefined && store.channels !== undefined;
  const context = scope.context(settings, store, shared ? queuesOf(scope, store)?.shared : source, kind);
  return new HeldLock(grant, { key, keys, retries, context, mode });
}

interface GrantedAs {
  readonly source: GrantSource | undefined;
  readonly mode: Mode | undefined;
  readonly retries: number;
}

export function timedOut(wanted: AcquireSpec, how: string): LockTimeoutError {
  const { key, settings } = wanted;
  const reason = heldByCaller(wanted) ?? heldNearby(wanted) + advice(settings.timeoutMs === 0); // H70b
  return new LockTimeoutError(`${describe(key)} was not free within ${settings.timeoutMs} ms (${how})${reason}`, {
    key,
  });
}

export function tooMany(wanted: AcquireSpec, attempts: number): TooManyLockAttemptsError {
  const { key } = wanted;
  const own = heldByCaller(wanted);
  const held = own === undefined ? 'held by somebody else' : 'held';
  const message = `Exceeded max retry count: ${describe(key)} is ${held} (attempts: ${attempts})`;
  return new TooManyLockAttemptsError(message + (own ?? advice(attempts === 1)), { key, attempts });
}

function heldByCaller(wanted: AcquireSpec): string | undefined {
  const own = enclosingLock(wanted);
  if (own === undefined) return undefined;
  return `: the caller holds it itself, since this call was made inside the function that runs under it (fence ${own.fence})`;
}

function heldNearby({ change, keys, mode, scope, store }: AcquireSpec): string {
  const near = change === undefined ? scope.find((held) => excludes(held, store, keys, mode)) : undefined;
  return near ? `: it is held in this process, by another call (fence ${near.fence})` : '';
}

function advice(isSingleAttempt: boolean): string {
  return isSingleAttempt ? '; to wait for it, set `timeout` to the longest wait in milliseconds' : '';
}

export function deadlock(key: Key, own: HeldLock): LockDeadlockError {
  const message = `${describe(key)} would be waited for without end by the code that holds and renews it itself (fence ${own.fence})`;
  return new LockDeadlockError(message, { key });
}

/** The error of a wait that its signal gave up. */
export function abortReason(signal: AbortSignal): unknown {
  if (signal.reason instanceof Error) return signal.reason;
  const error = new Error('the wait for the lock was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}
