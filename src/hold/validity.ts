// The validity of a held lock: how long the lock is surely ours by our own clocks. An immutable value.
//
// The lifetime counts from just before the confirmed request was sent, on the monotonic and on the wall clock, less a thousandth. The
// first clock that says "over" is right. An extension that was never answered leaves an uncertain end: while that extension may still
// execute, every later end is clamped to the end it may set.
import { LockBackendError } from '../core/errors';
import { describe, type Key } from '../core/keys';
import type { Clock, Grant, Moment } from '../store/contract';

/** The share of a lifetime that is not trusted: clocks may run at different rates. */
const clockRateShare = 1 / 1000;
/** The difference between two clocks that are read in whole milliseconds. */
const clockStepMs = 2;

/** The end that an extension of unknown outcome may still set, and the time until which it may execute. */
interface UncertainEnd {
  readonly end: Moment;
  readonly mayExecuteUntilMs: number;
}

/** The time for which a lock counts as ours, from just before the confirmed request was sent. */
export function trustedMs(lifetimeMs: number): number {
  return lifetimeMs * (1 - clockRateShare); // B2
}

type ClockFaces = Pick<Clock, 'nowMs' | 'wallMs'>;

/** Ms since a moment, by the clock on which more of them have passed. */
export function msSince({ monoMs, wallMs }: Moment, clocks: ClockFaces): number {
  return Math.max(clocks.nowMs() - monoMs, clocks.wallMs() - wallMs);
}

/** The error of a grant whose reply took as long as the grant lasts; undefined if time is left. */
export function tooLate(
  key: Key,
  sent: Moment,
  lifetimeMs: number | null,
  clocks: ClockFaces,
): LockBackendError | undefined {
  const tookMs = msSince(sent, clocks);
  if (lifetimeMs === null || tookMs < trustedMs(lifetimeMs)) return undefined; // H6b H63
  const message = `the grant of ${describe(key)} took ${tookMs.toFixed(0)} ms, its lifetime is ${lifetimeMs} ms`;
  return new LockBackendError(message, { key });
}

export class Validity {
  /** The moment just before the request that Redis confirmed last was sent. */
  readonly sent: Moment;
  /** The confirmed lifetime. `null`: no end. `undefined`: a grant by message that is not confirmed yet. */
  readonly lifetimeMs: number | null | undefined;
  /** Set if the end is not simply the lifetime after `sent`. */
  readonly #otherEnd: Moment | undefined;
  readonly #uncertain: UncertainEnd | undefined;

  constructor(sent: Moment, lifetimeMs: number | null | undefined, otherEnd?: Moment, uncertain?: UncertainEnd) {
    this.sent = sent;
    this.lifetimeMs = lifetimeMs;
    this.#otherEnd = otherEnd;
    this.#uncertain = uncertain;
  }

  /** The validity of a grant that lasts `lifetimeMs` unless it is confirmed. */
  static provisional({ monoMs, wallMs }: Moment, lifetimeMs: number): Validity {
    const validMs = trustedMs(lifetimeMs);
    return new Validity({ monoMs, wallMs }, undefined, { monoMs: monoMs + validMs, wallMs: wallMs + validMs });
  }

  /** True if no extension of unknown outcome was recorded. */
  get isCertain(): boolean {
    return this.#uncertain === undefined;
  }

  /** True if no extension of unknown outcome can execute any longer at a monotonic time. */
  isCertainBy(monoMs: number): boolean {
    return this.#uncertain === undefined || monoMs > this.#uncertain.mayExecuteUntilMs;
  }

  /** Ms to the end; negative when it is past. */
  leftMs(clock: Clock, nowMs = clock.nowMs()): number {
    const { monoMs, wallMs } = this.#otherEnd ?? this.sent;
    const validMs = this.#otherEnd === undefined ? this.#validMs : 0;
    return Math.min(monoMs + validMs - nowMs, wallMs + validMs - clock.wallMs()); // H18
  }

  /** The validity after Redis confirmed `lifetimeMs` from `sent` on. Unless `exact`, a later end stays. */
  confirmed(sent: Moment, lifetimeMs: number | null, exact: boolean): Validity {
    const next = new Validity(sent, lifetimeMs);
    const uncertain = this.#uncertain;
    const isClamped = uncertain !== undefined && sent.monoMs <= uncertain.mayExecuteUntilMs;
    if (exact && !isClamped) return next;
    let end = exact ? next.#end : pick(Math.max, next.#end, this.#end);
    if (isClamped) end = pick(Math.min, end, uncertain.end);
    return new Validity(sent, lifetimeMs, end, isClamped ? uncertain : undefined);
  }

  /** The validity after an extension requested at `asked` was not answered; it may execute until `mayExecuteUntilMs`. */
  uncertain(asked: Moment, lifetimeMs: number, mayExecuteUntilMs: number): Validity {
    const end = { monoMs: asked.monoMs + lifetimeMs, wallMs: asked.wallMs + lifetimeMs };
    const before = this.#uncertain;
    return new Validity(this.sent, this.lifetimeMs, this.#otherEnd, {
      end: before === undefined ? end : pick(Math.min, before.end, end),
      mayExecuteUntilMs: Math.max(before?.mayExecuteUntilMs ?? 0, mayExecuteUntilMs + clockStepMs),
    });
  }

  get #validMs(): number {
    return typeof this.lifetimeMs === 'number' ? trustedMs(this.lifetimeMs) : Number.POSITIVE_INFINITY;
  }

  get #end(): Moment {
    if (this.#otherEnd !== undefined) return this.#otherEnd;
    return { monoMs: this.sent.monoMs + this.#validMs, wallMs: this.sent.wallMs + this.#validMs };
  }
}

let last: Validity | undefined;

/** The validity of a grant. Grants of one batch share a validity, so that a held lock costs little memory. */
export function validFrom({ sent, provisionalMs }: Grant, lifetimeMs: number | null): Validity {
  if (provisionalMs !== undefined) return Validity.provisional(sent, provisionalMs);
  if (last?.sent !== sent || last.lifetimeMs !== lifetimeMs) last = new Validity(sent, lifetimeMs);
  return last;
}

function pick(of: (one: number, other: number) => number, one: Moment, other: Moment): Moment {
  return { monoMs: of(one.monoMs, other.monoMs), wallMs: of(one.wallMs, other.wallMs) };
}
