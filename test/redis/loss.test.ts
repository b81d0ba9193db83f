/**
 * Losing a lock: when the holder is told, what it is told, and what becomes of the work done meanwhile. Instants are claimed on
 * a fake clock, causes on a real server.
 */

import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { dropReply, type FaultProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, recordCommands } from '../support/redis';
import { useProxy } from './behind-proxy';
import { blockFor, FakeRedis, isExtension, isRelease, lossOf, rejectionOf } from './holding';

const { LockLostError } = redisExpLock;

describe('loss', () => {
  const stage = useProxy('loss');
  let port: number;
  let direct: Client;
  let proxy: FaultProxy;
  let client: Client;
  let withLock: redisExpLock.WithLock;
  let key: string;

  beforeEach(() => {
    ({ port, direct, proxy, client, withLock, key } = stage);
  });

  describe('each reason has its cause', () => {
    it('expired: the lifetime is over, and nothing was to renew it', async () => {
      const lease = await withLock.promise(key, { lifetime: 1_000, maxRetries: 5 });
      await waitFor(() => lease.remaining() === 0);
      expect((await lossOf(lease)).reason).to.equal('expired');
    });

    it('unreachable: no renewal was answered in time', async () => {
      const lease = await withLock.promise(key, { lifetime: 1_500, autoExtend: true, maxRetries: 5 });
      const validUntilMs = performance.now() + lease.remaining();
      proxy.blackHole();
      const { reason } = await lossOf(lease);
      const lateMs = performance.now() - validUntilMs;
      expect(reason).to.be.oneOf(lateMs > 30 ? ['unreachable', 'stalled'] : ['unreachable']);
    });

    it('stalled: this process did not run when it should have renewed', async () => {
      const lease = await withLock.promise(key, { lifetime: 1_000, autoExtend: true, maxRetries: 5 });
      blockFor(1_100);
      expect((await lossOf(lease)).reason).to.equal('stalled');
    });

    for (const autoExtend of [true, false]) {
      it(`H18: after a stall, autoExtend ${autoExtend}: remaining() is 0 at once, the signal aborted by the next tick`, async () => {
        const lease = await withLock.promise(key, { lifetime: 1000, autoExtend, maxRetries: 5 });
        const { signal } = lease;
        blockFor(1100);
        expect(lease.remaining()).to.equal(0);
        await new Promise<void>((resolve) => process.nextTick(resolve));
        expect(signal.aborted).to.equal(true);
        expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', key, reason: 'stalled' });
        expect(await lease.extend()).to.equal(false);
      });
    }

    it('closed: close() took it away, and freed it', async () => {
      const lease = await withLock.promise(key, { lifetime: 60_000, commandTimeout: 10_000 });
      const { signal } = lease;
      await withLock.close({ drain: false });
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'closed' });
      expect(lease.remaining()).to.equal(0);
      expect(await direct.exists(key)).to.equal(0);
    });
  });

  describe('the signal', () => {
    it('aborts by itself with an error that has a code, a reason and the key, and nowhere the token', async () => {
      const lease = await withLock.promise(key, { lifetime: 1000, owner: 'me', maxRetries: 5 });
      const uuid = lease.token.slice('me_'.length);
      const { signal } = lease;
      const [event] = await once(signal, 'abort');
      expect(event.type).to.equal('abort');
      expect(signal.reason).to.be.instanceOf(LockLostError);
      expect(signal.reason).to.include({ name: 'LockLostError', code: 'ERR_LOCK_LOST', key, retryable: false });
      expect(signal.reason.message).to.contain(key).and.to.contain(signal.reason.reason);
      const told = inspect(signal.reason, { depth: null, showHidden: true }) + JSON.stringify(signal.reason);
      expect(told).not.to.contain(uuid);
      expect(inspect(lease, { showHidden: false })).not.to.contain(uuid);
    });

    it('is one signal, which aborts once', async () => {
      const lease = await withLock.promise(key, { lifetime: 1_000, commandTimeout: 10_000, maxRetries: 5 });
      const { signal } = lease;
      let aborts = 0;
      signal.addEventListener('abort', () => {
        aborts += 1;
      });
      expect(lease.signal).to.equal(signal);
      await lossOf(lease);
      await lease.extend();
      await lease.release();
      await withLock.close();
      expect(aborts).to.equal(1);
      expect(lease.signal).to.equal(signal);
    });

    it('read after the loss it is aborted already, with the reason of then', async () => {
      const lease = await withLock.promise(key, { lifetime: 60_000, commandTimeout: 10_000 });
      await direct.del(key);
      await lease.extend();
      await direct.set(key, 'stranger');
      expect(lease.signal.aborted).to.equal(true);
      expect(lease.signal.reason.reason).to.equal('missing');
      await direct.del(key);
    });

    it('does not abort by our own release, nor afterwards', async () => {
      const terms = { lifetime: 1_500, commandTimeout: 10_000, maxRetries: 5 };
      // Granted by one reply and released at once: none of them may end before.
      const [lease, other] = await Promise.all([
        withLock.promise(key, terms),
        withLock.promise(`${key}:2`, { ...terms, autoExtend: true }),
      ]);
      const { signal } = lease;
      await Promise.all([lease(), other()]);
      await direct.set(key, 'successor', { PX: 10_000 });
      await sleep(1_650);
      expect([signal.aborted, lease.signal.aborted, other.signal.aborted]).to.deep.equal([false, false, false]);
      expect(await lease.extend()).to.equal(false);
      expect(signal.aborted).to.equal(false);
    });

    it('does not abort by a release that fails and is tried again', async () => {
      const lease = await withLock.promise(key, { lifetime: 30_000, commandTimeout: 5_000 });
      const { signal } = lease;
      const rule = proxy.rule({ match: isRelease }, { request: (link) => link.reset() });
      expect(await rejectionOf(lease())).to.include({ code: 'ERR_LOCK_BACKEND' });
      expect(lease.remaining()).to.equal(0);
      rule.remove();
      await waitFor(() => client.isReady);
      expect(await lease()).to.equal(true);
      expect(signal.aborted).to.equal(false);
    });
  });

  describe('remaining and extend', () => {
    it('remaining() counts down from a little less than the lifetime, and is 0 from the moment a release is requested', async () => {
      const sentMs = performance.now();
      const lease = await withLock.promise(key, { lifetime: 10_000, commandTimeout: 5_000 });
      const first = lease.remaining();
      expect(first)
        .to.be.within(1, 9_990 - (performance.now() - sentMs) + 5_000)
        .and.to.be.at.most(9_990);
      await sleep(30);
      expect(lease.remaining()).to.be.at.most(first - 25);
      const released = lease();
      expect(lease.remaining()).to.equal(0);
      expect(await released).to.equal(true);
      expect(lease.remaining()).to.equal(0);
    });

    it('extend after the loss, and after the release, is false without a word to Redis', async () => {
      const lost = await withLock.promise(key, { lifetime: 1_000, maxRetries: 5 });
      const given = await withLock.promise(`${key}:2`, { lifetime: 30_000, commandTimeout: 10_000 });
      await given();
      await waitFor(() => lost.remaining() === 0);
      const recording = await recordCommands({ port });
      const asked = proxy.commands.length;
      for (const lease of [lost, given]) {
        expect(await lease.extend()).to.equal(false);
        expect(await lease.extend(60_000)).to.equal(false);
        expect(lease.remaining()).to.equal(0);
      }
      expect((await recording.stop()).filter(({ args }) => args.some((word) => word.includes(key)))).to.deep.equal([]);
      expect(proxy.commands.length).to.equal(asked);
    });
  });

  describe('run', () => {
    const fnError = new Error('of the function');

    it('H24: the error of the function comes first, with the lock held, lost, or not to be released', async () => {
      const failing = (meanwhile: () => unknown) => async () => {
        await meanwhile();
        throw fnError;
      };
      const options = { lifetime: 20_000, commandTimeout: 10_000 };
      expect(
        await rejectionOf(
          withLock.run(
            key,
            options,
            failing(() => {}),
          ),
        ),
      ).to.equal(fnError);
      expect(await direct.exists(key)).to.equal(0);
      expect(
        await rejectionOf(
          withLock.run(
            key,
            options,
            failing(() => direct.del(key)),
          ),
        ),
      ).to.equal(fnError);
      const lost = withLock.run(
        key,
        { ...options, autoExtend: false, lifetime: 1_000, maxRetries: 5 },
        failing(() => sleep(1_050)),
      );
      expect(await rejectionOf(lost)).to.equal(fnError);
      const throwing = withLock.run(key, options, () => {
        throw fnError;
      });
      expect(await rejectionOf(throwing)).to.equal(fnError);
      const nothing = withLock.run(key, options, () => Promise.reject(undefined));
      expect(await rejectionOf(nothing)).to.equal(undefined);

      proxy.rule({ match: isRelease }, dropReply());
      expect(
        await rejectionOf(
          withLock.run(
            key,
            { ...options, commandTimeout: 1_000, maxRetries: 5 },
            failing(() => {}),
          ),
        ),
      ).to.equal(fnError);
    });

    it('H24: the error of the function comes first although the lock was lost and the release fails', async () => {
      const error = await rejectionOf(
        withLock.run(key, { lifetime: 1_000, commandTimeout: 1_000, maxRetries: 5 }, async (lease) => {
          proxy.blackHole();
          await lossOf(lease);
          throw fnError;
        }),
      );
      expect(error).to.equal(fnError);
    });

    it('H24: a release that fails does not replace the result, and goes on behind the back of the caller', async () => {
      proxy.rule({ match: isRelease, nth: 1 }, { request: (link) => link.reset() });
      const result = await withLock.run(
        key,
        { lifetime: 60_000, commandTimeout: 1_000, maxRetries: 5 },
        () => 'result',
      );
      expect(result).to.equal('result');
      const isFree = async (): Promise<boolean> => (await direct.exists(key)) === 0;
      await waitFor(isFree, { what: 'the key to be released all the same' });
    });

    const causes: Record<string, { options?: redisExpLock.Options; lose: (lease: redisExpLock.Lease) => unknown }> = {
      missing: { lose: () => direct.del(key) },
      taken: { lose: () => direct.set(key, 'stranger', { PX: 30_000 }) },
      expired: {
        options: { autoExtend: false, lifetime: 1_000 },
        lose: (lease) => waitFor(() => lease.remaining() === 0),
      },
      stalled: { options: { lifetime: 1_000 }, lose: () => blockFor(1_100) },
      closed: { lose: () => void withLock.close({ drain: false }) },
    };
    for (const [reason, { options, lose }] of Object.entries(causes)) {
      it(`a function that resolved although the lock was lost: LockLostError with its result (${reason})`, async () => {
        const result = { balance: 7 };
        const error = await rejectionOf(
          withLock.run(key, { lifetime: 20_000, commandTimeout: 10_000, maxRetries: 5, ...options }, async (lease) => {
            await lose(lease);
            return result;
          }),
        );
        expect(error).to.be.instanceOf(LockLostError);
        expect(error).to.include({ code: 'ERR_LOCK_LOST', reason, key });
        expect(error.result).to.equal(result);
      });
    }

    it('the loss is reported, with the result, also when the release fails', async () => {
      const error = await rejectionOf(
        withLock.run(key, { lifetime: 1_000, commandTimeout: 1_000, maxRetries: 5 }, async (lease) => {
          proxy.blackHole();
          await lossOf(lease);
        }),
      );
      expect(error).to.include({ code: 'ERR_LOCK_LOST', key });
      expect('result' in error).to.equal(true);
      expect(error.result).to.equal(undefined);
    });

    it('a lock that was lost and found again by nobody is not released for a successor', async () => {
      await rejectionOf(
        withLock.run(key, { lifetime: 1_000, autoExtend: false, maxRetries: 5 }, async () => {
          await waitFor(async () => (await direct.exists(key)) === 0);
          await direct.set(key, 'successor', { PX: 30_000 });
        }),
      );
      expect(await direct.get(key)).to.equal('successor');
    });
  });

  describe('on a clock of its own', () => {
    let clock: sinon.SinonFakeTimers;
    let fake: FakeRedis;
    let lock: redisExpLock.WithLock;

    beforeEach(() => {
      clock = sinon.useFakeTimers({
        now: Date.now(),
        toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'Date', 'performance'],
      });
      fake = new FakeRedis();
      lock = redisExpLock({ redis: fake as unknown as redisExpLock.RedisLike, lifetime: 10_000 });
    });

    afterEach(() => clock.restore());

    it('the signal aborts in the millisecond in which the validity ends, before Redis frees the key', async () => {
      const lease = await lock.promise('k');
      const { signal } = lease;
      await clock.tickAsync(9_989);
      expect(signal.aborted).to.equal(false);
      expect(lease.remaining()).to.be.above(0);
      await clock.tickAsync(1);
      expect(signal.aborted).to.equal(true);
      expect(lease.remaining()).to.equal(0);
      expect(signal.reason.reason).to.equal('expired');
      expect(fake.locks.get('k')?.endMs).to.be.above(Date.now());
    });

    it('validity counts from before the request, not from its answer', async () => {
      fake.holding = true;
      const taking = lock.promise('k', { commandTimeout: 5_000 });
      await clock.tickAsync(4_000);
      fake.answerAll();
      const { remaining } = await taking;
      expect(remaining.call(await taking)).to.be.at.most(5_990);
    });

    it('an outage loses the lock at its deadline: unreachable, not earlier and not later', async () => {
      const lease = await lock.promise('k', { autoExtend: true });
      const { signal } = lease;
      await clock.tickAsync(30_000);
      const leftMs = lease.remaining();
      fake.silent = true;
      await clock.tickAsync(Math.floor(leftMs) - 1);
      expect(signal.aborted).to.equal(false);
      await clock.tickAsync(2);
      expect(signal.aborted).to.equal(true);
      expect(signal.reason.reason).to.equal('unreachable');
    });

    it('what is lost stays lost, although a late answer says otherwise', async () => {
      const lease = await lock.promise('k', { commandTimeout: 60_000 });
      const { signal } = lease;
      fake.holding = true;
      const extended = lease.extend();
      await clock.tickAsync(9_990);
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'unreachable' });
      fake.answerAll();
      await clock.tickAsync(1);
      expect(await extended).to.equal(false);
      expect(lease.remaining()).to.equal(0);
      expect(fake.locks.has('k'), 'released').to.equal(false);
    });

    it('H18: a monotonic clock that stops does not save the lock: the wall clock says that it is over', async () => {
      const lease = await lock.promise('k', { lifetime: 60_000 });
      const { signal } = lease;
      await clock.tickAsync(5_000);
      clock.setSystemTime(Date.now() + 3_600_000); // a virtual machine that slept: performance.now() knows of nothing
      expect(signal.aborted).to.equal(false);
      await clock.tickAsync(1_001);
      expect(signal.aborted).to.equal(true);
      expect(lease.remaining()).to.equal(0);
    });

    it('H18: a wall clock that is set back gives nothing and takes nothing', async () => {
      const lease = await lock.promise('k', { lifetime: 60_000 });
      const { signal } = lease;
      await clock.tickAsync(10_000);
      clock.setSystemTime(Date.now() - 3_600_000);
      expect(lease.remaining()).to.be.within(49_900, 49_941);
      await clock.tickAsync(49_900);
      expect(signal.aborted).to.equal(false);
      await clock.tickAsync(100);
      expect(signal.aborted).to.equal(true);
    });
  });

  it('two leases of one key, one after the other, do not speak for one another', async () => {
    const stale = await withLock.promise(key, { lifetime: 1_000, commandTimeout: 10_000, maxRetries: 5 });
    await waitFor(async () => (await direct.exists(key)) === 0);
    const fresh = await withLock.promise(key, { lifetime: 30_000, commandTimeout: 10_000 });
    expect(await stale.extend(60_000)).to.equal(false);
    expect(await stale()).to.equal(false);
    expect(stale.signal.aborted).to.equal(true);
    expect(fresh.signal.aborted).to.equal(false);
    expect(await direct.get(key)).to.equal(fresh.token);
    expect(fresh.fence).to.be.above(stale.fence);
    expect(proxy.count(isExtension)).to.equal(0);
    expect(await fresh()).to.equal(true);
  });
});
