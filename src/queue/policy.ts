// How often callers of one process hand a lock off among themselves, how long readers join each other, and when a queue requests again.
import type { AcquireReply } from '../store/contract';
import { limits, pollEveryMs } from '../store/protocol';

/** The maximum of hand-offs in a row within one process, while other processes are queued and while none are. */
export const handOffsAmongOthers = 8; // S14
export const handOffsAlone = 64; // S15
/** The maximum of fences that a grant reserves: one for its first holder, and one for each hand-off. */
export const fencesInBlock = handOffsAlone + 1;
/**
 * The fences that a grant reserves if the previous grant was handed off fewer than eight times. Unused ones push the server's fence counter
 * ahead of its clock: with 65 for each grant from 15,000 grants per second on, with 9 at no rate that a server reaches.
 */
export const fencesAtFirst = handOffsAmongOthers + 1;

/** The hand-offs that may follow a grant: `others` entries are still queued for the key, and the grant reserved `fences`. */
export function handOffsAfterGrant(others: number, fences = fencesInBlock): number {
  return others > 0 ? handOffsAmongOthers : fences - 1;
}

/**
 * The window in which readers join, from the arrival of the first reader and again from the grant; at most a third of the lifetime.
 * Until a reply says that the key is busy, readers join after the window too.
 */
export const windowMs = 2;
/** The window after a grant that readers had to wait for: the turn of the readers between two writers. */
export const turnMs = 6;
/** The maximum of readers that join before the grant, and again after it. */
export const maxJoins = 64; // S27

/**
 * The pause from `nowMs` on, after a reply that the lock is busy. A wake-up may be lost and a holder may die, so the first entry in the
 * Redis queue requests when the holder's lease ends, and the entries behind it a little later, each at its own moment.
 */
export function pauseWhileBusy(
  { leftMs, position, sent }: AcquireReply & { granted: false },
  nowMs: number,
  retryTimeoutMs: number,
  minPollMs: number,
  random: number,
): number {
  // The holder's remaining time may have passed before its reply arrived.
  if (leftMs >= 0 && sent !== undefined && nowMs - sent.monoMs > leftMs) return 0;
  const { before = 0, outside = false } = position ?? {};
  const everyMs = pollPauseMs(before, minPollMs, random); // H28c
  // A holder outside the queue wakes no entry when it releases, so the first entry polls. The entries behind it need not.
  if (outside && before === 0) return Math.min(Math.max(retryTimeoutMs, 1), everyMs);
  return Math.min(leftMs < 0 ? everyMs : leftMs + 1 + before, everyMs);
}

/** The pause of an entry at rest between two requests, with `before` entries in front of it. */
export function pollPauseMs(before: number, minPollMs: number, random: number): number {
  return Math.max(pollEveryMs(before) * (0.8 + 0.2 * random), minPollMs * (0.9 + 0.1 * random));
}

/** Ms without a request after which an entry expires, if its requests pause for at least `minPollMs`; 0: by its position. */
export function silenceFor(minPollMs: number): number {
  return minPollMs > pollEveryMs(0) ? Math.ceil(2 * Math.max(minPollMs, limits.maxPollMs)) : 0;
}

/** The pause after a grant while others of the queue wait: the holder may never release, and a long wait needs an entry in Redis. */
export function pauseWhileHeld(leftMs: number, minPollMs: number): number {
  return Math.min(Math.max(leftMs, 0) + 1, Math.max(pollEveryMs(0), minPollMs));
}
