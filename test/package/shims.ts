// A program that uses the types of the shims as one for redlock and redis-semaphore does. Compiled, never run; see consumers/.
import { type LockLostCallback, type LockOptions, Mutex, TimeoutError } from '../../src/compat/redis-semaphore';
import Redlock, { type ExecutionError, type ExecutionStats, type Lock, type Settings } from '../../src/compat/redlock';

type IORedis = ConstructorParameters<typeof Mutex>[0];

export async function withRedlock(clients: IORedis[], settings: Partial<Settings>): Promise<number> {
  const redlock = new Redlock(clients, settings);
  redlock.on('error', (error: Error) => console.error(error));
  let lock: Lock = await redlock.acquire(['a'], 5000, { retryCount: -1 });
  lock = await lock.extend(5000);
  await lock.release();
  return redlock.using(['a', 'b'], 5000, async (signal) => {
    if (signal.aborted) throw signal.error;
    return lock.fence;
  });
}

export function votes(error: ExecutionError): readonly Promise<ExecutionStats>[] {
  return error.attempts;
}

export async function withMutex(client: IORedis, options: LockOptions, onLockLost: LockLostCallback): Promise<boolean> {
  const mutex = new Mutex(client, 'key', { ...options, onLockLost, acquiredExternally: true, identifier: 'mine' });
  try {
    await mutex.acquire(AbortSignal.timeout(1000));
    return mutex.isAcquired && !mutex.signal.aborted;
  } catch (error) {
    return error instanceof TimeoutError;
  } finally {
    await mutex.release();
  }
}
