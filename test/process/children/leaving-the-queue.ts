// A process that was queued, has nothing more to do, and never closes its lock function. It listens to nothing, so that
// only what this library does can keep it alive. argv: Redis url, key, scene. It says 'standing' where it stands, 'over' last.
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key, scene] = process.argv.slice(2) as [string, string, string];
const client = createClient({ url });

async function wait(redis: redisExpLock.RedisLike, options: redisExpLock.Options): Promise<redisExpLock.WithLock> {
  const withLock = redisExpLock({ redis, lifetime: 5_000, ...options });
  const waiting = withLock.promise(key);
  process.send!('standing');
  const lease = await waiting.catch(() => undefined);
  await lease?.release();
  return withLock;
}

const scenes: Record<string, () => Promise<void>> = {
  async 'served, and the client unreferenced'() {
    await client.connect();
    await wait(client, { timeout: 20_000 });
    client.unref();
  },

  async 'served, and the client closed'() {
    await client.connect();
    await wait(client, { timeout: 20_000 });
    await client.close();
  },

  async 'served, and the client destroyed'() {
    await client.connect();
    await wait(client, { timeout: 20_000 });
    client.destroy();
  },

  async 'served, on ioredis, and the client disconnected'() {
    const redis = new Redis(url);
    await wait(redis, { timeout: 20_000 });
    redis.disconnect();
  },

  async 'timed out, and the client unreferenced'() {
    await client.connect();
    await wait(client, { timeout: 200 });
    client.unref();
  },

  async 'closed while it waited, and the client unreferenced'() {
    await client.connect();
    const withLock = redisExpLock({ redis: client, timeout: 20_000 });
    const waiting = withLock.promise(key).catch(() => {});
    process.send!('standing');
    await withLock.close();
    await waiting;
    client.unref();
  },
};

async function main(): Promise<void> {
  await scenes[scene]!();
  process.send!('over');
}

void main();
