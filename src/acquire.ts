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
import { forKey, LockBackendError, LockClosedError, LockTimeoutError, TooManyLockAttemptsError } from './errors';
import { warn } from './events';
import { type Key, lockKeys } from './keys';
import { Hold } from './lease';
import { longestTimerMs, type Settings } from './options';
import type { Scope } from './scope';
import type { AcquireReply, AcquireRequest, Store } from './store';
import { describe } from './stores/replies';
import { newToken } from './token';
import { pauses } from './wait/backoff';
import type { Lines } from './wait/lines';
import { type Grant, type Line, tooLate, type Waiter } from './wait/queue';

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
export function acquire<T>(key: Key, settings: Settings, scope: Scope, wrap: (hold: Hold) => T): Promise<T> {
  const store = scope.store(settings.redis);
  const keys = lockKeys(key, store.keyPrefix + settings.prefix);
  return new Promise((resolve, reject) => {
    if (scope.closed) reject(new LockClosedError(`${describe(key)}: this lock was closed`, { key }));
    else if (settings.signal?.aborted) reject(abortReason(settings.signal));
    else new Wait(key, keys, settings, scope, store, (hold) => resolve(wrap(hold)), reject).start();
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
  /** What this wait asks by itself, made when it first does: who stands in a line from the beginning never asks. */
  #request: AcquireRequest | undefined;
  #settled = false;
  #asking = false;
  /** Whether the attempt under way has left for the store's Redis. */
  #sent = false;
  #attempts = 0;
  #nextPauseMs: (() => number) | undefined;
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

  constructor(
    key: Key,
    keys: Key,
    settings: Settings,
    scope: Scope,
    store: Store,
    resolve: (hold: Hold) => void,
    reject: (error: unknown) => void,
  ) {
    this.#key = key;
    this.#settings = settings;
    this.#scope = scope;
    this.#store = store;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#keys = keys;
  }

  start(): void {
    const { timeoutMs, signal } = this.#settings;
    this.#scope.waiting.add(this);
    signal?.addEventListener('abort', this.#onAbort);
    if (timeoutMs !== undefined && timeoutMs > 0 && timeoutMs !== Number.POSITIVE_INFINITY) {
      this.#deadlineMs = performance.now() + timeoutMs;
      this.#armDeadline();
    }
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

  /** The lines to wait in, when this is a wait by place, of a kind for which there are places. */
  #lines(): Lines | undefined {
    const { byPlace, lifetimeMs, minReplicas } = this.#settings;
    const hasPlaces = byPlace && lifetimeMs !== null && minReplicas === 0 && typeof this.#keys === 'string';
    return hasPlaces ? this.#scope.lines(this.#store) : undefined;
  }

  #stand(lines: Lines): void {
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
    this.#store.acquire(this.#request).then(
      (reply) => this.#onReply(reply, token),
      (error) => this.#onFailure(error),
    );
  }

  #newRequest(): AcquireRequest {
    const { owner, lifetimeMs, fencing, minReplicas, commandTimeoutMs } = this.#settings;
    const begin = (): boolean => {
      this.#sent = true;
      return !this.#settled;
    };
    return { keys: this.#keys, token: newToken(owner), lifetimeMs, fencing, minReplicas, commandTimeoutMs, begin };
  }

  #onReply(reply: AcquireReply, token: string): void {
    this.#asking = false;
    if (this.#settled) {
      if (reply.granted) this.#handBack(token);
      return;
    }
    this.#failure = undefined;
    if (!reply.granted) return this.#next();
    const hold = this.#hold(token, reply.fence, this.#ghostUntilMs, undefined);
    hold.believe(reply.sent, this.#settings.lifetimeMs, true);
    if (hold.remaining() > 0) return this.#succeed(hold);
    this.#failure = tooLate(this.#key, performance.now() - reply.sent.monoMs, this.#settings.lifetimeMs);
    this.#abandon();
    this.#request = undefined;
    this.#next();
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
    if (lines?.isOpen) this.#stand(lines);
    else if (lines === undefined || this.#isDeaf) this.#pauseAndAsk();
    else this.#standOrCount(lines);
  }

  #pauseAndAsk(): void {
    const leftMs = this.#deadlineMs - performance.now();
    // Those whose votes were split must not meet again after the same pause.
    this.#nextPauseMs ??= pauses(this.#store.isQuorum ? { ...this.#settings, jitter: 1 } : this.#settings);
    const pauseMs = Math.max(Math.min(this.#nextPauseMs(), leftMs), 0);
    this.#pause = setTimeout(() => this.#ask(), pauseMs);
  }

  #succeed(hold: Hold): void {
    this.#settle();
    this.#scope.add(hold);
    this.#resolve(hold);
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    if (this.#ghostUntilMs > 0) this.#abandon();
    this.#reject(error);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#pause);
    clearTimeout(this.#deadline);
    clearTimeout(this.#opening);
    this.#settings.signal?.removeEventListener('abort', this.#onAbort);
    this.#scope.waiting.delete(this);
  }

  #hold(token: string, fence: number, ghostUntilMs: number, line: Line | undefined): Hold {
    return new Hold({
      key: this.#key,
      keys: this.#keys,
      token,
      fence,
      retries: Math.max(this.#attempts - 1, 0),
      ground: this.#scope.ground(this.#settings, this.#store),
      ghostUntilMs,
      line,
    });
  }

  #abandon(): void {
    const { keys, token, commandTimeoutMs } = this.#request!;
    void this.#store.abandon({ keys, token, commandTimeoutMs }, this.#ghostUntilMs);
    this.#ghostUntilMs = 0;
  }

  /** The abandoned attempt succeeded after all. Its release is on the way; this one does not wait for `notAfter`. */
  #handBack(token: string): void {
    const { commandTimeoutMs } = this.#settings;
    this.#store.release({ keys: this.#keys, token, commandTimeoutMs }).catch(() => {});
  }

  #timedOut(): LockTimeoutError {
    const how = this.#line === undefined ? `attempts: ${this.#attempts}` : 'it stood in line';
    const message = `${describe(this.#key)} was not free within ${this.#settings.timeoutMs} ms (${how})`;
    return new LockTimeoutError(message, { key: this.#key });
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
