// The leader's record beside the lock of an election, and its observers. An observer reads the record after each message, and again
// when the leader's lease would end.
//
// Invariant: a record counts only while the lock is held with the token under which the record was written.
import { Bell } from '../core/clock';
import { LockError } from '../core/errors';
import { idOf } from '../core/token';
import { hear } from '../queue/wake-ups';
import type { Store } from '../store/contract';
import type { HolderText } from '../store/values';

/** The present leader. */
export interface Leader {
  /** The id of the candidate that leads. */
  readonly id: string;
  /** The value that the leader proclaimed last. */
  readonly value: string;
  /** The number of its term: its fence. */
  readonly term: number;
  /** The time at which the term began, in ms of the epoch by the leader's own clock. */
  readonly since: number;
  /** Ms for which the leader's lease lasts unless it is renewed, as Redis reports it. */
  readonly remaining: number;
}

/** @internal Ms for which a record is kept beyond the lifetime of a lock that is no longer renewed. */
export const keptMs = 3_600_000;

/** @internal The channel of an election, to which every observer of the election subscribes. */
export function channelOf(key: string): string {
  return `redis-exp-lock:1:election:${key}`;
}

/** @internal The text of a record. It contains a hash instead of the token, because a reader of the token could end the term. */
export function textOf(leader: Omit<Leader, 'remaining'>, token: string): string {
  const { id, value, term, since } = leader;
  return JSON.stringify({ holder: idOf(token), id, value, term, since });
}

/** @internal Reads the leader from the record beside the lock. Returns null if nobody leads or no record of this term is written yet. */
export function leaderOf(holder: HolderText | null): Leader | null {
  if (holder === null || holder.text === null) return null;
  try {
    const { holder: name, id, value, term, since } = JSON.parse(holder.text);
    return name === idOf(holder.token) ? { id, value, term, since, remaining: holder.leftMs } : null;
  } catch {
    return null; // The record is not one of ours.
  }
}

/**
 * @internal Yields the present leader at once, then each change, until `signal` aborts. Yields the latest state only, and never the
 * same state twice in a row. If nobody leads, it reads again after `lifetimeMs`.
 */
export async function* changes(
  store: Store,
  key: string,
  lifetimeMs: number,
  signal: AbortSignal,
  ask: () => Promise<Leader | null>,
): AsyncGenerator<Leader | null, void> {
  const bell = new Bell();
  const stop = hear(store, channelOf(key), () => bell.ring());
  signal.addEventListener('abort', () => bell.ring());
  let last: Leader | null | undefined;
  try {
    while (!signal.aborted) {
      const leader = await ask().catch((error) => {
        // Redis may be back before the next lease ends.
        if (signal.aborted || (LockError.is(error) && error.retryable)) return undefined;
        throw error;
      });
      if (signal.aborted) return;
      if (leader !== undefined && (last === undefined || !isSame(last, leader))) {
        last = leader;
        yield leader;
      }
      await bell.wait(leader === undefined ? lifetimeMs / 3 : pauseMs(store, leader, lifetimeMs));
    }
  } finally {
    stop();
  }
}

/** The pause before the next read: until just after the observed lease would end. So an observer reads once a lifetime. */
function pauseMs(store: Store, leader: Leader | null, lifetimeMs: number): number {
  const endsMs = leader === null ? lifetimeMs : leader.remaining + Math.min(leader.remaining / 20, 100) + 5;
  // In shared memory an observer gets no messages; a read costs it some microseconds.
  return store.channels?.listensAlone ? Math.min(endsMs, Math.max(lifetimeMs / 30, 10), 250) : endsMs;
}

function isSame(one: Leader | null, other: Leader | null): boolean {
  return one?.id === other?.id && one?.value === other?.value && one?.term === other?.term;
}
