// Adopting a lock that another process detached: same token, same fence, a lifetime from now, by one extension. Adopting never
// shortens the lifetime in Redis, so that a second adoption takes nothing from the first adopter.

import { forKey, LockBackendError, optionError } from '../core/errors';
import { warningsWanted } from '../core/events';
import { describe } from '../core/keys';
import { checkValue, integer, milliseconds, type Settings } from '../core/options';
import { type DetachedLease, type Lease, leaseOf } from '../hold/lease';
import type { Scope } from '../hold/scope';
import { tooLate } from '../hold/validity';
import type { Moment } from '../store/contract';
import { refusalOf } from './refusals';
import { type AcquireSpec, specFor } from './spec';

const longestToken = 1024;
const fenceRule = integer(0);
const untilRule = milliseconds('milliseconds of the epoch', Number.isFinite);

/** Implements `WithLock.adopt`. */
export async function adopt(given: unknown, settings: Settings, scope: Scope): Promise<Lease | null> {
  const { key, token, fence } = checked(given);
  const spec = specFor(key, settings, scope, {});
  if (spec.store.isQuorum && settings.lifetimeMs === null) {
    throw optionError('lifetime', 'a number: a node of a quorum may forget', null);
  }
  const sent = await extendOnce(spec, token);
  if (sent === null) return null;
  const held = scope.hold({ token, fence, sent }, spec, undefined, 0);
  const takenAt = warningsWanted() ? new Error('adopted here') : undefined;
  return leaseOf(held, settings.autoExtend ?? false, takenAt);
}

/** Resolves with the moment from which the lifetime counts; null if the lock is no longer held. */
async function extendOnce(spec: AcquireSpec, token: string): Promise<Moment | null> {
  const { key, keys, settings, store } = spec;
  const { lifetimeMs, commandTimeoutMs } = settings;
  checkWanted(spec);
  const validUntilMs = store.clock.nowMs() + commandTimeoutMs;
  const request = { keys, token, lifetimeMs, exact: false, validUntilMs, commandTimeoutMs };
  const begin = (): boolean => refusalOf(spec) === undefined;
  const reply = await store.extend({ ...request, begin }).catch((error) => {
    throw forKey(error, key);
  });
  // A call that was given up meanwhile adopts nothing: the lock stays detached, for another adopter.
  checkWanted(spec);
  if (reply.outcome === 'late') {
    throw new LockBackendError(`Redis ran the adoption of ${describe(key)} too late`, { key });
  }
  if (reply.outcome !== 'extended') return null;
  const error = tooLate(key, reply.sent, lifetimeMs, store.clock);
  if (error !== undefined) throw error;
  return reply.sent;
}

/** Throws if the call was given up, or can never succeed. */
function checkWanted(spec: AcquireSpec): void {
  const refusal = refusalOf(spec);
  if (refusal !== undefined) throw refusal;
}

/** Checks a detached lease, which may have come through JSON. No message shows the value: it may be the token. */
function checked(given: unknown): DetachedLease {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw optionError('detached', 'what lease.detach() gave, an object', kindOf(given));
  }
  const { key, token, fence, until } = given as DetachedLease;
  if (typeof token !== 'string' || token === '' || token.length > longestToken) {
    throw optionError('detached.token', 'the token that lease.detach() gave', kindOf(token));
  }
  checkValue('detached.fence', fenceRule, fence);
  checkValue('detached.until', untilRule, until);
  return { key, token, fence, until };
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value;
}
