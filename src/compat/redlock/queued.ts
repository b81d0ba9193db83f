// A call of redlock's `acquire` for one key on one client, beside processes of redlock that only poll.
//
// The schedule of attempts stays redlock's. Between two attempts the call is queued, so that a release hands the lock off to it at
// once. A scheduled attempt then needs no command, because a lock that was not handed off to the call is still held. One attempt a
// second is sent all the same, in case Redis or the queue is in trouble.
//
// A hand-off never leaves the key free, which would starve processes that only poll. So waiting calls check the holder now and then.
// If another program holds the lock, all calls for that client poll for a while, as redlock does.

import { acquire } from '../../acquire/acquisition';
import { specFor } from '../../acquire/spec';
import { endless } from '../../core/options';
import type { HeldLock } from '../../hold/held-lock';
import { PollingCall } from '../waiters';
import type { RedlockServers } from './servers';

const realAttemptEveryMs = 1000;

export class QueuedCall extends PollingCall<HeldLock> {
  readonly #servers: RedlockServers;
  /** The key as it was given. */
  readonly #key: string;
  readonly #full: string;
  readonly #lifetimeMs: number;
  #leaving: AbortController | undefined;
  /** The wait in the queue; undefined once it has ended without a lock. */
  #queued: Promise<void> | undefined;
  /** A lock from the queue that no pause has returned yet. */
  #held: HeldLock | undefined;

  constructor(servers: RedlockServers, key: string, full: string, lifetimeMs: number) {
    super(servers.client, full, true);
    this.#servers = servers;
    this.#key = key;
    this.#full = full;
    this.#lifetimeMs = lifetimeMs;
  }

  protected override get quietMs(): number {
    return this.#servers.havePollers ? 0 : realAttemptEveryMs;
  }

  /** Pauses between two attempts. Resolves with the lock if the queue grants it meanwhile, or with undefined after `ms`. */
  override pause(ms: number): Promise<HeldLock | undefined> {
    this.#servers.lookForPollers(this.#full, () => this.#leaving?.abort());
    if (this.#servers.havePollers) this.#leaving?.abort();
    else this.#queued ??= this.#queue();
    return super.pause(ms, async () => {
      const held = this.#held;
      this.#held = undefined;
      return held;
    });
  }

  /** Leaves the queue, because the call has ended. Resolves after the release of a lock that was granted all the same. */
  override async end(): Promise<void> {
    super.end();
    this.#leaving?.abort();
    await this.#queued;
    await this.#held?.release().catch(() => {});
  }

  async #queue(): Promise<void> {
    const { settings, scope } = this.#servers;
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    const terms = { ...endless(settings), lifetimeMs: this.#lifetimeMs, signal };
    try {
      this.#held = await this.#renewed(await acquire(specFor(this.#key, terms, scope, {}), (held) => held));
      if (this.#held !== undefined) this.wake();
    } catch {
      // The next attempt reports the error.
      if (!signal.aborted) this.failed();
    } finally {
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
