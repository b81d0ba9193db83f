// The callers of one process that poll for the same lock, in order of arrival. A release in this process wakes the first of them,
// which attempts in the same tick. When one caller has found the lock held, the others skip their attempts for a moment.
import { timers } from '../core/clock';
import { onAbort } from '../core/on-abort';
import { clearAlarm } from '../core/timers';

/** The callers that wait for one lock. */
class PollingCalls {
  readonly all = new Set<{ wake(): void }>();
  /** Monotonic ms of the last attempt by one of the callers, unless the attempt failed. */
  askedMs = Number.NEGATIVE_INFINITY;
}

const ofClients = new WeakMap<object, Map<string, PollingCalls>>();

/** Makes one attempt. Resolves with false if the lock is held, or with undefined if Redis gave no usable reply. */
export type OneAttempt<T extends object> = () => Promise<T | false | undefined>;

/** The wait of one call, from its first pause to its end. */
export class PollingCall<T extends object> {
  readonly #client: object;
  readonly #name: string;
  readonly #isExclusive: boolean;
  readonly #ask: OneAttempt<T>;
  #waiters: PollingCalls | undefined;
  #isAwake = false;
  #wake = (): void => {};

  /** @param isExclusive The lock has a single holder, so a refusal of one caller counts for all. */
  constructor(client: object, name: string, isExclusive: boolean, ask: OneAttempt<T>) {
    this.#client = client;
    this.#name = name;
    this.#isExclusive = isExclusive;
    this.#ask = ask;
  }

  /** Tells if another caller attempted within the last half of a pause. */
  isKnownBusy(pauseMs: number): boolean {
    return this.#isExclusive && performance.now() - (this.#waiters?.askedMs ?? 0) < pauseMs / 2;
  }

  /** Makes one attempt. */
  async attempt(): Promise<T | undefined> {
    this.asks();
    const reply = await this.#ask();
    if (reply === undefined && this.#waiters !== undefined) this.#waiters.askedMs = Number.NEGATIVE_INFINITY;
    return reply || undefined;
  }

  /** Notes that an attempt begins now. */
  asks(): void {
    if (this.#waiters !== undefined) this.#waiters.askedMs = performance.now();
  }

  /** Pauses. Resolves with a grant if an attempt after a wake-up succeeds, or with undefined after `ms`. Rejects with the signal's reason. */
  async pause(ms: number, signal?: AbortSignal): Promise<T | undefined> {
    this.#waiters ??= this.#join();
    const endMs = performance.now() + ms;
    while (await this.#sleep(endMs - performance.now(), signal)) {
      signal?.throwIfAborted();
      const grant = await this.attempt();
      if (grant !== undefined) return grant;
    }
    return undefined;
  }

  wake(): void {
    this.#isAwake = true;
    this.#wake();
  }

  end(): void {
    this.#waiters?.all.delete(this);
    if (this.#waiters?.all.size === 0) ofClients.get(this.#client)!.delete(this.#name);
    this.#waiters = undefined;
  }

  /** Resolves with true when this caller is woken, or with false after `ms`. */
  #sleep(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const stop = (settle: () => void): void => {
        clearAlarm(alarm);
        stopListening?.();
        this.#wake = () => {};
        this.#isAwake = false;
        settle();
      };
      const giveUp = (): void => stop(() => reject(signal!.reason));
      const alarm = timers.set(() => stop(() => resolve(false)), ms);
      this.#wake = () => stop(() => resolve(true));
      const stopListening = signal && onAbort(signal, giveUp);
      if (signal?.aborted) giveUp();
      else if (this.#isAwake) this.#wake();
    });
  }

  #join(): PollingCalls {
    const names = ofClients.get(this.#client) ?? new Map<string, PollingCalls>();
    ofClients.set(this.#client, names);
    const waiters = names.get(this.#name) ?? new PollingCalls();
    names.set(this.#name, waiters);
    waiters.all.add(this);
    return waiters;
  }
}

/** Wakes the first callers, as many as `places` became free. */
export function wakeNext(client: object, name: string, places: number): void {
  let left = places;
  for (const waiter of ofClients.get(client)?.get(name)?.all ?? []) {
    if (left <= 0) return;
    left -= 1;
    waiter.wake();
  }
}
