// What a Lock of redlock is held by: a lease, where its queue granted it; else a tenure, which goes by its value.

import { tracesAcquires } from '../../core/acquire-trace';
import type { LockLostError } from '../../core/errors';
import type { Lease } from '../../hold/lease';
import { holdsAreObserved } from '../../hold/observation';
import { type Moment, now, trustedMs } from '../../store/contract';
import { ExecutionError, noQuorum } from './attempts';
import type { ExecutionStats, RedlockAbortSignal } from './ballot';
import type { ClientCalls } from './queued';
import { after, Tenure } from './tenure';

export type RedlockHold = Lease | Tenure;

/** Leases that were released: another release finds nothing. */
const released = new WeakSet<Lease>();

/** The signal of `using`. `failed` is filled as extensions fail. */
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

/** Those that observe locks hear of leases. */
export function isObserved(): boolean {
  return tracesAcquires() || holdsAreObserved();
}

export async function askObserved({ withLock }: ClientCalls, key: string, lifetime: number): Promise<Lease | 0> {
  return (await withLock.tryLock(key, { lifetime })) ?? 0;
}

/** Whether it was still ours. Another release finds nothing. */
export async function releaseOnce(lease: Lease): Promise<true | 0> {
  if (released.has(lease) || !(await lease.release())) return 0;
  released.add(lease);
  return true;
}

/** When the request was sent that extended it; 0 where it is not ours any more. */
export async function extendOnce(lease: Lease, duration: number): Promise<Moment | 0> {
  return (await lease.extend(duration)) ? sentOf(lease, duration) : 0;
}

/** When what Redis last confirmed of a lease was sent. */
export function sentOf(lease: Lease, duration: number): Moment {
  return after(now(), lease.remaining() - trustedMs(duration));
}
