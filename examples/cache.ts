// How is a cache filled without a stampede?
//
//   npx tsx examples/cache.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// A process that finds nothing takes the lock, reads again, loads and stores; all others are served what was stored. A loader that
// fails leaves nothing behind, and the next waiter loads.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:cache:${process.pid}`;

  const withLock = redisExpLock({ redis });
  let loads = 0;
  const load = async (): Promise<{ price: number }> => {
    loads += 1;
    await sleep(50); // the database
    return { price: 42 };
  };
  const values = await Promise.all(Array.from({ length: 100 }, () => withLock.cached(name, { ttl: 5_000 }, load)));
  console.log(`${values.length} callers were served ${values[99]?.price}, loaded ${loads} time`);
  await withLock.close();

  await leave();
}

if (require.main === module) void main();
