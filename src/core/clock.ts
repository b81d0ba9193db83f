// The clock of waits, validity and timers: the clock of this process, unless a store has its own.
import { startTimer } from './timers';

/** A moment on both clocks: the monotonic clock stands still while a virtual machine sleeps, and the wall clock can be set. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
}

export interface Clock {
  nowMs(): number;
  wallMs(): number;
  /** Runs `work` once `ms` have passed by this clock. `clearTimeout` cancels it. */
  later(work: () => void, ms: number): NodeJS.Timeout;
  /** Real ms after which this clock may show any time, whatever it shows now. */
  readonly stepMs: number;
}

/** The clock of this process. Looks up each function when called, so that a test's fake timers control this clock too. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  later: startTimer,
  stepMs: Number.POSITIVE_INFINITY,
};

/** The present moment on both clocks. */
export function now(clock: Clock = systemClock): Moment {
  return { monoMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** The start of a grant whose end is kept in whole ms, and so comes up to `ms` too soon. */
export function earlier({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs - ms, wallMs: wallMs - ms };
}

/** The clock of a store. */
export function clockOf({ clock }: { readonly clock?: Clock | undefined }): Clock {
  return clock ?? systemClock;
}

const stepMs = 10;

/** A clock that shows the time of `nowMs`, which may leap. No event tells of a leap, so timers check `nowMs` every few ms. */
export function leapingClock(nowMs: () => number): Clock {
  const later = (work: () => void, ms: number): NodeJS.Timeout => {
    const dueMs = nowMs() + ms;
    const timer = setInterval(
      () => {
        if (nowMs() < dueMs) return;
        clearInterval(timer);
        work();
      },
      Math.max(Math.min(ms, stepMs), 0),
    );
    return timer;
  };
  return { nowMs, wallMs: nowMs, later, stepMs };
}
