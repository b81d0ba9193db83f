// Requests that are on their way to Redis, each with a deadline of our own.
import { type Alarm, clearAlarm, systemClock } from '../../../core/clock';
import type { LockBackendError } from '../../../core/errors';
import type { Key } from '../../../core/keys';
import { setImmediate } from '../../../core/real-timers';
import { refusal, silence } from '../../backend-errors';
import type { ScriptCall } from '../scripts/script';
import type { StoreCall } from './plain';
import type { SendWindow } from './send-window';

/** The callbacks for the reply to a call: a promise would cost every lock. */
export interface ReplyHandler {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Monotonic ms until which the call may be sent again; absent if the handler decides that itself. */
  readonly deadlineMs?: number;
}

/** A call and the handler of its reply. */
export interface BatchedCall extends ReplyHandler {
  readonly call: StoreCall;
  /** Called when the call is sent, with the monotonic ms. */
  onSent?(nowMs: number): void;
}

export type SendCall = (call: ScriptCall, handler: ReplyHandler) => void;

/** Settled once: by Redis's reply, or by its own deadline, which is up to a hundredth early, so that many share a timer. */
export class PendingRequest<C extends StoreCall | undefined = undefined> implements ReplyHandler, Alarm {
  readonly call: C;
  readonly keys: Key;
  /** A caller waits for the reply, and the process stays alive for it. */
  readonly keepsAlive: boolean;
  /** Infinity until the request is sent. */
  deadlineMs = Number.POSITIVE_INFINITY;
  timer: Alarm['timer'];
  before: Alarm | undefined;
  after: Alarm | undefined;
  isSettled = false;
  readonly #timeoutMs: number;
  readonly #onReply: (reply: unknown) => void;
  readonly #onError: (error: LockBackendError) => void;
  readonly #window: SendWindow | undefined;

  constructor(
    call: C,
    keys: Key,
    timeoutMs: number,
    keepsAlive: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: LockBackendError) => void,
    window?: SendWindow,
  ) {
    this.call = call;
    this.keys = keys;
    this.keepsAlive = keepsAlive;
    this.#timeoutMs = timeoutMs;
    this.#onReply = onReply;
    this.#onError = onError;
    this.#window = window;
  }

  /** Begins the time until the deadline: the request is sent now. */
  onSent(nowMs: number = performance.now()): void {
    this.deadlineMs = nowMs + this.#timeoutMs;
    systemClock.add(this, this.deadlineMs, this.#timeoutMs / 100); // H17b
  }

  resolve(reply: unknown): void {
    if (this.#settle(true)) this.#onReply(reply);
  }

  reject(error: unknown): void {
    // If the client's error is so strange that this throws, the request still has its deadline.
    const refused = refusal(error, this.keys);
    if (this.#settle(true)) this.#onError(refused);
  }

  /** Ends the time until the deadline. False if the request is settled already. */
  #settle(isAnswered: boolean): boolean {
    if (this.isSettled) return false;
    this.isSettled = true;
    clearAlarm(this);
    this.#window?.settled(isAnswered);
    return true;
  }

  /** A timer that fires because our own event loop was blocked first lets the loop read what has arrived meanwhile. */
  ring(): void {
    setImmediate(() => this.#settle(false) && this.#onError(silence(this.keys, this.#timeoutMs)));
  }
}

/** The result of a promise, its error as ours; or our own error, when it takes longer than `timeoutMs`. */
export function withDeadline<T>(work: Promise<T>, keys: Key, timeoutMs: number, keepsAlive = true): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new PendingRequest(undefined, keys, timeoutMs, keepsAlive, (value) => resolve(value as T), reject);
    request.onSent();
    work.then(
      (value) => request.resolve(value),
      (error) => request.reject(error),
    );
  });
}
