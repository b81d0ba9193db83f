// What you hold: its validity, its renewal, its loss, its release.
//
// A hold is *held* until it ends, once: *given back* (by us, from the moment the release is asked for: its answer may never
// come) or *lost*. Validity counts from before the send of what Redis
// confirmed, on the monotonic and on the wall clock, less a thousandth for clocks that run at different rates; the first
// clock that says "over" is right. What is lost stays lost, even when a late answer says otherwise. One extension is in
// flight at a time. Timers of a hold keep no process alive, and all of them are undone when it ends.
import {
  forKey,
  LockBackendError,
  LockLostError,
  type LossReason,
  NotAcquiredLockError,
  unknownOptionError,
} from './errors';
import { emitLost, emitRelease, warn } from './events';
import type { Key } from './keys';
import { checkValue, lifetimeRule, longestTimerMs, type Settings } from './options';
import { nextTick } from './real-timers';
import type { Scope } from './scope';
import {
  type Held,
  type Mode,
  type Moment,
  now,
  type ReleaseReply,
  type ReleaseRequest,
  restMs,
  type Store,
  trustedMs,
} from './store';
import { describe, listOf } from './stores/replies';
import type { Line } from './wait/queue';

/** What `done` and `release` are: a function that gives the lock back, and what there is to know of it. */
export interface Lease {
  /** Gives the lock back; the callback hears `(err, released)` once, on a fresh stack. Same release as below. */
  (callback: (err: Error | null, released?: boolean) => void): void;
  /** Gives the lock back. Same release as below. */
  (): Promise<boolean>;
  /**
   * Gives the lock back: one script call however often it is asked, and one answer to all.
   *
   * Resolves to true when it was still ours, false when it no longer was (nobody else's key is touched).
   * Its promise counts as handled; who awaits it still sees the error.
   *
   * @throws {LockBackendError} no answer. May be tried again; at worst `lifetime` frees the key.
   */
  release(): Promise<boolean>;
  /** The key as it was given. */
  readonly key: Key;
  /** The same as a list. */
  readonly keys: readonly string[];
  /** What Redis holds for us. A secret: whoever knows it can release the lock. Not enumerable. */
  readonly token: string;
  /** The fencing token: larger with each grant of the key. Hand it to what you write to. 0 with `fencing: false`. */
  readonly fence: number;
  /** Further attempts that it took after the first. */
  readonly retries: number;
  /**
   * Aborts with a LockLostError when the lock may be lost, no later than the end of its validity, event loop permitting.
   * Not by our own release. Made, with its timer, when first read.
   */
  readonly signal: AbortSignal;
  /** Ms for which the lock is surely ours, by our own clocks; 0 once released or lost, Infinity with `lifetime: null`. */
  remaining(): number;
  /**
   * Sets the end to `lifetime` ms from now (default: the lease's own lifetime; integer ≥ 1).
   *
   * Resolves to true when extended, false when no longer ours (then it is lost).
   *
   * @throws {RangeError | TypeError} `ERR_LOCK_OPTION` for an impossible lifetime. Still held.
   * @throws {LockBackendError} no answer. Still held until the validity that it had.
   */
  extend(lifetime?: number): Promise<boolean>;
  /**
   * Forgets the lock here without releasing it, so that `withLock.adopt` can take it over elsewhere. Renewal stops; Redis keeps
   * the key until the lifetime that it has. Afterwards this lease is done: `release()` and `extend()` resolve to false and send
   * nothing, `remaining()` is 0, `signal` does not abort. Of a mutex, or several keys.
   *
   * @throws {NotAcquiredLockError} it was released, detached or lost (the loss is its `cause`).
   * @throws {LockBackendError} an `extend` of this lease has no answer yet, and could still shorten what the adopter believes.
   *         Still held; try again once that is answered.
   * @throws {TypeError} `ERR_LOCK_OPTION`: a lease of an RWLock or a Semaphore. Still held.
   */
  detach(): DetachedLease;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What `lease.detach()` gives and `withLock.adopt()` takes: plain JSON. Its token is a secret: whoever has it has the lock. */
export interface DetachedLease {
  /** The key as it was given, without the prefix. */
  key: Key;
  token: string;
  fence: number;
  /** Ms of the epoch, by the clock of the process that detached it, at which its lifetime ends. 2 ** 53 − 1: it has no end. */
  until: number;
}

/** @internal What all holds of one kind have in common. One object for many: a held lock should not cost much. */
export interface Ground {
  readonly settings: Settings;
  readonly store: Store;
  readonly scope: Scope;
  /** The line of this process that they were granted in, and in which they may be passed on. */
  readonly line: Line | undefined;
}

/** @internal */
export interface HoldDetails {
  readonly key: Key;
  readonly keys: Key;
  readonly token: string;
  readonly fence: number;
  readonly retries: number;
  readonly ground: Ground;
  readonly ghostUntilMs: number;
  /** Of a key that several may hold. */
  readonly mode?: Mode | undefined;
}

/** Two clocks are read in whole milliseconds: what one calls over may run this much later by the other. */
const clockStepMs = 2;
/** A deadline noticed later than this was not noticed in time because the process did not run. */
const stallMs = 50;
/** The wall clock is looked at this often where a timer watches over a hold. */
const wallLookMs = 1000;
/** The shortest deadline of one renewal, and the shortest pause after a failed one. */
const shortestRenewalMs = 10;

const never: Moment = { monoMs: 0, wallMs: 0 };

interface Renewal {
  /** The lease that is renewed: once nobody keeps it, nobody can release it, and renewing ends. */
  readonly lease: WeakRef<Lease>;
  readonly endsMs: number;
  timer: NodeJS.Timeout | undefined;
  failed: boolean;
}

/** An explicit extension of unknown outcome: the end that it may still set, and until when it may run. */
interface Doubt {
  readonly end: Moment;
  readonly untilMs: number;
}

class Rare {
  /** The key as it was given, where it was given as a list. */
  key: Key | undefined;
  retries = 0;
  ghostUntilMs = 0;
  ended: 'given back' | 'lost' | undefined;
  /** The lifetime that Redis last confirmed, where it is another than was asked for at first. */
  lifetimeMs: number | null | undefined;
  /** The end of the validity, where it is not simply the lifetime after what was confirmed. */
  otherEnd: Moment | undefined;
  /** How it is held, where several may hold the key. */
  mode: Mode | undefined;
  doubt: Doubt | undefined;
  /** A release went out whose answer we never got: that the key is gone is then no news. */
  releaseUnsure = false;
  releasing: Promise<boolean> | undefined;
  extending: Promise<boolean> | undefined;
  /** Whether that extension may also shorten. */
  extendsExactly = false;
  renewal: Renewal | undefined;
  watch: NodeJS.Timeout | undefined;
  aborter: AbortController | undefined;
  loss: LockLostError | undefined;
}

/** @internal */
export class Hold {
  readonly token: string;
  /** Another one after a change in place. */
  fence: number;
  readonly #keys: Key;
  readonly #ground: Ground;
  /** Before what Redis last confirmed was sent. */
  #confirmed = never;
  /** What few holds need before they end. */
  #rare: Rare | undefined;

