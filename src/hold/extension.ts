// One extension of a held lock: the request, and what its answer does to the validity. The keeper decides when to extend.
import { earlier } from '../core/clock';
import { forKey, LockBackendError } from '../core/errors';
import { describe } from '../core/keys';
import { type ExtendRequest, type Moment, now } from '../store/contract';
import type { KeptLock } from './kept-lock';
import { tellExtension } from './observation';

type Terms = Pick<ExtendRequest, 'lifetimeMs' | 'exact' | 'validUntilMs' | 'commandTimeoutMs'>;

/** Sets the end to the lock's own lifetime from now, unless the end is already later. False if the lock is no longer held. */
export function extendToLifetime(held: KeptLock, commandTimeoutMs: number): Promise<boolean> {
  const { lifetimeMs } = held.context.settings;
  const asked = now(held.clock);
  const validUntilMs = asked.monoMs + held.leftMs();
  return send(held, { lifetimeMs, exact: false, validUntilMs, commandTimeoutMs }, asked);
}

/** Sets the end to `lifetimeMs` from now, even if the present end is later. False if the lock is no longer held. */
export async function extendExactly(held: KeptLock, lifetimeMs: number | null): Promise<boolean> {
  const { settings } = held.context;
  // A shared member has a single end, its lifetime after the last extension.
  if (held.member !== undefined && lifetimeMs !== settings.lifetimeMs) await part(held); // H84h
  if (!held.check()) return false; // H13c
  const { commandTimeoutMs } = settings;
  const asked = now(held.clock);
  // Redis may shorten the lock without our ever hearing of it: the lock counts as held for no longer than that.
  if (lifetimeMs !== null && lifetimeMs < held.leftMs()) held.confirm(asked, lifetimeMs, true);
  // An end requested by hand must not be set late, when a renewal may have set another end.
  const validUntilMs = asked.monoMs + Math.min(held.leftMs(), commandTimeoutMs);
  return send(held, { lifetimeMs, exact: true, validUntilMs, commandTimeoutMs }, asked);
}

/**
 * Extends a lock whose end is past, on a store where no other process can have taken the lock meanwhile. The extension counts as
 * if it had come in time; `overMs` after `maxHold`, as the last one in time. If the store no longer has the lock, it is lost.
 */
export function extendLate(held: KeptLock, lifetimeMs: number, overMs: number): void {
  const { keys, storedToken: token, context, clock } = held;
  const { commandTimeoutMs } = context.settings;
  // The clock is read first, so that time between the two readings counts as late.
  const nowMs = clock.nowMs();
  const endedMs = nowMs + held.leftMs();
  const validUntilMs = nowMs + commandTimeoutMs;
  const request = { keys, token, exact: false, validUntilMs, commandTimeoutMs, held: held.held(), endedMs };
  const lateMs = Math.ceil(lifetimeMs - overMs);
  const reply = context.store.synchronous!.extend({ ...request, lifetimeMs: lateMs, begin: () => true });
  if (reply.outcome === 'extended') held.confirm(earlier(reply.sent, overMs), lifetimeMs, false);
  else held.lose(reply.outcome === 'late' ? 'expired' : reply.outcome);
}

/** Confirms a grant by message for a lock that ends here and stays in Redis. No caller waits for the answer. */
export function confirmForAdopter(held: KeptLock): void {
  const { keys, token, context, clock } = held;
  const { lifetimeMs, commandTimeoutMs } = context.settings;
  const validUntilMs = clock.nowMs() + held.leftMs();
  const request = { keys, token, lifetimeMs, exact: false, validUntilMs, commandTimeoutMs, begin: () => true };
  context.store.extend(request).catch(() => {});
}

export async function part(held: KeptLock): Promise<void> {
  await held.member?.part(held).catch((error) => {
    throw forKey(error, held.key);
  });
}

async function send(held: KeptLock, terms: Terms, asked: Moment): Promise<boolean> {
  const { key, keys, token, context } = held;
  const { lifetimeMs, exact, validUntilMs } = terms;
  const begin = (): boolean => held.check(); // H13d
  const request = { ...terms, keys, token, held: held.held(), begin };
  const reply = await (held.member ?? context.store).extend(request).catch((error) => {
    const mayExecute = exact && lifetimeMs !== null && error.unknown;
    if (mayExecute) held.validity = held.validity.uncertain(asked, lifetimeMs, validUntilMs);
    throw forKey(error, key); // H14b
  });
  // H16 H22b
  if (!held.check()) {
    // The lock was lost or released before the answer came. A key that was extended for a lost lock is released.
    if (reply.outcome === 'extended' && held.isLost) void held.releaseQuietly(); // H13g
    tellExtension(held, false, lifetimeMs);
    return false;
  }
  if (reply.outcome === 'late') {
    throw new LockBackendError(`Redis ran the extension of ${describe(key)} too late`, { key });
  }
  // H45
  if (reply.outcome === 'extended') held.confirm(reply.sent, lifetimeMs, exact);
  else held.lose(reply.outcome); // H59c
  const extended = reply.outcome === 'extended'; // H45b
  tellExtension(held, extended, lifetimeMs);
  return extended;
}
