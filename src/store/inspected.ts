// The state of a lock, as a store has found it. Tokens end here: outside, a holder is an id and a label.
import type { HolderState, HoldKind, LockState, WaiterState } from '../core/lock-state';
import { idOf, ownerOf } from '../core/token';
import type { OwnedState } from './operator';

export interface InspectedLock {
  readonly state: LockState;
  /** The token of the holder that ends last. */
  readonly token: string | undefined;
}

/** The state, and whether `token` is its holder. */
export function stateFor({ state, token: holder }: InspectedLock, token?: string): OwnedState {
  return token === undefined ? state : { ...state, owned: holder === token };
}

export function holderOf(token: string, kind: HoldKind, permits: number, remaining: number): HolderState {
  return { id: idOf(token), owner: ownerOf(token), kind, permits, remaining };
}

/** The waiter of an entry; undefined if the entry has expired. */
export function waiterOf(
  token: string,
  kind: HoldKind,
  ticket: number,
  deadlineMs: number,
  micros: number,
): WaiterState | undefined {
  if (deadlineMs < Math.floor(micros / 1000)) return undefined;
  return { owner: ownerOf(token), kind, waitingMs: Math.max(Math.floor((micros - ticket) / 1000), 0) };
}
