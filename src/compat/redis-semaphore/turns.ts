// The waiters of one process for the same lock, in order of arrival. They poll, as the waiters of all processes do. In addition, a
// release in this process wakes the first waiter, which attempts in the same tick. When one waiter has found the lock held, the others
// skip their attempts for a moment.

import { timers } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { onAbort } from '../../core/on-abort';
import { clearAlarm } from '../../core/timers';
import type { Moment } from '../../store/contract';

const ofClients = new WeakMap<object, Map<string, Turns>>();

/** The waiters for one lock. */
class Turns {
  readonly waiting = new Set<Turn>();
  /** Monotonic ms of the last attempt by one of the waiters, unless the attempt failed. */
  askedMs = Number.NEGATIVE_INFINITY;
}

/** The wait of one call, from its first pause to its end. */
export class Turn {
  readonly #client: object;
  readonly #key: string;
  readonly #isExclusive: boolean;
  #turns: Turns | undefined;
  #isAwake = false;
  #wake = (): void => {};

  /** @param isExclusive The lock has a single holder, so a refusal of one waiter counts for all. */
  constructor(client: object, key: string, isExclusive: boolean) {
    this.#client = client;
    this.#key = key;
    this.#isExclusive = isExclusive;
  }

  /** Tells if another waiter attempted within the last half of a pause. */
  isKnownBusy(pauseMs: number): boolean {
    return this.#isExclusive && performance.now() - (this.#turns?.askedMs ?? 0) < pauseMs / 2;
  }

  asks(): void {
    if (this.#turns !== undefined) this.#turns.askedMs = performance.now();
  }

  /** Notes that the last attempt failed. */
  failed(): void {
    if (this.#turns !== undefined) this.#turns.askedMs = Number.NEGATIVE_INFINITY;
  }

  /** Resolves with true when the waiter is woken, or with false after `ms`. Rejects with the signal's reason. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    this.#join();
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

  wake(): void {
    this.#isAwake = true;
    this.#wake();
  }

  /** Ends the wait. */
  end(): void {
    if (this.#turns === undefined) return;
    const { waiting } = this.#turns;
    waiting.delete(this);
    if (waiting.size === 0) ofClients.get(this.#client)?.delete(this.#key);
    this.#turns = undefined;
  }

  #join(): void {
    if (this.#turns !== undefined) return;
    const keys = ofClients.get(this.#client) ?? new Map<string, Turns>();
    ofClients.set(this.#client, keys);
    this.#turns = keys.get(this.#key) ?? new Turns();
    keys.set(this.#key, this.#turns);
    this.#turns.waiting.add(this);
  }
}

/** Wakes the first waiters, as many as `places` became free. */
export function wakeNext(client: object, key: string, places: number): void {
  let left = places;
  for (const turn of ofClients.get(client)?.get(key)?.waiting ?? []) {
    if (left <= 0) return;
    left -= 1;
    turn.wake();
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

/** The limits of an acquisition, and the pause between its attempts. */
export interface AttemptOptions {
  readonly acquireTimeout: number;
  readonly acquireAttemptsLimit: number;
  readonly retryInterval: number;
}

export interface TurnGrant {
  readonly fence: number;
  readonly sent: Moment;
}

/** The outcome of one attempt. */
export type TurnOutcome = (TurnGrant & { readonly granted: true }) | { readonly granted: false };

/** The object that makes the attempts. */
export interface Attempted {
  /** Makes one attempt. */
  _ask(): Promise<TurnOutcome>;
  /** Receives the error of each failed attempt. */
  _failed(error: unknown): void;
  _newTurn(): Turn;
}

/**
 * Attempts once each retryInterval, and whenever the waiter is woken. Resolves with undefined if no attempt succeeded.
 *
 * @throws {LockBackendError} the error of the last attempt; at once if the same call would fail again.
 * @throws the signal's reason.
 */
export async function attempts(
  options: AttemptOptions,
  signal: AbortSignal | undefined,
  attempted: Attempted,
): Promise<TurnGrant | undefined> {
  const endMs = performance.now() + options.acquireTimeout;
  let outcome: TurnOutcome | undefined;
  let failure: unknown;
  try {
    outcome = await attempted._ask();
  } catch (error) {
    failure = retryable(error, attempted);
  }
  if (outcome?.granted) return outcome;
  return moreAttempts(failure, endMs, options, signal, attempted);
}

/** Makes the attempts after the first. @param first The error of the first attempt. */
async function moreAttempts(
  first: unknown,
  endMs: number,
  { acquireAttemptsLimit, retryInterval }: AttemptOptions,
  signal: AbortSignal | undefined,
  attempted: Attempted,
): Promise<TurnGrant | undefined> {
  let failure = first;
  const attempt = async (): Promise<TurnGrant | undefined> => {
    try {
      failure = undefined;
      turn.asks();
      const outcome = await attempted._ask();
      return outcome.granted ? outcome : undefined;
    } catch (error) {
      turn.failed();
      failure = retryable(error, attempted);
      return undefined;
    }
  };
  const turn = attempted._newTurn();
  try {
    for (let made = 1; performance.now() < endMs && made < acquireAttemptsLimit; made += 1) {
      const nextMs = Math.min(performance.now() + retryInterval, endMs);
      for (;;) {
        const isWoken = await turn.pause(nextMs - performance.now(), signal);
        if (!isWoken && performance.now() >= endMs) break;
        signal?.throwIfAborted();
        if (!isWoken && turn.isKnownBusy(retryInterval)) break;
        const grant = await attempt();
        if (grant !== undefined) return grant;
        if (!isWoken) break;
      }
    }
  } finally {
    turn.end();
  }
  if (failure !== undefined) throw failure;
  return undefined;
}

/** Returns the error if the same call may succeed later. @throws any other error */
function retryable(error: unknown, attempted: Attempted): LockBackendError {
  attempted._failed(error);
  if (error instanceof LockBackendError && error.retryable) return error;
  throw error;
}
