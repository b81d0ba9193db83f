// The clock that waits, validity and timers go by: that of this process, unless a store has one of its own.
import { startTimer } from './timers';

/** A moment on both clocks: the monotonic one stands still while a virtual machine sleeps, the wall clock can be set. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
}

export interface Clock {
  nowMs(): number;
  wallMs(): number;
  /** Runs `work` once `ms` have passed by this clock. Cancelled by `clearTimeout`. */
  later(work: () => void, ms: number): NodeJS.Timeout;
  /** Real ms after which it may show any time, whatever it shows now. */
  readonly stepMs: number;
}

/** Each function is looked up when it is called, so that a test's fake timers own this clock too. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  later: startTimer,
  stepMs: Number.POSITIVE_INFINITY,
};

/** Now, on both clocks. */
export function now(clock: Clock = systemClock): Moment {
  return { monoMs: clock.nowMs(), wallMs: clock.wallMs() };
}

const stepMs = 10;

/** A clock that shows what `nowMs` does, which may leap. No event says that it leapt, so timers check it every few ms. */
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
