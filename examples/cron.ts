// How does a job that every machine starts run only once?
//
//   npx tsx examples/cron.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// The process that gets the key of this minute runs the job, and keeps the key. The key expires once no clock of the fleet can still be
// in that minute. No process waits, and one that comes late finds the key taken.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:cron:${process.pid}`;

  const withLock = redisExpLock({ redis });
  const minute = new Date().toISOString().slice(0, 16);
  const kept: redisExpLock.Lease[] = [];
  const start = async (machine: number): Promise<boolean> => {
    const lease = await withLock.tryLock(`${name}:${minute}`, { lifetime: 120_000 });
    if (lease === null) return false;
    console.log(`machine ${machine} runs the job of ${minute}, fence ${lease.fence}`);
    await sleep(5);
    kept.push(lease); // and not released
    return true;
  };
  const ran = await Promise.all([0, 1, 2, 3, 4].map(start));
  console.log(`it ran ${ran.filter(Boolean).length} time`);
  for (const lease of kept) await lease.release(); // only because this is an example

  await leave();
}

if (require.main === module) void main();
