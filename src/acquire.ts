// The only waiting loop. A wait is asking (one attempt is with the store), pausing (a timer runs), or settled. It settles
// once: with a hold, with the last answer's error, or because somebody gives it up (its signal, its timeout, close). Giving
// up never waits for the store: an attempt under way is abandoned, so that a grant nobody wants any more is handed back.
//
// One wait keeps one token for as long as no release for it was sent: an attempt whose reply was lost is simply made again,
// finds its own token, and gets the same grant. A wait that ends with an unknown outcome abandons its token; so does a grant
// that came too late to be of use, and what follows it uses a new one.
import { v4 as uuid } from 'uuid';
import { forKey, LockBackendError, LockClosedError, LockTimeoutError, TooManyLockAttemptsError } from './errors';
import { type Key, lockKeys } from './keys';
import { Hold } from './lease';
import { longestTimerMs, type Settings } from './options';
import type { Scope } from './scope';
import type { AcquireReply, AcquireRequest, Store } from './store';
import { describe } from './stores/replies';
import { pauses } from './wait/backoff';

/**
 * Resolves with what is held once every key is ours. Impossible arguments throw at once, before any I/O.
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: an impossible key or a missing client.
 * @throws {TooManyLockAttemptsError} (rejects) `maxRetries` used up. Nothing is held.
 * @throws {LockTimeoutError} (rejects) `timeout` over. Nothing is held.
 * @throws {LockBackendError} (rejects) no usable answer. A release was sent where the outcome is unknown.
 * @throws {LockClosedError} (rejects) `close()` was called. Nothing is held.
 * @throws the signal's reason (rejects), when it aborts before the grant. Nothing is held.
 */
export function acquire(key: Key, settings: Settings, scope: Scope): Promise<Hold> {
  const keys = lockKeys(key, settings.prefix);
  const store = scope.store(settings.redis);
  return new Promise((resolve, reject) => {
    if (scope.closed) reject(new LockClosedError(`${describe(key)}: this lock was closed`, { key }));
    else if (settings.signal?.aborted) reject(abortReason(settings.signal));
    else new Wait(key, keys, settings, scope, store, resolve, reject).start();
  });
}

export class Wait {
  readonly #key: Key;
  readonly #settings: Settings;
  readonly #scope: Scope;
  readonly #store: Store;
  readonly #resolve: (hold: Hold) => void;
  readonly #reject: (error: unknown) => void;
  #request: AcquireRequest;
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
    this.#request = {
      keys,
      token: newToken(settings.owner),
      lifetimeMs: settings.lifetimeMs,
      fencing: settings.fencing,
      minReplicas: settings.minReplicas,
      commandTimeoutMs: settings.commandTimeoutMs,
      begin: () => {
        this.#sent = true;
        return !this.#settled;
      },
    };
  }

  start(): void {
    const { timeoutMs, signal } = this.#settings;
    this.#scope.waiting.add(this);
    signal?.addEventListener('abort', this.#onAbort);
    if (timeoutMs !== undefined && timeoutMs > 0 && timeoutMs !== Number.POSITIVE_INFINITY) {
      this.#deadlineMs = performance.now() + timeoutMs;
      this.#armDeadline();
    }
    this.#ask();
  }

  /** Ends the wait now, whatever it is doing. */
  giveUp(error: unknown): void {
    if (this.#asking && this.#sent) this.#ghostUntilMs = performance.now() + this.#settings.commandTimeoutMs;
    this.#fail(error);
  }

  readonly #onAbort = (): void => this.giveUp(abortReason(this.#settings.signal!));

  #armDeadline(): void {
    const leftMs = this.#deadlineMs - performance.now();
    this.#deadline = setTimeout(() => this.#onDeadline(), Math.min(Math.ceil(leftMs), longestTimerMs));
  }

  #onDeadline(): void {
    if (performance.now() < this.#deadlineMs) this.#armDeadline();
    else if (this.#asking) this.giveUp(this.#failure ?? this.#timedOut());
    // A pause is cut to end now as well: the last attempt follows it.
  }

  #ask(): void {
    this.#asking = true;
    this.#sent = false;
    this.#attempts += 1;
    const { token } = this.#request;
    this.#store.acquire(this.#request).then(
      (reply) => this.#onReply(reply, token),
      (error) => this.#onFailure(error),
    );
  }

  #onReply(reply: AcquireReply, token: string): void {
    this.#asking = false;
    if (this.#settled) {
      if (reply.granted) this.#handBack(token);
      return;
    }
    this.#failure = undefined;
    if (!reply.granted) return this.#next();
    const hold = this.#hold(reply.fence);
    hold.believe(reply.sent, this.#request.lifetimeMs, true);
    if (hold.remaining() > 0) return this.#succeed(hold);
    const lateMs = (performance.now() - reply.sent.monoMs).toFixed(0);
    const message = `the grant of ${describe(this.#key)} took ${lateMs} ms, its lifetime is ${this.#request.lifetimeMs} ms`;
    this.#failure = new LockBackendError(message, { key: this.#key });
    this.#abandon();
    this.#request = { ...this.#request, token: newToken(this.#settings.owner) };
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
    this.#nextPauseMs ??= pauses(this.#settings);
    const pauseMs = Math.min(this.#nextPauseMs(), leftMs);
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
    this.#settings.signal?.removeEventListener('abort', this.#onAbort);
    this.#scope.waiting.delete(this);
  }

  #hold(fence: number): Hold {
    const { keys, token } = this.#request;
    return new Hold({
      key: this.#key,
      keys,
      token,
      fence,
      retries: this.#attempts - 1,
      settings: this.#settings,
      store: this.#store,
      scope: this.#scope,
      ghostUntilMs: this.#ghostUntilMs,
    });
  }

  #abandon(): void {
    const { keys, token, commandTimeoutMs } = this.#request;
    this.#store.abandon(keys, token, this.#ghostUntilMs, commandTimeoutMs);
    this.#ghostUntilMs = 0;
  }

  /** The abandoned attempt succeeded after all. Its release is on the way; this one does not wait for `notAfter`. */
  #handBack(token: string): void {
    this.#store.release(this.#request.keys, token, this.#request.commandTimeoutMs).catch(() => {});
  }

  #timedOut(): LockTimeoutError {
    const message = `${describe(this.#key)} was not free within ${this.#settings.timeoutMs} ms (attempts: ${this.#attempts})`;
    return new LockTimeoutError(message, { key: this.#key });
  }

  #tooMany(): TooManyLockAttemptsError {
    const message = `Exceeded max retry count: ${describe(this.#key)} is held by somebody else (attempts: ${this.#attempts})`;
    return new TooManyLockAttemptsError(message, { key: this.#key, attempts: this.#attempts });
  }
}

/** Unguessable, and never used again once a release for it was sent. */
function newToken(owner: string | undefined): string {
  return owner === undefined ? uuid() : `${owner}_${uuid()}`;
}

function abortReason(signal: AbortSignal): unknown {
  if (signal.reason instanceof Error) return signal.reason;
  const error = new Error('the wait for the lock was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}
