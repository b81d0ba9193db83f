// How long a held lock is surely ours, by our own clocks: a value that says until when, and how that changes.
//
// It counts from before the send of what Redis confirmed, on the monotonic and on the wall clock, less a thousandth for clocks
// that run at different rates; the first clock that says "over" is right. An extension that was never answered leaves an
// uncertain end: until it cannot execute any more, every later end is clamped to the one that it may still set.
import { type Clock, type Grant, type Moment, trustedMs } from '../store/contract';

/** Two clocks are read in whole milliseconds: what one calls over may run this much later by the other. */
const clockStepMs = 2;

/** The end that an extension of unknown outcome may still set, and until when it may execute. */
interface UncertainEnd {
  readonly end: Moment;
  readonly mayExecuteUntilMs: number;
}

export class Validity {
  /** Before what Redis last confirmed was sent. */
  readonly sent: Moment;
  /** The lifetime that it confirmed; `null`: no end; 0: none so far, it was granted by message. */
  readonly lifetimeMs: number | null;
  /** Where the end is not simply the lifetime after `sent`. */
  readonly #otherEnd: Moment | undefined;
  readonly #uncertain: UncertainEnd | undefined;

  constructor(sent: Moment, lifetimeMs: number | null, otherEnd?: Moment, uncertain?: UncertainEnd) {
    this.sent = sent;
    this.lifetimeMs = lifetimeMs;
    this.#otherEnd = otherEnd;
    this.#uncertain = uncertain;
  }

  /** Of a grant that is for `lifetimeMs` unless it is confirmed. */
  static provisional({ monoMs, wallMs }: Moment, lifetimeMs: number): Validity {
    const validMs = trustedMs(lifetimeMs);
    return new Validity({ monoMs, wallMs }, 0, { monoMs: monoMs + validMs, wallMs: wallMs + validMs });
  }

  /** Whether no extension is on its way that may still set another end. */
  get isCertain(): boolean {
    return this.#uncertain === undefined;
  }

  /** The same, at a monotonic time. */
  isCertainBy(monoMs: number): boolean {
    return this.#uncertain === undefined || monoMs > this.#uncertain.mayExecuteUntilMs;
  }

  /** Ms to the end; negative when it is past. */
  leftMs(clock: Clock): number {
    const { monoMs, wallMs } = this.#otherEnd ?? this.sent;
    const validMs = this.#otherEnd === undefined ? this.#validMs : 0;
    return Math.min(monoMs + validMs - clock.nowMs(), wallMs + validMs - clock.wallMs()); // H18
  }

  /** Redis confirmed `lifetimeMs` from `sent` on. Unless `exact`, an end that is later already stays. */
  confirmed(sent: Moment, lifetimeMs: number | null, exact: boolean): Validity {
    const next = new Validity(sent, lifetimeMs);
    const uncertain = this.#uncertain;
    const isClamped = uncertain !== undefined && sent.monoMs <= uncertain.mayExecuteUntilMs;
    if (exact && !isClamped) return next;
    let end = exact ? next.#end : pick(Math.max, next.#end, this.#end);
    if (isClamped) end = pick(Math.min, end, uncertain.end);
    return new Validity(sent, lifetimeMs, end, isClamped ? uncertain : undefined);
  }

  /** An extension to `lifetimeMs`, requested at `asked`, was not answered; it may execute until `mayExecuteUntilMs`. */
  uncertain(asked: Moment, lifetimeMs: number, mayExecuteUntilMs: number): Validity {
    const end = { monoMs: asked.monoMs + lifetimeMs, wallMs: asked.wallMs + lifetimeMs };
    const before = this.#uncertain;
    return new Validity(this.sent, this.lifetimeMs, this.#otherEnd, {
      end: before === undefined ? end : pick(Math.min, before.end, end),
      mayExecuteUntilMs: Math.max(before?.mayExecuteUntilMs ?? 0, mayExecuteUntilMs + clockStepMs),
    });
  }

  get #validMs(): number {
    return this.lifetimeMs === null ? Number.POSITIVE_INFINITY : trustedMs(this.lifetimeMs);
  }

  get #end(): Moment {
    if (this.#otherEnd !== undefined) return this.#otherEnd;
    return { monoMs: this.sent.monoMs + this.#validMs, wallMs: this.sent.wallMs + this.#validMs };
  }
}

let last: Validity | undefined;

/** The validity of a grant. Those that were sent together share one: a held lock should not cost much. */
export function validFrom({ sent, provisionalMs }: Grant, lifetimeMs: number | null): Validity {
  if (provisionalMs !== undefined) return Validity.provisional(sent, provisionalMs);
  if (last?.sent !== sent || last.lifetimeMs !== lifetimeMs) last = new Validity(sent, lifetimeMs);
  return last;
}

function pick(of: (one: number, other: number) => number, one: Moment, other: Moment): Moment {
  return { monoMs: of(one.monoMs, other.monoMs), wallMs: of(one.wallMs, other.wallMs) };
}
