// The strategy of a mutex. The caller makes one attempt. If the key is busy, it joins a queue of its process (queue/queue.ts), which
// makes the requests for all its callers. It polls if it may not be queued.
import { LockBackendError } from '../core/errors';
import { setImmediate } from '../core/real-timers';
import { hasIncomingRequests } from '../core/runtime';
import type { Effort, Position, Waiter } from '../queue/queue';
import type { Follow, Queues } from '../queue/queues';
import type { AcquireReply } from '../store/contract';
import { Polling, type PollingCaller } from './polling';

export class Queued extends Polling<PollingCaller & Waiter> {
  /** The position in the queue; undefined before the caller is queued. */
  #position: Position | undefined;
  /** The queues while this caller makes its first attempt. */
  #attemptedIn: Queues | undefined;
  /** The callers of the same key that wait for the end of this one's first attempt. */
  #followers: Set<Follow> | undefined;
  #stopFollowing: (() => void) | undefined;

  override get effort(): Effort {
    return this.#position === undefined ? super.effort : { attempts: 1, queued: this.#position.hasWaited };
  }

  override giveUp(): void {
    super.giveUp();
    if (this.#position !== undefined) this.#position.queue.leave(this.#position); // H36b
  }

  override onReply(reply: AcquireReply, token: string): void {
    this.#endAttempt(undefined);
    super.onReply(reply, token);
  }

  override onFailure(error: unknown): void {
    this.#endAttempt(error);
    super.onFailure(error);
  }

  protected override beginAlone(queues: Queues | undefined): void {
    if (queues !== undefined && !hasIncomingRequests && this.#isBehind(queues)) return; // H99c
    this.attempt();
  }

  /** True if another caller makes its first attempt: this one would be refused, and is queued after that. */
  #isBehind(queues: Queues): boolean {
    const key = this.spec.keys as string;
    const first = queues.attempted.get(key);
    if (first === undefined) {
      queues.attempted.set(key, this);
      this.#attemptedIn = queues;
      return false;
    }
    this.#stopFollowing = first.follow((failure) => {
      this.#stopFollowing = undefined;
      if (failure !== undefined) this.caller.troubled(failure); // H72g
      this.enqueueWhenOpen(queues);
    });
    return true;
  }

  /** Calls `follow` once this caller's first attempt has ended. Returns a function that takes that back. */
  follow(follow: Follow): () => void {
    this.#followers ??= new Set();
    this.#followers.add(follow);
    return () => this.#followers!.delete(follow);
  }

  protected override stop(): void {
    super.stop();
    this.#stopFollowing?.();
    this.#endAttempt(undefined);
  }

  /** Lets the followers go on, in a turn of their own: a function that was granted the lock begins before thousands are queued. */
  #endAttempt(error: unknown): void {
    const queues = this.#attemptedIn;
    if (queues === undefined) return;
    this.#attemptedIn = undefined;
    const end = (): void => {
      queues.attempted.delete(this.spec.keys as string);
      const failure = error instanceof LockBackendError ? error : undefined;
      for (const follow of this.#followers ?? []) follow(failure);
    };
    if (this.#followers === undefined) end();
    else setImmediate(end); // H7c
  }

  protected override enqueue(queues: Queues): void {
    // The queue requests with its own token.
    this.attempts.drop();
    // Wake-ups are open, so Redis answers: an earlier failure is no longer why the caller waits.
    this.caller.troubled(undefined); // H72h
    this.wasQueued = true;
    const { keys, settings } = this.spec;
    const { lifetimeMs, fencing, owner } = settings;
    this.#position = queues.queue({ key: keys as string, lifetimeMs: lifetimeMs!, fencing, owner }).join(this.caller);
  }
}
