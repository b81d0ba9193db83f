// Reads the state of a lock from its row, as inspect.lua does.

import type { LockState, WaiterState } from '../../../core/lock-state';
import { ownerOf } from '../../../core/token';
import { holderOf, type InspectedLock, waiterOf } from '../../inspected';
import { maxShown } from '../../operator';
import { type LockRow, newShared, type SharedEntry } from './row';

/** An end so far away that it is none; finite, so that a table can keep it as text. */
export const neverMs = 2 ** 53;

const kinds = { shared: 'read', exclusive: 'write', counted: 'permits', upgrade: 'write' } as const;

export function inspectRow(row: LockRow, fence: number, micros: number): InspectedLock {
  const nowMs = Math.floor(micros / 1000);
  const { holders: all, queue } = row.shared ?? newShared();
  const alive = all.filter((each) => each.endMs > nowMs).sort((a, b) => a.endMs - b.endMs);
  const last = row.token === undefined ? alive.at(-1) : undefined;
  const token = row.token ?? last?.token;
  const sole = row.token === undefined ? [] : [holderOf(row.token, 'exclusive', 1, remainingOf(row.endMs - nowMs))];
  const members = alive.map((each) =>
    holderOf(each.token, kinds[each.kind], each.permits, remainingOf(each.endMs - nowMs)),
  );
  const holders = row.token === undefined ? members : sole;
  const waiters = [...row.queue.map((each) => ({ ...each, kind: undefined })), ...queue];
  const state: LockState = {
    locked: token !== undefined,
    owner: ownerOf(token),
    remaining: remainingOf(token === undefined ? 0 : (last?.endMs ?? row.endMs) - nowMs),
    waiters: waiters.length,
    fence,
    mode: token === undefined ? null : last === undefined ? 'exclusive' : kinds[last.kind],
    holders: holders.slice(0, maxShown),
    queue: waiters.slice(0, maxShown).flatMap((each) => waiterIn(each, micros) ?? []),
  };
  return { token, state };
}

/** The ms left of a lifetime that may have no end. */
export function remainingOf(leftMs: number): number {
  return leftMs > neverMs / 2 ? Number.POSITIVE_INFINITY : leftMs;
}

interface Waiting {
  readonly kind: SharedEntry['kind'] | undefined;
  readonly token: string;
  readonly ticket: number;
  readonly deadlineMs: number;
}

function waiterIn({ kind, token, ticket, deadlineMs }: Waiting, micros: number): WaiterState | undefined {
  const since = kind === 'upgrade' ? micros : ticket;
  return waiterOf(token, kind === undefined ? 'exclusive' : kinds[kind], since, deadlineMs, micros);
}
