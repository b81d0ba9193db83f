// A call of redlock's `acquire` for one key on one client, beside processes of redlock that only poll.
//
// The schedule of attempts stays redlock's. Between two of them the call is queued, so that a release hands the lock over at
// once; an attempt then needs no command, because a lock that was not handed to us is still held, except once a second, in
// case that Redis or the queue is in trouble.
//
// A hand-over never leaves the key free, which would starve whatever only polls. So waiting calls check now and then whose the
// lock is: where a holder is seen that did not come from here, all calls for that client poll as redlock does, for a while.

import { startTimer } from '../../core/timers';
import type { Lease } from '../../hold/lease';
import type { WithLock } from '../../with-lock';

/** The label of our tokens. */
export const owner = 'redlock';

const realAttemptEveryMs = 1000;
const checkEveryMs = 20;
const besidePollersMs = 5000;
/** How long the key is left free, after many hand-overs in a row, for processes that only poll. */
export const yieldMs = 20;

/** What the calls for one client have in common. */
export class ClientCalls {
  readonly withLock: WithLock;
  /** Monotonic ms until which all poll. */
  pollUntilMs = 0;
  checkAtMs = 0;
  /** How many are queued for each key. */
  readonly queued = new Map<string, number>();

  constructor(withLock: WithLock) {
    this.withLock = withLock;
  }

  count(key: string, more: 1 | -1): void {
    const count = (this.queued.get(key) ?? 0) + more;
    if (count > 0) this.queued.set(key, count);
    else this.queued.delete(key);
  }

  /** A call that queues behind those that wait for the key already; undefined: none does. */
  behind(key: string, lifetime: number): QueuedCall | undefined {
    return this.queued.has(key) ? new QueuedCall(this, key, lifetime) : undefined;
  }
}

export class QueuedCall {
  readonly #calls: ClientCalls;
  readonly #key: string;
  readonly #lifetime: number;
  #leaving: AbortController | undefined;
  /** From its entry into the queue until it has left, or its lock was handed on. */
  #queued: Promise<void> | undefined;
  /** What was granted while no pause was under way. */
  #lease: Lease | undefined;
  /** Ends the pause that is under way. */
  #resume: ((lease: Lease) => void) | undefined;
  /** The lock was requested just now, or others wait for it already. */
  #realAttemptMs = performance.now() + realAttemptEveryMs;

  constructor(calls: ClientCalls, key: string, lifetime: number) {
    this.#calls = calls;
    this.#key = key;
    this.#lifetime = lifetime;
  }

  /** Whether it has to leave the queue. */
  get isQueued(): boolean {
    return this.#queued !== undefined;
  }

  /** Whether it is known without a command that the lock is still held. */
  get isKnownBusy(): boolean {
    return !this.#polls && performance.now() < this.#realAttemptMs;
  }

  /** The lock is requested now. */
  requests(): void {
    this.#realAttemptMs = performance.now() + realAttemptEveryMs;
  }

  /** The pause between two attempts: resolves with the lock if it is handed over meanwhile, with undefined after `ms`. */
  async pause(ms: number): Promise<Lease | undefined> {
    this.#check();
    if (this.#polls) this.#leaving?.abort();
    else this.#queued ??= this.#queue();
    if (this.#lease !== undefined) return this.#handOver(this.#lease);
    return new Promise((resolve) => {
      const end = (lease?: Lease): void => {
        clearTimeout(timer);
        this.#resume = undefined;
        resolve(lease);
      };
      const timer = startTimer(end, ms);
      this.#resume = end;
    });
  }

  /** Nobody waits any more. Resolves once a lock that was granted all the same is released. */
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
      // The next attempt tells why.
      this.#realAttemptMs = 0;
    } finally {
      this.#calls.count(this.#key, -1);
      if (this.#lease === undefined) this.#queued = undefined;
    }
  }

  /** What was handed off inside the process is valid from Redis's last confirmation on: redlock's callers expect all of it. */
  async #renewed(lease: Lease): Promise<Lease | undefined> {
    if (lease.remaining() > this.#lifetime * 0.98) return lease;
    // Where it is not known whether it was extended, what is left counts.
    await lease.extend(this.#lifetime).catch(() => {});
    return lease.remaining() > 0 ? lease : undefined;
  }

  /** Sees whose the lock is, if that was not seen just now. */
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
