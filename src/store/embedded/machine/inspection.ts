// Reads the state of a lock from its row, as inspect.lua does.

import type { LockState } from '../../../core/lock-state';
import { ownerOf } from '../../../core/token';
import { holderOf, type InspectedLock, waiterOf } from '../../inspected';
import { maxShown } from '../../operator';
import { type LockRow, msOf, newShared, remainingOf } from './row';

const kinds = { shared: 'read', exclusive: 'write', counted: 'permits', upgrade: 'write' } as const;

export function inspectRow(
  { token, endMs, queue, shared = newShared() }: LockRow,
  fence: number,
  micros: number,
): InspectedLock {
  const nowMs = msOf(micros);
  const members = shared.holders
    .toSorted((a, b) => a.endMs - b.endMs)
    .map((each) => ({ ...each, kind: kinds[each.kind] }));
  const holders = token === undefined ? members : [{ token, kind: 'exclusive' as const, permits: 1, endMs }];
  const last = holders.at(-1);
  const waiters = [
    ...queue.map((each) => ({ ...each, kind: 'exclusive' as const })),
    ...shared.queue.map((each) => ({
      ...each,
      kind: kinds[each.kind],
      ticket: each.kind === 'upgrade' ? micros : each.ticket,
    })),
  ];
  const state: LockState = {
    locked: last !== undefined,
    owner: ownerOf(last?.token),
    remaining: last === undefined ? 0 : remainingOf(last.endMs - nowMs),
    waiters: waiters.length,
    fence,
    mode: last?.kind ?? null,
    holders: holders
      .slice(0, maxShown)
      .map((each) => holderOf(each.token, each.kind, each.permits, remainingOf(each.endMs - nowMs))),
    queue: waiters
      .slice(0, maxShown)
      .flatMap((each) => waiterOf(each.token, each.kind, each.ticket, each.deadlineMs, micros) ?? []),
  };
  return { token: last?.token, state };
}
