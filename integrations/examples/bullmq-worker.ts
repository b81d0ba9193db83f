// BullMQ: jobs of one tenant one at a time, whatever the concurrency and the number of workers. A job whose tenant is busy is put
// back with a delay, and keeps no worker waiting.
import { type ConnectionOptions, DelayedError, type Job, Worker } from 'bullmq';
import type redisExpLock from 'redis-exp-lock';

export function startWorker(
  connection: ConnectionOptions,
  withLock: redisExpLock.WithLock,
  work: (job: Job, lease: redisExpLock.Lease) => Promise<unknown>,
): Worker {
  const process = async (job: Job, token?: string): Promise<unknown> => {
    const result = await withLock.tryRun(`tenant:${job.data.tenant}`, (lease) => work(job, lease));
    if (result.ran) return result.value;
    await job.moveToDelayed(Date.now() + 50, token);
    throw new DelayedError();
  };
  return new Worker('invoices', process, { connection, concurrency: 4 });
}
