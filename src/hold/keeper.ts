// The keeper of a held lock, made when first needed. It decides when the lock is extended (extension.ts): a renewal is due at a
// third of the lifetime, the confirmation of a grant by message after a moment. It watches for the end of the validity, and aborts the
// signal on a loss. One extension is in flight at a time, and one alarm serves everything.
//
// Invariant: nothing here keeps the lease or the process alive. A collected lease can no longer be released, and its renewal ends
// with it. After `stop`, no timer runs.
import { type Alarm, clearAlarm } from '../core/clock';
import type { LockLostError, LossReason } from '../core/errors';
import { warn } from '../core/events';
import { describe } from '../core/keys';
import { setImmediate } from '../core/real-timers';
import { AsyncLocalStorage, weakly } from '../core/runtime';
import { confirmForAdopter, extendExactly, extendLate, extendToLifetime, part } from './extension';
import type { KeptLock } from './kept-lock';
import { eventOf } from './observation';

/** If a deadline is noticed later than this, the process did not run in between. */
const stallMs = 50;
/** The interval at which a watch over a held lock also checks the wall clock. */
const wallCheckMs = 1000;
/** The shortest deadline of one renewal, and the shortest pause after a failed one. */
const minMs = 10;
/** The pause before a grant by message is confirmed. A lock that is released sooner needs no confirmation, a third of its requests. */
const confirmAfterMs = 20;
const never = Number.POSITIVE_INFINITY;

export class Keeper {
  readonly #held: KeptLock;
  #extending: Promise<unknown> | undefined;
  /** True if the latest extension sets an end that was requested by hand. */
  #isExact = false;
  /** The lease for which the lock is renewed, from the start of renewing on. */
  #lease: { deref(): object | undefined } | undefined;
  /** False before renewing begins and once it has ended. */
  #isRenewing = false;
  /** True if the last renewal got no answer. */
  #hasFailed = false;
  /** Monotonic ms at which the next renewal or confirmation is due, and at which renewing ends (`maxHold`). */
  #dueMs = never;
  #renewUntilMs = never;
  #isWatching = false;
  #onForgotten: (() => void) | undefined;
  #alarm: Alarm | undefined;
  #aborter: AbortController | undefined;
  /** Aborts the signal in the async context that first read it. */
  #abort: ((loss: LockLostError) => void) | undefined;

  constructor(held: KeptLock) {
    this.#held = held;
  }

  get isExtending(): boolean {
    return this.#extending !== undefined;
  }

  /** True while an extension that may also shorten is under way. */
  get extendsExactly(): boolean {
    return this.isExtending && this.#isExact;
  }

  get isEndless(): boolean {
    return this.#isRenewing && this.#renewUntilMs === never;
  }

  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      const aborter = new AbortController();
      this.#aborter = aborter;
      // A loss may be noticed by a timer that another caller has set.
      this.#abort = AsyncLocalStorage.bind((loss) => aborter.abort(loss)); // H70d
      if (!this.#held.ended) this.watch();
      else if (this.#held.isLost) aborter.abort(this.#held.loss);
    }
    return this.#aborter.signal;
  }

