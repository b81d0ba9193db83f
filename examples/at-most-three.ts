// How does a whole fleet make at most three calls to an API at once?
//
//   npx tsx examples/at-most-three.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// A semaphore whose permits have an end of their own: when a process dies, its permit is free again within the lifetime. First
// come, first served.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:at-most-three:${process.pid}`;

  const semaphore = new redisExpLock.Semaphore(name, 3, { redis, timeout: 10_000 });
  let calls = 0;
  let most = 0;
  const callApi = (): Promise<void> =>
    semaphore.run(async (lease) => {
      most = Math.max(most, ++calls);
      await sleep(10, undefined, { signal: lease.signal });
      calls -= 1;
    });
  await Promise.all(Array.from({ length: 20 }, callApi));
  console.log(`20 calls, at most ${most} at once; ${await semaphore.available()} permits are free again`);
  await semaphore.close();

  await leave();
}

if (require.main === module) void main();
