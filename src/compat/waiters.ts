// The callers of one process that poll for the same lock, in order of arrival. A release in this process wakes the first of them,
// which attempts in the same tick. When one caller has found the lock held, the others skip their attempts for a moment.
import { timers } from '../core/clock';
import { onAbort } from '../core/on-abort';
import { type Alarm, clearAlarm } from '../core/timers';

/** A pause that others may end, even before it begins. */
export class Pause {
  #isAwake = false;
  #end = (): void => {};

  wake(): void {
    this.#isAwake = true;
    this.#end();
  }

  /** Resolves with true when woken, or with false after `ms`. Rejects with the signal's reason. */
  async sleep(ms: number, signal?: AbortSignal): Promise<boolean> {
    let alarm: Alarm | undefined;
    const stopListening = signal && onAbort(signal, () => this.#end());
    await new Promise<void>((resolve) => {
      this.#end = resolve;
      alarm = timers.set(resolve, ms);
      if (this.#isAwake || signal?.aborted) resolve();
    });
    clearAlarm(alarm);
    stopListening?.();
    signal?.throwIfAborted();
    const isAwake = this.#isAwake;
    this.#isAwake = false;
    return isAwake;
  }
}

/** The callers that wait for one lock. */
class PollingCalls {
  readonly pauses = new Set<Pause>();
  /** Monotonic ms of the last attempt by one of the callers, unless the attempt failed. */
  askedMs = Number.NEGATIVE_INFINITY;
}

const ofClients = new WeakMap<object, Map<string, PollingCalls>>();

/** Makes one attempt. Resolves with false if the lock is held, or with undefined if Redis gave no usable reply. */
export type OneAttempt<T extends object> = () => Promise<T | false | undefined>;

/** The wait of one call, from its first pause to its end. */
export class PollingCall<T extends object> {
  readonly #names: Map<string, PollingCalls>;
  readonly #name: string;
  readonly #calls: PollingCalls;
  readonly #isExclusive: boolean;
  readonly #ask: OneAttempt<T>;
  readonly #pause = new Pause();
  #lastPauseMs = 0;

  /** @param isExclusive The lock has a single holder, so a refusal of one caller counts for all. */
  constructor(client: object, name: string, isExclusive: boolean, ask: OneAttempt<T>) {
    this.#names = ofClients.get(client) ?? new Map();
    ofClients.set(client, this.#names);
    this.#calls = this.#names.get(name) ?? new PollingCalls();
    this.#names.set(name, this.#calls);
    this.#calls.pauses.add(this.#pause);
    this.#name = name;
    this.#isExclusive = isExclusive;
    this.#ask = ask;
  }

  /** Tells if another caller attempted within the last half of our last pause. */
  isKnownBusy(): boolean {
    return this.#isExclusive && performance.now() - this.#calls.askedMs < this.#lastPauseMs / 2;
  }

  /** Makes one attempt. */
  async attempt(): Promise<T | undefined> {
    this.asks();
    const reply = await this.#ask();
    if (reply === undefined) this.#calls.askedMs = Number.NEGATIVE_INFINITY;
    return reply || undefined;
  }

  /** Notes that an attempt begins now. */
  asks(): void {
    this.#calls.askedMs = performance.now();
  }

  /** Pauses. Resolves with a grant if an attempt after a wake-up succeeds, or with undefined after `ms`. Rejects with the signal's reason. */
  async pause(ms: number, signal?: AbortSignal): Promise<T | undefined> {
    this.#lastPauseMs = ms;
    const endMs = performance.now() + ms;
    while (await this.#pause.sleep(endMs - performance.now(), signal)) {
      const grant = await this.attempt();
      if (grant !== undefined) return grant;
    }
    return undefined;
  }

  end(): void {
    this.#calls.pauses.delete(this.#pause);
    if (this.#calls.pauses.size === 0) this.#names.delete(this.#name);
  }
}

/** Wakes the first callers, as many as `places` became free. */
export function wakeNext(client: object, name: string, places: number): void {
  let left = places;
  for (const pause of ofClients.get(client)?.get(name)?.pauses ?? []) {
    if (left <= 0) return;
    left -= 1;
    pause.wake();
  }
}
