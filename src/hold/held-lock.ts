// A held lock, from its grant to its end. It ends once: as *released*, from our call on, since the answer may never come; or as
// *lost*. A lost lock stays lost: if a late answer says otherwise, the key is released. A release goes to the source of the
// grant, such as a queue. All timers of a held lock end with the lock.

import { forKey, LockLostError, type LossReason } from '../core/errors';
import { warn } from '../core/events';
import { describe, type Key, listOf } from '../core/keys';
import type { Linked } from '../core/linked-list';
import {
  type Clock,
  type GrantSource,
  type HeldMode,
  type Mode,
  type Moment,
  type ReleaseReply,
  type ReleaseRequest,
  type Slot,
  type Store,
  unknownTicket,
} from '../store/contract';
import { LateRequest } from '../store/late-request';
import { Keeper } from './keeper';
import type { Granted, KeptLock, LockSpec, Member, Observation } from './kept-lock';
import { eventOf, observe, tellChanged, tellEnd, tellLost, tellRelease } from './observation';
import { type Validity, validFrom } from './validity';

/** The common part of held locks on the same terms, which is shared so that a held lock costs little memory. */
export interface LeaseContext extends Pick<LockSpec, 'kind' | 'settings' | 'store'> {
  /** The queue or the waiters that a release goes to, unless the lock has a member; undefined if it goes to the store. */
  readonly source: GrantSource | undefined;
  /** Called when the lock was lost, or its release answered. May be called more than once. */
  readonly onEnd: (held: HeldLock) => void;
}

class HoldEnd {
  how: 'released' | 'lost';
  loss: LockLostError | undefined;
  releasing: Promise<boolean> | undefined;
  /** A release was sent and got no answer. A missing key is then no loss. */
  isUncertain = false;
  /** Monotonic ms at which the lock was held, by the check before our release. */
  readonly checkedMs: number | undefined;

  constructor(how: 'released' | 'lost', releasing?: Promise<boolean>, checkedMs?: number) {
    this.how = how;
    this.releasing = releasing;
    this.checkedMs = checkedMs;
  }
}

/** @internal */
export class HeldLock implements KeptLock, Linked<HeldLock> {
  before: HeldLock | undefined;
  after: HeldLock | undefined;
  /** Changes when this lock leaves a shared member. */
  token: string;
  /** Changes with a change in place. */
  fence: number;
  readonly keys: Key;
  readonly context: LeaseContext;
  readonly retries: number;
  // Declared only: few locks have these properties, and a plain lock costs little memory.
  /** The keys as they were given, if they were given as a list. */
  declare readonly listed: readonly string[] | undefined;
  declare mode: Mode | undefined;
  declare member: Member | undefined;
  declare observation: Observation | undefined;
  /** An attempt with our token whose outcome is unknown. */
  declare readonly late: LateRequest | undefined;
  /** The slot whose job is done, for the release to record. */
  declare done: Slot | undefined;
  validity: Validity;
  #keeper: Keeper | undefined;
  #ending: HoldEnd | undefined;

  constructor(grant: Granted, spec: Pick<LockSpec, 'key' | 'keys' | 'mode'>, context: LeaseContext, retries: number) {
    const { late, member, mode = spec.mode } = grant;
    const { key, keys } = spec;
    this.token = grant.token;
    this.fence = grant.fence;
    this.keys = keys;
    this.context = context;
    this.retries = retries;
    this.validity = validFrom(grant, context.settings.lifetimeMs);
    if (typeof key !== 'string') this.listed = key;
    if (mode !== undefined) this.mode = mode;
    if (member !== undefined) this.member = member;
    if (late !== undefined) this.late = late;
    if (!this.isConfirmed) this.keeper.confirmSoon();
  }

  /** The key as it was given. */
  get key(): Key {
    const { store, settings } = this.context;
    return this.listed ?? (this.keys as string).slice(store.keyPrefix.length + settings.prefix.length);
  }

  /** The token that names this holder in the store. Readers that share a member have one token there. */
  get storedToken(): string {
    return (this.member ?? this).token;
  }

  get clock(): Clock {
    return this.context.store.clock;
  }

  get ended(): boolean {
    return this.#ending !== undefined;
  }

