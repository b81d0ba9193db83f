// A call of redlock's `acquire` for one key on one client, beside processes of redlock that only poll.
//
// The schedule of attempts stays redlock's. Between two attempts the call is queued, so that a release hands the lock off to it at
// once. A scheduled attempt then needs no command, because a lock that was not handed off to the call is still held. One attempt a
// second is sent all the same, in case Redis or the queue is in trouble.
//
// A hand-off never leaves the key free, which would starve processes that only poll. So waiting calls check the holder now and then.
// If another program holds the lock, all calls for that client poll for a while, as redlock does.

import { acquire } from '../../acquire/acquisition';
import type { Key } from '../../core/keys';
import { endless } from '../../core/options';
import type { HeldLock } from '../../hold/held-lock';
import { commandTimeoutMs } from '../stores';
import { Pause } from '../waiters';
import { owner, type RedlockServers } from './servers';

const realAttemptEveryMs = 1000;
const checkEveryMs = 20;
const besidePollersMs = 5000;

/** The calls for one client that wait for a single key. */
export class QueuedCalls {
  readonly servers: RedlockServers;
  /** Numbers of queued calls, by full key. */
  readonly #queued = new Map<string, number>();
  /** Monotonic ms until which all calls poll. */
  #pollUntilMs = 0;
  #checkAtMs = 0;

  constructor(servers: RedlockServers) {
    this.servers = servers;
  }

  get poll(): boolean {
    return performance.now() < this.#pollUntilMs;
  }

  isQueued(keys: Key): boolean {
    return typeof keys === 'string' && this.#queued.has(keys);
  }

  count(key: string, more: 1 | -1): void {
    const count = (this.#queued.get(key) ?? 0) + more;
    if (count > 0) this.#queued.set(key, count);
    else this.#queued.delete(key);
  }

  /** Checks the holder, unless it was checked within the last 20 ms. */
  check(key: string, onPoll: () => void): void {
    const nowMs = performance.now();
    if (this.poll || nowMs < this.#checkAtMs) return;
    this.#checkAtMs = nowMs + checkEveryMs;
    const checked = this.servers.store.inspect(key, commandTimeoutMs).then((state) => {
      if (!state.locked || state.owner === owner) return;
      this.#pollUntilMs = performance.now() + besidePollersMs;
      onPoll();
    });
    checked.catch(() => {});
  }
}

export class QueuedCall {
  readonly #calls: QueuedCalls;
  /** The key as it was given. */
  readonly #key: string;
  readonly #full: string;
  readonly #lifetimeMs: number;
  readonly #pause = new Pause();
  #leaving: AbortController | undefined;
  /** The wait in the queue; undefined once it has ended without a lock. */
  #queued: Promise<void> | undefined;
  /** A lock from the queue that no pause has returned yet. */
  #held: HeldLock | undefined;
  /** Monotonic ms of the next attempt with a command. The lock was requested just now, or other calls already wait for it. */
  #realAttemptMs = performance.now() + realAttemptEveryMs;

  constructor(calls: QueuedCalls, key: string, full: string, lifetimeMs: number) {
    this.#calls = calls;
    this.#key = key;
    this.#full = full;
    this.#lifetimeMs = lifetimeMs;
  }

  /** Tells if the lock is known to be held, without a command. */
  isKnownBusy(): boolean {
    return !this.#calls.poll && performance.now() < this.#realAttemptMs;
  }

  /** Notes that the lock is requested now. */
  asks(): void {
    this.#realAttemptMs = performance.now() + realAttemptEveryMs;
  }

  /** Pauses between two attempts. Resolves with the lock if the queue grants it meanwhile, or with undefined after `ms`. */
  async pause(ms: number): Promise<HeldLock | undefined> {
    this.#calls.check(this.#full, () => this.#leaving?.abort());
    if (this.#calls.poll) this.#leaving?.abort();
    else this.#queued ??= this.#queue();
    await this.#pause.sleep(ms);
    const held = this.#held;
    this.#held = undefined;
    return held;
  }

  /** Leaves the queue, because the call has ended. Resolves after the release of a lock that was granted all the same. */
  async end(): Promise<void> {
    this.#leaving?.abort();
    await this.#queued;
    await this.#held?.release().catch(() => {});
  }

  async #queue(): Promise<void> {
    const { settings, scope } = this.#calls.servers;
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    const terms = { ...endless(settings), lifetimeMs: this.#lifetimeMs, signal };
    this.#calls.count(this.#full, 1);
    try {
      this.#held = await this.#renewed(await acquire(this.#key, terms, scope, {}, (held) => held));
      if (this.#held !== undefined) this.#pause.wake();
    } catch {
      // The next attempt reports the error.
      this.#realAttemptMs = 0;
    } finally {
      this.#calls.count(this.#full, -1);
      if (this.#held === undefined) this.#queued = undefined;
    }
  }

  /** Extends a lock that was handed off with part of its lifetime gone, because redlock's callers expect the whole duration. */
  async #renewed(held: HeldLock): Promise<HeldLock | undefined> {
    if (held.remaining() > this.#lifetimeMs * 0.98) return held;
    // If the outcome of the extension is unknown, the remaining time counts.
    await held.keeper.extend(this.#lifetimeMs).catch(() => {});
    return held.remaining() > 0 ? held : undefined;
  }
}
