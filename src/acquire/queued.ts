// The strategy of a mutex. The callers of one process that want the same key line up: the first of them makes one attempt. If the key
// is busy, all join a queue of the process (queue/queue.ts), which makes the requests for its callers. Where they may not be queued,
// the first in line polls, and the next one takes its place when it is granted the lock or gives up.
import { LockBackendError } from '../core/errors';
import { listOf } from '../core/keys';
import { type Linked, LinkedList } from '../core/linked-list';
import { perObject } from '../core/per-object';
import { setImmediate } from '../core/real-timers';
import { hasIncomingRequests } from '../core/runtime';
import { handOffsAlone } from '../queue/policy';
import type { Waiter } from '../queue/queue';
import type { AcquireReply, GrantSource, ReleaseRequest, Store } from '../store/contract';
import { Polling, type PollingCaller } from './polling';
import { termsOf } from './spec';

/** The callers that want one key. */
interface Line {
  first: Queued;
  readonly others: LinkedList<Queued>;
  /** The number of attempts in a row that followed the end of a lock. */
  inARow: number;
  /** The failure of the last attempt; undefined after a plain "busy". */
  failure: LockBackendError | undefined;
}

const linesOf = perObject((_store: Store) => new Map<string, Line>());

/**
 * The source of grants that no queue has made: when a lock has ended, the first in line attempts. After 64 times it pauses once,
 * so that callers of other processes find the key free.
 */
export const lineSourceOf = perObject((store: Store): GrantSource => {
  const wake = ({ keys }: ReleaseRequest): void => {
    for (const key of listOf(keys)) {
      const line = linesOf(store).get(key);
      if (line === undefined) continue;
      line.inARow += 1;
      // H99k
      if (line.inARow <= handOffsAlone) line.first.wake();
      else if (line.first.yields(line.failure)) line.inARow = 0;
    }
  };
  return {
    release(held) {
      const request = held.releaseRequest();
      const reply = store.release(request);
      // Not sooner: until the attempt arrives, callers of other processes that poll find the key free.
      const wakeFirst = (): void => wake(request);
      reply.then(wakeFirst, wakeFirst);
      return reply;
    },
    lost: (held) => wake(held.releaseRequest()),
  };
});

export class Queued extends Polling<PollingCaller & Waiter> implements Linked<Queued> {
  before: Queued | undefined;
  after: Queued | undefined;
  #line: Line | undefined;

  override onReply(reply: AcquireReply, token: string): void {
    this.#tell(undefined);
    super.onReply(reply, token);
  }

  override onFailure(error: unknown): void {
    this.#tell(error);
    super.onFailure(error);
  }

  /** Pauses anew. False if an attempt is in flight. */
  yields(failure: LockBackendError | undefined): boolean {
    if (!this.isPausing) return false;
    this.attempts.endPause();
    this.next(failure);
    return true;
  }

  protected override beginAlone(): void {
    const { keys, settings } = this.spec;
    const mayLineUp = settings.queued && typeof keys === 'string' && !hasIncomingRequests;
    if (mayLineUp && this.#isBehind()) return; // H99c
    this.attempt();
  }

  /** True if another caller is first in line: this one would be refused. A caller that waits in another way or at another pace is in no line. */
  #isBehind(): boolean {
    const lines = linesOf(this.spec.store);
    const key = this.spec.keys as string;
    const line = lines.get(key) ?? { first: this, others: new LinkedList<Queued>(), inARow: 0, failure: undefined };
    const isAtOurPace = this.queues !== undefined || line.first.caller.retryTimeoutMs === this.caller.retryTimeoutMs;
    if (line.first.queues !== this.queues || !isAtOurPace) return false;
    this.#line = line;
    if (line.first === this) {
      lines.set(key, line);
      return false;
    }
    line.others.add(this);
    this.wasQueued = this.queues === undefined;
    if (line.failure !== undefined) this.caller.troubled(line.failure);
    return true;
  }

  /** Tells the others in line the outcome of an attempt. With wake-ups, the line ends. */
  #tell(error: unknown): void {
    const line = this.#line;
    if (line === undefined) return;
    const failure = error instanceof LockBackendError ? error : undefined;
    if (failure !== line.failure) for (const other of line.others) other.caller.troubled(failure); // H72g
    line.failure = failure;
    if (this.queues !== undefined) this.#leave();
  }

  protected override stop(): void {
    super.stop();
    this.#leave();
  }

  #leave(): void {
    const line = this.#line;
    if (line === undefined) return;
    this.#line = undefined;
    if (line.first !== this) return void line.others.delete(this);
    const dissolve = (): void => this.#dissolve(line);
    if (this.queues === undefined) queueMicrotask(() => this.#passOn(line));
    else if (line.others.size === 0) dissolve();
    // A turn of its own: a function that was granted the lock begins before thousands are queued.
    else setImmediate(dissolve); // H7c
  }

  /** Lets the next caller be the first in line. It begins with a pause: the lock is most likely held in this process. */
  #passOn(line: Line): void {
    const next = line.others.first;
    if (next === undefined) return this.#dissolve(line);
    line.others.delete(next);
    line.first = next;
    next.next(line.failure);
  }

  #dissolve(line: Line): void {
    linesOf(this.spec.store).delete(this.spec.keys as string);
    for (let other = line.others.first; other !== undefined; other = line.others.first) {
      line.others.delete(other);
      other.#line = undefined;
      other.enqueueWhenOpen();
    }
  }

  protected override enqueue(): void {
    // The queue requests with its own token.
    this.giveUp();
    // Wake-ups are open, so Redis answers: an earlier failure is no longer why the caller waits.
    this.caller.troubled(undefined); // H72h
    this.caller.waitIn!(this.queues!.queue(termsOf(this.spec)));
  }
}
