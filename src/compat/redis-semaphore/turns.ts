// The waiters of one process for the same lock, first come first. They poll, as all that wait for it anywhere; on top of that, a
// release in this process wakes the first of them, which attempts in the same tick. Once one has heard that the lock is held,
// the others need not ask for a moment.
import { LockBackendError } from '../../core/errors';
import { onAbort } from '../../core/on-abort';
import { startTimer } from '../../core/timers';
import type { Moment } from '../../store/contract';

const ofClients = new WeakMap<object, Map<string, Turns>>();

/** Those that wait for one lock. */
class Turns {
  readonly waiting = new Set<Turn>();
  /** Monotonic ms at which one of them asked last; unless that failed. */
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

  /** @param isExclusive The lock is held by one: what one waiter hears holds for all. */
  constructor(client: object, key: string, isExclusive: boolean) {
    this.#client = client;
    this.#key = key;
    this.#isExclusive = isExclusive;
  }

  /** Whether another one asked within half of a pause. */
  isKnownBusy(pauseMs: number): boolean {
    return this.#isExclusive && performance.now() - (this.#turns?.askedMs ?? 0) < pauseMs / 2;
  }

  asks(): void {
    if (this.#turns !== undefined) this.#turns.askedMs = performance.now();
  }

  /** It was not answered. */
  failed(): void {
    if (this.#turns !== undefined) this.#turns.askedMs = Number.NEGATIVE_INFINITY;
  }

  /** Resolves with true when it is woken, and with false after `ms`. Rejects with the signal's reason. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    this.#join();
    return new Promise((resolve, reject) => {
      const stop = (settle: () => void): void => {
        clearTimeout(timer);
        stopListening?.();
        this.#wake = () => {};
        this.#isAwake = false;
        settle();
      };
      const giveUp = (): void => stop(() => reject(signal!.reason));
      const timer = startTimer(() => stop(() => resolve(false)), ms);
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

  /** It waits no more. */
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

/** So many places became free: as many of those who wait first ask now. */
export function wakeNext(client: object, key: string, places: number): void {
  let left = places;
  for (const turn of ofClients.get(client)?.get(key)?.waiting ?? []) {
    if (left <= 0) return;
    left -= 1;
    turn.wake();
  }
}

/** What is asked for under one identity, one after the other. */
const underWay = new Map<string, Promise<unknown>>();

/** Runs `work` when what was begun before under the same name has settled. */
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

/** How long, how often and after which pauses is asked. */
export interface AttemptOptions {
  readonly acquireTimeout: number;
  readonly acquireAttemptsLimit: number;
  readonly retryInterval: number;
}

export interface TurnGrant {
  readonly fence: number;
  readonly sent: Moment;
}

/** Of one attempt. */
export type TurnOutcome = (TurnGrant & { readonly granted: true }) | { readonly granted: false };

/** What attempts are made for. */
export interface Attempted {
  /** One attempt. */
  _ask(): Promise<TurnOutcome>;
  /** Hears of each attempt that failed. */
  _failed(error: unknown): void;
  _newTurn(): Turn;
}

/**
 * Attempts, one each retryInterval and one whenever it is woken. undefined: none succeeded.
 *
 * @throws {LockBackendError} what the last attempt failed with; at once where the same call would fail again.
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

/** @param first What the first attempt failed with. */
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

/** The error, where the same call may not fail again. */
function retryable(error: unknown, attempted: Attempted): LockBackendError {
  attempted._failed(error);
  if (error instanceof LockBackendError && error.retryable) return error;
  throw error;
}
