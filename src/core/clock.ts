// The clock of waits, validity and timers: the clock of this process, unless a store has its own.
import { type Alarm, clearAlarm, Timers } from './timers';

/** A moment on both clocks: the monotonic clock stands still while a virtual machine sleeps, and the wall clock can be set. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
}

export interface Clock {
  nowMs(): number;
  wallMs(): number;
  readonly timers: Timers;
  /** Real ms after which this clock may show any time, whatever it shows now: it may leap, and no event tells of a leap. */
  readonly stepMs: number;
}

/** The clock of this process. Looks up each function when called, so that a test's fake timers control this clock too. */
export const systemClock: Clock = clockBy(
  () => performance.now(),
  () => Date.now(),
  Number.POSITIVE_INFINITY,
);

export const { timers } = systemClock;

export function now(clock: Clock = systemClock): Moment {
  return { monoMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** The start of a grant whose end is kept in whole ms, and so comes up to `ms` too soon. */
export function earlier({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs - ms, wallMs: wallMs - ms };
}

export function clockOf({ clock }: { readonly clock?: Clock | undefined }): Clock {
  return clock ?? systemClock;
}

/** A clock that shows the time of `nowMs`, which may leap. Timers check it every 10 ms. */
export function leapingClock(nowMs: () => number): Clock {
  return clockBy(nowMs, nowMs, 10);
}

function clockBy(nowMs: () => number, wallMs: () => number, stepMs: number): Clock {
  return { nowMs, wallMs, timers: new Timers({ nowMs, stepMs }), stepMs };
}

/** Ends the wait of a function early. If the bell rings while the function does not wait, its next wait ends at once. */
export class Bell {
  #isRung = false;
  #wake: () => void = () => {};

  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Waits until the bell rings, for `ms` at most. Resolves with true if it rang. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isRung) {
      let alarm: Alarm | undefined;
      await new Promise<void>((resolve) => {
        alarm = timers.set(resolve, ms);
        this.#wake = resolve;
      });
      clearAlarm(alarm);
    }
    const isRung = this.#isRung;
    this.#isRung = false;
    return isRung;
  }
}