  /** Undefined while held and after our own release. */
  get loss(): LockLostError | undefined {
    this.check();
    return this.#ending?.loss;
  }

  get isConfirmed(): boolean {
    return this.validity.lifetimeMs !== undefined;
  }

  /** True if the lock stays held for as long as its holder lives. */
  get isEndless(): boolean {
    return this.check() && (this.#keeper?.isEndless === true || this.validity.lifetimeMs === null);
  }

  /** True while an extension that was requested by hand may still take effect. */
  get mayShorten(): boolean {
    return this.#keeper?.extendsExactly === true || !this.validity.isCertainBy(this.clock.nowMs());
  }

  get isLost(): boolean {
    return this.#ending?.how === 'lost';
  }

  get signal(): AbortSignal {
    this.check(); // H18d
    return this.keeper.signal;
  }

  /** Notifies observers that a caller holds the lock. If they follow holds, also watches for its end. */
  begin(): void {
    const observation = observe(this);
    if (observation === undefined) return;
    this.observation = observation;
    if (observation.hold !== undefined) this.keeper.watch();
  }

  held(): HeldMode | undefined {
    const { mode, member = this } = this;
    return mode && { mode, fence: member.fence };
  }

  check(nowMs?: number): boolean {
    const isOver = this.#ending === undefined && this.leftMs(nowMs) <= 0; // H14c
    if (isOver && !this.#keeper?.renewLate()) this.lose(this.#keeper?.reasonOfEnd() ?? 'expired');
    return this.#ending === undefined;
  }

  leftMs(nowMs?: number): number {
    return this.validity.leftMs(this.clock, nowMs);
  }

  remaining(): number {
    if (this.#ending !== undefined) return 0;
    if (this.leftMs() <= 0) this.#keeper?.renewLate();
    return Math.max(0, this.leftMs());
  }

  confirmed(): Moment | undefined {
    const { sent, isCertain, lifetimeMs } = this.validity;
    const isSure = isCertain && !this.#keeper?.isExtending && !this.#mayExecute(); // H83e
    return isSure && lifetimeMs === this.context.settings.lifetimeMs && !this.isLost ? sent : undefined; // H83f
  }

  confirmNow(): void {
    if (!this.isConfirmed) this.keeper.confirmNow();
  }

  confirm(sent: Moment, lifetimeMs: number | null, exact: boolean): void {
    this.validity = this.validity.confirmed(sent, lifetimeMs, exact);
    this.#keeper?.moved();
  }

  parted(token: string, fence: number, sent: Moment): void {
    Object.assign(this, { token, fence, member: undefined });
    this.confirm(sent, this.context.settings.lifetimeMs, false);
  }

  /** Notes a change in place that was made, or that was given up although Redis may still make it. */
  changed(mode: Mode, fence: number): void {
    this.mode = mode;
    this.fence = fence;
    tellChanged(this);
  }

  lose(reason: LossReason): void {
    this.#ending = new HoldEnd('lost');
    this.#keeper?.stop();
    this.context.onEnd(this);
    (this.member ?? this.context.source)?.lost(this);
    noteLoss(this, this.#ending, reason);
    this.#keeper?.lost(this.#ending.loss!);
  }

  release(): Promise<boolean> {
    if (this.#ending?.releasing !== undefined) return this.#ending.releasing; // H22
    const nowMs = this.clock.nowMs();
    this.check(nowMs);
    this.#ending ??= new HoldEnd('released', undefined, nowMs);
    this.#keeper?.stop();
    const reply = sendRelease(this);
    const releasing = typeof reply === 'string' ? Promise.resolve(this.#released(reply)) : this.#whenReleased(reply);
    this.#ending.releasing = releasing;
    return releasing;
  }

  /** Ends the lock in this process only. The key stays in Redis for its lifetime. */
  letGo(): void {
    this.#keeper?.letGo();
    this.#ending = new HoldEnd('released', Promise.resolve(false));
    this.context.onEnd(this);
    this.context.source?.lost(this);
    tellEnd(this, 'detached');
  }

  /** Releases the lock and publishes a failure as a warning. The store then tries again, because no caller can. */
  async releaseQuietly(): Promise<boolean | undefined> {
    try {
      return await this.release();
    } catch (error) {
      const message = `${describe(this.key)} could not be released; it is being tried again`;
      warn({ ...eventOf(this), code: 'release-failed', message, error });
      this.#abandon(new LateRequest(this.clock.nowMs(), this.context.settings.commandTimeoutMs)); // H24d
      return undefined;
    }
  }

  /** After a change in place, the release also removes a queue entry that the change may have left. */
  releaseRequest(ticket = this.mode !== undefined && this.mode.step > 0 ? unknownTicket : 0): ReleaseRequest {
    const { commandTimeoutMs, retryTimeoutMs } = this.context.settings;
    const { keys, done, storedToken: token } = this;
    const isConfirmed = ticket === 0 && !this.#mayExecute();
    const checkedMs = this.#ending?.checkedMs;
    const pauseMs = yieldMs(retryTimeoutMs);
    return { keys, token, commandTimeoutMs, ticket, isConfirmed, yieldMs: pauseMs, held: this.held(), done, checkedMs };
  }

  get keeper(): Keeper {
    this.#keeper ??= new Keeper(this);
    return this.#keeper;
  }

  #whenReleased(reply: Promise<ReleaseReply>): Promise<boolean> {
    const releasing = reply.then(
      (result) => {
        // The late attempt would take the key that we have just freed.
        if (this.#mayExecute()) this.#abandon(this.late!);
        return this.#released(result);
      },
      (error) => {
        if (error.unknown) this.#ending!.isUncertain = true;
        // The promise counts as handled. A caller that awaits it still sees the error.
        releasing.catch(() => {}); // H20
        this.#ending!.releasing = undefined; // H24c
        this.context.onEnd(this);
        tellEnd(this, 'released');
        throw forKey(error, this.key); // H55i
      },
    );
    return releasing;
  }

  #released(reply: ReleaseReply): boolean {
    const released = reply === 'released';
    const ending = this.#ending!;
    if (!released && ending.loss === undefined && !ending.isUncertain) noteLoss(this, ending, reply); // H23
    this.context.onEnd(this);
    tellRelease(this, released);
    return released;
  }

  #abandon(late: LateRequest): void {
    void this.context.store.abandon(this.releaseRequest(unknownTicket), late);
  }

  /** True while an attempt with our token whose reply was lost may still execute. */
  #mayExecute(): boolean {
    return this.late?.mayExecute(this.clock.nowMs()) === true;
  }
}

/** The yield window of a lock: one pause of the callers outside its queue. */
export function yieldMs(retryTimeoutMs: number): number {
  return Math.max(1, Math.ceil(retryTimeoutMs));
}

/** Releases a lock to the source of its grant. Never throws; the reply is known at once if the store is in this process. */
function sendRelease(held: HeldLock): ReleaseReply | Promise<ReleaseReply> {
  const { source, store } = held.context;
  const origin = held.member ?? source;
  if (origin !== undefined) return origin.release(held);
  const request = held.releaseRequest();
  if (store.synchronous === undefined) return store.release(request); // S19
  try {
    return store.synchronous.release(request);
  } catch (error) {
    return Promise.reject(error);
  }
}

function noteLoss(held: HeldLock, ending: HoldEnd, reason: LossReason): void {
  const { key } = held;
  const message = `${describe(key)} may belong to somebody else now (${reason})`;
  ending.loss = new LockLostError(message, { key, reason });
  tellLost(held, reason);
}

/** True if a mutex of these keys may join `held`. */
export function mayJoin(held: HeldLock, keys: Key, store: Store): boolean {
  const ours = listOf(held.keys);
  return (
    held.mode === undefined &&
    store === held.context.store &&
    listOf(keys).every((key) => ours.includes(key)) &&
    held.check()
  );
}

/** True if `held` keeps these keys from being acquired in this mode. */
export function excludes(held: HeldLock, store: Store, keys: Key, mode: Mode | undefined): boolean {
  const wanted = listOf(keys);
  if (store !== held.context.store || !listOf(held.keys).some((key) => wanted.includes(key))) return false;
  const ours = held.mode;
  if (ours === undefined || mode === undefined) return true;
  if (mode.kind === 'counted') return ours.permits + mode.permits > mode.total;
  return ours.kind !== 'shared' || mode.kind !== 'shared' || ours.group !== mode.group;
}
