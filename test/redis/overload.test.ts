// Thousands of callers in one tick, in a process that has waited for nothing yet (H99).
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { WakeUps } from '../../src/queue/wake-ups';
import { blockFor, failure } from '../contract/outcomes';
import { type Client, commandStats, connect, diffCommandStats, type RedisServer, startRedis } from '../support/redis';

describe('many callers at once', () => {
  let server: RedisServer;
  let client: Client;

  beforeEach(async () => {
    server = await startRedis();
    client = await connect(server.url);
  });

  describe('of one key', () => {
    it('H99: all are served, and Redis does far less than one command for each', async () => {
      const callers = 20_000;
      const withLock = redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 20_000 });
      const observer = await connect(server.url);
      const before = await commandStats(observer);
      let served = 0;
      let inside = 0;
      const work = (): void => {
        inside += 1;
        expect(inside).to.equal(1);
        served += 1;
        inside -= 1;
      };
      await Promise.all(Array.from({ length: callers }, () => withLock.run('hot', { timeout: 50_000 }, work)));
      expect(served).to.equal(callers);
      const made = diffCommandStats(before, await commandStats(observer));
      expect(Object.values(made).reduce((sum, count) => sum + count, 0)).to.be.below(callers / 2);
      await withLock.close();
    });

    it('H72: where Redis is silent, those that wait behind a first attempt do not say that the key is busy', async () => {
      const withLock = redisExpLock({ redis: client, commandTimeout: 1_000 });
      await server.pause();
      const waits = [1, 2, 3].map(() => failure(withLock.promise('silent', { timeout: 1_500 })));
      for (const error of await Promise.all(waits)) expect(error.code).to.equal('ERR_LOCK_BACKEND');
      await server.resume();
      await withLock.close();
    });

    it('H72: once Redis answers again, a caller that waited behind a failed attempt says that the key is busy', async () => {
      const holder = redisExpLock({ redis: await connect(server.url), lifetime: 60_000 });
      const lease = await holder.promise('stale', { commandTimeout: 20_000 });
      const withLock = redisExpLock({ redis: client, commandTimeout: 1_000 });
      await server.pause();
      const first = failure(withLock.promise('stale', { timeout: 1_200 }));
      const follower = failure(withLock.promise('stale', { timeout: 6_000 }));
      expect((await first).code).to.equal('ERR_LOCK_BACKEND');
      await server.resume();
      expect((await follower).code).to.equal('ERR_LOCK_TIMEOUT');
      await lease.release();
      await Promise.all([withLock.close(), holder.close()]);
    });

    it('H7: the function of the first caller begins before those behind it are queued', async () => {
      const withLock = redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 20_000 });
      const whenOpen = sinon.spy(WakeUps.prototype, 'whenOpen');
      try {
        const queuedBefore: number[] = [];
        const work = (): void => void queuedBefore.push(whenOpen.callCount);
        await Promise.all([1, 2, 3].map(() => withLock.run('first', { timeout: 50_000 }, work)));
        expect(queuedBefore).to.deep.equal([0, 2, 2]);
      } finally {
        whenOpen.restore();
      }
      await withLock.close();
    });
  });

  describe('of a key each', () => {
    it('H99: all are granted, although the event loop was blocked for longer than a request may take', async () => {
      const withLock = redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 4_000, maxRetries: 0 });
      const leases = Array.from({ length: 6_000 }, (_, n) => withLock.promise(`key ${n}`));
      blockFor(5_000);
      await Promise.all((await Promise.all(leases)).map((lease) => lease.release()));
      await withLock.close();
    });

    it('H99: a request whose caller has given up is not sent', async () => {
      const withLock = redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 3_000 }); // close() waits for it
      const keys = Array.from({ length: 10_000 }, (_, n) => `key ${n}`);
      const controller = new AbortController();
      const waits = keys.map((key) => failure(withLock.promise(key, { signal: controller.signal })));
      await server.pause();
      setImmediate(() => controller.abort(new Error('given up')));
      for (const error of await Promise.all(waits)) expect(error.message).to.equal('given up');
      await server.resume();
      await withLock.close();
      const { exists: batches } = await commandStats(client); // one for each batch of 128 acquires
      expect(batches).to.be.within(1, 40);
      expect(await client.keys('key *')).to.deep.equal([]);
    });
  });
});
