// The time for which a lock of redis-semaphore is surely held, and the signal of its loss. It ends once. No held lock of the library
// is behind it: redis-semaphore refreshes by scripts and intervals of its own, also by those of a subclass.

import { systemClock, timers } from '../../core/clock';
import { LockLostError, type LossReason } from '../../core/errors';
import { type Alarm, clearAlarm } from '../../core/timers';
import { Validity } from '../../hold/validity';
import type { Grant, Moment } from '../../store/contract';

/** Ms between two checks of the wall clock while the end is watched. */
const wallCheckMs = 1000;

/** The fence is 0 if none was minted. */
export type PeerGrant = Pick<Grant, 'fence' | 'sent'>;

export class PeerValidity {
  readonly fence: number;
  readonly #key: string;
  readonly #lifetimeMs: number;
  isReleased = false;
  #validity: Validity;
  readonly #aborter = new AbortController();
  /** Set when the signal is first read. */
  #alarm: Alarm | undefined;

  constructor(key: string, { fence, sent }: PeerGrant, lifetimeMs: number) {
    this.#key = key;
    this.fence = fence;
    this.#lifetimeMs = lifetimeMs;
    this.#validity = new Validity(sent, lifetimeMs);
  }

  /** Ms for which the lock is surely held; 0 after a release or a loss. */
  get leftMs(): number {
    if (this.#isEnded) return 0;
    const leftMs = this.#validity.leftMs(systemClock);
    if (leftMs <= 0) this.lose('expired');
    return Math.max(leftMs, 0);
  }

  /** Aborts with a LockLostError when the lock may have ended, but not when it is released. */
  get signal(): AbortSignal {
    if (this.#alarm === undefined) this.#watch();
    return this.#aborter.signal;
  }

  /** Counts the lifetime from a refresh that Redis confirmed. A lost lock stays lost. */
  confirm(sent: Moment): void {
    if (this.leftMs > 0) this.#validity = new Validity(sent, this.#lifetimeMs);
  }

  /** Ends the validity by a release. The signal does not abort. */
  release(): void {
    this.isReleased = true;
    clearAlarm(this.#alarm);
  }

  lose(reason: LossReason): void {
    if (this.#isEnded) return;
    clearAlarm(this.#alarm);
    const message = `${JSON.stringify(this.#key)} may belong to somebody else now (${reason})`;
    this.#aborter.abort(new LockLostError(message, { key: this.#key, reason }));
  }

  get #isEnded(): boolean {
    return this.isReleased || this.#aborter.signal.aborted;
  }

  #watch(): void {
    const { leftMs } = this;
    if (leftMs > 0) this.#alarm = timers.setIdle(() => this.#watch(), Math.min(leftMs, wallCheckMs));
  }
}
