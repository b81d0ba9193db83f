// The keeper of a held lock, made when first needed: the one extension in flight, the renewal, the watch over the end of the
// validity, and the signal that aborts on a loss. No timer here keeps the process alive, and none runs after `stop`.

import { earlier } from '../core/clock';
import { forKey, LockBackendError, type LockLostError, type LossReason } from '../core/errors';
import { describe, type Key } from '../core/keys';
import type { Settings } from '../core/options';
import { setImmediate } from '../core/real-timers';
import { idle } from '../core/timers';
import { type Clock, type HeldMode, type Moment, now, type Store } from '../store/contract';
import { type ObservedLock, tellExtension } from './observation';
import { minMs, Renewal, timerMs } from './renewal';
import type { Member, SharingHolder } from './shared-member';

/** If a deadline is noticed later than this, the process did not run in between. */
const stallMs = 50;
/** The interval at which a watch over a held lock also checks the wall clock. */
const wallCheckMs = 1000;

/** A held lock, as its keeper sees it. */
export interface KeptLock extends ObservedLock, SharingHolder {
  readonly key: Key;
  readonly keys: Key;
  readonly context: ObservedLock['context'] & { readonly settings: Settings; readonly store: Store };
  readonly clock: Clock;
  /** True once the lock was released or is known to be lost. Does not read the clocks. */
  readonly ended: boolean;
  readonly isLost: boolean;
  readonly loss: LockLostError | undefined;
  /** False while a grant by message is not yet confirmed. */
  readonly isConfirmed: boolean;
  /** The mode and fence of an RWLock or a Semaphore; undefined for a mutex. */
  held(): HeldMode | undefined;
  /** The member that this lock shares with other holders. It is extended for all of them together. */
  readonly member: Member | undefined;
  /** Records that Redis confirmed `lifetimeMs` from `sent` on. Unless `exact`, a later end stays. */
  confirm(sent: Moment, lifetimeMs: number | null, exact: boolean): void;
  /** Records that an extension requested at `asked` was not answered, and may still execute until `untilMs`. */
  uncertain(asked: Moment, lifetimeMs: number, untilMs: number): void;
  releaseQuietly(): Promise<unknown>;
}

interface ExtensionPlan {
  readonly lifetimeMs: number | null;
  /** Sets this end even if it is sooner. */
  readonly exact: boolean;
  readonly asked: Moment;
  /** Monotonic ms after which the extension must change nothing. */
  readonly validUntilMs: number;
  readonly commandTimeoutMs: number;
}

export class Keeper {
  readonly #held: KeptLock;
  #extending: Promise<boolean> | undefined;
  /** True if the extension in flight sets an end that was requested by hand. */
  #isExact = false;
  #renewal: Renewal | undefined;
  #watch: NodeJS.Timeout | undefined;
  /** Fires at the end of the validity, unless the lock is released before. */
  #overdue: NodeJS.Timeout | undefined;
  /** Fires when the next attempt to confirm the grant is due. */
  #confirmation: NodeJS.Timeout | undefined;
  #aborter: AbortController | undefined;

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

  /** True if the lock is renewed without end. */
  get isEndless(): boolean {
    return this.#renewal?.isOn === true && this.#renewal.endsMs === Number.POSITIVE_INFINITY;
  }

