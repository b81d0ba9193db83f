// A cron schedule that every process has, and one of them runs: each tick is a slot of the server's clock. A timer that fires early or
// late, or twice, runs nothing twice.
import { Cron } from 'croner';
import type redisExpLock from 'redis-exp-lock';

export function everySecond(
  withLock: redisExpLock.WithLock,
  job: (lease: redisExpLock.Lease, slot: redisExpLock.Slot) => unknown,
): Cron {
  return new Cron('* * * * * *', { catch: true }, async () => {
    await withLock.once('report', { every: 1000 }, job);
  });
}
