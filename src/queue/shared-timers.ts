// A few timers for many queues. An alarm that is due soon rings when it is due. Later alarms are rounded down to a grid of 50 ms and
// ring together, up to 50 ms early. So the requests of thousands of queues are sent in full batches, and a queue at rest keeps a link
// in a list instead of a timer.
import type { Clock } from '../core/clock';
import { type Linked, LinkedList } from '../core/linked-list';

/** The limit of "soon". */
const soonMs = 250;
const gridMs = 50;

/** A scheduled call. */
export interface Alarm extends Linked<Alarm> {
  readonly slot: TimerSlot;
  readonly work: () => void;
}

interface TimerSlot {
  readonly dueMs: number;
  readonly alarms: LinkedList<Alarm>;
  readonly timer: NodeJS.Timeout;
}

export class SharedTimers {
  readonly #clock: Clock;
  /** Slots by the monotonic time in ms at which they are due. */
  readonly #slots = new Map<number, TimerSlot>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `work` in `ms`. */
  set(work: () => void, ms: number): Alarm {
    const exactMs = this.#clock.nowMs() + ms;
    const dueMs = ms < soonMs ? Math.ceil(exactMs) : Math.floor(exactMs / gridMs) * gridMs; // S26
    const slot = this.#slot(dueMs);
    const alarm = { slot, work, before: undefined, after: undefined };
    slot.alarms.add(alarm);
    return alarm;
  }

  /** Cancels the alarm. */
  clear(alarm: Alarm): void {
    const { slot } = alarm;
    if (!slot.alarms.delete(alarm) || slot.alarms.size > 0) return;
    clearTimeout(slot.timer);
    // While this slot rings, there may be another slot for the same time.
    if (this.#slots.get(slot.dueMs) === slot) this.#slots.delete(slot.dueMs);
  }

  #slot(dueMs: number): TimerSlot {
    let slot = this.#slots.get(dueMs);
    if (slot === undefined) {
      const timer = this.#clock.later(() => this.#ring(dueMs), dueMs - this.#clock.nowMs());
      slot = { dueMs, alarms: new LinkedList(), timer };
      this.#slots.set(dueMs, slot);
    }
    return slot;
  }

  #ring(dueMs: number): void {
    const { alarms } = this.#slots.get(dueMs)!;
    // Alarms that are set during these calls belong to another slot.
    this.#slots.delete(dueMs);
    for (let alarm = alarms.first; alarm !== undefined; alarm = alarms.first) {
      alarms.delete(alarm);
      alarm.work();
    }
  }
}
