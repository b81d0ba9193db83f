// The queue of a row, and the turns of callers outside it: the steps of queue.lua, in the same order.

import { isOurs } from '../../../core/token';
import type { QueueEntry, QueuePosition } from '../../contract';
import { limits, maxSilenceMs, maxYieldMs, pollEveryMs, pollLatenessMs, pollMarkMs } from '../../protocol';
import type { LockRequest } from './command';
import { type LockRow, msOf, neverMs, type QueuedRow } from './row';

/** Queues a token under its first ticket, or renews its entry. */
export function enqueue(
  row: LockRow,
  { token, lifetimeMs, fences }: LockRequest,
  { channel, id, ticket, silenceMs = 0 }: QueueEntry,
  micros: number,
): QueuePosition {
  // A ticket that is not known is minus the time before which the token was not queued.
  const sinceMicros = Math.min(-ticket, micros);
  const old = row.queue.find((entry) => entry.token === token && entry.ticket >= sinceMicros);
  const last = row.queue.at(-1)?.ticket ?? 0;
  const mine = old?.ticket ?? (ticket > 0 ? ticket : Math.max(micros, last + 1));
  const others = row.queue.filter((entry) => entry !== old);
  const before = others.filter((entry) => entry.ticket < mine).length;
  const mayBeSilentMs = Math.max(2 * pollEveryMs(before), Math.min(silenceMs, maxSilenceMs));
  const deadlineMs = msOf(micros) + mayBeSilentMs;
  others.splice(before, 0, { ticket: mine, channel, id, token, lifetimeMs: lifetimeMs ?? neverMs, fences, deadlineMs });
  row.queue = others;
  row.queueEndMs = msOf(micros) + maxSilenceMs;
  return { ticket: mine, before, outside: row.token !== undefined && !isOurs(row.token) };
}

/** The first live entry. Removes the entries in front of it, and an expired poll mark. */
export function front(row: LockRow, nowMs: number): QueuedRow | undefined {
  const live = row.queue.slice(0, limits.maxExpired).findIndex((entry) => entry.deadlineMs >= nowMs);
  row.queue.splice(0, live < 0 ? limits.maxExpired : live);
  if (row.poll !== undefined && row.poll.untilMs < nowMs) row.poll = undefined;
  if (live < 0 && row.queue.length === 0) forgetQueue(row);
  return live < 0 ? undefined : row.queue[0];
}

/** Starts a yield after enough hand-offs in a row, or once callers have polled in vain for long enough. True: the key yields now. */
export function mustYield(row: LockRow, handOffs: number, windowMs: number, nowMs: number): boolean {
  const { poll } = row;
  const yieldMs = Math.max(Math.min(windowMs, maxYieldMs), poll === undefined ? 0 : poll.pauseMs + pollLatenessMs); // H80d
  const inVain = poll !== undefined && nowMs - poll.sinceMs >= limits.pollsInVain * yieldMs; // H80b
  if (handOffs < limits.handOffs && !inVain) return false;
  row.yieldUntilMs = nowMs + yieldMs;
  row.handOffs = 0;
  row.poll = undefined;
  return true;
}

/** Marks that a polling caller was refused beside a queue. The longest pause counts, for as long as its caller polls. */
export function markPoll(rows: readonly LockRow[], pauseMs: number | undefined, nowMs: number): void {
  if (pauseMs === undefined) return; // H80f
  const ms = Math.max(Math.ceil(pauseMs), 1);
  for (const row of rows) {
    if (ms > maxYieldMs || !hasQueue(row)) continue;
    const old = row.poll !== undefined && row.poll.untilMs >= nowMs ? row.poll : undefined;
    if (old !== undefined && old.pauseMs > ms) continue;
    row.poll = { pauseMs: ms, sinceMs: old?.sinceMs ?? nowMs, untilMs: nowMs + 2 * ms + pollMarkMs };
  }
}

export function hasQueue(row: LockRow): boolean {
  return row.queue.length > 0 || row.handOffs > 0 || row.yieldUntilMs > 0 || row.poll !== undefined;
}

export function forgetQueue(row: LockRow): void {
  row.queue = [];
  row.handOffs = row.yieldUntilMs = 0;
  row.poll = undefined;
}
