// Requests that are on their way to Redis, each with a deadline of our own. All with the same timeout share one timer: they
// end in the order in which they began. It keeps the process alive while a caller waits for a reply. After that it is left for
// the next request, until it fires: to set and to clear a timer is a sixth of what a lone pair costs beside the client.

import type { LockBackendError } from '../../../core/errors';
import type { Key } from '../../../core/keys';
import { clearTimeout as clearReal, setImmediate, setTimeout as setReal } from '../../../core/real-timers';
import { idle } from '../../../core/timers';
import { refusal, silence } from '../../backend-errors';
import type { BatchableCall } from '../scripts/script';
import type { ReplyHandler } from './handlers';

/** Settled once: by Redis's reply, or by its own deadline. */
export class PendingRequest implements ReplyHandler {
  readonly keys: Key;
  /** A caller waits for the reply, and the process stays alive for it. */
  readonly keepsAlive: boolean;
  readonly deadlineMs: number;
  next: PendingRequest | undefined;
  isSettled = false;
  readonly #group: TimeoutGroup;
  readonly #onReply: (reply: unknown) => void;
  readonly #onError: (error: LockBackendError) => void;

  /** @param sentMs Monotonic ms at which it was sent, as far as its deadline goes. */
  constructor(
    keys: Key,
    timeoutMs: number,
    keepsAlive: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: LockBackendError) => void,
    sentMs: number = performance.now(),
  ) {
    this.keys = keys;
    this.keepsAlive = keepsAlive;
    this.deadlineMs = sentMs + timeoutMs;
    this.#onReply = onReply;
    this.#onError = onError;
    this.#group = groupOf(timeoutMs);
    this.#group.add(this);
  }

  resolve(reply: unknown): void {
    if (this.isSettled) return;
    this.#group.settle(this);
    this.#onReply(reply);
  }

  reject(error: unknown): void {
    if (this.isSettled) return;
    this.#group.settle(this);
    this.#onError(refusal(error, this.keys));
  }
}

/** A pending request by script, which may go out with others of its tick. */
export class PendingCall extends PendingRequest {
  readonly call: BatchableCall;

  constructor(
    call: BatchableCall,
    keys: Key,
    timeoutMs: number,
    keepsAlive: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: LockBackendError) => void,
    sentMs: number,
  ) {
    super(keys, timeoutMs, keepsAlive, onReply, onError, sentMs);
    this.call = call;
  }
}

/** The result of a promise, its error as ours; or our own error, when it takes longer than `timeoutMs`. */
export function withDeadline<T>(work: Promise<T>, keys: Key, timeoutMs: number, keepsAlive = true): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new PendingRequest(keys, timeoutMs, keepsAlive, (value) => resolve(value as T), reject);
    work.then(
      (value) => request.resolve(value),
      (error) => request.reject(error),
    );
  });
}

const maxKept = 16;
const groups = new Map<number, TimeoutGroup>();

function groupOf(timeoutMs: number): TimeoutGroup {
  let group = groups.get(timeoutMs); // S22
  if (group === undefined) {
    group = new TimeoutGroup(timeoutMs);
    groups.set(timeoutMs, group);
  }
  return group;
}

const onlySettled = (): boolean => false;

/** The pending requests of one timeout, as a linked list in the order of their deadlines. */
class TimeoutGroup {
  readonly timeoutMs: number;
  #first: PendingRequest | undefined;
  #last: PendingRequest | undefined;
  #pending = 0;
  #keepingAlive = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Set by the real clock. One of a fake clock is not left behind, and one of the real clock is of no use beside a fake one. */
  #isReal = false;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
  }

  add(request: PendingRequest): void {
    if (this.#last === undefined) this.#first = request;
    else this.#last.next = request;
    this.#last = request;
    this.#pending += 1;
    if (request.keepsAlive) this.#keepingAlive += 1;
    if (this.#pending === 1 && setTimeout !== setReal) this.#clear();
    // H17b
    if (this.#timer === undefined) this.#arm(request);
    else if (request.keepsAlive && this.#keepingAlive === 1) this.#timer.ref?.();
  }

  settle(request: PendingRequest): void {
    request.isSettled = true;
    this.#pending -= 1;
    if (request.keepsAlive) {
      this.#keepingAlive -= 1;
      if (this.#keepingAlive === 0) this.#timer?.unref?.();
    }
    if (this.#pending > 0) return this.#drop(onlySettled);
    this.#first = this.#last = undefined;
    // Each renewal has a timeout of its own.
    if (groups.size > maxKept) this.#end();
    else if (!this.#isReal || setTimeout !== setReal) this.#clear();
  }

  #clear(): void {
    const clear = this.#isReal ? clearReal : clearTimeout;
    clear(this.#timer);
    this.#timer = undefined;
  }

  #end(): void {
    this.#clear();
    groups.delete(this.timeoutMs);
  }

  /** Drops those at the front that are settled, or that `isLate` takes. A link to the next would keep that from the collector. */
  #drop(isLate: (request: PendingRequest) => boolean): void {
    for (let first = this.#first; first !== undefined && (first.isSettled || isLate(first)); first = this.#first) {
      this.#first = first.next;
      first.next = undefined;
    }
    if (this.#first === undefined) this.#last = undefined;
  }

  #arm(first: PendingRequest): void {
    const leftMs = Math.max(first.deadlineMs - performance.now(), 0);
    this.#isReal = setTimeout === setReal;
    this.#timer = setTimeout(this.#onTimer, leftMs);
    if (this.#keepingAlive === 0) idle(this.#timer);
  }

  /** A timer that fires because our own event loop was blocked first lets the loop read what has arrived meanwhile. */
  readonly #onTimer = (): void => {
    const nowMs = performance.now();
    const late: PendingRequest[] = [];
    this.#drop((request) => request.deadlineMs <= nowMs && late.push(request) > 0);
    this.#timer = undefined;
    if (this.#first !== undefined) this.#arm(this.#first);
    if (late.length > 0) setImmediate(() => this.#expire(late));
  };

  #expire(late: readonly PendingRequest[]): void {
    for (const request of late) request.reject(silence(request.keys, this.timeoutMs));
  }
}
