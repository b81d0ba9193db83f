// The clock of waits and validity, and the alarms by it: the clock of this process, unless a store has its own. Everything that is due
// at about the same time shares one timer: the requests of thousands of queues and renewals leave in full batches, and what is at rest
// keeps a link in a list instead of a timer.
//
// Each timer is started with the present global function, so that a test's fake clock controls it. A runtime whose timers are
// numbers (Cloudflare Workers, a browser) has no `unref`, and needs none. On Workers a timer ends with the incoming request that set it,
// and so each call has a timer of its own there.
import { type Linked, LinkedList } from './linked-list';
import { setImmediate, setTimeout as setReal } from './real-timers';
import { hasIncomingRequests } from './runtime';

/** A moment on both clocks: the monotonic clock stands still while a virtual machine sleeps, and the wall clock can be set. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
}

/** A call that is due at some time. Setting it allocates nothing while there is a timer for its time. */
export interface Alarm extends Linked<Alarm> {
  /** Its timer; undefined unless it is set. */
  timer: SharedTimer | undefined;
  /** True if the process stays alive for the call. */
  readonly keepsAlive: boolean;
  ring(): void;
}

/** The longest delay that a timer of Node can keep. A timer with a longer delay fires at once. */
export const maxTimerMs = 2 ** 31 - 1;
/** The maximum of calls in one turn of the event loop: a full batch. Ten thousand renewals at once would block it for a tenth of a second. */
const maxInTurn = 128;

export class Clock {
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** Real ms after which this clock may show any time, whatever it shows now: it may leap, and no event tells of a leap. */
  readonly stepMs: number;
  /** The timers by the time in ms at which they are due. */
  readonly #timers = new Map<number, SharedTimer>();

  constructor(nowMs: () => number, wallMs: () => number, stepMs = Number.POSITIVE_INFINITY) {
    this.nowMs = nowMs;
    this.wallMs = wallMs;
    this.stepMs = stepMs;
  }

  /** Calls `work` in `ms`, or up to `slackMs` earlier together with others; never, if `ms` is Infinity. */
  setAlarm(work: () => void, ms: number, slackMs = 0): Alarm {
    return this.setAlarmAt(work, this.nowMs() + ms, slackMs);
  }

  /** As `setAlarm`, but does not keep the process alive. */
  setIdleAlarm(work: () => void, ms: number, slackMs = 0): Alarm {
    return this.setAlarmAt(work, this.nowMs() + ms, slackMs, false);
  }

  /** As `setAlarm`, at the time `atMs` of this clock. */
  setAlarmAt(ring: () => void, atMs: number, slackMs = 0, keepsAlive = true): Alarm {
    const alarm = { ring, keepsAlive, timer: undefined, before: undefined, after: undefined };
    if (atMs < Number.POSITIVE_INFINITY) this.add(alarm, atMs, slackMs);
    return alarm;
  }

  /** Sets an alarm for the time `exactMs` of this clock, or up to `slackMs` earlier. */
  add(alarm: Alarm, exactMs: number, slackMs: number): void {
    const dueMs = slackMs > 1 ? Math.floor(exactMs / slackMs) * slackMs : Math.ceil(exactMs - 0.001); // S26
    let timer = this.#timers.get(dueMs);
    if (timer === undefined || !timer.isOfPresentClock) {
      timer = new SharedTimer(dueMs, slackMs > 1, this, this.#timers);
      if (!hasIncomingRequests) this.#timers.set(dueMs, timer); // H90e
    }
    timer.add(alarm);
  }
}

/** Cancels the alarm, if it is set. */
export function clearAlarm(alarm: Alarm | undefined): void {
  alarm?.timer?.clear(alarm);
}

/** One timer for all that is due at one time. */
class SharedTimer {
  readonly #dueMs: number;
  readonly #clock: Clock;
  readonly #all: Map<number, SharedTimer>;
  readonly #alarms = new LinkedList<Alarm>();
  #keepingAlive = 0;
  #timer: NodeJS.Timeout | undefined;
  /** True if the timer fires before its time, to look at the clock. */
  #isCut = false;
  /** The functions of the clock that was there when this timer was made: the real one, or a test's. */
  readonly #start = setTimeout;
  readonly #stop = clearTimeout;
  /** True if the timer stays for the next alarm when all are cleared: to set and to clear one is 9 % of a lone pair. */
  readonly #stays: boolean;

