// The only waiting loop. A wait is asking (one attempt is with the store), pausing (a timer runs), or settled. It settles
// once: with a hold, with the last answer's error, or because somebody gives it up (its signal, its timeout, close). Giving
// up never waits for the store: an attempt under way is abandoned, so that a grant nobody wants any more is handed back.
//
// A wait by place asks once by itself, and then stands in a line (wait/queue.ts), which asks for all who stand in it; it is
// told that it was granted, or gives up its place. Where nobody can be woken, it counts.
//
// One wait keeps one token for as long as no release for it was sent: an attempt whose reply was lost is simply made again,
// finds its own token, and gets the same grant. A wait that ends with an unknown outcome abandons its token; so does a grant
// that came too late to be of use, and what follows it uses a new one.
import {
  forKey,
  LockBackendError,
  LockClosedError,
  LockDeadlockError,
  LockTimeoutError,
  NotAcquiredLockError,
  TooManyLockAttemptsError,
} from './errors';
import { warn } from './events';
import { ownHolds } from './flow';
import { type Key, lockKeys } from './keys';
import { Hold } from './lease';
import { longestTimerMs, type Settings } from './options';
import type { Scope } from './scope';
import type { AcquireReply, AcquireRequest, Mode, Place, ReleaseRequest, Store } from './store';
import { describe } from './stores/replies';
import { newToken } from './token';
import { pauses } from './wait/backoff';
import type { Lines } from './wait/lines';
import { type Grant, type Line, tooLate, type Waiter } from './wait/queue';
import { Standing } from './wait/standing';

/** How often a change that was given up is taken back while Redis is silent. */
const mostTakeBacks = 10;

/**
 * Resolves with what `wrap` makes of the hold, once every key is ours. Impossible arguments throw at once, before any I/O.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key or a missing client.
 * @throws {TooManyLockAttemptsError} (rejects) `maxRetries` used up. Nothing is held.
 * @throws {LockTimeoutError} (rejects) `timeout` over. Nothing is held.
 * @throws {LockBackendError} (rejects) no usable answer. A release was sent where the outcome is unknown.
 * @throws {LockClosedError} (rejects) `close()` was called. Nothing is held.
 * @throws the signal's reason (rejects), when it aborts before the grant. Nothing is held.
 */
export function acquire<T>(
  key: Key,
  settings: Settings,
  scope: Scope,
  wrap: (hold: Hold) => T,
  mode?: Mode,
): Promise<T> {
  const store = scope.store(settings.redis);
  const keys = lockKeys(key, store.keyPrefix + settings.prefix);
  return wait({ key, keys, settings, scope, store, mode, changes: undefined }, wrap);
}

/**
 * Resolves once `hold` is held in another way, in place: its token stays. It goes on being held whatever happens here.
 *
 * @throws {LockDeadlockError} (rejects) another holder asks to write, and each would wait for the other. Held as before.
 * @throws {LockLostError} (rejects) it is no holder any more.
 * @throws what acquire rejects with. Held as before.
 */
export async function change(hold: Hold, kind: 'shared' | 'exclusive', settings: Settings): Promise<void> {
  const mode = { ...hold.mode!, kind, step: hold.mode!.step + 1 };
  if (!hold.check())
    throw hold.loss ?? new NotAcquiredLockError(`${describe(hold.key)} was given back`, { key: hold.key });
  await wait({ ...hold.details, settings, mode, changes: hold }, () => {});
}

/** All that a wait is for. */
interface Wanted {
  readonly key: Key;
  readonly keys: Key;
  readonly settings: Settings;
  readonly scope: Scope;
  readonly store: Store;
  /** How it is to be held, where several may hold the key. */
  readonly mode: Mode | undefined;
  /** What is held already, and is to be held in another way. */
  readonly changes: Hold | undefined;
}

function wait<T>(wanted: Wanted, wrap: (hold: Hold) => T): Promise<T> {
  const { key, keys, settings, scope, store, mode } = wanted;
  return new Promise((resolve, reject) => {
    const refusal = store.refuses?.(keys, mode);
    if (scope.closed) reject(new LockClosedError(`${describe(key)}: this lock was closed`, { key }));
    else if (settings.signal?.aborted) reject(abortReason(settings.signal));
    else if (refusal) reject(forKey(refusal, key));
    else new Wait(wanted, (hold) => resolve(wrap(hold)), reject).start();
  });
}

