// Releasing: one script call, one answer to all that ask, and nobody else's key touched.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { answer, holdReply, holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, uncaught } from './outcomes';
import { describeEach, shortLifetime, stranger } from './places';

type Lease = redisExpLock.Lease;

/** The arguments that `done(callback)` calls back with. */
function answered(lease: Lease): Promise<unknown[]> {
  return new Promise((resolve) => lease((...args) => resolve(args)));
}

/** Longer than any step takes on a busy machine. */
const lasting = { lifetime: 20_000, commandTimeout: 10_000 };

describeEach('release', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...lasting });
  });

  describe('ours', () => {
    it('true, and the key is free at once, by every way out', async () => {
      const ways: Record<string, (lease: Lease) => Promise<unknown>> = {
        'lease()': (lease) => lease(),
        'lease.release()': (lease) => lease.release(),
        'lease(callback)': async (lease) => {
          const [err, released] = await answered(lease);
          expect(err).to.equal(null);
          return released;
        },
      };
      for (const [name, leave] of Object.entries(ways)) {
        const lease = await withLock.promise(key);
        expect(await leave(lease), name).to.equal(true);
        expect(await here.holder(key), name).to.equal(null);
      }
    });

    it('leaving `await using` releases', async () => {
      {
        await using lease = await withLock.promise(key);
        expect(await here.holder(key)).to.equal(lease.token);
      }
      expect(await here.holder(key)).to.equal(null);
    });

    it('Symbol.asyncDispose resolves to nothing, the answer stays with the lease', async () => {
      const lease = await withLock.promise(key);
      expect(await lease[Symbol.asyncDispose]()).to.equal(undefined);
      expect(await lease()).to.equal(true);
    });

    it('a first argument that is not a function is ignored', async () => {
      for (const odd of [null, undefined, new Error('odd'), 'odd', 0, {}, [], true]) {
        const lease = await withLock.promise(key);
        expect(await (lease as unknown as (odd: unknown) => Promise<boolean>)(odd)).to.equal(true);
        expect(await here.holder(key)).to.equal(null);
      }
    });

    it('after it nothing remains, and the signal says nothing of it', async () => {
      const lease = await withLock.promise(key);
      const { signal } = lease;
      await lease();
      expect(lease.remaining()).to.equal(0);
      expect(signal.aborted).to.equal(false);
      expect(lease.signal).to.equal(signal);
      expect(await lease.extend(1_000)).to.equal(false);
      expect(await here.holder(key)).to.equal(null);
    });

    it('from the moment it is requested, nothing remains', async () => {
      const lease = await withLock.promise(key);
      const releasing = lease();
      expect(lease.remaining()).to.equal(0);
      expect(await releasing).to.equal(true);
    });
  });

  describe('twice', () => {
    it('H22: two releases at once are one script call, one answer', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      const before = await connection.calls();
      const answers = await Promise.all([lease(), lease.release(), lease[Symbol.asyncDispose](), answered(lease)]);
      expect(answers).to.deep.equal([true, true, undefined, [null, true]]);
      expect((await connection.calls()) - before).to.equal(1);
    });

    it('H22: a second release, later, has the same answer, and no further call', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      expect(await lease()).to.equal(true);
      const before = await connection.calls();
      await here.seize(key);
      expect(await lease()).to.equal(true);
      expect((await connection.calls()) - before).to.equal(0);
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('H22: a second release cannot free the lock of the next holder of the same process', async () => {
      const lease = await withLock.promise(key);
      await lease();
      const next = await withLock.promise(key);
      expect(await lease()).to.equal(true);
      expect(await here.holder(key)).to.equal(next.token);
    });

    it('H22: a release during an extension: both are answered, and the key is free', async () => {
      for (let n = 0; n < 10; n++) {
        const lease = await withLock.promise(key);
        const [extended, released] = await Promise.all([lease.extend(40_000), lease()]);
        expect(extended).to.equal(false); // released meanwhile
        expect(released).to.equal(true);
        expect(await here.holder(key)).to.equal(null);
      }
    });
  });

  describe('no longer ours', () => {
    /** A grant whose reply takes longer than the lifetime is given back, and asked for again. */
    const untilInTime = { timeout: 20_000 };

    it('H25: after expiry, while somebody else holds the key: false, and their key is untouched', async () => {
      const stale = await withLock.promise(key, { lifetime: shortLifetime(here), ...untilInTime });
      await waitFor(async () => (await here.holder(key)) === null);
      const next = await redisExpLock({ redis: here.elsewhere, ...lasting }).promise(key);
      expect(await stale()).to.equal(false);
      expect(await stale()).to.equal(false);
      expect(await here.holder(key)).to.equal(next.token);
      expect(await here.leftMs(key)).to.be.greaterThan(0);
      expect(await next()).to.equal(true);
    });

    it('H25: after expiry, with the key free: false', async () => {
      const stale = await withLock.promise(key, { lifetime: shortLifetime(here), ...untilInTime });
      await waitFor(async () => (await here.holder(key)) === null);
      expect(await stale()).to.equal(false);
      expect(await answered(stale)).to.deep.equal([null, false]);
    });

    it('H22: after a loss all get the same answer, of one script call', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      await here.seize(key);
      const before = await connection.calls();
      expect(await Promise.all([lease(), lease.release(), answered(lease)])).to.deep.equal([
        false,
        false,
        [null, false],
      ]);
      expect(await lease()).to.equal(false);
      expect((await connection.calls()) - before).to.equal(1);
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('several keys of which one is lost: false, the others are released, and the stranger’s is left alone', async () => {
      const keys = [`{${key}}:a`, `{${key}}:b`];
      const lease = await withLock.promise(keys);
      await here.seize(keys[1]!);
      expect(await lease()).to.equal(false);
      expect(await here.holder(keys[0]!)).to.equal(null);
      expect(await here.holder(keys[1]!)).to.equal(stranger);
    });
  });

  if (!here.place.faults) return;

  describe('H24: a release that fails', () => {
    it('is an error, can be tried again, and then works', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      connection.proxy.rule({ match: 'script', nth: 1 }, answer('-LOADING Redis is loading the dataset in memory\r\n'));
      const error = await failure(lease());
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error).to.include({ redisCode: 'LOADING', retryable: true });
      expect(await here.holder(key)).to.equal(lease.token);
      expect(lease.remaining()).to.equal(0);
      expect(await lease()).to.equal(true);
      expect(await here.holder(key)).to.equal(null);
    });

    it('all callers of one moment get the answer, callbacks too', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      connection.proxy.rule({ match: 'script', nth: 1 }, answer('-LOADING in progress\r\n'));
      const [one, two, [err]] = await Promise.all([failure(lease()), failure(lease.release()), answered(lease)]);
      expect(one).to.equal(two);
      expect(err).to.equal(one);
      expect(await answered(lease)).to.deep.equal([null, true]);
    });

    it('a place that is silent: an error; when it can be asked again, the release works', async () => {
      const connection = await here.connection();
      const options = { redis: connection.redis, lifetime: 20_000, commandTimeout: 1_000 };
      const lease = await redisExpLock(options).promise(key, { timeout: 20_000 });
      connection.proxy.blackHole();
      expect((await failure(lease())).code).to.equal('ERR_LOCK_BACKEND');
      await connection.heal();
      expect(await lease()).to.equal(!here.place.resends); // where the client had resent it: as in the next test
      expect(await here.holder(key)).to.equal(null);
    });

    it('H23: a release whose reply was lost: tried again it says false, and touches nothing', async () => {
      const connection = await here.connection();
      const options = { redis: connection.redis, lifetime: 20_000, commandTimeout: 1_000 };
      const lease = await redisExpLock(options).promise(key, { timeout: 20_000 });
      connection.proxy.halfOpen();
      expect((await failure(lease())).code).to.equal('ERR_LOCK_BACKEND');
      expect(await here.holder(key)).to.equal(null);
      await here.seize(key);
      await connection.heal();
      expect(await lease()).to.equal(false);
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('its promise counts as handled', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      const rule = connection.proxy.rule({ match: 'script' }, answer('-LOADING in progress\r\n'));
      const { exceptions, rejections } = await uncaught(async () => {
        void lease();
        void lease.release();
        await connection.calls();
      });
      rule.remove();
      expect(exceptions).to.deep.equal([]);
      expect(rejections).to.deep.equal([]);
      expect(await lease()).to.equal(true);
    });
  });

  describe('H22: while an extension is under way', () => {
    it('H22: a release that overtakes an extension leaves no key behind', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      const held = holdRequest();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const extending = lease.extend(40_000);
      await held.arrived;
      const releasing = lease();
      held.release();
      expect(await releasing).to.equal(true);
      expect(await extending).to.equal(false);
      expect(await here.holder(key)).to.equal(null);
    });

    it('H22: an extension whose reply comes after the release cannot revive the lease', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...lasting }).promise(key);
      const held = holdReply();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const extending = lease.extend(40_000);
      await held.arrived;
      const releasing = lease();
      await waitFor(async () => (await here.holder(key)) === null);
      held.release();
      expect(await extending).to.equal(false);
      expect(await releasing).to.equal(true);
      expect(lease.remaining()).to.equal(0);
    });
  });
});