  constructor(dueMs: number, stays: boolean, clock: Clock, all: Map<number, SharedTimer>) {
    this.#dueMs = dueMs;
    this.#stays = stays && this.#start === setReal && !hasIncomingRequests; // S22
    this.#clock = clock;
    this.#all = all;
  }

  get isOfPresentClock(): boolean {
    return this.#start === setTimeout;
  }

  add(alarm: Alarm): void {
    alarm.timer = this;
    this.#alarms.add(alarm);
    if (alarm.keepsAlive) this.#keepingAlive += 1;
    if (this.#timer === undefined) this.#arm();
    else if (alarm.keepsAlive && this.#keepingAlive === 1) this.#timer.ref?.();
  }

  clear(alarm: Alarm): void {
    this.#remove(alarm);
    if (this.#alarms.size > 0 || this.#stays) return;
    const stop = this.#stop;
    stop(this.#timer);
    this.#forget();
  }

  #remove(alarm: Alarm): void {
    this.#alarms.delete(alarm);
    alarm.timer = undefined;
    if (!alarm.keepsAlive) return;
    this.#keepingAlive -= 1;
    if (this.#keepingAlive === 0) idle(this.#timer!);
  }

  /** While this timer rings, there may be another one for the same time. */
  #forget(): void {
    if (this.#all.get(this.#dueMs) === this) this.#all.delete(this.#dueMs);
  }

  /** A stall between two readings of the clock can leave a negative delay, of which Node warns on stderr. */
  #arm(): void {
    const start = this.#start;
    const leftMs = Math.ceil(this.#dueMs - this.#clock.nowMs());
    const ms = Math.min(leftMs, this.#clock.stepMs, maxTimerMs);
    this.#isCut = ms < leftMs;
    this.#timer = start(() => this.#onTimer(), Math.max(ms, 0)); // H93c
    if (this.#keepingAlive === 0) idle(this.#timer);
  }

  /** Node's timers fire up to a ms early. A clock that shows an earlier time than that stands still beside the timers of a test. */
  #onTimer(): void {
    const leftMs = this.#dueMs - this.#clock.nowMs();
    if (this.#alarms.size > 0 && leftMs > 0 && (this.#isCut || leftMs < 1)) return this.#arm();
    // Alarms that are set from now on have another timer.
    this.#forget();
    this.#ring();
  }

  /** Rings the first alarms; the others in the next turn, also if a call throws. */
  #ring(): void {
    try {
      for (let n = 0; n < maxInTurn && this.#alarms.first !== undefined; n++) {
        const alarm = this.#alarms.first;
        this.#remove(alarm);
        alarm.ring();
      }
    } finally {
      if (this.#alarms.size > 0) setImmediate(() => this.#ring());
    }
  }
}

/** Lets the process end before a timer fires. */
export function idle(timer: NodeJS.Timeout): NodeJS.Timeout {
  timer.unref?.(); // H90
  return timer;
}

/** The clock of this process. Looks up each function when called, so that a test's fake timers control this clock too. */
export const systemClock: Clock = new Clock(
  () => performance.now(),
  () => Date.now(),
);

export function now(clock: Clock = systemClock): Moment {
  return { monoMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** The start of a grant whose end is kept in whole ms, and so comes up to `ms` too soon. */
export function earlier({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs - ms, wallMs: wallMs - ms };
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
        alarm = systemClock.setAlarm(resolve, ms);
        this.#wake = resolve;
      });
      clearAlarm(alarm);
    }
    const isRung = this.#isRung;
    this.#isRung = false;
    return isRung;
  }
}
