// A job that runs once a slot for all processes, by the server's clock alone. One request acquires the lock unless the slot is done,
// and reports the current slot. The mark of a done slot is stored beside the lock and ends with the slot. The mark is written with the
// grant (at-most-once), or by the release after the job resolved if the lock is still ours then (until-success).
//
// Invariant: no clock of this process decides anything. A timer that fires early or late finds the slot of the server's clock.

import { runUnder, tryLease } from '../acquire/run';
import { LockBackendError, optionError } from '../core/errors';
import { describe } from '../core/keys';
import type { Slot } from '../core/lock-state';
import type { OnceOptions } from '../core/option-types';
import { integer, oneOf, type Settings, settlerWith } from '../core/options';
import { heldLockOf, type Lease } from '../hold/lease';
import type { Scope } from '../hold/scope';

/** The result of `once`. */
export type OnceResult<T> =
  | { ran: true; slot: Slot; value: T }
  /** `done`: the job of the slot has run; `busy`: it is running now, or the job of an earlier slot still is. */
  | { ran: false; slot: Slot; reason: 'done' | 'busy' };

const settleJob = settlerWith<OnceOptions>({
  every: { ...integer(1000), expected: 'a whole number of milliseconds, at least 1000', required: true },
  offset: { ...integer(Number.MIN_SAFE_INTEGER), expected: 'a whole number of milliseconds' },
  mode: oneOf("'at-most-once' or 'until-success'", ['at-most-once', 'until-success']),
});

/** @internal Implements `WithLock.once`. */
export async function once<T>(
  key: string,
  options: unknown,
  fn: (lease: Lease, slot: Slot) => T | PromiseLike<T>,
  base: Settings,
  scope: Scope,
): Promise<OnceResult<T>> {
  if (typeof fn !== 'function') throw optionError('fn', 'a function, as the last argument', fn);
  const [{ every, offset = 0, mode = 'at-most-once' }, settings] = settleJob(options, base);
  checkKey(key, settings, scope);

  let slot: Slot | undefined;
  let isDone = false;
  const onSlot = (at: Slot, done: boolean): void => {
    slot = at;
    isDone = done;
  };
  const slots = { everyMs: every, offsetMs: offset, marks: mode === 'at-most-once' }; // H85e
  const lease = await tryLease(key, settings, scope, { autoExtend: true, once: { slots, onSlot }, kind: 'once' }); // H85d
  if (lease === null) return { ran: false, slot: slot!, reason: isDone ? 'done' : 'busy' };
  const value = await runUnder(lease, async () => {
    const result = await fn(lease, slot!);
    if (!slots.marks) heldLockOf(lease).done = slot!;
    return result;
  });
  return { ran: true, slot: slot!, value };
}

/** Rejects invalid keys and quorums. Each node of a quorum has a clock of its own, so no node can decide on the slot. */
function checkKey(key: string, settings: Settings, scope: Scope): void {
  const store = scope.store(settings.redis);
  scope.fullKey(key, settings);
  if (!store.isQuorum) return;
  const message = `${describe(key)}: \`once\` cannot be had on a quorum, whose nodes have clocks of their own; use a single Redis`;
  throw new LockBackendError(message, { key, retryable: false });
}
