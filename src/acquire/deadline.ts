// The end of a wait. Its timer is set only when the wait may last until then, and only once.

import { type Clock, systemClock } from '../core/clock';
import { maxTimerMs } from '../core/options';

interface TimedWait {
  timeIsOver(): void;
}

/** @internal */
export class Deadline {
  readonly #clock: Clock;
  readonly #endMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#endMs = clock.nowMs() + ms;
  }

  get leftMs(): number {
    return this.#endMs - this.#clock.nowMs();
  }

  /** Calls `wait.timeIsOver` at the deadline. A second call before that changes nothing. */
  arm(wait: TimedWait): void {
    if (this.#endMs === Number.POSITIVE_INFINITY || this.#timer !== undefined) return;
    const check = (): void => {
      this.#timer = undefined;
      if (this.leftMs > 0) this.arm(wait);
      else wait.timeIsOver();
    };
    this.#timer = this.#clock.later(check, Math.min(Math.ceil(this.leftMs), maxTimerMs));
  }

  clear(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
  }
}

/** @internal The deadline of a wait without a `timeout`. */
export const noDeadline = new Deadline(systemClock, Number.POSITIVE_INFINITY);
