// For how long a lock of a shim is surely held: on two clocks, of which the first that says "over" is right. It ends once.
import { LockLostError, type LossReason } from '../../core/errors';
import type { Key } from '../../core/keys';
import { maxTimerMs } from '../../core/options';
import { startIdleTimer } from '../../core/timers';
import { type Moment, now } from '../../store/contract';

/** The wall clock is checked this often where a signal was asked for. */
const wallCheckMs = 1000;

export class Tenure {
  /** The fencing token; 0 where none was minted. */
  readonly fence: number;
  readonly #key: Key;
  #end: Moment;
  #ended: 'released' | 'lost' | undefined;
  #loss: LockLostError | undefined;
  #aborter: AbortController | undefined;
  #isWatched = false;
  #timer: NodeJS.Timeout | undefined;
  /** A request for it whose answer never came, and which may take it once more. */
  request: { readonly mayExecute: boolean; retract(): void } | undefined;
  /** In Redis's words, once they were checked. */
  keys: Key | undefined;
  /** Hears of the loss, once it is noticed. */
  onLoss: ((loss: LockLostError) => void) | undefined;

  constructor(key: Key, fence: number, end: Moment) {
    this.#key = key;
    this.fence = fence;
    this.#end = end;
  }

  /** Ms for which it is surely held; 0 once it was released or lost. */
  get leftMs(): number {
    if (this.#ended === undefined && this.#clocksLeftMs <= 0) this.lose('expired');
    return this.#ended === undefined ? this.#clocksLeftMs : 0;
  }

  /** Monotonic ms of the end. */
  get endMs(): number {
    return this.#end.monoMs;
  }

  /** Aborts with a LockLostError when the lock may have ended; not when it is released. Made when first read. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController();
      this.watch();
      if (this.#loss) this.#aborter.abort(this.#loss);
    }
    return this.#aborter.signal;
  }

  /** Its loss is noticed when it may have ended, not only when somebody asks. */
  watch(): void {
    this.#isWatched = true;
    if (this.leftMs > 0) this.#watch();
  }

  /** Redis confirmed another end. What is lost stays lost. */
  confirm(end: Moment): void {
    if (this.leftMs === 0) return;
    this.#end = end;
    if (this.#isWatched) this.#watch();
  }

  /** An earlier end, before Redis is asked for it. */
  shorten(end: Moment): void {
    const { monoMs, wallMs } = this.#end;
    this.confirm({ monoMs: Math.min(monoMs, end.monoMs), wallMs: Math.min(wallMs, end.wallMs) });
  }

  /** Our own release: the signal stays silent. */
  release(): void {
    if (this.#ended === undefined) this.#ended = 'released';
    clearTimeout(this.#timer);
  }

  lose(reason: LossReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = 'lost';
    clearTimeout(this.#timer);
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
    clearTimeout(this.#timer);
    const ms = Math.min(Math.max(Math.ceil(this.#clocksLeftMs), 0), wallCheckMs, maxTimerMs);
    this.#timer = startIdleTimer(() => {
      if (this.leftMs > 0) this.#watch();
    }, ms);
  }
}

/** The moment that comes `ms` after another, on both clocks. */
export function after({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs + ms, wallMs: wallMs + ms };
}
