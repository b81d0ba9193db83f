// Pauses before a queue requests again without a wake-up, because a wake-up may be lost and a holder may die. The first entry in the
// Redis queue requests when the holder's lease ends. The entries behind it request a little later, each at a different moment.
import type { AcquireReply } from '../store/contract';
import { pollEveryMs } from '../store/protocol';

type Busy = AcquireReply & { readonly granted: false };

/** A source of randomness, and the shortest pause of a queue at rest. */
interface Pace {
  random(): number;
  readonly minPollMs: number;
}

/** Tells if entries of other processes are in front. */
export function isBehindOthers({ position }: Busy): boolean {
  return position !== undefined && position.before > 0;
}

/**
 * The pause after a reply that the lock is busy.
 *
 * @param tookMs         Duration of that request.
 * @param retryTimeoutMs Pause of a caller that polls.
 */
export function pauseWhileBusy({ leftMs, position }: Busy, tookMs: number, retryTimeoutMs: number, pace: Pace): number {
  // The holder's remaining time may have passed before its reply arrived.
  if (leftMs >= 0 && tookMs > leftMs) return 0;
  const { before = 0, outside = false } = position ?? {};
  const random = pace.random(); // H28c
  const everyMs = Math.max(pollEveryMs(before) * (0.8 + 0.2 * random), pace.minPollMs * (0.9 + 0.1 * random));
  // A holder outside the queue wakes no entry when it releases, so the first entry polls. The entries behind it need not.
  if (outside && before === 0) return Math.min(Math.max(retryTimeoutMs, 1), everyMs);
  return Math.min(leftMs < 0 ? everyMs : leftMs + 1 + before, everyMs);
}

/** The pause after a grant to a caller of the same queue, while others wait. That caller may never release. */
export function pauseWhileHeld(leftMs: number, pace: Pace): number {
  return Math.min(Math.max(leftMs, 0) + 1, Math.max(pollEveryMs(0), pace.minPollMs));
}