  /** Aborts when the lock is lost. The timer of the signal starts when the signal is first read. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController();
      if (!this.#held.ended) this.#arm();
      else if (this.#held.isLost) this.#aborter.abort(this.#held.loss);
    }
    return this.#aborter.signal;
  }

  /** Sets the end to `lifetimeMs` from now, even if the present end is later. */
  async extend(lifetimeMs: number | null): Promise<boolean> {
    while (this.#extending !== undefined) await this.#extending.catch(() => {});
    this.#isExact = true;
    return this.#alone(() => this.#extendExactly(lifetimeMs));
  }

  /** Leaves a shared member. Waits for the extension in flight first: its answer would count for the new member. */
  async part(): Promise<void> {
    while (this.#extending !== undefined) await this.#extending.catch(() => {});
    await this.#alone(() => part(this.#held));
  }

  /** Sets the end to the lease's own lifetime from now, unless the end is already later. */
  renew(commandTimeoutMs: number): Promise<boolean> {
    const { lifetimeMs } = this.#held.context.settings;
    const asked = now(this.#held.clock);
    const validUntilMs = asked.monoMs + this.#held.leftMs();
    this.#isExact = false;
    return this.#alone(() => this.#extend({ lifetimeMs, exact: false, asked, validUntilMs, commandTimeoutMs }));
  }

  /**
   * Confirms a grant by message with an extension to the lease's own lifetime, and tries until one is answered. No hand-off goes
   * before that. If the lock is no longer ours, it is lost. Runs at the end of the turn: a lock released before needs no request.
   */
  confirm(): void {
    setImmediate(() => this.#confirmNow());
  }

  #confirmNow(): void {
    if (this.#held.isConfirmed || !this.#held.check()) return;
    const leftMs = this.#held.leftMs();
    const again = (): void => {
      if (this.#held.ended) return;
      this.#confirmation = idle(this.#held.clock.later(() => this.confirm(), Math.max(minMs, leftMs / 20)));
    };
    if (this.isExtending) return again();
    const { commandTimeoutMs } = this.#held.context.settings;
    const halfMs = Math.max(minMs, Math.floor(leftMs / 2));
    this.renew(Math.min(commandTimeoutMs, halfMs)).then(() => this.#reschedule(), again);
  }

  /** Ends the upkeep of a lock that stays in Redis. If its grant is not yet confirmed, one last confirmation is sent. */
  letGo(): void {
    this.released();
    if (this.#held.isConfirmed) return;
    const { keys, token, context, clock } = this.#held;
    const { lifetimeMs, commandTimeoutMs } = context.settings;
    const validUntilMs = clock.nowMs() + this.#held.leftMs();
    const request = { keys, token, lifetimeMs, exact: false, validUntilMs, commandTimeoutMs, begin: () => true };
    context.store.extend(request).catch(() => {});
  }

  /** Renews the lock at a third of its lifetime, until `lease` is collected. */
  startRenewing(lease: object): void {
    const { settings } = this.#held.context;
    if (settings.lifetimeMs === null || this.#renewal !== undefined) return;
    this.#renewal = new Renewal(this, this.#held, lease, settings);
    this.#held.context.store.synchronous?.renewed?.add(this.#held.keys, this.#held);
    this.#arm();
  }

  /**
   * Renews late, on a store where no other process can have taken the lock meanwhile. The renewal counts as if it had come in
   * time; after `maxHold`, as the last one in time. False if there is nothing to renew. True if the lock was renewed or is lost.
   */
  renewLate(): boolean {
    const { keys, token, context, clock } = this.#held;
    const { lifetimeMs, commandTimeoutMs } = context.settings;
    const overMs =
      context.store.synchronous?.renewed && this.#renewal ? this.#renewal.overMs : Number.POSITIVE_INFINITY;
    if (lifetimeMs === null || overMs >= lifetimeMs) return false;
    // The clock is read first, so that time between the two readings counts as late.
    const nowMs = clock.nowMs();
    const endedMs = nowMs + this.#held.leftMs();
    const validUntilMs = nowMs + commandTimeoutMs;
    const request = { keys, token, exact: false, validUntilMs, commandTimeoutMs, held: this.#held.held(), endedMs };
    const renewedMs = Math.ceil(lifetimeMs - overMs);
    const reply = context.store.synchronous!.extend({ ...request, lifetimeMs: renewedMs, begin: () => true });
    if (reply.outcome === 'extended') this.#held.confirm(earlier(reply.sent, overMs), lifetimeMs, false);
    else this.#held.lose(reply.outcome === 'late' ? 'expired' : reply.outcome);
    return true;
  }

  /** Watches for the end of the validity. The watch alone does not change the reason that is given for the end. */
  watch(): void {
    if (this.#watch === undefined) this.#arm();
  }

  /** Calls `tell` if the lifetime ends and the lock was neither released nor detached. */
  whenForgotten(tell: () => void): void {
    const leftMs = this.#held.leftMs();
    if (leftMs === Number.POSITIVE_INFINITY) return;
    const check = (): void => {
      if (this.#held.check()) this.whenForgotten(tell);
      else if (this.#held.loss?.reason === 'expired') tell();
    };
    this.#overdue = idle(this.#held.clock.later(check, timerMs(leftMs)));
  }

  /** Sets the watch again after the end of the validity has changed. */
  moved(): void {
    if (this.#aborter !== undefined || this.#watch !== undefined) this.#arm();
  }

  /** The reason that the validity ended before a release. */
  reasonOfEnd(): LossReason {
    // On such a store a pause of this process does not matter: the renewal had ended.
    if (this.#renewal !== undefined && this.#held.context.store.synchronous?.renewed !== undefined) return 'expired';
    // A timer watched for the end, and yet the end was noticed late: this process did not run.
    const isKept = this.#aborter !== undefined || this.#renewal !== undefined;
    if (isKept && this.#watch !== undefined && -this.#held.leftMs() > stallMs) return 'stalled';
    const renewal = this.#renewal?.isOn ? this.#renewal : undefined;
    if (renewal?.hasFailed || this.isExtending || !this.#held.isConfirmed) return 'unreachable';
    return renewal === undefined ? 'expired' : 'stalled';
  }

  released(): void {
    clearTimeout(this.#overdue);
    this.stop();
  }

  stop(): void {
    clearTimeout(this.#watch); // H16c
    this.#watch = undefined;
    clearTimeout(this.#confirmation);
    if (this.#renewal === undefined) return;
    this.#renewal.stop();
    this.#held.context.store.synchronous?.renewed?.remove(this.#held.keys, this.#held);
  }

  abort(loss: LockLostError): void {
    this.#aborter?.abort(loss);
  }

  /** Runs `work` as the one extension in flight. */
  #alone(work: () => Promise<boolean>): Promise<boolean> {
    const extending = work().finally(() => {
      this.#extending = undefined;
    });
    this.#extending = extending;
    return extending;
  }

  async #extendExactly(lifetimeMs: number | null): Promise<boolean> {
    const held = this.#held;
    // A shared member has a single end, its lifetime after the last extension.
    if (held.member !== undefined && lifetimeMs !== held.context.settings.lifetimeMs) await part(held); // H84h
    if (!held.check()) return false; // H13c
    const { commandTimeoutMs } = held.context.settings;
    const asked = now(this.#held.clock);
    if (lifetimeMs !== null && lifetimeMs < held.leftMs()) {
      // Redis may shorten the lock without our ever hearing of it: the lock counts as held for no longer than that.
      held.confirm(asked, lifetimeMs, true);
      this.#reschedule();
    }
    // An end requested by hand must not be set late, when a renewal may have set another end.
    const validUntilMs = asked.monoMs + Math.min(held.leftMs(), commandTimeoutMs);
    const extended = await this.#extend({ lifetimeMs, exact: true, asked, validUntilMs, commandTimeoutMs });
    if (extended) this.#reschedule();
    return extended;
  }

  async #extend({ asked, ...extension }: ExtensionPlan): Promise<boolean> {
    const { key, keys, token, context } = this.#held;
    const { lifetimeMs, exact, validUntilMs } = extension;
    const begin = (): boolean => this.#held.check(); // H13d
    const request = { ...extension, keys, token, held: this.#held.held(), begin };
    const reply = await (this.#held.member ?? context.store).extend(request).catch((error) => {
      if (exact && lifetimeMs !== null && error.unknown) this.#held.uncertain(asked, lifetimeMs, validUntilMs);
      throw forKey(error, key); // H14b
    });
    // H22b
    if (!this.#held.check()) {
      // The lock was lost or released before the answer came. A key that was extended for a lost lock is released.
      if (reply.outcome === 'extended' && this.#held.isLost) void this.#held.releaseQuietly(); // H13g
      tellExtension(this.#held, false, lifetimeMs);
      return false;
    }
    if (reply.outcome === 'late') {
      throw new LockBackendError(`Redis ran the extension of ${describe(key)} too late`, { key });
    }
    // H45
    if (reply.outcome === 'extended') this.#held.confirm(reply.sent, lifetimeMs, exact);
    else this.#held.lose(reply.outcome); // H59c
    const extended = reply.outcome === 'extended'; // H45b
    tellExtension(this.#held, extended, lifetimeMs);
    return extended;
  }

  #reschedule(): void {
    if (this.#renewal?.isOn) this.#renewal.schedule();
  }

  /** Sets the timer that checks for the end of the validity, and checks the wall clock before that. */
  #arm(): void {
    clearTimeout(this.#watch);
    const leftMs = this.#held.leftMs();
    if (leftMs === Number.POSITIVE_INFINITY) return;
    const check = (): void => {
      if (this.#held.check()) this.#arm();
    };
    this.#watch = idle(this.#held.clock.later(check, timerMs(Math.min(leftMs, wallCheckMs)))); // H18b
  }
}

async function part(held: KeptLock): Promise<boolean> {
  await held.member?.part(held).catch((error) => {
    throw forKey(error, held.key);
  });
  return true;
}
