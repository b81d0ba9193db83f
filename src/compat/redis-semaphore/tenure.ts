// The time for which a lock of a shim is surely held. Two clocks measure it, and the lock has ended when either clock says so. A tenure
// ends once.

import { timers } from '../../core/clock';
import { LockLostError, type LossReason } from '../../core/errors';
import type { Key } from '../../core/keys';
import { type Alarm, clearAlarm } from '../../core/timers';
import { type Moment, now } from '../../store/contract';

/** Ms between two checks of the wall clock while the end is watched. */
const wallCheckMs = 1000;

export class Tenure {
  /** The fencing token; 0 if none was minted. */
  readonly fence: number;
  readonly #key: Key;
  #end: Moment;
  #ended: 'released' | 'lost' | undefined;
  #loss: LockLostError | undefined;
  #aborter: AbortController | undefined;
  #isWatched = false;
  #alarm: Alarm | undefined;
  /** A request without a reply, which may still execute and take the lock again. */
  request: { readonly mayExecute: boolean; retract(): void } | undefined;
  /** The full keys, after they were checked. */
  keys: Key | undefined;
  /** Called with the loss when it is noticed. */
  onLoss: ((loss: LockLostError) => void) | undefined;

  constructor(key: Key, fence: number, end: Moment) {
    this.#key = key;
    this.fence = fence;
    this.#end = end;
  }

  /** Ms for which the lock is surely held; 0 after a release or a loss. */
  get leftMs(): number {
    if (this.#ended === undefined && this.#clocksLeftMs <= 0) this.lose('expired');
    return this.#ended === undefined ? this.#clocksLeftMs : 0;
  }

  /** The end in monotonic ms. */
  get endMs(): number {
    return this.#end.monoMs;
  }

  /** Aborts with a LockLostError when the lock may have ended, but not when it is released. Made when it is first read. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController();
      this.watch();
      if (this.#loss) this.#aborter.abort(this.#loss);
    }
    return this.#aborter.signal;
  }

  /** Starts a timer, so that the loss is noticed when the lock may have ended, even if nobody reads `leftMs`. */
  watch(): void {
    this.#isWatched = true;
    if (this.leftMs > 0) this.#watch();
  }

  /** Sets the end that Redis confirmed. A lost lock stays lost. */
  confirm(end: Moment): void {
    if (this.leftMs === 0) return;
    this.#end = end;
    if (this.#isWatched) this.#watch();
  }

  /** Sets an earlier end, before the request for it is sent. */
  shorten(end: Moment): void {
    const { monoMs, wallMs } = this.#end;
    this.confirm({ monoMs: Math.min(monoMs, end.monoMs), wallMs: Math.min(wallMs, end.wallMs) });
  }

  /** Ends the tenure by a release. The signal does not abort. */
  release(): void {
    if (this.#ended === undefined) this.#ended = 'released';
    clearAlarm(this.#alarm);
  }

  lose(reason: LossReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = 'lost';
    clearAlarm(this.#alarm);
    const message = `${JSON.stringify(this.#key)} may belong to somebody else now (${reason})`;
    this.#loss = new LockLostError(message, { key: this.#key, reason });
    this.#aborter?.abort(this.#loss);
    this.onLoss?.(this.#loss);
  }

  get #clocksLeftMs(): number {
    const { monoMs, wallMs } = now();
    return Math.min(this.#end.monoMs - monoMs, this.#end.wallMs - wallMs);
  }

  #watch(): void {
    clearAlarm(this.#alarm);
    const check = (): void => {
      if (this.leftMs > 0) this.#watch();
    };
    this.#alarm = timers.setIdle(check, Math.min(this.#clocksLeftMs, wallCheckMs));
  }
}

/** The moment that comes `ms` after another, on both clocks. */
export function after({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs + ms, wallMs: wallMs + ms };
}
