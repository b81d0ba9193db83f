// How does a job that every machine starts run only once?
//
//   npx tsx examples/cron.ts          with a Redis at REDIS_URL, or at 127.0.0.1:6379
//
// Whoever gets the key of this minute runs the job, and keeps the key: it ends by itself once no clock of the fleet can be in
// that minute any more. Nobody waits, and who comes late finds it taken.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'

async function main(): Promise<void> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
  client.on('error', (error) => {
    console.error(`no Redis to talk to (set REDIS_URL): ${error.message || error.code}`);
    process.exit(1);
  });
  await client.connect();
  const name = `example:cron:${process.pid}`;

  const withLock = redisExpLock({ redis: client });
  const minute = new Date().toISOString().slice(0, 16);
  const start = async (machine: number): Promise<boolean> => {
    const lease = await withLock.tryLock(`${name}:${minute}`, { lifetime: 120_000 });
    if (lease === null) return false;
    console.log(`machine ${machine} runs the job of ${minute}, fence ${lease.fence}`);
    await sleep(5);
    return true; // not given back
  };
  const ran = await Promise.all([0, 1, 2, 3, 4].map(start));
  console.log(`it ran ${ran.filter(Boolean).length} time`);
  await client.del(`${name}:${minute}`);

  client.destroy();
}

if (require.main === module) void main();
