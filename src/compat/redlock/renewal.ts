// Keeps the lock of redlock's `using` while its routine runs, with one timer that rings when the lock is due to be extended. If an
// extension fails, it is repeated until the lock may have ended, and the routine's signal then aborts.
import { timers } from '../../core/clock';
import { type Alarm, clearAlarm } from '../../core/timers';
import type { HeldLock } from '../../hold/held-lock';
import { ExecutionError, type ExecutionStats, noQuorum, pauseMs, type RedlockSettings } from './attempts';

/** The signal of `using`. `error` is the reason of its abort. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** Ms between two checks of the wall clock, which may be set. */
const wallCheckMs = 1000;

/** @internal */
export class RedlockRenewal<Lock extends { readonly expiration: number }> {
  /** The current lock: the result of the last extension. */
  lock: Lock;
  readonly #held: HeldLock;
  readonly #settings: RedlockSettings;
  readonly #extendOnce: (lock: Lock) => Promise<Lock>;
  readonly #aborter = new AbortController();
  readonly signal: RedlockAbortSignal = this.#aborter.signal;
  /** The failed attempts to extend the lock. */
  readonly #failed: Promise<ExecutionStats>[] = [];
  #isStopped = false;
  #alarm: Alarm | undefined;
  #extending: Promise<void> | undefined;

  constructor(lock: Lock, held: HeldLock, settings: RedlockSettings, extendOnce: (lock: Lock) => Promise<Lock>) {
    this.lock = lock;
    this.#held = held;
    this.#settings = settings;
    this.#extendOnce = extendOnce;
    this.#ringIn();
  }

  /** Stops the renewal. Resolves when the extension in flight has settled. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearAlarm(this.#alarm);
    await this.#extending;
  }

  get #dueMs(): number {
    return this.lock.expiration - Date.now() - this.#settings.automaticExtensionThreshold;
  }

  #ringIn(ms = Math.min(this.#dueMs, wallCheckMs)): void {
    if (this.#isStopped || !this.#held.check()) return;
    this.#alarm = timers.set(() => this.#onTimer(), ms);
  }

  #onTimer(): void {
    const isDue = this.#dueMs <= 0;
    if (isDue || !this.#held.check()) this.#watch();
    if (!isDue) this.#ringIn();
    else if (this.#held.check()) this.#extending = this.#extend();
  }

  async #extend(): Promise<void> {
    try {
      this.lock = await this.#extendOnce(this.lock);
      this.#ringIn();
    } catch (error) {
      if (error instanceof ExecutionError) this.#failed.push(...error.attempts);
      this.#ringIn(Math.min(pauseMs(this.#settings), this.#settings.automaticExtensionThreshold / 4));
    }
  }

  /** Lets the signal abort after a loss. Called only when it matters, since few routines need a timer for the end of the lock. */
  #watch(): void {
    if (this.#held.signal.aborted) this.#abort();
    else this.#held.signal.addEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => {
    this.signal.error ??= new ExecutionError(noQuorum, this.#failed, { cause: this.#held.signal.reason });
    this.#aborter.abort(this.signal.error);
  };
}
