// Reads the state of a lock from its row, as inspect.lua does.

import { kindOfMode } from '../../../core/lock-state';
import { ownerOf } from '../../../core/token';
import { holderOf, maxShown, type OwnedState, waiterOf } from '../../operator';
import { type LockRow, msOf, newShared, remainingOf } from './row';

const kinds = { ...kindOfMode, mutex: 'exclusive' } as const;
const mutex = 'mutex' as const;

export function inspectRow(
  { token, endMs, queue, shared = newShared() }: LockRow,
  fence: number,
  micros: number,
  asked: string | undefined,
): OwnedState {
  const leftOf = (endingMs: number): number => remainingOf(endingMs - msOf(micros));
  const members = shared.holders.toSorted((a, b) => a.endMs - b.endMs);
  const holders = token === undefined ? members : [{ token, kind: mutex, permits: 1, endMs }];
  const last = holders.at(-1);
  const waiters = [...queue.map((each) => ({ ...each, kind: mutex })), ...shared.queue];
  return {
    locked: last !== undefined,
    owner: ownerOf(last?.token),
    remaining: last === undefined ? 0 : leftOf(last.endMs),
    waiters: waiters.length,
    fence,
    mode: last === undefined ? null : kinds[last.kind],
    holders: holders
      .slice(0, maxShown)
      .map((each) => holderOf(each.token, kinds[each.kind], each.permits, leftOf(each.endMs))),
    queue: waiters.slice(0, maxShown).flatMap(({ token, kind, ticket, deadlineMs }) => {
      const sinceMicros = kind === 'upgrade' ? micros : ticket;
      return waiterOf(token, kinds[kind], sinceMicros, deadlineMs, micros) ?? [];
    }),
    ...(asked !== undefined && { owned: last?.token === asked }),
  };
}
