/**
 * Readers, writers and permits on a server that does not allow everything: the rights that docs/operations.md lists are
 * what they need,
 * one by one; a full memory takes nobody's lock away; replicas have to know; calls of one tick are one command.
 */
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type Client, commandStats, diffCommandStats, startReplica } from '../support/redis';
import { backendError, LONG_MS, REDIAL, useStage } from './faults';

const { RWLock, Semaphore } = redisExpLock;

describe('readers, writers and permits', () => {
  const stage = useStage();
  const patient = { lifetime: LONG_MS, commandTimeout: 10_000 };
  const terms = (redis: redisExpLock.RedisLike) => ({ redis, ...patient, prefix: 'lk:', maxRetries: 0 });

  describe('the rights they need (H54, H58)', () => {
    const locks =
      '+eval +evalsha +time +get +set +setnx +del +pexpire +pttl +zcard +zcount +zadd +zrem +zrange +zrangebyscore +publish';
    const rights = [...locks.split(' '), '+zscore', '+zremrangebyscore', '+persist', '&redis-exp-lock:*', '+subscribe'];

    async function userWith(some: readonly string[]): Promise<Client> {
      const user = { username: `user-${stage.key}`, password: 'pw' };
      const names = [
        'resetchannels',
        '~lk:*',
        '~{lk:*',
        '~redis-exp-lock:fence*',
        '-@all',
        '+hello',
        '+auth',
        '+ping',
        '+client',
        '+command',
      ];
      await stage.server.command(
        'ACL',
        'SETUSER',
        user.username,
        'reset',
        'on',
        '>pw',
        ...names,
        '+unsubscribe',
        ...some,
      );
      return stage.direct({ ...REDIAL, ...user });
    }

    /** Everything that a reader does. */
    async function life(redis: Client): Promise<void> {
      const reader = await new RWLock(stage.key, terms(redis)).acquireRead();
      expect(await reader.extend()).to.equal(true);
      await reader.upgrade();
      await reader.downgrade();
      expect(await reader.release()).to.equal(true);
    }

    it('nothing missing: every mode, waiting, cached values, and lifetime null', async () => {
      const redis = await userWith(rights);
      await life(redis);
      const semaphore = new Semaphore(`${stage.key}-s`, 2, terms(redis));
      for (const lifetime of [LONG_MS, null]) {
        const lease = await semaphore.acquire(2, { lifetime });
        expect(await lease.extend()).to.equal(true);
        const waiting = semaphore.acquire(1, { timeout: LONG_MS });
        const look = redisExpLock(terms(redis));
        await waitFor(async () => (await look.inspect(`${stage.key}-s`)).waiters === 1);
        expect(await semaphore.available()).to.equal(0);
        expect(await lease.release()).to.equal(true);
        expect(await (await waiting).release()).to.equal(true);
        expect(await look.cached(`${stage.key}-c`, { ttl: LONG_MS }, () => 5)).to.equal(5);
      }
    });

    for (const missing of ['time', 'get', 'set', 'zadd', 'zrem', 'zrange', 'zremrangebyscore', 'zscore', 'pexpire']) {
      it(`no ${missing}: an error by name, and nothing stays for ever`, async () => {
        const redis = await userWith(rights.filter((right) => right !== `+${missing}`));
        const error = await backendError(life(redis));
        expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
        expect(await stage.leftMs(`lk:${stage.key}`)).not.to.equal(-1);
      });
    }

    it('no zrangebyscore: an error by name once more than a few wait, and nothing stays for ever', async () => {
      const redis = await userWith(rights.filter((right) => right !== '+zrangebyscore'));
      const write = () =>
        new RWLock(stage.key, { ...terms(redis), maxRetries: undefined, timeout: LONG_MS }).acquireWrite();
      const writer = await write();
      const waits = Array.from({ length: 12 }, async () => (await write()).release());
      const settled = Promise.allSettled(waits);
      expect(await Promise.race(waits.map((each) => backendError(each)))).to.include({ redisCode: 'NOPERM' });
      await writer.release();
      await settled;
      expect(await stage.leftMs(`lk:${stage.key}`)).not.to.equal(-1);
    });
  });

  it('OOM: an acquire is refused and nothing is written; a holder can extend, downgrade and release (H55)', async () => {
    const { server, key } = stage;
    const redis = await stage.direct();
    const lock = new RWLock(`${key}-held`, { redis, ...patient, autoExtend: false });
    const writer = await lock.acquireWrite();
    await server.command('CONFIG', 'SET', 'maxmemory', 1);
    try {
      const error = await backendError(new RWLock(key, { redis, ...patient, maxRetries: 0 }).acquireRead());
      expect(error.redisCode).to.equal('OOM');
      expect(await server.command('EXISTS', key, `{${key}}:queue`)).to.equal(0);
      expect(await writer.extend(2 * LONG_MS)).to.equal(true);
      await writer.downgrade();
      expect(writer.mode).to.equal('read');
      expect(await stage.leftMs(`${key}-held`)).to.be.greaterThan(LONG_MS);
      expect(await writer.release()).to.equal(true);
      expect(await server.command('EXISTS', `${key}-held`)).to.equal(0);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', 0);
    }
  });

  it('calls of one tick are one command, a single one too; another’s refusal is not ours', async () => {
    const redis = await stage.direct();
    const semaphore = new Semaphore(stage.key, 10, { redis, ...patient });
    await (await semaphore.acquire()).release(); // the script is known now
    await stage.server.command('SET', `${stage.key}-text`, 'x');
    const before = await commandStats(redis);
    const results = await Promise.allSettled([
      semaphore.acquire(3),
      new Semaphore(`${stage.key}-text`, 10, { redis, ...patient }).acquire(),
      semaphore.acquire(4),
    ]);
    expect(results.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
    expect(diffCommandStats(before, await commandStats(redis))).to.include({ evalsha: 1 });
    expect(await semaphore.available()).to.equal(3);
    expect(diffCommandStats(before, await commandStats(redis))).to.include({ evalsha: 2 });
  });

  it('minReplicas: a grant counts once a replica has it', async () => {
    const { server, key } = stage;
    const options = { lifetime: LONG_MS, minReplicas: 1, maxRetries: 0, commandTimeout: 2_000 };
    const lock = new RWLock(key, { redis: await stage.direct(), ...options });
    expect(await backendError(lock.acquireWrite())).to.include({ redisCode: 'NOREPLICAS' });
    const replica = await startReplica(server);
    const reader = await lock.acquireRead({ timeout: LONG_MS, retryTimeout: 20, commandTimeout: 10_000 });
    expect(await replica.command('ZCARD', key)).to.equal(1);
    expect(await reader.release()).to.equal(true);
    await lock.close();
    await replica.discard();
  });
});
