// Keeps the lock of redlock's `using` while its routine runs, by one timer until the lock is due to be extended. Where that fails, it
// is tried again until the lock may have ended; meanwhile the holder watches its end.
import { maxTimerMs } from '../../core/options';
import { startTimer } from '../../core/timers';

interface ExpiringLock {
  /** Ms of the epoch. */
  readonly expiration: number;
}

export interface RenewalPlan<L extends ExpiringLock> {
  /** Extends when so many ms are left. */
  readonly thresholdMs: number;
  /** One attempt. Resolves with the lock that replaces it. */
  extend(lock: L): Promise<L>;
  /** The pause in ms after a failed attempt. */
  pauseMs(): number;
  /** Whether the lock is surely held. */
  isHeld(): boolean;
  /** From now on, nobody else asks whether it is held. */
  watch(): void;
}

/** The wall clock, which may be set, is checked this often. */
const wallCheckMs = 1000;

export class RedlockRenewal<L extends ExpiringLock> {
  readonly #plan: RenewalPlan<L>;
  #isStopped = false;
  #lock: L;
  #timer: NodeJS.Timeout | undefined;
  #extending: Promise<void> | undefined;

  constructor(lock: L, plan: RenewalPlan<L>) {
    this.#lock = lock;
    this.#plan = plan;
    this.#schedule();
  }

  /** Once no extension is on its way. undefined: none is. */
  stop(): Promise<void> | undefined {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    return this.#extending;
  }

  /** The lock as it is now. */
  get lock(): L {
    return this.#lock;
  }

  get #dueMs(): number {
    return this.#lock.expiration - Date.now() - this.#plan.thresholdMs;
  }

  #schedule(): void {
    this.#timer = startTimer(() => this.#onTimer(), Math.min(this.#dueMs, wallCheckMs));
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
      this.#timer = startTimer(() => this.#tryToExtend(), ms);
    }
  }
}
