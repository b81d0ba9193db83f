// The trace of one acquire: `redis-exp-lock:acquire` publishes its start and its one end, with everything known by then.
import { LockClosedError, LockLostError, LockTimeoutError, TooManyLockAttemptsError } from '../core/errors';
import { type AcquireEvent, type AcquireOutcome, lockEvent, type Observable } from '../core/events';
import { tracingChannel } from '../core/runtime';
import type { Effort } from '../queue/queue';

const acquireChannel = tracingChannel<AcquireEvent, AcquireEvent>('redis-exp-lock:acquire');
const { start, end, asyncStart, asyncEnd, error: errorChannel } = acquireChannel;
const parts = [start, end, asyncStart, asyncEnd, errorChannel];

/** True if somebody listens. Asks each part: the channel itself has no `hasSubscribers` before Node 20.13. */
export function tracesAcquires(): boolean {
  for (const part of parts) if (part.hasSubscribers) return true;
  return false;
}

export class AcquireTrace {
  readonly #event: AcquireEvent;
  readonly #signal: AbortSignal | undefined;
  readonly #startMs = performance.now();

  constructor(of: Observable, signal: AbortSignal | undefined) {
    this.#event = lockEvent(of);
    this.#signal = signal;
  }

  /** Runs the acquire and returns its own promise: a further promise would cost an error its stack. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const event = this.#event;
    return start.runStores(event, () => {
      try {
        const acquiring = work();
        acquiring.then(
          (result) => this.#end({ result }),
          (error) => this.#end({ error }),
        );
        return acquiring;
      } finally {
        end.publish(event);
      }
    });
  }

  failed(error: unknown, effort: Effort | undefined): void {
    this.settled(outcomeOf(error, this.#signal), effort);
  }

  /** Notes the outcome. A single try that is `busy` is no failure: its result is null. */
  settled(outcome: AcquireOutcome, effort: Effort | undefined, fence = 0): void {
    const { count: attempts, hasWaited: queued } = effort ?? { count: 0, hasWaited: false };
    Object.assign(this.#event, { waitedMs: performance.now() - this.#startMs, attempts, queued, fence, outcome });
  }

  #end(answer: { readonly result: unknown } | { readonly error: unknown }): void {
    Object.assign(this.#event, answer);
    if ('error' in answer) errorChannel.publish(this.#event);
    asyncStart.publish(this.#event);
    asyncEnd.publish(this.#event);
  }
}

function outcomeOf(error: unknown, signal: AbortSignal | undefined): AcquireOutcome {
  if (error instanceof LockClosedError || isReasonOf(signal, error)) return 'aborted';
  if (error instanceof TooManyLockAttemptsError) return 'busy';
  if (error instanceof LockTimeoutError) return 'timeout';
  return error instanceof LockLostError ? 'lost' : 'error';
}

/** True if `error` is the signal's reason, or an error whose cause is that reason. */
function isReasonOf(signal: AbortSignal | undefined, error: unknown): boolean {
  if (!signal?.aborted) return false;
  return error === signal.reason || (error instanceof Error && error.cause === signal.reason);
}