export class Wait implements Waiter {
  readonly #key: Key;
  readonly #settings: Settings;
  readonly #scope: Scope;
  readonly #store: Store;
  readonly #resolve: (hold: Hold) => void;
  readonly #reject: (error: unknown) => void;
  readonly #keys: Key;
  /** For a key that several may hold: how it is wanted, and where it stands. */
  readonly #stands: Standing | undefined;
  /** What this wait asks by itself, made when it first does: who stands in a line from the beginning never asks. */
  #request: AcquireRequest | undefined;
  #settled = false;
  #asking = false;
  /** Whether the attempt under way has left for the store's Redis. */
  #sent = false;
  #attempts = 0;
  #nextPauseMs: (() => number) | undefined;
  /** The pause after the attempt under way, where that says how long it will be silent. */
  #plannedPauseMs: number | undefined;
  #pause: NodeJS.Timeout | undefined;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #deadline: NodeJS.Timeout | undefined;
  /** What the last answered attempt failed with; undefined after a plain "busy". */
  #failure: LockBackendError | undefined;
  /** Monotonic ms until which an attempt of this token, of unknown outcome, may still take effect. */
  #ghostUntilMs = 0;
  /** Where it stands, once it stands somewhere. */
  #line: Line | undefined;
  /** No message could be heard so far: it does not wait for that again. */
  #isDeaf = false;
  #opening: NodeJS.Timeout | undefined;

  constructor(wanted: Wanted, resolve: (hold: Hold) => void, reject: (error: unknown) => void) {
    const { key, keys, settings, scope, store, mode, changes } = wanted;
    this.#key = key;
    this.#settings = settings;
    this.#scope = scope;
    this.#store = store;
    this.#stands = mode && new Standing(mode, changes);
    this.#resolve = resolve;
    this.#reject = reject;
    this.#keys = keys;
  }

