// The hold behind a Lock of redlock: a lease if the queue granted the lock, otherwise a tenure, which is identified by the lock's value.

import { tracesAcquires } from '../../core/acquire-trace';
import type { LockLostError } from '../../core/errors';
import type { Lease } from '../../hold/lease';
import { holdsAreObserved } from '../../hold/observation';
import { trustedMs } from '../../hold/validity';
import { type Moment, now } from '../../store/contract';
import { ExecutionError, noQuorum } from './attempts';
import type { ExecutionStats, RedlockAbortSignal } from './ballot';
import type { ClientCalls } from './queued';
import { after, Tenure } from './tenure';

export type RedlockHold = Lease | Tenure;

/** Released leases. Another release of such a lease finds nothing to release. */
const released = new WeakSet<Lease>();

/** Makes the signal of `using`. `failed` receives the failed attempts to extend the lock. */
export function signalOf(hold: RedlockHold, failed: Promise<ExecutionStats>[]): RedlockAbortSignal {
  const aborter = new AbortController();
  const signal: RedlockAbortSignal = aborter.signal;
  whenLost(hold, (loss) => {
    signal.error = new ExecutionError(noQuorum, failed, { cause: loss });
    aborter.abort(signal.error);
  });
  return signal;
}

function whenLost(hold: RedlockHold, onLoss: (loss: LockLostError) => void): void {
  if (hold instanceof Tenure) {
    hold.onLoss = onLoss;
    return;
  }
  const { signal } = hold;
  if (signal.aborted) onLoss(signal.reason);
  else signal.addEventListener('abort', () => onLoss(signal.reason));
}

export function leftMs(hold: RedlockHold): number {
  return hold instanceof Tenure ? hold.leftMs : hold.remaining();
}

/** Tells if somebody observes locks. Only leases report to observers. */
export function isObserved(): boolean {
  return tracesAcquires() || holdsAreObserved();
}

export async function askObserved({ withLock }: ClientCalls, key: string, lifetime: number): Promise<Lease | 0> {
  return (await withLock.tryLock(key, { lifetime })) ?? 0;
}

/** Releases a lease. Resolves with 0 if the lease was released before or no longer held the lock. */
export async function releaseOnce(lease: Lease): Promise<true | 0> {
  if (released.has(lease) || !(await lease.release())) return 0;
  released.add(lease);
  return true;
}

/** Extends a lease. Resolves with the moment at which the request was sent, or 0 if the lease no longer held the lock. */
export async function extendOnce(lease: Lease, duration: number): Promise<Moment | 0> {
  return (await lease.extend(duration)) ? sentOf(lease, duration) : 0;
}

/** The moment at which the last confirmed request of a lease was sent. */
export function sentOf(lease: Lease, duration: number): Moment {
  return after(now(), lease.remaining() - trustedMs(duration));
}
