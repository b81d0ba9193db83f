// What the faces have in common: `([options], fn)` as arguments, a lease that is still worth something, and a function that
// runs under one.
import { LockBackendError, LockLostError, optionError } from './errors';
import { runWithin } from './flow';
import { describe } from './keys';
import { holdOf, type Lease } from './lease';

/** `([options], fn)`: the function comes last, the options before it. */
export function optionsThenFunction(
  rest: readonly unknown[],
  name: string,
): [options: unknown, fn: (...args: any[]) => unknown] {
  const [options, fn] = rest.length > 1 ? rest : [undefined, rest[0]];
  if (typeof fn !== 'function') throw optionError(name, 'a function, as the last argument', fn);
  return [options, fn as (...args: any[]) => unknown];
}

/** The lease, unless the process stood still until it was worth nothing. */
export function checkFresh<L extends Lease>(lease: L): L {
  const { loss } = holdOf(lease);
  if (loss === undefined) return lease;
  void holdOf(lease).releaseQuietly();
  const message = `the grant of ${describe(lease.key)} was over before it could be used`;
  throw new LockBackendError(message, { key: lease.key, cause: loss });
}

/** Runs `fn`, and gives the lock back. What `fn` threw goes before everything; then a loss. */
export async function runUnder<L extends Lease, T>(lease: L, fn: (lease: L) => T | PromiseLike<T>): Promise<T> {
  const hold = holdOf(checkFresh(lease));
  let result: T;
  try {
    result = await runWithin(hold, () => fn(lease));
  } catch (error) {
    await hold.releaseQuietly();
    throw error;
  }
  const lostMeanwhile = hold.loss;
  await hold.releaseQuietly();
  const loss = lostMeanwhile ?? hold.loss;
  if (loss === undefined) return result;
  throw new LockLostError(loss.message, { key: lease.key, reason: loss.reason, result, cause: loss });
}
