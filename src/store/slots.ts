// The time slots of a job that runs once in each.
import type { Slot } from '../core/lock-state';

export interface Slots {
  readonly everyMs: number;
  /** The beginning of any slot, in ms of the epoch. */
  readonly offsetMs: number;
  /** True: the grant itself marks the slot as done. False: the release marks it. */
  readonly marks: boolean;
}

/** The slot at a time of the server. */
export function slotAt(serverMs: number, { everyMs, offsetMs }: Slots): Slot {
  const index = Math.floor((serverMs - offsetMs) / everyMs);
  const start = index * everyMs + offsetMs;
  return { index, start, end: start + everyMs };
}
