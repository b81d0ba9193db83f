// The numbers that waiters, the scripts in Redis and the machine of the embedded stores have in common.

export interface Limits {
  /** The end of a grant to the queue that its process has not confirmed. */
  readonly provisionalMs: number;
  /** A queued process polls this often. An entry expires after twice its poll interval. */
  readonly pollMs: number;
  /** The number of processes that poll at that pace. Those behind them poll in proportion to their position. */
  readonly pollers: number;
  /** The longest poll interval: all entries of dead processes have expired after twice as long. */
  readonly maxPollMs: number;
  /** The number of expired entries that one grant removes. */
  readonly maxExpired: number;
  /** The key yields after this number of hand-offs in a row. */
  readonly handOffs: number;
  /** The key also yields once callers have polled in vain for this number of their pauses. */
  readonly pollsInVain: number;
}

export const limits: Limits = {
  provisionalMs: 2000,
  pollMs: 1000,
  pollers: 8,
  maxPollMs: 2000,
  maxExpired: 2048,
  handOffs: 64,
  pollsInVain: 8,
};

/** The longest yield. A caller that polls with longer pauses leaves no mark. */
export const maxYieldMs = 1000;
/** The delay that a caller which polls may have without missing its turn. */
export const pollLatenessMs = 20;
/** The furthest deadline of an entry. A queue ends this long after its last entry was written. */
export const maxSilenceMs = 10_000;

/** The poll interval of a queued process that has `before` others before it. */
export function pollEveryMs(before: number, { pollMs, pollers, maxPollMs }: Limits = limits): number {
  return Math.min(pollMs * Math.max(1, (before + 1) / pollers), maxPollMs);
}
