// What is wanted of an acquisition, and with whom the caller may wait.

import { type Key, lockKeys, ownKey } from '../core/keys';
import type { Settings } from '../core/options';
import { type Frame, present } from '../hold/async-context';
import type { HeldLock } from '../hold/held-lock';
import type { LockSpec } from '../hold/kept-lock';
import { perScopeAndStore, type Scope } from '../hold/scope';
import type { WaitGroup } from '../queue/group';
import { Permits } from '../queue/permits';
import { mayShare, type WaitTerms } from '../queue/queue';
import { Readers } from '../queue/readers';
import type { AcquireReply, AcquireRequest, Slot, Store } from '../store/contract';
import type { LateRequest } from '../store/late-request';
import type { Slots } from '../store/slots';

export interface AcquireSpec extends LockSpec {
  readonly scope: Scope;
  readonly once?: Once | undefined;
  /** True for a single try, which resolves with null if the key is busy. */
  readonly isTry?: boolean | undefined;
  /** True for a call that joins the lock of a function around it, with `reentrant`. */
  readonly mayJoin?: boolean | undefined;
  /** Monotonic ms at which the wait ends, if it began before this acquire. Default: `timeout` from now on. */
  readonly endMs?: number | undefined;
  /** Number of fences to mint. Default 1. */
  readonly fences?: number | undefined;
  /** Set for a change in place, which keeps the token of the held lock. That token is never released here. */
  readonly change?: Change | undefined;
  /** The locks of the caller's context: timers may run in another one. A change in place has none: its own lock is not in its way. */
  readonly calledIn?: Frame | undefined;
}

/** The particulars that a class or a method adds to an acquire. */
export interface AcquireVariant
  extends Partial<Pick<AcquireSpec, 'mode' | 'kind' | 'once' | 'isTry' | 'mayJoin' | 'endMs'>> {
  /** The default of `autoExtend`. */
  readonly autoExtend?: boolean;
  /** The prototype of the leases; default `leaseMethods`. */
  readonly methods?: object | undefined;
}

/** A job that runs once per slot. */
export interface Once {
  readonly slots: Slots;
  /** Receives the current slot, granted or not, and whether the slot's job has run. */
  onSlot(slot: Slot, isDone: boolean): void;
}

/** A change in place: handles the answers to it. */
export interface Change {
  readonly token: string;
  /** The error of a change whose lock has ended meanwhile. */
  ended(): Error | undefined;
  granted(reply: AcquireReply & { granted: true }): HeldLock;
  /** The error of a change that Redis can never make. */
  refused(reason: 'deadlock' | 'gone'): Error;
  /** Undoes a change that was given up, although `request` may have been granted, or may still be. If the held lock has ended, releases it all. */
  revert(request: AcquireRequest, late: LateRequest | undefined): void;
}

/** The spec of an acquire. Impossible arguments throw at once, before any I/O. */
export function specFor(key: Key, settings: Settings, scope: Scope, variant: AcquireVariant): AcquireSpec {
  const { mode, kind, once, isTry, mayJoin, endMs } = variant;
  const store = scope.store(settings.redis);
  const given = ownKey(key);
  const keys = lockKeys(given, store.keyPrefix + settings.prefix);
  const calledIn = present(); // H70c
  return { key: given, keys, settings, scope, store, mode, kind, once, isTry, mayJoin, endMs, calledIn };
}

/** The wait groups of one factory, or of one lock object. Each key has one group that callers may join. */
export const groupsOf = perScopeAndStore(() => new Map<string, WaitGroup>());

/** The group that waits on these terms. Callers on other terms never share it. */
export function groupFor(groups: Map<string, WaitGroup>, terms: WaitTerms, store: Store): WaitGroup {
  const last = groups.get(terms.key);
  if (last !== undefined && mayShare(last.terms, terms) && last.accepts()) return last;
  last?.close();
  const group = terms.mode?.kind === 'shared' ? new Readers(terms, store) : new Permits(terms, store);
  groups.set(terms.key, group);
  return group;
}

/** The terms of a wait that is queued. */
export function termsOf({ keys, settings, mode }: AcquireSpec): WaitTerms {
  const { lifetimeMs, fencing, owner } = settings;
  return { key: keys as string, lifetimeMs: lifetimeMs!, fencing, owner, mode };
}

/** True if a wait with these settings is queued where its store and its keys allow it. */
export function isQueued(settings: Settings): boolean {
  return settings.queued && mayBeQueued(settings);
}

/** True if a lock on these terms may be granted to a queue. */
export function mayBeQueued({ lifetimeMs, minReplicas }: Settings): boolean {
  return lifetimeMs !== null && minReplicas === 0;
}
