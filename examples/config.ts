// How do many read a configuration that one writes?
//
//   npx tsx examples/config.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// Readers share the lock, a writer has it alone; a held lock is renewed while the function runs. A reader that died ends by
// itself, and ends nobody else's reading.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:config:${process.pid}`;

  const lock = new redisExpLock.RWLock(name, { redis, timeout: 10_000 });
  let config = { version: 1, complete: true };
  let together = 0;
  let most = 0;

  const read = (): Promise<void> =>
    lock.read(async () => {
      most = Math.max(most, ++together);
      if (!config.complete) throw new Error('half a configuration was read');
      await sleep(5);
      together -= 1;
    });
  const write = (version: number): Promise<void> =>
    lock.write(async () => {
      config = { version, complete: false };
      await sleep(5); // half written: nobody may read now
      config.complete = true;
    });
  await Promise.all([...Array.from({ length: 20 }, read), write(2), ...Array.from({ length: 20 }, read)]);
  console.log(`version ${config.version}; up to ${most} read at once, none of them half a configuration`);
  await lock.close();

  await leave();
}

if (require.main === module) void main();
