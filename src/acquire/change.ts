// A change in place: a reader becomes the writer, or a writer becomes a reader, under the same token, so that no other writer
// gets in between. A change is waited for like a lock (acquisition.ts).
//
// Invariant: whatever happens, the lock stays held. A change that was given up may have been made, or may still be made. Until
// Redis has confirmed that the lock is held for reading, this side counts it as held in the stricter way.

import { LockDeadlockError, NotAcquiredLockError } from '../core/errors';
import { describe } from '../core/keys';
import type { Settings } from '../core/options';
import type { HeldLock } from '../hold/held-lock';
import { scopeOf } from '../hold/scope';
import { type AcquireReply, type AcquireRequest, type Mode, unknownTicket } from '../store/contract';
import type { LateRequest } from '../store/late-request';
import { tracesAcquires } from './acquire-trace';
import { acquire } from './acquisition';
import type { Change } from './spec';

/** Attempts to revert a change that was given up, while Redis is silent. */
const maxReverts = 10;

/** The latest change of each held lock: changes of one lock run one after the other. */
const changing = new WeakMap<HeldLock, Promise<void>>();

/** Resolves once the lock is held as `kind`; at once if it already is. Rejects as `RWLease.upgrade` does. */
export async function changeInPlace(held: HeldLock, kind: 'shared' | 'exclusive', settings: Settings): Promise<void> {
  const before = changing.get(held);
  const work = (async () => {
    await before?.catch(() => {});
    if (held.mode!.kind !== kind || !held.check()) await change(held, kind, settings);
  })();
  changing.set(held, work);
  return work;
}

async function change(held: HeldLock, kind: 'shared' | 'exclusive', settings: Settings): Promise<void> {
  if (held.member !== undefined) await held.keeper.part(); // H84i
  if (!held.check()) throw gone(held, 'was released');
  const { key, keys, context } = held;
  const mode: Mode = { ...held.mode!, kind, step: held.mode!.step + 1 };
  const spec = { key, keys, settings, store: context.store, scope: scopeOf(context), mode, kind: undefined };
  // A downgrade is not traced: it acquires nothing.
  const isTraced = kind === 'exclusive' && tracesAcquires();
  await acquire({ ...spec, change: changeTo(held, mode, settings) }, () => {}, isTraced);
}

function changeTo(held: HeldLock, mode: Mode, { lifetimeMs }: Settings): Change {
  return {
    token: held.token,
    ended() {
      return held.check() ? undefined : gone(held, 'was released meanwhile'); // H76
    },
    granted({ fence, sent }: AcquireReply & { granted: true }) {
      // A downgrade keeps the fence: the nodes of a quorum have fences of their own.
      held.changed(mode, mode.kind === 'shared' ? held.fence : fence);
      held.confirm(sent, lifetimeMs, false);
      return held;
    },
    refused(reason) {
      if (reason === 'deadlock') return secondUpgrade(held);
      if (held.check()) held.lose('missing');
      return gone(held, 'was released meanwhile');
    },
    revert: (request, late) => void revert(held, request, mode, late),
  };
}

/**
 * Requests reading as a later change: the latest change takes effect in the end. If the lock has ended, everything that Redis keeps of
 * its token is released: a holder that no process knows of, or a queue entry.
 */
async function revert(
  held: HeldLock,
  asked: AcquireRequest,
  { step, ...wanted }: Mode,
  late: LateRequest | undefined,
): Promise<void> {
  const mode: Mode = { ...wanted, kind: 'shared', step: step + 1 };
  held.changed(mode, held.fence);
  const { store } = held.context;
  const { keys, token, commandTimeoutMs } = asked;
  const request = { ...asked, mode, begin: () => !held.ended };
  for (let attempts = 0; attempts < maxReverts && !held.ended; attempts++) {
    const done = await store.acquire(request).then(
      () => true,
      () => false,
    );
    if (done || held.ended) break;
    await new Promise<void>((resolve) => held.clock.setIdleAlarm(resolve, commandTimeoutMs));
  }
  if (!held.check()) void store.abandon({ keys, token, commandTimeoutMs, ticket: unknownTicket, held: { mode } }, late); // H76c
}

function gone(held: HeldLock, what: string): Error {
  return held.loss ?? new NotAcquiredLockError(`${describe(held.key)} ${what}`, { key: held.key });
}

function secondUpgrade({ key }: HeldLock): LockDeadlockError {
  const message = `${describe(key)}: another reader waits to write already, and each would wait for the other to stop reading`;
  return new LockDeadlockError(message, { key });
}