  constructor(details: HoldDetails) {
    this.token = details.token;
    this.fence = details.fence;
    this.#keys = details.keys;
    this.#ground = details.ground;
    if (typeof details.key !== 'string') this.#more.key = details.key;
    if (details.retries > 0) this.#more.retries = details.retries;
    if (details.ghostUntilMs > 0) this.#more.ghostUntilMs = details.ghostUntilMs;
    if (details.mode !== undefined) this.#more.mode = details.mode;
  }

  /** The key as it was given. */
  get key(): Key {
    const { store, settings } = this.#ground;
    return this.#rare?.key ?? (this.#keys as string).slice(store.keyPrefix.length + settings.prefix.length);
  }

  get retries(): number {
    return this.#rare?.retries ?? 0;
  }

  /** How it is held, where several may hold the key. */
  get mode(): Mode | undefined {
    return this.#rare?.mode;
  }

  /** What a change in place is asked with. */
  get details(): Pick<HoldDetails, 'key' | 'keys'> & Ground {
    return { key: this.key, keys: this.#keys, ...this.#ground };
  }

  /** Redis changed how it is held; or a change was given up that it may have made, or may still make. */
  changed(mode: Mode, fence: number): void {
    this.#more.mode = mode;
    this.fence = fence;
  }

  /** Redis says that it is no holder any more. */
  gone(): void {
    if (this.check()) this.#lose('missing');
  }

  /** Whether it is held for as long as its holder lives. */
  get isEndless(): boolean {
    return this.check() && (this.#rare?.renewal?.endsMs === Number.POSITIVE_INFINITY || this.#lifetimeMs === null);
  }

  /** Whether these keys cannot be had, in this mode, while this hold lasts. */
  excludes(store: Store, keys: Key, mode: Mode | undefined): boolean {
    const wanted = listOf(keys);
    if (store !== this.#ground.store || !listOf(this.#keys).some((key) => wanted.includes(key))) return false;
    const ours = this.mode;
    if (ours === undefined || mode === undefined) return true;
    if (mode.kind === 'counted') return ours.permits + mode.permits > mode.most;
    return ours.kind !== 'shared' || mode.kind !== 'shared' || ours.group !== mode.group;
  }

  /** Whether it was given back or is known to be lost; the clocks are not looked at. */
  get ended(): boolean {
    return this.#rare?.ended !== undefined;
  }

  /** What made it lost; undefined while held and after our own release. */
  get loss(): LockLostError | undefined {
    this.check();
    return this.#rare?.loss;
  }

  get signal(): AbortSignal {
    this.check();
    if (this.#rare?.aborter === undefined) {
      this.#more.aborter = new AbortController();
      if (this.#rare?.ended === undefined) this.#armWatch();
      if (this.#rare?.ended === 'lost') this.#more.aborter.abort(this.#rare?.loss);
    }
    return this.#more.aborter!.signal;
  }

  remaining(): number {
    return this.#rare?.ended === undefined ? Math.max(0, this.leftMs()) : 0;
  }

  /** Redis confirmed `lifetimeMs` from `sent` on. Unless `exact`, an end that is later already stays. */
  believe(sent: Moment, lifetimeMs: number | null, exact: boolean): void {
    const before = exact ? undefined : this.#end;
    if (lifetimeMs !== this.#lifetimeMs) this.#more.lifetimeMs = lifetimeMs;
    this.#confirmed = sent;
    if (this.#rare?.otherEnd !== undefined) this.#rare.otherEnd = undefined;
    if (before !== undefined) this.#more.otherEnd = later(this.#end, before);
    if (this.#rare?.doubt !== undefined) this.#mind(this.#rare.doubt, sent);
    if (this.#rare?.aborter !== undefined || this.#rare?.watch !== undefined) this.#armWatch();
  }

  /**
   * When Redis last confirmed the lifetime that was asked for at first; undefined where it is lost, where it may be another
   * by now, or where more is on its way to Redis. The clocks are not looked at: a release has just done so.
   */
  confirmed(): Moment | undefined {
    const isSure = this.#rare?.doubt === undefined && this.#rare?.extending === undefined && !this.#isHaunted();
    const isSame = this.#lifetimeMs === this.#ground.settings.lifetimeMs;
    return isSure && isSame && this.#rare?.ended !== 'lost' ? this.#confirmed : undefined;
  }

  /** An attempt of ours whose reply was lost may still run. */
  #isHaunted(): boolean {
    return this.#rare !== undefined && this.#rare.ghostUntilMs > 0 && this.#rare.ghostUntilMs > performance.now();
  }

  get #lifetimeMs(): number | null {
    const confirmedMs = this.#rare?.lifetimeMs;
    return confirmedMs === undefined ? this.#ground.settings.lifetimeMs : confirmedMs;
  }

  get #validMs(): number {
    const lifetimeMs = this.#lifetimeMs;
    return lifetimeMs === null ? Number.POSITIVE_INFINITY : trustedMs(lifetimeMs);
  }

  get #end(): Moment {
    if (this.#rare?.otherEnd !== undefined) return this.#rare.otherEnd;
    const { monoMs, wallMs } = this.#confirmed;
    return { monoMs: monoMs + this.#validMs, wallMs: wallMs + this.#validMs };
  }

  get #more(): Rare {
    this.#rare ??= new Rare();
    return this.#rare;
  }

  #doubtEnd(asked: Moment, lifetimeMs: number, untilMs: number): void {
    const before = this.#rare?.doubt ?? { end: { monoMs: Infinity, wallMs: Infinity }, untilMs: 0 };
    this.#more.doubt = {
      end: {
        monoMs: Math.min(before.end.monoMs, asked.monoMs + lifetimeMs),
        wallMs: Math.min(before.end.wallMs, asked.wallMs + lifetimeMs),
      },
      untilMs: Math.max(before.untilMs, untilMs + clockStepMs),
    };
  }

  /** An extension that was never answered may still set its own end: until it cannot any more, no later end is believed. */
  #mind(doubt: Doubt, sent: Moment): void {
    if (sent.monoMs > doubt.untilMs) {
      this.#more.doubt = undefined;
      return;
    }
    const { monoMs, wallMs } = this.#end;
    this.#more.otherEnd = { monoMs: Math.min(monoMs, doubt.end.monoMs), wallMs: Math.min(wallMs, doubt.end.wallMs) };
  }

  /** Notices the end of the validity. True while it is ours. */
  check(): boolean {
    if (this.#rare?.ended === undefined && this.leftMs() <= 0) this.#lose(this.#reasonOfEnd());
    return this.#rare?.ended === undefined;
  }

  release(): Promise<boolean> {
    if (this.#rare?.releasing === undefined) {
      this.check();
      this.#more.ended ??= 'given back';
      this.#stopTimers();
      const reply = this.#ground.line?.passOn(this) ? 'released' : this.#giveBackNow();
      this.#more.releasing = reply === undefined ? this.#release() : Promise.resolve(this.#released(reply));
    }
    return this.#rare!.releasing!;
  }

  async extend(lifetimeMs?: number): Promise<boolean> {
    if (lifetimeMs !== undefined) checkValue('lifetime', lifetimeRule, lifetimeMs);
    while (this.#rare?.extending !== undefined) await this.#rare.extending.catch(() => {});
    const wantedMs = lifetimeMs ?? this.#ground.settings.lifetimeMs;
    const { commandTimeoutMs } = this.#ground.settings;
    return this.#alone(() => this.#extend(wantedMs, true, commandTimeoutMs));
  }

  /** Renews for as long as `lease` is kept, at a third of its lifetime. */
  startRenewing(lease: Lease): void {
    if (this.#ground.settings.lifetimeMs === null || this.#rare?.renewal !== undefined) return;
    const endsMs = performance.now() + this.#ground.settings.maxHoldMs;
    this.#more.renewal = { lease: new WeakRef(lease), endsMs, timer: undefined, failed: false };
    this.#armRenewal();
    this.#armWatch();
  }

  /** See `Lease.detach`. Ends here, and goes on in Redis. */
  detach(): DetachedLease {
    if (this.mode !== undefined) {
      throw unknownOptionError('detach', 'only a mutex can be detached, not what readers, writers or permits hold');
    }
    if (!this.check()) {
      throw new NotAcquiredLockError(`${describe(this.key)} is not held`, { key: this.key, cause: this.#rare?.loss });
    }
    if (this.#mayShorten()) {
      const message = `an extension of ${describe(this.key)} has no answer yet: wait for that before detach()`;
      throw new LockBackendError(message, { key: this.key });
    }
    const until = Math.min(Math.floor(Date.now() + this.leftMs()), Number.MAX_SAFE_INTEGER);
    const rare = this.#more;
    rare.ended = 'given back';
    rare.releasing = Promise.resolve(false);
    this.#stopTimers();
    this.#ground.scope.remove(this);
    this.#ground.line?.forget(this);
    return { key: this.key, token: this.token, fence: this.fence, until };
  }

  /** Whether an extension that was asked for by hand may still take effect. */
  #mayShorten(): boolean {
    const { extending, extendsExactly, doubt } = this.#more;
    return (extending !== undefined && extendsExactly) || (doubt !== undefined && performance.now() <= doubt.untilMs);
  }

  /** Ends the hold although its holder did not: the signal says `closed`, the key is given back. */
  async takeAway(): Promise<void> {
    if (this.check()) this.#lose('closed');
    await this.releaseQuietly();
  }

  /** A release whose failure is told as a warning and carried on by the store, because nobody else can try it again. */
  async releaseQuietly(): Promise<boolean | undefined> {
    try {
      return await this.release();
    } catch (error) {
      warn({
        code: 'release-failed',
        message: `${describe(this.key)} could not be released; it is being tried again`,
        key: this.key,
        error,
      });
      const { commandTimeoutMs } = this.#ground.settings;
      void this.#ground.store.abandon(this.#request(-1), performance.now() + commandTimeoutMs);
      return undefined;
    }
  }

  /** Says so when the lifetime has passed and nobody ever gave the lock back. */
  warnIfForgotten(takenAt: Error): void {
    if (this.#lifetimeMs === null) return;
    const look = (): void => {
      if (this.check()) return this.warnIfForgotten(takenAt);
      if (this.#rare?.loss?.reason !== 'expired' || this.#rare.releasing !== undefined) return;
      const message = `${describe(this.key)} was never released: its lifetime has freed it`;
      warn({ code: 'never-released', message, key: this.key, error: takenAt });
    };
    setTimeout(look, timerMs(this.leftMs())).unref();
  }

  /** Ms to the end of the validity, whatever has become of the hold; negative when it is past. */
  leftMs(): number {
    const otherEnd = this.#rare?.otherEnd;
    const { monoMs, wallMs } = otherEnd ?? this.#confirmed;
    const validMs = otherEnd === undefined ? this.#validMs : 0;
    return Math.min(monoMs + validMs - performance.now(), wallMs + validMs - Date.now());
  }

  #release(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#giveBack().then(
        (reply) => {
          // It would take the key that we have just freed.
          if (this.#isHaunted()) void this.#ground.store.abandon(this.#request(-1), this.#rare!.ghostUntilMs);
          resolve(this.#released(reply));
        },
        (error) => {
          forKey(error, this.key);
          if (error.unknown) this.#more.releaseUnsure = true;
          // Counts as handled; who awaits it still sees it.
          this.#rare!.releasing!.catch(() => {});
          this.#rare!.releasing = undefined;
          this.#ground.scope.remove(this);
          reject(error);
        },
      );
    });
  }

  /** The reply where it is known at once. What goes wrong there goes wrong again, and is told, on the way that waits. */
  #giveBackNow(): ReleaseReply | undefined {
    const { store, line } = this.#ground;
    if (line !== undefined || this.mode !== undefined) return undefined;
    try {
      return store.releaseNow?.(this.#request(0));
    } catch {
      return undefined;
    }
  }

  /** Together with the question of whoever is next in our line; alone where nobody is. */
  #giveBack(): Promise<ReleaseReply> {
    const { line } = this.#ground;
    if (this.mode !== undefined) return this.#leave(this.mode);
    if (line === undefined) return this.#ground.store.release(this.#request(0));
    return new Promise((resolve, reject) => {
      if (!line.giveBack(this, { resolve, reject })) this.#ground.store.release(this.#request(0)).then(resolve, reject);
    });
  }

  /** And whoever of this process may be next asks in the same command. */
  #leave({ kind, permits }: Mode): Promise<ReleaseReply> {
    const { store, scope } = this.#ground;
    const reply = store.release(this.#request(0));
    if (kind !== 'shared') scope.lines(store)?.release(this.#keys as string, permits);
    return reply;
  }

  #request(ticket: number): ReleaseRequest {
    const { commandTimeoutMs, retryTimeoutMs } = this.#ground.settings;
    const held = this.#held();
    // A change that was asked for may stand in line.
    const place = held !== undefined && held.mode.step > 0 ? -1 : ticket;
    const rest = restMs(retryTimeoutMs);
    return { keys: this.#keys, token: this.token, commandTimeoutMs, ticket: place, restMs: rest, held };
  }

  #held(): Held | undefined {
    const mode = this.#rare?.mode;
    return mode && { mode, fence: this.fence };
  }

  #released(reply: ReleaseReply): boolean {
    const released = reply === 'released';
    if (!released && this.#rare?.loss === undefined && !this.#rare?.releaseUnsure) this.#note(reply);
    this.#ground.scope.remove(this);
    emitRelease({ key: this.key, fence: this.fence, released });
    return released;
  }

  /** Runs `work` as the one extension in flight. */
  #alone(work: () => Promise<boolean>): Promise<boolean> {
    const extending = work().finally(() => {
      this.#more.extending = undefined;
    });
    this.#more.extending = extending;
    return extending;
  }

  async #extend(lifetimeMs: number | null, exact: boolean, commandTimeoutMs: number): Promise<boolean> {
    if (!this.check()) return false;
    this.#more.extendsExactly = exact;
    const asked = now();
    if (exact && lifetimeMs !== null && lifetimeMs < this.leftMs()) {
      // Redis may shorten it without our ever hearing so: believe in no more than what was asked for.
      this.believe(asked, lifetimeMs, true);
      if (this.#rare?.renewal !== undefined) this.#armRenewal();
    }
    // An end that was set by hand must not be set late, when a renewal may have set another.
    const patienceMs = exact ? Math.min(this.leftMs(), commandTimeoutMs) : this.leftMs();
    const validUntilMs = asked.monoMs + patienceMs;
    const held = this.#held();
    const request = { keys: this.#keys, token: this.token, lifetimeMs, exact, validUntilMs, commandTimeoutMs, held };
    const begin = (): boolean => this.check();
    const reply = await this.#ground.store.extend({ ...request, begin }).catch((error) => {
      if (exact && lifetimeMs !== null && error.unknown) {
        this.#doubtEnd(asked, lifetimeMs, validUntilMs);
      }
      throw forKey(error, this.key);
    });
    if (!this.check()) {
      // It was lost, or given back, before the answer came; a key that lives on for nobody is given back as well.
      if (reply.outcome === 'extended' && this.#rare?.ended === 'lost') void this.releaseQuietly();
      return false;
    }
    if (reply.outcome === 'late') {
      throw new LockBackendError(`Redis ran the extension of ${describe(this.key)} too late`, { key: this.key });
    }
    if (reply.outcome !== 'extended') {
      this.#lose(reply.outcome);
      return false;
    }
    this.believe(reply.sent, lifetimeMs, exact);
    if (exact && this.#rare?.renewal !== undefined) this.#armRenewal();
    return true;
  }

  /** The next renewal when two thirds of the lifetime are left; many holds share a tick, and so a command. */
  #armRenewal(pauseMs = this.#untilRenewalMs()): void {
    const renewal = this.#rare!.renewal!;
    const gridMs = Math.max(1, Math.floor(this.#ground.settings.lifetimeMs! / 30));
    const nowMs = performance.now();
    const dueMs = Math.floor((nowMs + pauseMs) / gridMs) * gridMs;
    clearTimeout(renewal.timer);
    renewal.timer = setTimeout(() => this.#renew(), timerMs(Math.max(dueMs - nowMs, 1))).unref();
  }

  #untilRenewalMs(): number {
    const leftMs = this.leftMs();
    const spareMs = leftMs - (this.#ground.settings.lifetimeMs! * 2) / 3;
    // Less is left than a renewal would give: it was shortened by hand, or is in doubt.
    return spareMs > 0 ? spareMs : leftMs / 3;
  }

  #renew(): void {
    const renewal = this.#rare?.renewal;
    if (renewal === undefined || !this.check()) return;
    if (performance.now() >= renewal.endsMs || renewal.lease.deref() === undefined) {
      this.#more.renewal = undefined;
      return;
    }
    const lifetimeMs = this.#ground.settings.lifetimeMs!;
    if (this.#rare?.extending !== undefined) return this.#armRenewal(shortestRenewalMs);
    // Half of what is left, so that a renewal that is never answered leaves time for another.
    const patienceMs = Math.max(shortestRenewalMs, Math.floor(this.leftMs() / 2));
    const commandTimeoutMs = Math.min(this.#ground.settings.commandTimeoutMs, patienceMs);
    this.#alone(() => this.#extend(lifetimeMs, false, commandTimeoutMs)).then(
      (extended) => {
        renewal.failed = false;
        if (extended && this.#rare?.renewal === renewal) this.#armRenewal();
      },
      (error) => {
        renewal.failed = true;
        const message = `${describe(this.key)} could not be renewed; it is being tried again`;
        warn({ code: 'renewal-failed', message, key: this.key, error });
        if (this.#rare?.renewal === renewal) this.#armRenewal(Math.max(shortestRenewalMs, lifetimeMs / 20));
      },
    );
  }

  /** Looks again at the end of the validity, and at the wall clock before that. */
  #armWatch(): void {
    clearTimeout(this.#rare?.watch);
    if (this.#lifetimeMs === null) return;
    const look = (): void => {
      if (this.check()) this.#armWatch();
    };
    this.#more.watch = setTimeout(look, timerMs(Math.min(this.leftMs(), wallLookMs))).unref();
  }

  #reasonOfEnd(): LossReason {
    // Somebody watched, and yet it was not noticed in time: this process did not run.
    if (this.#rare?.watch !== undefined && -this.leftMs() > stallMs) return 'stalled';
    if (this.#rare?.renewal?.failed || this.#rare?.extending !== undefined) return 'unreachable';
    return this.#rare?.renewal === undefined ? 'expired' : 'stalled';
  }

  #lose(reason: LossReason): void {
    this.#more.ended = 'lost';
    this.#stopTimers();
    this.#ground.scope.remove(this);
    this.#ground.line?.forget(this);
    this.#note(reason);
    this.#rare?.aborter?.abort(this.#rare?.loss);
  }

  #note(reason: LossReason): void {
    const message = `${describe(this.key)} may belong to somebody else now (${reason})`;
    this.#more.loss = new LockLostError(message, { key: this.key, reason });
    emitLost({ key: this.key, fence: this.fence, reason });
  }

  #stopTimers(): void {
    if (this.#rare === undefined) return;
    clearTimeout(this.#rare.watch);
    clearTimeout(this.#rare.renewal?.timer);
    this.#rare.watch = undefined;
    this.#rare.renewal = undefined;
  }
}

/** What asks a lease for its hold: no property of the lease leads there, and none has to be stored. */
const reveal = Symbol('hold');

/**
 * @internal The function that gives `hold` back, with the properties of a lease. Renewed while somebody keeps it, if asked for.
 *
 * @param takenAt Where it was asked for, when somebody wants to know of locks that nobody gives back.
 */
export function leaseOf(
  hold: Hold,
  autoExtend: boolean,
  takenAt: Error | undefined,
  methods: object = leaseMethods,
): Lease {
  const lease: Lease = Object.setPrototypeOf(give.bind(hold), methods);
  if (autoExtend) hold.startRenewing(lease);
  if (takenAt !== undefined) hold.warnIfForgotten(takenAt);
  return lease;
}

/** What a lease does when it is called. Bound, not closed over: that takes half the memory. */
function give(this: Hold, callback?: unknown): unknown {
  if (callback === reveal) return this;
  const released = this.release();
  if (typeof callback !== 'function') return released;
  released.then(
    (value) => nextTick(callback as (err: null, released: boolean) => void, null, value),
    (error) => nextTick(callback as (err: Error) => void, error),
  );
  return undefined;
}

/** @internal The hold behind a lease. */
export function holdOf(lease: unknown): Hold {
  return (lease as (key: typeof reveal) => Hold)(reveal);
}

/** @internal What every lease can do; a face whose leases can do more puts it in between. */
export const leaseMethods: object = Object.create(Function.prototype, {
  ...getters({
    key: (hold) => hold.key,
    keys: (hold) => [...listOf(hold.key)],
    token: (hold) => hold.token,
    fence: (hold) => hold.fence,
    retries: (hold) => hold.retries,
    signal: (hold) => hold.signal,
  }),
  release: method((hold) => hold.release()),
  remaining: method((hold) => hold.remaining()),
  extend: method((hold, lifetime) => hold.extend(lifetime)),
  detach: method((hold) => hold.detach()),
  ...(Symbol.asyncDispose && {
    [Symbol.asyncDispose]: method(async (hold) => {
      await hold.release();
    }),
  }),
});

/** @internal Properties that a lease asks its hold for. */
export function getters(read: Record<string, (hold: Hold) => unknown>): PropertyDescriptorMap {
  const entries = Object.entries(read).map(([name, get]) => [
    name,
    {
      get(this: unknown) {
        return get(holdOf(this));
      },
    },
  ]);
  return Object.fromEntries(entries);
}

/** @internal A method of a lease that its hold does. */
export function method(call: (hold: Hold, argument: any) => unknown): PropertyDescriptor {
  return {
    value(this: unknown, argument: unknown) {
      return call(holdOf(this), argument);
    },
    writable: true,
    configurable: true,
  };
}

function later(one: Moment, other: Moment): Moment {
  return { monoMs: Math.max(one.monoMs, other.monoMs), wallMs: Math.max(one.wallMs, other.wallMs) };
}

function timerMs(ms: number): number {
  return Math.min(Math.max(Math.ceil(ms), 0), longestTimerMs);
}
