// The calls of one process that wait for the same lock, in order of arrival. A release in this process wakes the first of them,
// which attempts in the same tick. When one call has found the lock held, the others skip their attempts for a moment.
// Calls under one token attempt one after the other.
import { Bell } from '../core/clock';
import { onAbort } from '../core/on-abort';
import { perObject } from '../core/per-object';

/** The calls that wait for one lock. */
class WaitingCalls {
  readonly all = new Set<PollingCall<unknown>>();
  /** Monotonic ms of the last attempt by one of the calls, unless the attempt failed. The first call attempted before it waits. */
  askedMs = performance.now();
}

const callsFor = perObject((_client: object) => new Map<string, WaitingCalls>());

/** The wait of one call, from its first pause to its end. */
export class PollingCall<T> {
  readonly #byName: Map<string, WaitingCalls>;
  readonly #name: string;
  readonly #calls: WaitingCalls;
  readonly #isExclusive: boolean;
  #lastPauseMs = 0;
  readonly #bell = new Bell();

  /** @param isExclusive The lock has a single holder, so a refusal of one call counts for all. */
  constructor(client: object, name: string, isExclusive: boolean) {
    this.#byName = callsFor(client);
    this.#calls = this.#byName.get(name) ?? new WaitingCalls();
    this.#byName.set(name, this.#calls);
    this.#calls.all.add(this);
    this.#name = name;
    this.#isExclusive = isExclusive;
  }

  /** Tells if an attempt of one of the calls was so recent that the lock still counts as held. */
  isKnownBusy(): boolean {
    return performance.now() - this.#calls.askedMs < this.quietMs;
  }

  /** Ms after an attempt for which it counts for the other calls. */
  protected get quietMs(): number {
    return this.#isExclusive ? this.#lastPauseMs / 2 : 0;
  }

  /** Makes an attempt. */
  async attempt<R>(ask: () => Promise<R>): Promise<R> {
    this.#calls.askedMs = performance.now();
    try {
      return await ask();
    } catch (error) {
      this.failed();
      throw error;
    }
  }

  /** Notes that an attempt failed: it counts for no other call. */
  protected failed(): void {
    this.#calls.askedMs = Number.NEGATIVE_INFINITY;
  }

  /** Pauses. Resolves with a grant if `ask` gets one after a wake-up, or with undefined after `ms`. Rejects with the signal's reason. */
  async pause(ms: number, ask: () => Promise<T | undefined>, signal?: AbortSignal): Promise<T | undefined> {
    this.#lastPauseMs = ms;
    const endMs = performance.now() + ms;
    while (await this.#sleep(endMs - performance.now(), signal)) {
      const grant = await ask();
      if (grant !== undefined) return grant;
    }
    return undefined;
  }

  /** Ends the pause, or the next one if there is none now. */
  wake(): void {
    this.#bell.ring();
  }

  end(): void | Promise<void> {
    this.#calls.all.delete(this);
    if (this.#calls.all.size === 0) this.#byName.delete(this.#name);
  }

  /** Resolves with true when woken, or with false after `ms`. */
  async #sleep(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    signal?.throwIfAborted();
    const stopListening = signal && onAbort(signal, () => this.wake());
    const isAwake = await this.#bell.wait(ms);
    stopListening?.();
    signal?.throwIfAborted();
    return isAwake;
  }
}

/** Tells if calls wait for a lock. */
export function isAwaited(client: object, name: string): boolean {
  return callsFor(client).has(name);
}

/** Wakes the first calls, as many as `places` became free. */
export function wakeNext(client: object, name: string, places: number): void {
  let left = places;
  for (const call of callsFor(client).get(name)?.all ?? []) {
    if (left <= 0) return;
    left -= 1;
    call.wake();
  }
}

/** The last work that began under each name. */
const underWay = new Map<string, Promise<unknown>>();

/** Runs `work` when all earlier work under the same name has settled. */
export async function oneByOne<T>(name: string, work: () => Promise<T>): Promise<T> {
  const before = underWay.get(name);
  const running = before === undefined ? work() : before.then(work, work);
  underWay.set(name, running);
  try {
    return await running;
  } finally {
    if (underWay.get(name) === running) underWay.delete(name);
  }
}
