// The strategy of a mutex. The caller makes one attempt. If the key is busy, it joins a queue of its process (queue/queue.ts), which
// makes the requests for all its callers. It polls if it may not be queued.
import type { Effort } from '../core/acquire-trace';
import type { Position, Waiter } from '../queue/queue';
import type { Queues } from '../queue/queues';
import { Polling, type PollingCaller } from './polling';

export class Queued extends Polling<PollingCaller & Waiter> {
  /** The position in the queue; undefined before the caller is queued. */
  #position: Position | undefined;

  override get effort(): Effort {
    return this.#position === undefined ? super.effort : { attempts: 1, queued: this.#position.hasWaited };
  }

  override giveUp(): void {
    super.giveUp();
    if (this.#position !== undefined) this.#position.queue.leave(this.#position); // H36b
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
