// Keeps the lock of redlock's `using` while its routine runs, with one timer that rings when the lock is due to be extended. If an
// extension fails, it is repeated until the lock may have ended.
import { timers } from '../../core/clock';
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
  /** Watches for the loss of the lock from now on. May be called again. */
  watch(): void;
}

/** Ms between two checks of the wall clock, which may be set. */
const wallCheckMs = 1000;

export class RedlockRenewal<L extends ExpiringLock> {
  /** The current lock: the result of the last extension. */
  lock: L;
  readonly #plan: RenewalPlan<L>;
  #isStopped = false;
  #alarm: Alarm | undefined;
  #extending: Promise<void> | undefined;

  constructor(lock: L, plan: RenewalPlan<L>) {
    this.lock = lock;
    this.#plan = plan;
    this.#ringIn(Math.min(this.#dueMs, wallCheckMs));
  }

  /** Stops the renewal. Resolves when the extension in flight has settled; undefined if none was begun. */
  stop(): Promise<void> | undefined {
    this.#isStopped = true;
    clearAlarm(this.#alarm);
    return this.#extending;
  }

  get #dueMs(): number {
    return this.lock.expiration - Date.now() - this.#plan.thresholdMs;
  }

  #ringIn(ms: number): void {
    if (this.#isStopped || !this.#plan.isHeld()) return;
    this.#alarm = timers.set(() => {
      if (this.#dueMs <= 0 || !this.#plan.isHeld()) this.#plan.watch();
      if (!this.#plan.isHeld()) return;
      if (this.#dueMs > 0) this.#ringIn(Math.min(this.#dueMs, wallCheckMs));
      else this.#extending = this.#extend();
    }, ms);
  }

  async #extend(): Promise<void> {
    try {
      this.lock = await this.#plan.extend(this.lock);
      this.#ringIn(Math.min(this.#dueMs, wallCheckMs));
    } catch {
      this.#ringIn(Math.min(this.#plan.pauseMs(), this.#plan.thresholdMs / 4));
    }
  }
}
