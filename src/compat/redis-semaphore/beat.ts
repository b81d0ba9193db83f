// Work that is repeated at an interval while a lock is held. All locks with the same interval share a timer, because a timer for each
// lock would cost 4 % of a pair. The timer does not keep the process alive, and runs on to its end after the last lock has stopped.
import { type Linked, LinkedList } from '../../core/linked-list';
import { maxTimerMs } from '../../core/options';
import { startIdleTimer } from '../../core/timers';

export class Beat implements Linked<Beat> {
  before: Beat | undefined;
  after: Beat | undefined;
  dueMs = 0;
  readonly work: () => void;
  #beats: Beats | undefined;

  constructor(work: () => void) {
    this.work = work;
  }

  /** Repeats the work every `ms` from now on. */
  start(ms: number): void {
    this.stop();
    this.#beats = beatsOf(ms);
    this.#beats.add(this);
  }

  stop(): void {
    this.#beats?.delete(this);
    this.#beats = undefined;
  }
}

const byInterval = new Map<number, Beats>();

function beatsOf(interval: number): Beats {
  const ms = Math.min(Math.max(interval, 1), maxTimerMs);
  let beats = byInterval.get(ms);
  if (beats === undefined) {
    beats = new Beats(ms);
    byInterval.set(ms, beats);
  }
  return beats;
}

/** The beats of one interval, in the order in which they are due. */
class Beats {
  readonly #ms: number;
  readonly #list = new LinkedList<Beat>();
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number) {
    this.#ms = ms;
  }

  add(beat: Beat): void {
    beat.dueMs = performance.now() + this.#ms;
    this.#list.add(beat);
    if (this.#timer === undefined) this.#arm(this.#ms);
  }

  delete(beat: Beat): void {
    this.#list.delete(beat);
  }

  #arm(ms: number): void {
    this.#timer = startIdleTimer(this.#onTimer, Math.max(Math.ceil(ms), 1));
  }

  readonly #onTimer = (): void => {
    const nowMs = performance.now();
    const due: Beat[] = [];
    for (let first = this.#list.first; first !== undefined && first.dueMs <= nowMs; first = this.#list.first) {
      this.#list.delete(first);
      first.dueMs = nowMs + this.#ms;
      due.push(first);
    }
    for (const beat of due) this.#list.add(beat);
    this.#timer = undefined;
    if (this.#list.first !== undefined) this.#arm(this.#list.first.dueMs - nowMs);
    else byInterval.delete(this.#ms);
    for (const beat of due) beat.work();
  };
}
