// The clock that all processes of this host share: microseconds since the start of its kernel, sleep included, which nobody can
// set.
//
// `process.hrtime` is that clock in Node, but counts from each process's own start in Bun and Deno. All of them can read
// /proc/uptime, in ticks of 10 ms. So each process counts by its own fine clock, and each reading of the coarse clock bounds
// the difference of the two: from below by the tick that was read, from above by the next one. The first reading waits for a
// tick to begin (10 ms at most), which makes the bounds narrow at once.
//
// Invariant: the lower bound counts, so this clock never runs ahead of another process's. `lagMs`, the largest lag behind such
// a clock, is taken off the validity of a holder.
import { readFileSync } from 'node:fs';
import { LockBackendError } from '../../../core/errors';

export interface Clocks {
  /** Ms of the shared clock, rounded down to a tick. */
  shared(): number;
  /** Monotonic ms of this process. */
  fine(): number;
  /** Ms of the wall clock. */
  wall(): number;
}

export const tickMs = 10;
/** The distance of the bounds that is narrow enough. */
const narrowMs = 0.1;
/** The longest search for narrow bounds: a machine that needs longer is so busy that it has its own delays. */
const maxSearchMs = 3 * tickMs;
const maxTries = 3;
/** The interval at which the clocks are compared: a sleep of the host shows by then, or at once as a jump of the wall clock against the fine one. */
const checkEveryMs = 1000;
const jumpMs = 5;

export class HostClock {
  readonly #clocks: Clocks;
  /** Bounds of the shared clock minus the fine one. */
  #minMs = Number.NEGATIVE_INFINITY;
  #maxMs = Number.POSITIVE_INFINITY;
  #checkAtMs = 0;
  #wallLeadMs = 0;

  constructor(clocks: Clocks) {
    this.#clocks = clocks;
    this.#calibrate();
  }

  /** Microseconds of the shared clock, at most `lagMs` behind it. */
  micros(): number {
    const fineMs = this.#clocks.fine();
    if (fineMs >= this.#checkAtMs || Math.abs(this.#clocks.wall() - fineMs - this.#wallLeadMs) > jumpMs) this.#check();
    return Math.floor((fineMs + this.#minMs) * 1000); // H89b
  }

  get lagMs(): number {
    return this.#maxMs - this.#minMs; // H89c
  }

  /** Narrows the bounds. If they exclude each other, the host slept and only one of the clocks went on: then both bounds are found anew. */
  #check(): void {
    this.#narrow();
    if (this.lagMs < 0) this.#calibrate();
    this.#checkAtMs = this.#clocks.fine() + checkEveryMs;
    this.#wallLeadMs = this.#clocks.wall() - this.#clocks.fine();
  }

  #calibrate(): void {
    for (let tries = 0; tries < maxTries; tries++) {
      this.#minMs = Number.NEGATIVE_INFINITY;
      this.#maxMs = Number.POSITIVE_INFINITY;
      const untilMs = this.#clocks.fine() + maxSearchMs;
      do this.#narrow();
      while (this.lagMs > narrowMs && this.#clocks.fine() < untilMs);
      if (this.lagMs >= 0) return; // otherwise the host slept just now
    }
    this.#maxMs = this.#minMs + tickMs;
  }

  #narrow(): void {
    const beforeMs = this.#clocks.fine();
    const readMs = this.#clocks.shared();
    const afterMs = this.#clocks.fine();
    this.#minMs = Math.max(this.#minMs, readMs - afterMs);
    this.#maxMs = Math.min(this.#maxMs, readMs + tickMs - beforeMs);
  }
}

let clock: Pick<HostClock, 'micros' | 'lagMs'> | undefined;

/** @throws {LockBackendError} this runtime has no clock that other processes share. */
export function hostClock(): Pick<HostClock, 'micros' | 'lagMs'> {
  clock ??= process.platform === 'linux' ? new HostClock(linuxClocks) : nodeClock();
  return clock;
}

// The real clocks, even if a test replaces them later.
const linuxClocks: Clocks = {
  shared: () => Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1000, // H89
  fine: performance.now.bind(performance),
  wall: Date.now.bind(Date),
};

/** The clock outside Linux, where processes share only Node's own clock. */
function nodeClock(): Pick<HostClock, 'micros' | 'lagMs'> {
  const { bun, deno } = process.versions as Record<string, string | undefined>;
  if (bun !== undefined || deno !== undefined) {
    const message = `shared memory needs a clock that all processes share: on ${process.platform} only Node has one, on Linux Bun and Deno have it too`;
    throw new LockBackendError(message, { redisCode: 'PLATFORM', retryable: false });
  }
  const { bigint } = process.hrtime;
  return { micros: () => Number(bigint() / 1000n), lagMs: 0 };
}
