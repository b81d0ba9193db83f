// The strategy of a mutex. The caller makes one attempt. If the key is busy, it joins a queue of its process (queue/queue.ts), which
// makes the requests for all its callers. It polls if it may not be queued.
import type { Effort } from '../core/acquire-trace';
import { LockBackendError } from '../core/errors';
import { hasIncomingRequests } from '../core/runtime';
import type { Position, Waiter } from '../queue/queue';
import type { Queues } from '../queue/queues';
import type { AcquireReply } from '../store/contract';
import { Polling, type PollingCaller } from './polling';

export class Queued extends Polling<PollingCaller & Waiter> {
  /** The position in the queue; undefined before the caller is queued. */
  #position: Position | undefined;
  /** Set while this caller makes its first attempt. */
  #attempted: Queues['attempted'] | undefined;
  #stopFollowing: (() => void) | undefined;

  override get effort(): Effort {
    return this.#position === undefined ? super.effort : { attempts: 1, queued: this.#position.hasWaited };
  }

  override giveUp(): void {
    super.giveUp();
    if (this.#position !== undefined) this.#position.queue.leave(this.#position); // H36b
  }

  override onReply(reply: AcquireReply, token: string): void {
    super.onReply(reply, token);
    this.#endAttempt(undefined);
  }

  override onFailure(error: unknown): void {
    super.onFailure(error);
    this.#endAttempt(error);
  }

  protected override beginAlone(queues: Queues | undefined): void {
    if (queues !== undefined && !hasIncomingRequests && this.#isBehind(queues)) return; // H99c
    this.attempt();
  }

  /** True if another caller makes its first attempt: this one would be refused, and is queued after that. */
  #isBehind(queues: Queues): boolean {
    const key = this.spec.keys as string;
    const followers = queues.attempted.get(key);
    if (followers === undefined) {
      this.#attempted = queues.attempted.set(key, new Set());
      return false;
    }
    const follow = (failure: LockBackendError | undefined): void => {
      this.#stopFollowing = undefined;
      if (failure !== undefined) this.caller.troubled(failure); // H72g
      this.enqueueWhenOpen(queues);
    };
    followers.add(follow);
    this.#stopFollowing = () => followers.delete(follow);
    return true;
  }

  protected override stop(): void {
    super.stop();
    this.#stopFollowing?.();
    this.#endAttempt(undefined);
  }

  #endAttempt(error: unknown): void {
    const key = this.spec.keys as string;
    const followers = this.#attempted?.get(key);
    this.#attempted?.delete(key);
    this.#attempted = undefined;
    const failure = error instanceof LockBackendError ? error : undefined;
    for (const follow of followers ?? []) follow(failure);
  }

  protected override enqueue(queues: Queues): void {
    // The queue requests with its own token.
    this.attempts.drop();
    this.wasQueued = true;
    const { keys, settings } = this.spec;
    const { lifetimeMs, fencing, owner } = settings;
    this.#position = queues.queue({ key: keys as string, lifetimeMs: lifetimeMs!, fencing, owner }).join(this.caller);
  }
}
