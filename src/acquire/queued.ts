// The strategy of a mutex. The caller makes one attempt. If the key is busy, it joins a queue of its process (queue/queue.ts), which
// makes the requests for all its callers. It polls if it may not be queued.
import { LockBackendError } from '../core/errors';
import { perObject } from '../core/per-object';
import { setImmediate } from '../core/real-timers';
import { hasIncomingRequests } from '../core/runtime';
import type { Effort, Position, Waiter } from '../queue/queue';
import type { Queues } from '../queue/queues';
import type { AcquireReply } from '../store/contract';
import { Polling, type PollingCaller } from './polling';
import { queuesFor, termsOf } from './spec';

/** The callers that make their first attempt, by key. Further callers of the key follow them. */
const attemptedIn = perObject((_queues: Queues) => new Map<string, Queued>());

export class Queued extends Polling<PollingCaller & Waiter> {
  /** The position in the queue; undefined before the caller is queued. */
  #position: Position | undefined;
  /** The first attempts, while this caller makes one of them. */
  #attempted: Map<string, Queued> | undefined;
  /** The callers of the same key that wait for the end of this one's first attempt. */
  #followers: Queued[] | undefined;

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
    const attempted = attemptedIn(queues);
    const first = attempted.get(key);
    if (first !== undefined) {
      first.#followers ??= [];
      first.#followers.push(this);
      return true;
    }
    attempted.set(key, this);
    this.#attempted = attempted;
    return false;
  }

  protected override stop(): void {
    super.stop();
    this.#endAttempt(undefined);
  }

  /** Lets the followers go on, in a turn of their own: a function that was granted the lock begins before thousands are queued. */
  #endAttempt(error: unknown): void {
    const attempted = this.#attempted;
    if (attempted === undefined) return;
    this.#attempted = undefined;
    const end = (): void => {
      attempted.delete(this.spec.keys as string);
      for (const follower of this.#followers ?? []) follower.#follow(error);
    };
    if (this.#followers === undefined) end();
    else setImmediate(end); // H7c
  }

  /** Goes on after the first attempt of another caller, which may have failed. */
  #follow(error: unknown): void {
    if (this.isSettled) return;
    if (error instanceof LockBackendError) this.caller.troubled(error); // H72g
    this.enqueueWhenOpen(queuesFor(this.spec)!);
  }

  protected override enqueue(queues: Queues): void {
    // The queue requests with its own token.
    this.attempts.drop();
    // Wake-ups are open, so Redis answers: an earlier failure is no longer why the caller waits.
    this.caller.troubled(undefined); // H72h
    this.wasQueued = true;
    this.#position = queues.queue(termsOf(this.spec)).join(this.caller);
  }
}
