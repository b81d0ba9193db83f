// A process of readers that share members, one writer and callers that want permits. argv: url, key. In: 'work' or 'hold'. Out: 'ready';
// then how often it saw somebody beside it that must not be there, or 'held' with 64 readers on one member.
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const { RWLock, Semaphore } = redisExpLock;
const rounds = 12;

async function main(): Promise<void> {
  const [url, key] = process.argv.slice(2) as [string, string];
  const redis = createClient({ url });
  redis.on('error', () => {});
  await redis.connect();
  // Those that work must not lose the lock on a machine that stands still; those that are killed must.
  const options = { redis, lifetime: 60_000, timeout: 60_000 };
  const lock = new RWLock(key, { ...options, prefer: 'fair' });
  const killed = new RWLock(key, { ...options, lifetime: 3_000, prefer: 'fair' });
  const permits = new Semaphore(`${key}:permits`, 3, options);
  let violations = 0;
  const inside = async (mine: string, isWrong: (readers: number, writers: number) => boolean): Promise<void> => {
    await redis.hIncrBy(`${key}:inside`, mine, 1);
    const [readers, writers] = await redis.hmGet(`${key}:inside`, ['r', 'w']);
    if (isWrong(Number(readers), Number(writers))) violations += 1;
    await redis.hIncrBy(`${key}:inside`, mine, -1);
  };
  const times = async (work: () => Promise<unknown>): Promise<void> => {
    for (let n = 0; n < rounds; n++) await work();
  };
  const counted = async (): Promise<void> => {
    if ((await redis.incr(`${key}:out`)) > 3) violations += 1;
    await redis.decr(`${key}:out`);
  };
  process.on('message', async (message) => {
    if (message === 'hold') {
      const held = await Promise.all(Array.from({ length: 64 }, () => killed.acquireRead()));
      Object.assign(globalThis, { held }); // not to be collected
      return process.send!('held');
    }
    const readers = Array.from({ length: 16 }, () => times(() => lock.read(() => inside('r', (_, w) => w > 0))));
    const writer = times(() => lock.write(() => inside('w', (r, w) => r > 0 || w > 1)));
    const others = Array.from({ length: 12 }, () => times(() => permits.run(counted)));
    await Promise.all([...readers, writer, ...others]);
    process.send!(violations);
  });
  process.send!('ready');
}

void main();
