// A call of redlock's `acquire` for one key on one client, beside processes of redlock that only poll.
//
// The schedule of attempts stays redlock's. Between two attempts the call is queued, so that a release hands the lock off to it at
// once. A scheduled attempt then needs no command, because a lock that was not handed off to the call is still held. One attempt a
// second is sent all the same, in case Redis or the queue is in trouble.
//
// A hand-off never leaves the key free, which would starve processes that only poll. So waiting calls check the holder now and then.
// If another program holds the lock, all calls for that client poll for a while, as redlock does.

import { timers } from '../../core/clock';
import { clearAlarm } from '../../core/timers';
import type { Lease } from '../../hold/lease';
import type { WithLock } from '../../with-lock';

/** The owner in the tokens of this shim. */
export const owner = 'redlock';

const realAttemptEveryMs = 1000;
const checkEveryMs = 20;
const besidePollersMs = 5000;
/** Ms for which the key is left free for processes that only poll, after many hand-offs in a row. */
export const yieldMs = 20;

/** The shared state of all calls for one client. */
export class ClientCalls {
  readonly withLock: WithLock;
  /** Monotonic ms until which all calls poll. */
  pollUntilMs = 0;
  checkAtMs = 0;
  /** Numbers of queued calls, by key. */
  readonly queued = new Map<string, number>();

  constructor(withLock: WithLock) {
    this.withLock = withLock;
  }

  count(key: string, more: 1 | -1): void {
    const count = (this.queued.get(key) ?? 0) + more;
    if (count > 0) this.queued.set(key, count);
    else this.queued.delete(key);
  }

  /** Makes a queued call if other calls already wait for the key; otherwise returns undefined. */
  behind(key: string, lifetime: number): QueuedCall | undefined {
    return this.queued.has(key) ? new QueuedCall(this, key, lifetime) : undefined;
  }
}

export class QueuedCall {
  readonly #calls: ClientCalls;
  readonly #key: string;
  readonly #lifetime: number;
  #leaving: AbortController | undefined;
  /** The wait in the queue, until the call has left the queue or returned its lease. */
  #queued: Promise<void> | undefined;
  /** A lease that was granted outside a pause. */
  #lease: Lease | undefined;
  /** Ends the pause in progress. */
  #resume: ((lease: Lease) => void) | undefined;
  /** Monotonic ms of the next attempt with a command. The lock was requested just now, or other calls already wait for it. */
  #realAttemptMs = performance.now() + realAttemptEveryMs;

  constructor(calls: ClientCalls, key: string, lifetime: number) {
    this.#calls = calls;
    this.#key = key;
    this.#lifetime = lifetime;
  }

  /** Tells if the call is in the queue. */
  get isQueued(): boolean {
    return this.#queued !== undefined;
  }

  /** Tells if the lock is known to be held, without a command. */
  get isKnownBusy(): boolean {
    return !this.#polls && performance.now() < this.#realAttemptMs;
  }

  /** Notes that the lock is requested now. */
  requests(): void {
    this.#realAttemptMs = performance.now() + realAttemptEveryMs;
  }

  /** Pauses between two attempts. Resolves with the lease if the queue grants it meanwhile, or with undefined after `ms`. */
  async pause(ms: number): Promise<Lease | undefined> {
    this.#check();
    if (this.#polls) this.#leaving?.abort();
    else this.#queued ??= this.#queue();
    if (this.#lease !== undefined) return this.#handOver(this.#lease);
    return new Promise((resolve) => {
      const end = (lease?: Lease): void => {
        clearAlarm(alarm);
        this.#resume = undefined;
        resolve(lease);
      };
      const alarm = timers.set(end, ms);
      this.#resume = end;
    });
  }

  /** Leaves the queue, because the call has ended. Resolves after the release of a lock that was granted all the same. */
  async leave(): Promise<void> {
    this.#leaving?.abort();
    await this.#queued;
    await this.#lease?.release().catch(() => {});
  }

  get #polls(): boolean {
    return performance.now() < this.#calls.pollUntilMs;
  }

  #handOver(lease: Lease): Lease {
    this.#queued = undefined;
    this.#lease = undefined;
    return lease;
  }

  async #queue(): Promise<void> {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#calls.count(this.#key, 1);
    try {
      const options = { lifetime: this.#lifetime, timeout: Number.POSITIVE_INFINITY, retryTimeout: yieldMs, signal };
      const lease = await this.#renewed(await this.#calls.withLock.promise(this.#key, options));
      this.#lease = lease;
      if (lease !== undefined && this.#resume !== undefined) this.#resume(this.#handOver(lease));
    } catch {
      // The next attempt reports the error.
      this.#realAttemptMs = 0;
    } finally {
      this.#calls.count(this.#key, -1);
      if (this.#lease === undefined) this.#queued = undefined;
    }
  }

  /** Extends a lease that was handed off with part of its lifetime gone, because redlock's callers expect the whole duration. */
  async #renewed(lease: Lease): Promise<Lease | undefined> {
    if (lease.remaining() > this.#lifetime * 0.98) return lease;
    // If the outcome of the extension is unknown, the remaining time counts.
    await lease.extend(this.#lifetime).catch(() => {});
    return lease.remaining() > 0 ? lease : undefined;
  }

  /** Checks the holder, unless it was checked within the last 20 ms. */
  #check(): void {
    const nowMs = performance.now();
    if (this.#polls || nowMs < this.#calls.checkAtMs) return;
    this.#calls.checkAtMs = nowMs + checkEveryMs;
    this.#calls.withLock.inspect(this.#key).then(
      (state) => {
        if (!state.locked || state.owner === owner) return;
        this.#calls.pollUntilMs = performance.now() + besidePollersMs;
        this.#leaving?.abort();
      },
      () => {},
    );
  }
}
