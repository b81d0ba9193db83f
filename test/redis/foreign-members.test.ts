/**
 * A sorted set of another library under the same key (redis-semaphore keeps its permits so: an identifier, and the ms at which it
 * was taken): whatever would let somebody in beside them, or take them away, is refused by name, at once, and nothing is changed.
 */
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { ownServer } from '../support/own-server';
import { type Client, uniqueKey } from '../support/redis';

const { RWLock, Semaphore } = redisExpLock;

describe('a foreign sorted set (H79)', () => {
  const lifetime = 30_000;
  const commandTimeout = 10_000; // each refusal needs its reply
  const foreign = '5f1c7a2e-3c0a-4a39-9d6e-1df1b5a4a111';
  let client: Client;
  let key: string;

  ownServer((own) => {
    ({ client } = own);
  });

  beforeEach(() => {
    key = uniqueKey('foreign');
  });

  const semaphore = (options = {}) => new Semaphore(key, 3, { redis: client, lifetime, commandTimeout, ...options });
  const lock = (options = {}) =>
    new RWLock(key, { redis: client, lifetime, commandTimeout, maxRetries: 0, ...options });

  async function refused(work: Promise<unknown>): Promise<void> {
    const before = await contents();
    const startMs = performance.now();
    const error = await work.then(
      () => undefined,
      (reason) => reason,
    );
    expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(error).to.include({ redisCode: 'FOREIGN', retryable: false });
    expect(performance.now() - startMs, 'ms').to.be.below(15_000); // one that waits does so for 20 s and more
    expect(await contents(), 'what is there').to.deep.equal(before);
  }

  async function contents(): Promise<unknown> {
    const names = [key, ...(['queue', 'limit'] as const).map((each) => companionOf(key, each))];
    return Promise.all(names.map((each) => client.dump(each)));
  }

  const ends: [what: string, score: () => number][] = [
    ['taken a moment ago', () => Date.now() - 5],
    ['taken long ago', () => 1],
    ['that ends later than all of ours', () => Date.now() + 10 * lifetime],
    ['that ends before all of ours', () => Date.now() + 5_000],
  ];
  for (const [what, score] of ends) {
    it(`with a permit ${what}: refused everywhere, with and without time to wait`, async () => {
      await client.zAdd(key, { score: score(), value: foreign });
      for (const options of [{}, { timeout: 20_000 }, { maxRetries: 100, retryTimeout: 500 }]) {
        await refused(semaphore(options).acquire());
        await refused(lock(options).acquireRead());
        await refused(lock(options).acquireWrite());
      }
      await refused(semaphore().available());
      await refused(redisExpLock({ redis: client, commandTimeout }).inspect(key));
    });

    it(`with a permit ${what}, beside our own: no more of ours, and ours is released and extended as ever`, async () => {
      const permit = await semaphore().acquire();
      await client.zAdd(key, { score: score(), value: foreign });
      const kept = await client.zScore(key, foreign);
      await refused(semaphore({ timeout: 20_000 }).acquire());
      await refused(semaphore().available());
      expect(await permit.extend(lifetime)).to.equal(true);
      expect(await permit.release()).to.equal(true);
      expect(await client.zRangeWithScores(key, 0, -1)).to.deep.equal([{ value: foreign, score: kept }]);
    });

    it(`with a permit ${what}, beside a reader: no upgrade, no other reader; its release leaves the stranger’s`, async () => {
      const reader = await lock().acquireRead();
      await client.zAdd(key, { score: score(), value: foreign });
      await refused(lock().acquireRead());
      await refused(lock({ timeout: 20_000 }).acquireRead());
      await refused(reader.upgrade());
      expect(await reader.release()).to.equal(true);
      expect(await client.zRange(key, 0, -1)).to.deep.equal([foreign]);
    });

    it(`with a permit ${what}, beside a writer: no downgrade`, async () => {
      const writer = await lock().acquireWrite();
      await client.zAdd(key, { score: score(), value: foreign });
      await refused(writer.downgrade());
      expect(await writer.release()).to.equal(true);
      expect(await client.zRange(key, 0, -1)).to.deep.equal([foreign]);
    });
  }

  it('among 200 readers of ours: refused once its time has come to the front, and never purged', async () => {
    const readers = await Promise.all(Array.from({ length: 200 }, () => lock().acquireRead()));
    await client.zAdd(key, { score: Date.now(), value: foreign });
    await refused(lock().acquireRead());
    await Promise.all(readers.map((each) => each.release()));
    expect(await client.zRange(key, 0, -1)).to.deep.equal([foreign]);
  });

  it('its own time to live is never cut short by a holder of ours that ends sooner', async () => {
    const permit = await semaphore({ lifetime: 10_000 }).acquire();
    await client.zAdd(key, { score: Date.now(), value: foreign });
    await client.pExpire(key, 60_000);
    expect(await permit.extend(20_000)).to.equal(true);
    expect(await client.pTTL(key)).to.be.greaterThan(50_000);
    expect(await permit.release()).to.equal(true);
    expect(await client.pTTL(key)).to.be.greaterThan(50_000);
  });
});
