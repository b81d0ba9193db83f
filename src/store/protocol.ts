// The numbers that waiters, the scripts in Redis and the machine of the embedded stores have in common. Lua says `protocol.handOffs`,
// and `npm run generate` writes 64 there.

/** The numbers of a queue. */
export const limits = {
  /** The end of a grant to the queue that its process has not confirmed. */
  provisionalMs: 2000,
  /** A queued process polls this often. An entry expires after twice its poll interval. */
  pollMs: 1000,
  /** The number of processes that poll at that pace. Those behind them poll in proportion to their position. */
  pollers: 8,
  /** The longest poll interval: all entries of dead processes have expired after twice as long. */
  maxPollMs: 2000,
  /** The number of expired entries that one grant removes. */
  maxExpired: 2048,
  /** The key yields after this number of hand-offs in a row. */
  handOffs: 64,
  /** The key also yields once callers have polled in vain for this number of their pauses. */
  pollsInVain: 8,
};

/** The poll interval of a queued process far back: this for each position. */
export const pollMsEach = limits.pollMs / limits.pollers;
/** The longest yield. A caller that polls with longer pauses leaves no mark. */
export const maxYieldMs = 1000;
/** The delay that a caller which polls may have without missing its turn. */
export const pollLatenessMs = 20;
/** A mark of a caller that polls outlives two of its pauses by this. */
export const pollMarkMs = 100;
/** The furthest deadline of an entry. A queue ends this long after its last entry was written. */
export const maxSilenceMs = 10_000;

/** A fence counter, or a ticket, that is further ahead of the clock is damaged. */
export const maxAheadMicros = 86_400_000_000;
/** The largest lifetime in ms, and the largest fence. */
export const maxInteger = Number.MAX_SAFE_INTEGER;
/** The largest number of fences that one grant mints. */
export const maxFences = 1024;
/** The number of waiters that one release notifies of a key that several may hold. They may be admitted out of order. */
export const maxNotified = 32;
/** The distance in µs between tickets and scores of readers that prefer readers, and of writers that prefer writers: their bands. */
export const readersFirstMicros = 1e15;
export const writersFirstMicros = 5e14;
/** The longest wait during which readers that prefer readers pass a waiter. */
export const readersPassMicros = 500_000;

/** The poll interval of a queued process that has `before` others before it. */
export function pollEveryMs(before: number): number {
  const { pollMs, pollers, maxPollMs } = limits;
  return Math.min(pollMs * Math.max(1, (before + 1) / pollers), maxPollMs);
}
