/**
 * A factory may live as long as its process, and its clients come and go: one for each tenant, one for each test. What it keeps of
 * a client that only the library keeps is a leak.
 */

import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { tableOf } from '../support/embedded-table';
import { waitFor } from '../support/processes';
import { sharedRedis, uniqueKey } from '../support/redis';
import { FakeRedis } from './holding';

type Redis = redisExpLock.RedisLike;

interface Way {
  readonly redis: Redis;
  close(): unknown;
}
const dials: Record<string, (url: string) => Promise<Way>> = {};
for (const name of ['redis', 'redis-5', 'redis-4']) {
  dials[name] = async (url) => {
    const redis = require(name).createClient({ url });
    redis.on('error', () => {});
    await redis.connect();
    return { redis, close: () => (redis.destroy ?? redis.disconnect).call(redis) };
  };
}
for (const name of ['ioredis', 'ioredis-5', 'iovalkey']) {
  dials[name] = async (url) => {
    const redis = new (require(name))(url);
    return { redis, close: () => redis.quit() };
  };
}

/** The number of objects that the collector leaves, once it is at most `max`; or after 15 s. */
async function left(refs: readonly WeakRef<object>[], max: number): Promise<number> {
  const alive = (): number => refs.filter((ref) => ref.deref() !== undefined).length;
  const collected = async (): Promise<boolean> => {
    await turn(); // what was dereferenced stays to the end of its turn
    globalThis.gc!();
    await turn();
    if (alive() > max) await sleep(1_000); // a timer may have to end first, and a collection is a tenth of a second of the processor
    return alive() <= max;
  };
  await waitFor(collected, { timeoutMs: 15_000 }).catch(() => {});
  return alive();
}

describe('H77: a factory that outlives its clients', () => {
  const uses: Record<string, (withLock: redisExpLock.WithLock, redis: Redis) => Promise<unknown>> = {
    promise: async (withLock, redis) => (await withLock.promise('key', { redis })).release(),
    run: (withLock, redis) => withLock.run('key', { redis }, () => 1),
    'a busy key': async (withLock, redis) => {
      const lease = await withLock.promise('key', { redis });
      await withLock.promise('key', { redis }).catch(() => {});
      await lease();
    },
    'a wait': async (withLock, redis) => {
      const lease = await withLock.promise('key', { redis });
      const waiting = withLock.promise('key', { redis, timeout: 10_000 });
      await lease();
      await (await waiting)();
    },
  };

  for (const [name, use] of Object.entries(uses)) {
    // To wait takes time.
    const count = name === 'a wait' ? 200 : 1_000;
    it(`${name}: keeps none of ${count} clients`, async () => {
      const withLock = redisExpLock({ lifetime: 10_000 });
      const refs: WeakRef<object>[] = [];
      for (let n = 0; n < count; n += 1) {
        const client = new FakeRedis();
        refs.push(new WeakRef(client));
        await use(withLock, client as unknown as Redis);
      }
      expect(await left(refs, 1)).to.be.at.most(1);
      await withLock.close();
    });

    it(`${name}: keeps none of ${count} stores in memory`, async () => {
      const withLock = redisExpLock({ lifetime: 10_000 });
      const refs: WeakRef<object>[] = [];
      for (let n = 0; n < count; n += 1) {
        const store = redisExpLock.memoryStore();
        refs.push(new WeakRef(tableOf(store)));
        await use(withLock, store);
      }
      expect(await left(refs, 1)).to.be.at.most(1);
      await withLock.close();
    });
  }

  it('`close` still knows every client that is there: waiters, held locks, and what was abandoned', async () => {
    const withLock = redisExpLock({ lifetime: 60_000 });
    const stores = Array.from({ length: 200 }, () => redisExpLock.memoryStore());
    const leases = await Promise.all(stores.map((redis) => withLock.promise('key', { redis })));
    const waits = stores.map((redis) =>
      withLock.promise('key', { redis, timeout: 60_000 }).catch((error) => error.code),
    );
    globalThis.gc!();
    await withLock.close({ drain: false });
    expect(new Set(await Promise.all(waits))).to.deep.equal(new Set(['ERR_LOCK_CLOSED']));
    for (const lease of leases) expect(lease.signal.reason).to.include({ reason: 'closed' });
    for (const redis of stores) expect((await redisExpLock({ redis }).inspect('key')).locked).to.equal(false);
  });

  for (const [name, dial] of Object.entries(dials)) {
    it(`${name}: keeps no real client that was closed after waits in the queue, nor its connection for messages`, async () => {
      const { url } = await sharedRedis();
      const withLock = redisExpLock({ lifetime: 10_000 });
      const refs: WeakRef<object>[] = [];
      const use = async (): Promise<void> => {
        const { redis, close } = await dial(url);
        refs.push(new WeakRef(redis as object));
        const key = uniqueKey();
        const lease = await withLock.promise(key, { redis });
        const waiting = withLock.promise(key, { redis, timeout: 10_000 });
        await turn();
        await lease();
        await (await waiting)();
        await close();
      };
      for (let n = 0; n < 20; n += 1) await use();
      expect(await left(refs, 1)).to.be.at.most(1);
      await withLock.close();
    });
  }
});
