// redis-semaphore's attempts: one each retryInterval until acquireTimeout ends, and one whenever a release in this process wakes the
// caller.
import { LockBackendError } from '../../core/errors';
import type { Moment } from '../../store/contract';
import type { OneAttempt, PollingCall } from '../waiters';

/** The last work that began under each name. */
const underWay = new Map<string, Promise<unknown>>();

/** @internal Runs `work` when all earlier work under the same name has settled. */
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

/** @internal */
export interface PeerGrant {
  readonly fence: number;
  readonly sent: Moment;
}

/** @internal The object that makes the attempts. */
export interface Attempted {
  /** Makes one attempt. Resolves with false if the lock is held. */
  _ask(): Promise<PeerGrant | false>;
  /** Receives the error of each failed attempt. */
  _failed(error: unknown): void;
  _newCall(ask: OneAttempt<PeerGrant>): PollingCall<PeerGrant>;
}

/**
 * @internal Attempts until an attempt succeeds. Resolves with undefined if no attempt succeeded.
 *
 * @throws {LockBackendError} the error of the last attempt; at once if the same call would fail again.
 * @throws the signal's reason.
 */
export async function attempts(
  { acquireTimeout, acquireAttemptsLimit, retryInterval }: AttemptOptions,
  signal: AbortSignal | undefined,
  attempted: Attempted,
): Promise<PeerGrant | undefined> {
  const endMs = performance.now() + acquireTimeout;
  let failure: LockBackendError | undefined;
  const ask = async (): Promise<PeerGrant | false | undefined> => {
    try {
      failure = undefined;
      return await attempted._ask();
    } catch (error) {
      attempted._failed(error);
      if (!(error instanceof LockBackendError && error.retryable)) throw error;
      failure = error;
      return undefined;
    }
  };
  const first = await ask();
  if (first) return first;
  const call = attempted._newCall(ask);
  try {
    for (let made = 1; performance.now() < endMs && made < acquireAttemptsLimit; made += 1) {
      const woken = await call.pause(Math.min(retryInterval, endMs - performance.now()), signal);
      if (woken !== undefined) return woken;
      if (performance.now() >= endMs) break;
      const grant = call.isKnownBusy() ? undefined : await call.attempt();
      if (grant !== undefined) return grant;
    }
  } finally {
    call.end();
  }
  if (failure !== undefined) throw failure;
  return undefined;
}
