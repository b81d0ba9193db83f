// The validity that a lease reports, and how extend moves its end. Renewal is in run.test.ts.
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { uniqueKey } from '../support/redis';
import { failure, libraryTimers, noneLeft, type TimerCount } from './outcomes';
import { describeEach, type Redis, stranger } from './places';

describeEach('extend and validity', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  const lifetime = 60_000;
  /** A busy machine may hold up a reply for seconds. A node of a quorum has an eighth of the lifetime for it. */
  const patient = { lifetime, commandTimeout: 10_000 };

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...patient });
  });

  describe('extend', () => {
    it('longer: the place and the lease agree on a later end', async () => {
      const lease = await withLock.promise(key);
      expect(await lease.extend(120_000)).to.equal(true);
      expect(await here.leftMs(key)).to.be.within(lifetime + 1, 120_000);
      expect(lease.remaining()).to.be.within(lifetime + 1, 120_000);
    });

    it('shorter: the place and the lease agree on an earlier end', async () => {
      const lease = await withLock.promise(key);
      expect(await lease.extend(40_000)).to.equal(true);
      expect(await here.leftMs(key)).to.be.within(1, 40_000);
      expect(lease.remaining()).to.be.within(1, 40_000);
    });

    it('without an argument: by its own lifetime', async () => {
      const lease = await withLock.promise(key);
      await lease.extend(120_000);
      expect(await lease.extend()).to.equal(true);
      expect(await here.leftMs(key)).to.be.within(1, lifetime);
      expect(await lease.extend(undefined)).to.equal(true);
    });

    it('several at once: the last word is that of the last', async () => {
      const lease = await withLock.promise(key);
      const answers = await Promise.all([lease.extend(150_000), lease.extend(60_000), lease.extend(90_000)]);
      expect(answers).to.deep.equal([true, true, true]);
      expect(await here.leftMs(key)).to.be.within(60_001, 90_000);
      expect(lease.remaining()).to.be.within(60_001, 90_000);
    });

    it('token and fence stay what they were', async () => {
      const lease = await withLock.promise(key);
      const { token, fence } = lease;
      await lease.extend(20_000);
      expect(lease).to.include({ token, fence });
      expect(await here.holder(key)).to.equal(token);
    });

    it('several keys are extended together', async () => {
      const keys = [`{${key}}:a`, `{${key}}:b`];
      const lease = await withLock.promise(keys);
      expect(await lease.extend(120_000)).to.equal(true);
      for (const each of keys) expect(await here.leftMs(each)).to.be.within(lifetime + 1, 120_000);
    });

    it('H12: an impossible lifetime is refused before any I/O, and the lock is still held', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...patient }).promise(key);
      const before = await connection.calls();
      for (const [bad, errorClass] of [
        [0, RangeError],
        [-5, RangeError],
        [1.5, RangeError],
        [Number.NaN, RangeError],
        [Number.POSITIVE_INFINITY, RangeError],
        [2 ** 53, RangeError],
        ['5', TypeError],
        [5n, TypeError],
        [null, TypeError],
        [{}, TypeError],
      ] as const) {
        const error = await failure(lease.extend(bad as number));
        expect(error).to.be.instanceOf(errorClass);
        expect(error.code).to.equal('ERR_LOCK_OPTION');
      }
      expect(await connection.calls()).to.equal(before);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(lease.remaining()).to.be.greaterThan(0);
      expect(await lease()).to.equal(true);
    });

    it('after the release: false', async () => {
      const lease = await withLock.promise(key);
      await lease();
      expect(await lease.extend(1_000)).to.equal(false);
      expect(await here.holder(key)).to.equal(null);
    });

    it('of a key that is gone: false, it is not made again, and the lease is lost', async () => {
      const lease = await withLock.promise(key);
      const { signal } = lease;
      await here.remove(key);
      expect(await lease.extend()).to.equal(false);
      expect(await here.holder(key)).to.equal(null);
      expect(lease.remaining()).to.equal(0);
      expect(signal.aborted).to.equal(true);
      expect(signal.reason).to.be.instanceOf(redisExpLock.LockLostError);
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing', key });
    });

    it('of a key that is somebody else’s: false, their time is untouched, and the lease is lost', async () => {
      const lease = await withLock.promise(key);
      await here.seize(key, 30_000);
      expect(await lease.extend(90_000)).to.equal(false);
      expect(await here.holder(key)).to.equal(stranger);
      expect(await here.leftMs(key)).to.be.within(1, 30_000);
      expect(lease.signal.reason).to.include({ reason: 'taken' });
    });

    it('of several keys of which one is gone: false, and the lease is lost', async () => {
      const lease = await withLock.promise([`{${key}}:a`, `{${key}}:b`]);
      await here.remove(`{${key}}:b`);
      expect(await lease.extend()).to.equal(false);
      expect(lease.signal.reason).to.include({ reason: 'missing' });
    });

    it('what is lost stays lost, even when the key holds our token once more', async () => {
      const lease = await withLock.promise(key, { lifetime: 20_000 });
      lease.signal.throwIfAborted();
      const clock = sinon.useFakeTimers({ toFake: ['Date', 'performance'], now: Date.now() });
      try {
        clock.tick(30_000);
        expect(lease.remaining()).to.equal(0);
        expect(await lease.extend(5_000)).to.equal(false);
      } finally {
        clock.restore();
      }
      expect(lease.remaining()).to.equal(0);
      expect(await lease.extend(5_000)).to.equal(false);
      expect(lease.signal.aborted).to.equal(true);
    });

    if (!here.place.faults) return;

    // The limit is the subject: it runs out where there is no reply, and is long enough for a reply on a busy machine.
    const limited = { lifetime, commandTimeout: 3_000 };
    describeAtOnce('a silent place', {
      'an error, still held, and the validity stays what it was': async (key) => {
        const connection = await here.connection();
        const lease = await redisExpLock({ redis: connection.redis, ...limited }).promise(key);
        connection.proxy.blackHole();
        const before = lease.remaining();
        const error = await failure(lease.extend(120_000));
        expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
        expect(error.code).to.equal('ERR_LOCK_BACKEND');
        expect(lease.remaining()).to.be.within(1, before);
        expect(lease.signal.aborted).to.equal(false);
        await connection.heal();
        expect(await lease.extend(120_000)).to.equal(true);
      },

      'that was asked for an earlier end: no later end counts': async (key) => {
        const connection = await here.connection();
        const lease = await redisExpLock({ redis: connection.redis, ...limited }).promise(key);
        connection.proxy.halfOpen();
        expect((await failure(lease.extend(40_000))).code).to.equal('ERR_LOCK_BACKEND');
        expect(await here.leftMs(key)).to.be.within(1, 40_000);
        expect(lease.remaining()).to.be.within(1, 40_000);
        await connection.heal();
      },
    });
  });

  describe('remaining and signal, on a clock of the test', () => {
    let clock: sinon.SinonFakeTimers;
    let timers: TimerCount;
    let connection: Redis;

    // A connection of its own for each test: what it has learned of the servers' clocks, and of their silence, is true for one clock only.
    beforeEach(async () => {
      connection = (await here.connection()).redis;
    });

    // biome-ignore lint/suspicious/noDuplicateTestHooks: timers are counted from a hook that waits for nothing
    beforeEach(() => {
      clock = sinon.useFakeTimers({
        toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
        now: Date.now(),
        shouldClearNativeTimers: true,
      });
      timers = libraryTimers();
      withLock = redisExpLock({ redis: connection, lifetime: 10_000, commandTimeout: 10_000 });
    });

    afterEach(() => clock.restore());

    it('remaining runs down with the time, and a thousandth earlier than the lifetime', async () => {
      const lease = await withLock.promise(key);
      expect(lease.remaining()).to.be.within(9_980, 9_990);
      const before = lease.remaining();
      clock.tick(4_000);
      expect(lease.remaining()).to.equal(before - 4_000);
      clock.tick(5_990);
      expect(lease.remaining()).to.equal(0);
      clock.tick(100_000);
      expect(lease.remaining()).to.equal(0);
    });

    it('the signal says `expired` when the validity ends, and not before', async () => {
      const lease = await withLock.promise(key);
      const { signal } = lease;
      clock.tick(9_000);
      expect(signal.aborted).to.equal(false);
      clock.tick(1_000);
      expect(signal.aborted).to.equal(true);
      expect(signal.reason).to.be.instanceOf(redisExpLock.LockLostError);
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired', key });
    });

    it('a signal that is first read after the end is aborted already', async () => {
      const lease = await withLock.promise(key);
      clock.tick(10_000);
      expect(lease.signal.aborted).to.equal(true);
    });

    it('an extension moves the end of the signal, both ways', async () => {
      const lease = await withLock.promise(key);
      const { signal } = lease;
      await lease.extend(50_000);
      clock.tick(40_000);
      expect(signal.aborted).to.equal(false);
      clock.tick(10_000);
      expect(signal.aborted).to.equal(true);

      const shorter = await withLock.promise(`${key}:shorter`);
      const shorterSignal = shorter.signal;
      await shorter.extend(2_000);
      clock.tick(2_000);
      expect(shorterSignal.aborted).to.equal(true);
    });

    it('a wall clock that jumps past the end ends the validity too', async () => {
      const lease = await withLock.promise(key);
      const { signal } = lease;
      clock.setSystemTime(Date.now() + 60_000);
      expect(lease.remaining()).to.equal(0);
      clock.tick(1_000);
      expect(signal.aborted).to.equal(true);
    });

    it('a wall clock that is set back does not lengthen it', async () => {
      const lease = await withLock.promise(key);
      clock.setSystemTime(Date.now() - 60_000);
      clock.tick(10_000);
      expect(lease.remaining()).to.equal(0);
      expect(lease.signal.aborted).to.equal(true);
    });

    it('a lease that is not watched and not renewed has no timer; a release leaves none', async () => {
      const lease = await withLock.promise(key);
      // On a quorum, a timer is left for the nodes that a majority could spare: they are asked a moment later, by the test's clock.
      const maxOfOthers = here.place.isQuorum ? 1 : 0;
      await noneLeft(timers, maxOfOthers);
      const ofOthers = timers();
      void lease.signal;
      expect(timers()).to.equal(ofOthers + 1);
      await lease();
      await noneLeft(timers);

      const renewed = await withLock.promise(key, { autoExtend: true });
      expect(timers()).to.be.greaterThan(0);
      await renewed();
      await noneLeft(timers);
    });
  });
});
