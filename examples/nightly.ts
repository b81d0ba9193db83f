// How does a job that every machine's timer starts run only once?
//
//   npx tsx examples/nightly.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// Three processes with timers of their own, early and late, as node-cron's or croner's are. The slot that it is, and whether its
// job has run, the server says: whatever the clocks of the machines are.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

const day = 86_400_000;

async function machine(key: string): Promise<void> {
  const { redis, leave } = await enter();
  const withLock = redisExpLock({ redis });

  // In your program: new Cron('5 3 * * *', nightly), five minutes into the slot.
  const nightly = async (): Promise<void> => {
    const result = await withLock.once(key, { every: day, offset: 3 * 3_600_000 }, async (lease, slot) => {
      console.log(`runs the job of ${new Date(slot.start).toISOString()}, fence ${lease.fence > 0}`);
      await sleep(20);
    });
    console.log(result.ran ? 'done here' : 'not here');
  };
  for (let n = 0; n < 2; n += 1) {
    await sleep(Math.random() * 30); // an early timer, or a late one; and one that fires twice
    await nightly();
  }

  await withLock.close();
  await leave();
}

async function main(): Promise<void> {
  const key = `example:nightly:${process.pid}`;
  const machines = [1, 2, 3].map(() => fork(process.argv[1]!, [key]));
  await Promise.all(machines.map((each) => once(each, 'exit')));
  console.log('three machines, two timers each');
}

if (require.main === module) void (process.argv[2] === undefined ? main() : machine(process.argv[2]));
