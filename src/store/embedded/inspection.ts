// Reads the state of a lock from its row, as inspect.lua does. Tokens end here: outside, a holder is an id and a label.

import type { HolderState, HoldKind, LockState, WaiterState } from '../../core/lock-state';
import { idOf, ownerOf } from '../../core/token';
import type { Mode } from '../contract';
import { maxShown } from '../operator';
import { type LockRow, newShared, type SharedEntry } from './row';

/** An end so far away that it is none; finite, so that a table can keep it as text. */
export const neverMs = 2 ** 53;

export interface InspectedRow extends LockState {
  /** The token of the holder that ends last. */
  readonly token: string | undefined;
  /** undefined: a mutex, or free. */
  readonly kind: Mode['kind'] | undefined;
}

const kinds = { shared: 'read', exclusive: 'write', counted: 'permits', upgrade: 'write' } as const;

export function inspectRow(row: LockRow, fence: number, micros: number): InspectedRow {
  const nowMs = Math.floor(micros / 1000);
  const { holders: all, queue } = row.shared ?? newShared();
  const alive = all.filter((each) => each.endMs > nowMs).sort((a, b) => a.endMs - b.endMs);
  const last = row.token === undefined ? alive.at(-1) : undefined;
  const token = row.token ?? last?.token;
  const sole = row.token === undefined ? [] : [holderOf(row.token, 'exclusive', 1, row.endMs - nowMs)];
  const members = alive.map((each) => holderOf(each.token, kinds[each.kind], each.permits, each.endMs - nowMs));
  const holders = row.token === undefined ? members : sole;
  const waiters = [...row.queue.map((each) => ({ ...each, kind: undefined })), ...queue];
  return {
    token,
    kind: last?.kind,
    locked: token !== undefined,
    owner: ownerOf(token),
    remaining: remainingOf(token === undefined ? 0 : (last?.endMs ?? row.endMs) - nowMs),
    waiters: waiters.length,
    fence,
    mode: token === undefined ? null : last === undefined ? 'exclusive' : kinds[last.kind],
    holders: holders.slice(0, maxShown),
    queue: waiters.slice(0, maxShown).flatMap((each) => waiterOf(each, micros) ?? []),
  };
}

function holderOf(token: string, kind: HoldKind, permits: number, leftMs: number): HolderState {
  return { id: idOf(token), owner: ownerOf(token), kind, permits, remaining: remainingOf(leftMs) };
}

function remainingOf(leftMs: number): number {
  return leftMs > neverMs / 2 ? Number.POSITIVE_INFINITY : leftMs;
}

interface Waiting {
  readonly kind: SharedEntry['kind'] | undefined;
  readonly token: string;
  readonly ticket: number;
  readonly deadlineMs: number;
}

function waiterOf({ kind, token, ticket, deadlineMs }: Waiting, micros: number): WaiterState | undefined {
  if (deadlineMs < Math.floor(micros / 1000)) return undefined;
  const waitingMs = kind === 'upgrade' ? 0 : Math.max(Math.floor((micros - ticket) / 1000), 0);
  return { owner: ownerOf(token), kind: kind === undefined ? 'exclusive' : kinds[kind], waitingMs };
}
