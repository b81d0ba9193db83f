// When a queue requests again although nothing has woken it: a wake-up may be lost, and a holder may die. The first in Redis's
// queue requests when the holder's lease ends, those behind it a little later, each at a moment of its own.
import type { AcquireReply } from '../store/contract';
import { pollEveryMs } from '../store/protocol';

type Busy = AcquireReply & { readonly granted: false };

/** Randomness, and the pause that each of very many queues at rest keeps at least. */
interface Pace {
  random(): number;
  readonly minPollMs: number;
}

/** Whether entries of other processes are in front. */
export function isBehindOthers({ position }: Busy): boolean {
  return position !== undefined && position.before > 0;
}

/**
 * After a reply that the lock is busy.
 *
 * @param tookMs         How long that request took.
 * @param retryTimeoutMs Pause of a caller that polls.
 */
export function pauseWhileBusy({ leftMs, position }: Busy, tookMs: number, retryTimeoutMs: number, pace: Pace): number {
  // What the holder had left may be over by the time we hear of it.
  if (leftMs >= 0 && tookMs > leftMs) return 0;
  const { before = 0, outside = false } = position ?? {};
  const random = pace.random(); // H28c
  const everyMs = Math.max(pollEveryMs(before) * (0.8 + 0.2 * random), pace.minPollMs * (0.9 + 0.1 * random));
  // A non-queueing client wakes no entry: the first in the queue polls, those behind it need not.
  if (outside && before === 0) return Math.min(Math.max(retryTimeoutMs, 1), everyMs);
  return Math.min(leftMs < 0 ? everyMs : leftMs + 1 + before, everyMs);
}

/** After a grant to a caller of the same queue, while others wait: it may never release. */
export function pauseWhileHeld(leftMs: number, pace: Pace): number {
  return Math.min(Math.max(leftMs, 0) + 1, Math.max(pollEveryMs(0), pace.minPollMs));
}
