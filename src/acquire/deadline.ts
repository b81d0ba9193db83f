// The end of a wait. Its alarm is set only when the wait may last until then, and only once.
import { type Clock, systemClock } from '../core/clock';
import { type Alarm, clearAlarm } from '../core/timers';

interface TimedWait {
  timeIsOver(): void;
}

/** @internal */
export class Deadline {
  readonly #clock: Clock;
  readonly #endMs: number;
  #alarm: Alarm | undefined;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#endMs = clock.nowMs() + ms;
  }

  get leftMs(): number {
    return this.#endMs - this.#clock.nowMs();
  }

  /** Calls `wait.timeIsOver` at the deadline. A second call before that changes nothing. */
  arm(wait: TimedWait): void {
    if (this.#endMs < Number.POSITIVE_INFINITY)
      this.#alarm ??= this.#clock.timers.set(() => wait.timeIsOver(), this.leftMs);
  }

  clear(): void {
    clearAlarm(this.#alarm);
  }
}

/** @internal The deadline of a wait without a `timeout`. */
export const noDeadline = new Deadline(systemClock, Number.POSITIVE_INFINITY);