  start(): void {
    const { timeoutMs, signal } = this.#settings;
    if (timeoutMs !== undefined && timeoutMs > 0 && timeoutMs !== Number.POSITIVE_INFINITY) {
      this.#deadlineMs = performance.now() + timeoutMs;
    }
    this.#begin();
    // Where the answer is known at once, nearly nobody waits.
    if (this.#settled) return;
    this.#scope.waiting.add(this);
    signal?.addEventListener('abort', this.#onAbort);
    if (this.#deadlineMs !== Number.POSITIVE_INFINITY) this.#armDeadline();
  }

  #begin(): void {
    const own = this.#isEndless() ? this.#ownHold() : undefined;
    if (own?.isEndless) return this.#fail(this.#deadlock(own));
    const lines = this.#lines();
    if (lines?.isOpen) this.#stand(lines);
    // Behind those who wait for the same already, until a grant would be heard.
    else if (lines?.isAwaited(this.#keys as string)) this.#standOrCount(lines);
    else this.#ask();
  }

  get commandTimeoutMs(): number {
    return this.#settings.commandTimeoutMs;
  }

  get retryTimeoutMs(): number {
    return this.#settings.retryTimeoutMs;
  }

  granted({ token, fence, sent, ghostUntilMs }: Grant): Hold {
    const hold = this.#hold(token, fence, ghostUntilMs, this.#line);
    hold.believe(sent, this.#settings.lifetimeMs, true);
    this.#succeed(hold);
    return hold;
  }

  failed(error: LockBackendError): void {
    this.#fail(forKey(error, this.#key));
  }

  troubled(error: LockBackendError | undefined): void {
    this.#failure = error && (forKey(error, this.#key) as LockBackendError);
  }

  /** Ends the wait now, whatever it is doing. */
  giveUp(error: unknown): void {
    if (this.#asking && this.#sent) this.#ghostUntilMs = performance.now() + this.#settings.commandTimeoutMs;
    this.#fail(error);
    this.#line?.giveUp(this);
  }

  /** Whether nothing but a grant would end this wait. */
  #isEndless(): boolean {
    const { timeoutMs = Number.POSITIVE_INFINITY, maxRetries, signal } = this.#settings;
    return timeoutMs === Number.POSITIVE_INFINITY && maxRetries === Number.POSITIVE_INFINITY && signal === undefined;
  }

  /** The hold of the code that waits here, if that is in its own way. */
  #ownHold(): Hold | undefined {
    if (this.#stands?.changes !== undefined) return undefined;
    return ownHolds().find((hold) => hold.excludes(this.#store, this.#keys, this.#stands?.mode));
  }

  /** The lines to wait in, when this is a wait by place, of a kind for which there are places. */
  #lines(): Lines | undefined {
    const { byPlace, lifetimeMs, minReplicas } = this.#settings;
    const hasPlaces = byPlace && lifetimeMs !== null && minReplicas === 0 && typeof this.#keys === 'string';
    return hasPlaces ? this.#scope.lines(this.#store) : undefined;
  }

  #stand(lines: Lines): void {
    if (this.#stands !== undefined) {
      this.#stands.hear(lines, this.#keys as string, this.#onHint);
      return this.#ask();
    }
    // What an attempt of its own has left behind; the line asks with a token of its own.
    if (this.#ghostUntilMs > 0) this.#abandon();
    const { lifetimeMs, fencing, owner } = this.#settings;
    this.#line = lines.line({ key: this.#keys as string, lifetimeMs: lifetimeMs!, fencing, owner });
    this.#line.join(this);
  }

  /** Stands in line once a grant would be heard; counts where it cannot be, or where that takes too long. */
  #standOrCount(lines: Lines): void {
    const count = (error: unknown): void => {
      if (this.#settled || this.#isDeaf) return;
      this.#isDeaf = true;
      const message = `${describe(this.#key)} is waited for by asking again and again: no message can be heard`;
      warn({ code: 'no-wake-ups', message, key: this.#key, error });
      if (this.#attempts === 0) this.#ask();
      else this.#pauseAndAsk();
    };
    this.#opening = setTimeout(() => count(undefined), this.commandTimeoutMs);
    lines
      .open(this.#keys as string)
      .finally(() => clearTimeout(this.#opening))
      .then(() => {
        if (!this.#settled && !this.#isDeaf) this.#stand(lines);
      }, count);
  }

  readonly #onAbort = (): void => this.giveUp(abortReason(this.#settings.signal!));

  #armDeadline(): void {
    const leftMs = this.#deadlineMs - performance.now();
    this.#deadline = setTimeout(() => this.#onDeadline(), Math.min(Math.ceil(leftMs), longestTimerMs));
  }

  #onDeadline(): void {
    if (performance.now() < this.#deadlineMs) this.#armDeadline();
    else if (this.#pause === undefined) this.giveUp(this.#failure ?? this.#timedOut());
    // A pause is cut to end now as well: the last attempt follows it.
  }

  #ask(): void {
    this.#pause = undefined;
    this.#asking = true;
    this.#sent = false;
    this.#attempts += 1;
    if (this.#store.isQuorum) this.#request = undefined;
    this.#request ??= this.#newRequest();
    const { token } = this.#request;
    const request =
      this.#stands === undefined
        ? this.#polling(this.#request)
        : { ...this.#request, place: this.#place(this.#stands) };
    // Who has a signal may give up before the end of the turn.
    if (this.#store.acquireNow !== undefined && this.#settings.signal === undefined) return this.#askNow(request);
    this.#store.acquire(request).then(
      (reply) => this.#onReply(reply, token),
      (error) => this.#onFailure(error),
    );
  }

  #askNow(request: AcquireRequest): void {
    let reply: AcquireReply;
    try {
      reply = this.#store.acquireNow!(request);
    } catch (error) {
      return this.#onFailure(error);
    }
    this.#onReply(reply, request.token);
  }

  #newRequest(): AcquireRequest {
    const { owner, lifetimeMs, fencing, minReplicas, commandTimeoutMs } = this.#settings;
    const begin = (): boolean => {
      this.#sent = true;
      return !this.#settled;
    };
    const token = this.#stands?.changes?.token ?? newToken(owner);
    const mode = this.#stands?.mode;
    return { keys: this.#keys, token, lifetimeMs, fencing, minReplicas, commandTimeoutMs, begin, mode };
  }

  /** Beside a queue, a caller that polls says how long it pauses; not at its first attempt, after which few ask again. */
  #polling(request: AcquireRequest): AcquireRequest {
    const { maxRetries, timeoutMs } = this.#settings;
    if (this.#attempts === 1 || timeoutMs === 0 || this.#attempts > maxRetries) return request;
    if (performance.now() >= this.#deadlineMs || (!this.#isDeaf && this.#lines() !== undefined)) return request;
    this.#plannedPauseMs = this.#pauseMs();
    return { ...request, pauseMs: this.#plannedPauseMs };
  }

  /** Where to stand in line, for a key that several may hold, if this attempt is in vain and another will follow. */
  #place(stands: Standing): Place | undefined {
    const { maxRetries, timeoutMs } = this.#settings;
    if (timeoutMs === 0 || this.#attempts > maxRetries || performance.now() >= this.#deadlineMs) return undefined;
    // Who waits to be told makes sure first that it would hear.
    if (!stands.hears && !this.#isDeaf && this.#lines() !== undefined) return undefined;
    if (!stands.hears) this.#plannedPauseMs = this.#pauseMs();
    return stands.place(this.#plannedPauseMs ?? 0);
  }

  readonly #onHint = (isBehind: boolean): boolean => {
    if (this.#settled) return false;
    if (this.#pause === undefined) {
      this.#stands!.hinted ||= !isBehind;
      return false;
    }
    clearTimeout(this.#pause);
    this.#ask();
    return true;
  };

  #onReply(reply: AcquireReply, token: string): void {
    this.#asking = false;
    if (this.#settled) {
      if (reply.granted && this.#stands?.changes === undefined) this.#handBack(token);
      return;
    }
    this.#failure = undefined;
    if (!reply.granted) return this.#onBusy(reply);
    if (this.#stands?.changes !== undefined) return this.#onChanged(this.#stands, this.#stands.changes, reply);
    const hold = this.#hold(token, reply.fence, this.#ghostUntilMs, undefined);
    hold.believe(reply.sent, this.#settings.lifetimeMs, true);
    if (hold.remaining() > 0) return this.#succeed(hold);
    this.#failure = tooLate(this.#key, performance.now() - reply.sent.monoMs, this.#settings.lifetimeMs);
    this.#abandon();
    this.#request = undefined;
    this.#next();
  }

  #onBusy(reply: AcquireReply & { granted: false }): void {
    if (reply.never === 'deadlock') return this.#fail(this.#secondUpgrade());
    if (reply.never === 'gone') {
      const hold = this.#stands?.changes;
      hold?.gone();
      const message = `${describe(this.#key)} was given back meanwhile`;
      return this.#fail(hold?.loss ?? new NotAcquiredLockError(message, { key: this.#key }));
    }
    this.#stands?.busy(reply);
    this.#next();
  }

  #onChanged({ mode }: Standing, hold: Hold, { fence, sent }: AcquireReply & { granted: true }): void {
    if (hold.check()) {
      hold.changed(mode, fence);
      hold.believe(sent, this.#settings.lifetimeMs, false);
    }
    this.#settle();
    this.#resolve(hold);
  }

  #onFailure(error: unknown): void {
    this.#asking = false;
    if (this.#settled) return;
    forKey(error, this.#key);
    if (!(error instanceof LockBackendError)) return this.#fail(error);
    if (error.unknown) this.#ghostUntilMs = performance.now() + this.#settings.commandTimeoutMs;
    this.#failure = error;
    if (error.retryable) this.#next();
    else this.#fail(error);
  }

  /** Another attempt after a pause, if the wait allows one. */
  #next(): void {
    const { maxRetries, timeoutMs } = this.#settings;
    const leftMs = timeoutMs === 0 ? 0 : this.#deadlineMs - performance.now();
    if (leftMs <= 0) return this.#fail(this.#failure ?? this.#timedOut());
    if (this.#attempts > maxRetries) return this.#fail(this.#failure ?? this.#tooMany());
    const lines = this.#failure === undefined ? this.#lines() : undefined;
    if (this.#stands?.hears) this.#pauseAndAsk(this.#failure ? undefined : this.#untilNextAskMs());
    else if (lines === undefined || this.#isDeaf) this.#pauseAndAsk();
    else if (lines.isOpen) this.#stand(lines);
    else this.#standOrCount(lines);
  }

  #pauseAndAsk(wantedMs = this.#plannedPauseMs ?? this.#pauseMs()): void {
    const leftMs = this.#deadlineMs - performance.now();
    const pauseMs = Math.max(Math.min(wantedMs, leftMs), 0);
    this.#plannedPauseMs = undefined;
    this.#pause = setTimeout(() => this.#ask(), pauseMs);
  }

  #pauseMs(): number {
    // Those whose votes were split must not meet again after the same pause.
    this.#nextPauseMs ??= pauses(this.#store.isQuorum ? { ...this.#settings, jitter: 1 } : this.#settings);
    return this.#nextPauseMs();
  }

  /** Whoever is told when to ask asks by itself only in case that it was not told. */
  #untilNextAskMs(): number {
    if (this.#stands!.hinted) return 0;
    return Math.max(this.#stands!.askAgainMs(Math.random()), this.#settings.retryTimeoutMs, 1);
  }

  #succeed(hold: Hold): void {
    this.#settle();
    this.#scope.add(hold);
    this.#resolve(hold);
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    if (this.#ghostUntilMs > 0 || this.#stands?.stood) this.#abandon();
    this.#reject(error);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#pause);
    clearTimeout(this.#deadline);
    clearTimeout(this.#opening);
    this.#settings.signal?.removeEventListener('abort', this.#onAbort);
    this.#stands?.leave();
    this.#scope.waiting.delete(this);
  }

  #hold(token: string, fence: number, ghostUntilMs: number, line: Line | undefined): Hold {
    return new Hold({
      key: this.#key,
      keys: this.#keys,
      token,
      fence,
      retries: this.#stands?.hears ? 0 : Math.max(this.#attempts - 1, 0),
      ground: this.#scope.ground(this.#settings, this.#store, line),
      ghostUntilMs,
      mode: this.#stands?.mode,
    });
  }

  #abandon(): void {
    if (this.#stands?.changes !== undefined) void this.#takeBack(this.#stands.changes);
    else void this.#store.abandon(this.#releaseRequest(this.#request!.token), this.#ghostUntilMs);
    this.#ghostUntilMs = 0;
    if (this.#stands) this.#stands.stood = false;
  }

  #releaseRequest(token: string): ReleaseRequest {
    const { commandTimeoutMs } = this.#settings;
    const mode = this.#stands?.mode;
    if (mode === undefined) return { keys: this.#keys, token, commandTimeoutMs };
    return { keys: this.#keys, token, commandTimeoutMs, ticket: this.#stands!.ticket, held: { mode, fence: -1 } };
  }

  /**
   * The change that was given up may have been made, or may still be: what comes as a later change is what holds in the end.
   * Should Redis never hear of it, what is held is held in the stricter way.
   */
  async #takeBack(hold: Hold): Promise<void> {
    const asked = this.#stands!.mode;
    const mode: Mode = { ...asked, kind: 'shared', step: asked.step + 1 };
    hold.changed(mode, hold.fence);
    const request = { ...this.#request!, mode, begin: () => !hold.ended };
    for (let attempts = 0; attempts < mostTakeBacks && !hold.ended; attempts++) {
      const done = await this.#store.acquire(request).then(
        () => true,
        () => false,
      );
      if (done) return;
      await new Promise((resolve) => setTimeout(resolve, request.commandTimeoutMs).unref());
    }
  }

  /** The abandoned attempt succeeded after all. Its release is on the way; this one does not wait for `notAfter`. */
  #handBack(token: string): void {
    this.#store.release(this.#releaseRequest(token)).catch(() => {});
  }

  #timedOut(): LockTimeoutError {
    const how = this.#line === undefined && !this.#stands?.hears ? `attempts: ${this.#attempts}` : 'it stood in line';
    const message = `${describe(this.#key)} was not free within ${this.#settings.timeoutMs} ms (${how})`;
    return new LockTimeoutError(message + this.#whoseFault(), { key: this.#key });
  }

  /** Names what is in the way, where that is the caller's own. */
  #whoseFault(): string {
    const own = this.#ownHold();
    if (own !== undefined) {
      return `: the caller holds it itself, since this call was made inside the function that runs under it (fence ${own.fence})`;
    }
    if (this.#stands?.changes !== undefined) return '';
    const near = this.#scope.holdThat((hold) => hold.excludes(this.#store, this.#keys, this.#stands?.mode));
    return near ? `: it is held by the caller's own lock object or function (fence ${near.fence})` : '';
  }

  #deadlock(own: Hold): LockDeadlockError {
    const message = `${describe(this.#key)} would be waited for without end by the code that holds and renews it itself (fence ${own.fence})`;
    return new LockDeadlockError(message, { key: this.#key });
  }

  #secondUpgrade(): LockDeadlockError {
    const message = `${describe(this.#key)}: another reader waits to write already, and each would wait for the other to stop reading`;
    return new LockDeadlockError(message, { key: this.#key });
  }

  #tooMany(): TooManyLockAttemptsError {
    const message = `Exceeded max retry count: ${describe(this.#key)} is held by somebody else (attempts: ${this.#attempts})`;
    return new TooManyLockAttemptsError(message, { key: this.#key, attempts: this.#attempts });
  }
}

function abortReason(signal: AbortSignal): unknown {
  if (signal.reason instanceof Error) return signal.reason;
  const error = new Error('the wait for the lock was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}
