// Thousands of callers in one tick, in a process that has waited for nothing yet (H99).
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { failure } from '../contract/outcomes';
import { type Client, commandStats, connect, diffCommandStats, type RedisServer, startRedis } from '../support/redis';

describe('many callers of one key at once', () => {
  let server: RedisServer;
  let client: Client;

  beforeEach(async () => {
    server = await startRedis();
    client = await connect(server.url);
  });

  it('H99: all are served, and Redis does far less than one command for each', async () => {
    const callers = 20_000;
    const withLock = redisExpLock({ redis: client });
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
});
