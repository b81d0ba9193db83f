// Requests that are on their way to Redis, each with a deadline of our own.
import { timers } from '../../../core/clock';
import type { LockBackendError } from '../../../core/errors';
import type { Key } from '../../../core/keys';
import { setImmediate } from '../../../core/real-timers';
import { type Alarm, clearAlarm } from '../../../core/timers';
import { refusal, silence } from '../../backend-errors';
import type { BatchableCall } from '../scripts/script';
import type { ReplyHandler } from './handlers';

/** Settled once: by Redis's reply, or by its own deadline, which is up to a hundredth early, so that many share a timer. */
export class PendingRequest<C extends BatchableCall | undefined = undefined> implements ReplyHandler, Alarm {
  readonly call: C;
  readonly keys: Key;
  /** A caller waits for the reply, and the process stays alive for it. */
  readonly keepsAlive: boolean;
  readonly deadlineMs: number;
  timer: Alarm['timer'];
  before: Alarm | undefined;
  after: Alarm | undefined;
  isSettled = false;
  readonly #timeoutMs: number;
  readonly #onReply: (reply: unknown) => void;
  readonly #onError: (error: LockBackendError) => void;

  /** @param sentMs Monotonic ms at which it was sent, as far as its deadline goes. */
  constructor(
    call: C,
    keys: Key,
    timeoutMs: number,
    keepsAlive: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: LockBackendError) => void,
    sentMs: number = performance.now(),
  ) {
    this.call = call;
    this.keys = keys;
    this.keepsAlive = keepsAlive;
    this.deadlineMs = sentMs + timeoutMs;
    this.#timeoutMs = timeoutMs;
    this.#onReply = onReply;
    this.#onError = onError;
    timers.add(this, this.deadlineMs, timeoutMs / 100); // H17b
  }

  resolve(reply: unknown): void {
    if (this.isSettled) return;
    this.#settle();
    this.#onReply(reply);
  }

  reject(error: unknown): void {
    if (this.isSettled) return;
    this.#settle();
    this.#onError(refusal(error, this.keys));
  }

  #settle(): void {
    this.isSettled = true;
    clearAlarm(this);
  }

  /** A timer that fires because our own event loop was blocked first lets the loop read what has arrived meanwhile. */
  ring(): void {
    setImmediate(() => this.reject(silence(this.keys, this.#timeoutMs)));
  }
}

/** The result of a promise, its error as ours; or our own error, when it takes longer than `timeoutMs`. */
export function withDeadline<T>(work: Promise<T>, keys: Key, timeoutMs: number, keepsAlive = true): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new PendingRequest(undefined, keys, timeoutMs, keepsAlive, (value) => resolve(value as T), reject);
    work.then(
      (value) => request.resolve(value),
      (error) => request.reject(error),
    );
  });
}