  async extend(lifetimeMs: number | null): Promise<boolean> {
    while (this.#extending !== undefined) await this.#extending.catch(() => {});
    return this.#alone(true, () => extendExactly(this.#held, lifetimeMs));
  }

  /** Leaves a shared member. Waits for the extension in flight first: its answer would count for the new member. */
  async part(): Promise<void> {
    while (this.#extending !== undefined) await this.#extending.catch(() => {});
    await this.#alone(false, () => part(this.#held));
  }

  renew(commandTimeoutMs: number): Promise<boolean> {
    return this.#alone(false, () => extendToLifetime(this.#held, commandTimeoutMs));
  }

  /** Confirms a grant by message with a renewal after a moment, and tries until one is answered. */
  confirmSoon(): void {
    this.#schedule(Math.min(confirmAfterMs, this.#held.leftMs() / 4));
  }

  /** Confirms a grant by message at the end of the turn. A lock that is released before needs no request. */
  confirmNow(): void {
    this.#dueMs = never;
    setImmediate(() => this.#renewNow());
  }

  /** Renews the lock at a third of its lifetime, until `lease` is collected. */
  startRenewing(lease: object): void {
    const { context, clock, keys } = this.#held;
    const { lifetimeMs, maxHoldMs } = context.settings;
    if (lifetimeMs === null || this.#lease !== undefined) return;
    this.#lease = weakly(lease);
    this.#isRenewing = true;
    this.#renewUntilMs = clock.nowMs() + maxHoldMs;
    context.store.synchronous?.renewed?.add(keys, this.#held);
    this.#isWatching = true;
    this.moved();
  }

  /**
   * Renews late, on a store where no other process can have taken the lock meanwhile. False if there is nothing to renew. True if
   * the lock was renewed or is lost.
   */
  renewLate(): boolean {
    const { settings, store } = this.#held.context;
    if (store.synchronous?.renewed === undefined || !this.#isRenewing || this.#lease!.deref() === undefined)
      return false;
    const overMs = Math.max(this.#held.clock.nowMs() - this.#renewUntilMs, 0);
    if (overMs >= settings.lifetimeMs!) return false;
    extendLate(this.#held, settings.lifetimeMs!, overMs);
    return true;
  }

  /** Watches for the end of the validity. Does not change the reason that is given for the end. */
  watch(): void {
    this.#isWatching = true;
    this.#arm();
  }

  /** Calls `tell` if the lifetime ends and the lock was neither released nor detached. */
  whenForgotten(tell: () => void): void {
    this.#onForgotten = tell;
    this.watch();
  }

  /** The end of the validity has changed. */
  moved(): void {
    if (this.#isRenewing && this.#held.isConfirmed) this.#schedule(this.#pauseMs());
    else this.#arm();
  }

  reasonOfEnd(): LossReason {
    const isRenewed = this.#lease !== undefined;
    // On such a store a pause of this process does not matter: the renewal had ended.
    if (isRenewed && this.#held.context.store.synchronous?.renewed !== undefined) return 'expired';
    // Once renewing has ended (`maxHold`), a late notice does not matter either.
    const isWatched = isRenewed ? this.#isRenewing : this.#aborter !== undefined; // H21b
    // A timer watched for the end, and yet the end was noticed late: this process did not run.
    if (isWatched && -this.#held.leftMs() > stallMs) return 'stalled';
    const hasFailed = this.#isRenewing && this.#hasFailed;
    if (hasFailed || this.isExtending || !this.#held.isConfirmed) return 'unreachable';
    return this.#isRenewing ? 'stalled' : 'expired';
  }

  /** Stops keeping a lock that stays in Redis. A grant that is not yet confirmed is confirmed once. */
  letGo(): void {
    this.stop();
    if (!this.#held.isConfirmed) confirmForAdopter(this.#held);
  }

  lost(loss: LockLostError): void {
    this.#abort?.(loss);
    // A release in this turn stops the timer: a lock that is released late was not forgotten.
    if (loss.reason !== 'expired' || this.#onForgotten === undefined) return;
    this.#alarm = this.#held.clock.setIdleAlarm(this.#onForgotten, 0);
  }

  stop(): void {
    clearAlarm(this.#alarm); // H16b
    if (this.#lease === undefined) return;
    this.#isRenewing = false;
    this.#held.context.store.synchronous?.renewed?.remove(this.#held.keys, this.#held);
  }

  /** Renews or confirms the lock, unless that is over. */
  #renewNow(): void {
    const held = this.#held;
    if (!held.check()) return;
    if (held.clock.nowMs() >= this.#renewUntilMs || this.#lease?.deref() === undefined) this.#isRenewing = false; // H21
    if (held.isConfirmed && !this.#isRenewing) return;
    if (this.isExtending) return this.#schedule(minMs);
    // Half of the time left, so that a renewal that is never answered leaves time for another one.
    const halfMs = Math.max(minMs, Math.floor(held.leftMs() / 2));
    const { commandTimeoutMs } = held.context.settings;
    // H17
    this.renew(Math.min(commandTimeoutMs, halfMs)).then(
      () => {
        this.#hasFailed = false;
      },
      (error) => this.#onFailure(error), // H20b
    );
  }

  /** The pause before the next renewal: until two thirds of the lifetime are left. */
  #pauseMs(): number {
    const leftMs = this.#held.leftMs();
    const spareMs = leftMs - (this.#held.context.settings.lifetimeMs! * 2) / 3; // H15
    // If less than two thirds is left, the lock was shortened by hand, or its end is uncertain.
    return spareMs > 0 ? spareMs : leftMs / 3; // H15b
  }

  #onFailure(error: unknown): void {
    const held = this.#held;
    const leftMs = held.leftMs();
    if (!held.isConfirmed) return this.#schedule(Math.max(leftMs / 20, minMs));
    this.#hasFailed = true;
    const message = `${describe(held.key)} could not be renewed; it is being tried again`;
    warn({ ...eventOf(held), code: 'renewal-failed', message, error });
    // Less may be left than a twentieth of the lifetime, because it was shortened by hand or its end is uncertain.
    const pauseMs = Math.min(held.context.settings.lifetimeMs! / 20, leftMs / 4);
    this.#schedule(Math.max(pauseMs, minMs)); // H14
  }

  #schedule(pauseMs: number): void {
    const { clock, context, isConfirmed } = this.#held;
    const nowMs = clock.nowMs();
    this.#dueMs = isConfirmed ? onGrid(nowMs, pauseMs, context.settings.lifetimeMs!) : nowMs + pauseMs;
    this.#arm();
  }

  /** Runs `work` as the one extension in flight. */
  #alone<T>(isExact: boolean, work: () => Promise<T>): Promise<T> {
    this.#isExact = isExact;
    const extending = work().finally(() => {
      this.#extending = undefined;
    });
    this.#extending = extending;
    return extending;
  }

  /** Sets the timer for what is due next: a renewal, the end of the validity, or a check of the wall clock before that. */
  #arm(): void {
    clearAlarm(this.#alarm);
    if (this.#held.ended) return; // H16c
    const leftMs = this.#held.leftMs();
    const isWatched = this.#isWatching && leftMs !== never;
    const watchMs = isWatched ? Math.min(leftMs, wallCheckMs) : never; // H18b
    const waitMs = Math.min(watchMs, this.#dueMs - this.#held.clock.nowMs());
    // The clocks of many locks are checked together, up to 50 ms early.
    const slackMs = waitMs === wallCheckMs ? 50 : 0;
    this.#alarm = this.#held.clock.setIdleAlarm(() => this.#onTimer(), waitMs, slackMs);
  }

  #onTimer(): void {
    if (!this.#held.check()) return;
    const isDue = this.#dueMs - this.#held.clock.nowMs() < 1;
    if (isDue) this.#dueMs = never;
    this.#arm();
    if (isDue) this.#renewNow();
  }
}

/** The monotonic ms at which a renewal is due after a pause. Renewals of many locks share a tick, and so one command. */
function onGrid(nowMs: number, pauseMs: number, lifetimeMs: number): number {
  const gridMs = Math.max(1, Math.floor(lifetimeMs / 30));
  const dueMs = Math.floor((nowMs + pauseMs) / gridMs) * gridMs;
  // A pause that is shorter than a step of the grid must not become 0.
  return Math.max(dueMs, nowMs + Math.max(pauseMs / 2, 1)); // H15c
}
