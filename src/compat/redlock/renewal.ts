// Keeps the lock of redlock's `using` while its routine runs, with one timer that rings when the lock is due to be extended. If an
// extension fails, it is repeated until the lock may have ended. Meanwhile the holder watches for the end of the lock.

import { timers } from '../../core/clock';
import { maxTimerMs } from '../../core/options';
import { type Alarm, clearAlarm } from '../../core/timers';

interface ExpiringLock {
  /** Ms of the epoch. */
  readonly expiration: number;
}

export interface RenewalPlan<L extends ExpiringLock> {
  /** Ms left of the lock at which it is extended. */
  readonly thresholdMs: number;
  /** Attempts to extend the lock once. Resolves with the lock that replaces it. */
  extend(lock: L): Promise<L>;
  /** The pause in ms after a failed attempt. */
  pauseMs(): number;
  /** Tells if the lock is surely held. */
  isHeld(): boolean;
  /** Watches for the end of the lock from now on. */
  watch(): void;
}

/** Ms between two checks of the wall clock, which may be set. */
const wallCheckMs = 1000;

export class RedlockRenewal<L extends ExpiringLock> {
  readonly #plan: RenewalPlan<L>;
  #isStopped = false;
  #lock: L;
  #alarm: Alarm | undefined;
  #extending: Promise<void> | undefined;

  constructor(lock: L, plan: RenewalPlan<L>) {
    this.#lock = lock;
    this.#plan = plan;
    this.#schedule();
  }

  /** Stops the renewal. Resolves when the extension in flight has settled; undefined if none is in flight. */
  stop(): Promise<void> | undefined {
    this.#isStopped = true;
    clearAlarm(this.#alarm);
    return this.#extending;
  }

  /** The current lock: the result of the last extension. */
  get lock(): L {
    return this.#lock;
  }

  get #dueMs(): number {
    return this.#lock.expiration - Date.now() - this.#plan.thresholdMs;
  }

  #schedule(): void {
    this.#alarm = timers.set(() => this.#onTimer(), Math.min(this.#dueMs, wallCheckMs));
  }

  #onTimer(): void {
    if (!this.#plan.isHeld()) return;
    if (this.#dueMs > 0) return this.#schedule();
    this.#plan.watch();
    this.#tryToExtend();
  }

  #tryToExtend(): void {
    this.#extending = this.#extend();
  }

  async #extend(): Promise<void> {
    try {
      this.#lock = await this.#plan.extend(this.#lock);
      if (!this.#isStopped) this.#schedule();
    } catch {
      if (this.#isStopped || !this.#plan.isHeld()) return;
      const ms = Math.min(this.#plan.pauseMs(), this.#plan.thresholdMs / 4, maxTimerMs);
      this.#alarm = timers.set(() => this.#tryToExtend(), ms);
    }
  }
}
