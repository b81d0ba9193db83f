// Keeps the lock of redlock's `using` while its routine runs. Between two extensions a timer; where one fails, it is tried again
// until the lock may have ended, which its signal tells.
import { setTimeout as sleep } from 'node:timers/promises';
import { longestTimerMs } from '../options';

interface Held {
  /** Ms of the epoch. */
  readonly expiration: number;
  readonly signal: AbortSignal;
}

export interface RenewalPlan<L extends Held> {
  /** Extends when so many ms are left. */
  readonly thresholdMs: number;
  /** One attempt. Resolves with the lock that replaces it. */
  extend(lock: L): Promise<L>;
  /** The pause in ms after a failed attempt. */
  pauseMs(): number;
}

export class Renewal<L extends Held> {
  readonly #plan: RenewalPlan<L>;
  readonly #stopping = new AbortController();
  #lock: L;
  #timer: NodeJS.Timeout | undefined;
  #extending: Promise<void> | undefined;

  constructor(lock: L, plan: RenewalPlan<L>) {
    this.#lock = lock;
    this.#plan = plan;
    this.#schedule();
  }

  /** Resolves with the lock as it is now, once no extension is on its way. */
  async stop(): Promise<L> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    await this.#extending;
    return this.#lock;
  }

  #schedule(): void {
    const ms = this.#lock.expiration - Date.now() - this.#plan.thresholdMs;
    const extend = (): void => {
      this.#extending = this.#extend();
    };
    this.#timer = setTimeout(extend, Math.min(Math.max(ms, 0), longestTimerMs));
  }

  async #extend(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted && !this.#lock.signal.aborted) {
      try {
        this.#lock = await this.#plan.extend(this.#lock);
        if (!signal.aborted) this.#schedule();
        return;
      } catch {
        const ms = Math.min(this.#plan.pauseMs(), this.#plan.thresholdMs / 4);
        await sleep(ms, undefined, { signal }).catch(() => {});
      }
    }
  }
}
