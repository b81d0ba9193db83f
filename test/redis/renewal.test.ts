/**
 * Keeping a lock: renewals and explicit extensions, against a real server, through a proxy that fails on demand, and on a fake
 * clock where the claim is about an instant.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { libraryTimers } from '../contract/outcomes';
import {
  type Action,
  answer,
  close,
  dropReply,
  type FaultProxy,
  holdReply,
  reset,
  startProxy,
} from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, connect, recordCommands, startRedis, uniqueKey } from '../support/redis';
import { useProxy } from './behind-proxy';
import {
  blockFor,
  extendedKeys,
  extensionsIn,
  FakeRedis,
  isAcquire,
  isExtension,
  isRelease,
  lossOf,
  rejectionOf,
} from './holding';

describe('renewal', () => {
  const stage = useProxy('renewal');
  let port: number;
  let direct: Client;
  let proxy: FaultProxy;
  let withLock: redisExpLock.WithLock;
  let key: string;

  beforeEach(() => {
    ({ port, direct, proxy, withLock, key } = stage);
  });

  const renewals = (): number => proxy.count(isExtension);

  /** Resolves when `count` further renewals were asked for. */
  async function renewed(times: number): Promise<void> {
    const before = renewals();
    await waitFor(() => renewals() >= before + times, { what: `${times} renewals` });
  }

  /** Resolves when a renewal has moved the end that the lease has now by a second at least. */
  async function moved(lease: redisExpLock.Lease, what = 'the end to be moved'): Promise<void> {
    const endMs = (): number => performance.now() + lease.remaining();
    const firstEndMs = endMs();
    await waitFor(() => lease.signal.aborted || endMs() > firstEndMs + 1_000, { what });
  }

  describe('on a clock of its own', () => {
    let clock: sinon.SinonFakeTimers;
    let timers: () => number;
    let fake: FakeRedis;
    let lock: redisExpLock.WithLock;

    beforeEach(() => {
      clock = sinon.useFakeTimers({
        now: Date.now(),
        toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'Date', 'performance'],
      });
      timers = libraryTimers();
      fake = new FakeRedis();
      lock = redisExpLock({ redis: fake as unknown as redisExpLock.RedisLike, lifetime: 3_000, autoExtend: true });
    });

    afterEach(() => clock.restore());

    /** Awaits a promise whose work needs turns of the faked event loop. */
    async function inTime<T>(promise: Promise<T>): Promise<T> {
      await clock.tickAsync(1);
      return promise;
    }

    it('H15: an hour of a 3 s lifetime is 3,600 renewals, and at most a tenth more', async () => {
      const lease = await lock.promise('k');
      await clock.tickAsync(3_600_000);
      expect(lease.remaining()).to.be.above(0);
      expect(fake.count('extend')).to.be.within(3_600, 4_100);
    });

    it('a renewal goes out when two thirds of the lifetime are left', async () => {
      await lock.promise('k');
      await clock.tickAsync(850);
      expect(fake.count('extend')).to.equal(0);
      await clock.tickAsync(200);
      expect(fake.count('extend')).to.equal(1);
    });

    it('H17: a silent Redis is asked several times within the validity, at growing haste and without end', async () => {
      const lease = await lock.promise('k');
      fake.silent = true;
      await clock.tickAsync(2_990);
      expect(fake.count('extend')).to.be.within(2, 20);
      expect(lease.remaining()).to.be.above(0);
      await clock.tickAsync(10);
      expect(lease.signal.reason?.reason).to.equal('unreachable');
    });

    it('a lease goes on being renewed after it was shortened and Redis was silent about that, and the next renewal', async () => {
      const lease = await lock.promise('k', { lifetime: 60_000, commandTimeout: 1_000 });
      const { signal } = lease;
      fake.silent = true;
      const shortened = rejectionOf(lease.extend(3_000));
      await clock.tickAsync(1_100);
      expect(await shortened).to.include({ code: 'ERR_LOCK_BACKEND' });
      expect(lease.remaining()).to.be.within(1_800, 3_000);
      fake.silent = false;
      await clock.tickAsync(10_000);
      expect(signal.reason?.reason).to.equal(undefined);
      expect(lease.remaining()).to.be.above(0);
    });

    it('H16: no timer is armed once the lease is released, though an extension is in flight', async () => {
      const lease = await lock.promise('k');
      void lease.signal;
      fake.holding = true;
      await clock.tickAsync(1_500);
      expect(fake.calls).to.deep.equal(['acquire', 'extend']);
      const released = lease();
      fake.answerAll();
      await clock.tickAsync(0);
      expect(await released).to.equal(true);
      expect(timers()).to.equal(0);
      await clock.tickAsync(10_000);
      expect(fake.calls).to.deep.equal(['acquire', 'extend', 'release']);
    });

    it('H16: no timer is armed once the lease is released between two renewals', async () => {
      const lease = await lock.promise('k');
      void lease.signal;
      await clock.tickAsync(1_500);
      expect(fake.calls).to.deep.equal(['acquire', 'extend']);
      expect(timers()).to.be.above(0);
      expect(await inTime(lease())).to.equal(true);
      expect(timers()).to.equal(0);
    });

    it('H16: an extension asked for in the tick of the release is not sent after it', async () => {
      const lease = await lock.promise('k');
      const extended = lease.extend();
      const released = lease();
      await clock.tickAsync(10);
      expect(await released).to.equal(true);
      expect(await extended).to.be.a('boolean');
      expect(fake.calls.at(-1)).to.equal('release');
    });

    it('H16: no timer is armed once the lease is lost, though an extension is in flight', async () => {
      const lease = await lock.promise('k');
      void lease.signal;
      fake.holding = true;
      await clock.tickAsync(5_000);
      expect(lease.signal.aborted).to.equal(true);
      fake.answerAll();
      await clock.tickAsync(100);
      expect(timers()).to.equal(0);
    });

    it('H19: a server whose clock jumped ahead or back is asked once more, and the lock is kept', async () => {
      const lease = await lock.promise('k', { lifetime: 30_000 });
      for (const jumpMs of [25_000, -60_000]) {
        fake.aheadMs += jumpMs;
        for (const each of fake.locks.values()) each.endMs += jumpMs; // the key itself did not expire
        expect(await inTime(lease.extend())).to.equal(true);
        expect(lease.remaining()).to.be.within(29_000, 30_000);
      }
      fake.aheadMs += 30_000;
      expect(await inTime(lease.extend())).to.equal(false);
      expect(lease.signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing' });
    });

    it('H15: a shorter end that no renewal can move, because it is uncertain, makes no hot loop', async () => {
      const lease = await lock.promise('k', { lifetime: 60_000, commandTimeout: 3_000 });
      fake.breaks = true;
      expect(await inTime(rejectionOf(lease.extend(5_000)))).to.include({ code: 'ERR_LOCK_BACKEND' });
      fake.breaks = false;
      // That extension may still be executed for 3 s.
      await clock.tickAsync(2_900);
      expect(lease.remaining()).to.be.within(2_000, 2_100);
      expect(fake.count('extend')).to.be.within(2, 20);
      await clock.tickAsync(2_000);
      expect(lease.remaining()).to.be.above(50_000);
    });

    it('H15: a wall clock that is set ahead, but not as far as the end, makes no hot loop', async () => {
      const lease = await lock.promise('k');
      expect(await inTime(lease.extend(20_000))).to.equal(true);
      clock.setSystemTime(Date.now() + 18_500);
      fake.aheadMs -= 18_500; // ours was set, the server's was not
      await clock.tickAsync(9_000);
      expect(fake.count('extend')).to.be.at.most(20);
    });
  });

  describe('which locks are renewed', () => {
    it('promise, tryLock and the callback form hold for the lifetime only, by default', async () => {
      const [first, second, third] = [uniqueKey(), uniqueKey(), uniqueKey()];
      const options = { lifetime: 2_500, commandTimeout: 10_000 };
      await withLock.promise(first, options);
      await withLock.tryLock(second, options);
      await new Promise((resolve) => withLock(third, options, resolve));
      await waitFor(async () => (await direct.exists([first, second, third])) === 0, { what: 'all to expire' });
      expect(renewals()).to.equal(0);
    });

    it('run renews while its function runs; promise, tryLock and the callback form when autoExtend says so', async () => {
      const options = { lifetime: 9_000, commandTimeout: 10_000, autoExtend: true };
      const leases = [
        await withLock.promise(uniqueKey(), options),
        (await withLock.tryLock(uniqueKey(), options))!,
        await new Promise<redisExpLock.Lease>((resolve) => withLock(uniqueKey(), options, (_, done) => resolve(done!))),
      ];
      const areMoved = leases.map((lease) => moved(lease));
      const keeping = withLock.run(key, { lifetime: 9_000, commandTimeout: 10_000 }, async (lease) => {
        await moved(lease);
        expect(await direct.get(key)).to.equal(lease.token);
      });
      // A function that keeps nothing of its lease, while all that nobody keeps is collected.
      const careless = withLock.run(`${key}:2`, { lifetime: 9_000, commandTimeout: 10_000 }, async () => {
        for (let i = 0; i < 11; i += 1) {
          await sleep(300);
          globalThis.gc!();
        }
        const isRenewed = async (): Promise<boolean> => (await direct.pTTL(`${key}:2`)) > 9_000 - 11 * 300;
        await waitFor(isRenewed, { what: 'the end of the careless one to be moved' });
      });
      await Promise.all([keeping, careless, ...areMoved]);
      for (const lease of leases) {
        expect(lease.remaining()).to.be.above(0);
        expect(await direct.get(lease.key as string)).to.equal(lease.token);
        expect(await lease.release()).to.equal(true);
      }
    });

    it('H21: maxHold ends the renewal of a job that hangs: the lock is lost as expired, and free', async () => {
      const startedMs = performance.now();
      const hung = withLock.run(key, { lifetime: 2_000, maxHold: 2_500 }, (lease) =>
        waitFor(() => lease.signal.aborted, { what: 'the loss' }),
      );
      const error = await rejectionOf(hung);
      const heldMs = performance.now() - startedMs;
      expect(error).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired', result: true });
      expect(heldMs).to.be.at.least(2_500);
      const asked = renewals();
      await waitFor(async () => (await direct.exists(key)) === 0, { what: 'the key to be free' });
      expect(renewals()).to.equal(asked);
    });

    it('renewing ends when the lease is collected, and the lifetime frees its key; a lease that is kept stays', async () => {
      const forgotten = uniqueKey('forgotten');
      const box: { lease?: redisExpLock.Lease | undefined } = {};
      box.lease = await withLock.promise(forgotten, { lifetime: 3_000, autoExtend: true });
      const kept = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
      await waitFor(() => extendedKeys(proxy).filter((each) => each === forgotten).length >= 2);
      box.lease = undefined;
      await waitFor(
        async () => {
          globalThis.gc!();
          await sleep(100); // collecting all the time would be a stall of its own
          return (await direct.exists(forgotten)) === 0;
        },
        { what: 'the key of the collected lease to be free' },
      );
      const asked = extendedKeys(proxy).filter((each) => each === forgotten).length;
      await renewed(2);
      expect(extendedKeys(proxy).filter((each) => each === forgotten)).to.have.length(asked);
      expect(await direct.get(key)).to.equal(kept.token);
    });

    it('a signal that is kept alone still aborts, after the lease was collected', async () => {
      const box: { lease?: redisExpLock.Lease | undefined } = {};
      box.lease = await withLock.promise(key, { lifetime: 1_500, autoExtend: true });
      const { signal } = box.lease;
      box.lease = undefined;
      const collecting = setInterval(() => globalThis.gc!(), 100);
      try {
        // A collection can take long enough for 'stalled'; what counts is that it is told.
        expect((await lossOf({ signal })).reason).to.be.oneOf(['expired', 'stalled']);
      } finally {
        clearInterval(collecting);
      }
    });

    it('leases held side by side share no token, no signal, no renewal and no end (compare H26, H44)', async () => {
      const options = { lifetime: 3_000, autoExtend: true };
      const [a, b, c] = await Promise.all(['a', 'b', 'c'].map((name) => withLock.promise(`${key}:${name}`, options)));
      expect(new Set([a!.token, b!.token, c!.token]).size).to.equal(3);
      expect(new Set([a!.signal, b!.signal, c!.signal]).size).to.equal(3);
      await a!.release();
      await direct.del(`${key}:b`);
      expect((await lossOf(b!)).reason).to.equal('missing');
      await renewed(2);
      expect([a!.signal.aborted, b!.signal.aborted, c!.signal.aborted]).to.deep.equal([false, true, false]);
      expect([a!.remaining(), b!.remaining()]).to.deep.equal([0, 0]);
      expect(c!.remaining()).to.be.above(0);
      expect(await direct.get(`${key}:c`)).to.equal(c!.token);
    });
  });

  describe('only what is ours', () => {
    it('H13: a renewal does not recreate a key that is gone: lost as missing', async () => {
      const lease = await withLock.promise(key, { lifetime: 4_500, autoExtend: true, commandTimeout: 10_000 });
      await direct.del(key);
      expect((await lossOf(lease)).reason).to.equal('missing');
      expect(await direct.exists(key)).to.equal(0);
    });

    it("H13: a renewal leaves a stranger's key as it is: lost as taken", async () => {
      const lease = await withLock.promise(key, { lifetime: 4_500, autoExtend: true, commandTimeout: 10_000 });
      await direct.set(key, 'stranger', { PX: 30_000 });
      expect((await lossOf(lease)).reason).to.equal('taken');
      expect(await direct.get(key)).to.equal('stranger');
      expect(await direct.pTTL(key)).to.be.within(1, 30_000);
      expect(await lease.release()).to.equal(false);
      expect(await direct.get(key)).to.equal('stranger');
    });

    it('H13: an extension to 0 ms, which would delete the lock, is refused, and the lock stays', async () => {
      const lease = await withLock.promise(key, { lifetime: 30_000 });
      for (const lifetime of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        expect(await rejectionOf(lease.extend(lifetime))).to.include({ code: 'ERR_LOCK_OPTION' });
      }
      expect(await direct.get(key)).to.equal(lease.token);
      expect(lease.remaining()).to.be.above(0);
      expect(renewals()).to.equal(0);
    });

    it('H13: an extension whose answer comes after the loss is released: no key lives on for nobody', async () => {
      const lease = await withLock.promise(key, { lifetime: 1_500, commandTimeout: 10_000 });
      const held = holdReply();
      proxy.rule({ match: isExtension }, held);
      const extended = lease.extend(600_000);
      await held.arrived;
      await waitFor(() => lease.remaining() === 0, { what: 'the validity to end' });
      expect(await direct.get(key)).to.equal(lease.token);
      held.release();
      expect(await extended).to.equal(false);
      const isFree = async (): Promise<boolean> => (await direct.exists(key)) === 0;
      await waitFor(isFree, { what: 'the key to be released' });
    });
  });

  describe('one failure, and an outage', () => {
    it('H14: one failed renewal is tried again, whatever made it fail, and the lock is still held', async () => {
      const failures: Record<string, Action> = {
        'lost with its connection': reset('before'),
        'done, the reply lost with its connection': reset(),
        'done, the connection ended': close(),
        'refused, Redis loads': answer('-LOADING Redis is loading the dataset in memory\r\n'),
        'refused, a script runs': answer('-BUSY Redis is busy running a script\r\n'),
        'an answer without sense': answer('+QUEUED\r\n'),
      };
      const survived = async ([what, failure]: [string, Action]) => {
        const proxied = await startProxy(port);
        proxied.rule({ match: isExtension, nth: 1 }, failure);
        const lock = redisExpLock({ redis: await connect(proxied.url), commandTimeout: 5_000 });
        const lease = await lock.promise(`${key}:${what}`, { lifetime: 6_000, autoExtend: true });
        const { signal } = lease;
        await Promise.all([
          moved(lease, `${what}: another renewal`),
          waitFor(() => proxied.count(isExtension) >= 3, { what: `${what}: three renewals` }),
        ]);
        expect(signal.reason?.reason, what).to.equal(undefined);
        expect(lease.remaining(), what).to.be.above(0);
        expect(await direct.get(`${key}:${what}`), what).to.equal(lease.token);
        expect(proxied.count(isExtension), what).to.be.at.least(3);
        await lock.close({ drain: false });
        await proxied.stop();
      };
      await Promise.all(Object.entries(failures).map(survived));
    });

    it('H14: an outage longer than the lifetime loses the lock at the deadline, as unreachable, and not before', async () => {
      const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
      const lost = lossOf(lease);
      await proxy.seen({ match: isExtension });
      await waitFor(() => lease.remaining() > 2_500, { what: 'the renewal to be heard' });
      const validUntilMs = performance.now() + lease.remaining();
      proxy.blackHole();
      await waitFor(() => lease.signal.aborted, { what: 'the loss to be noticed' });
      const loss = await lost;
      const lateMs = performance.now() - validUntilMs;
      expect(lateMs).to.be.within(-1, 5_000);
      // Noticed much later than the deadline, this process stood still, and says so.
      expect(loss.reason).to.be.oneOf(lateMs > 30 ? ['unreachable', 'stalled'] : ['unreachable']);
      expect(loss.code).to.equal('ERR_LOCK_LOST');
    });

    it('H17: a renewal that is never answered does not block the next one, whatever commandTimeout says', async () => {
      const startedMs = performance.now(); // its validity counts from before the request, however long the answer takes
      const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true, commandTimeout: 60_000 });
      const lost = lossOf(lease);
      proxy.blackHole();
      await waitFor(() => renewals() >= 2, { what: 'a second renewal' });
      expect(lease.remaining(), 'tried again within the lifetime').to.be.above(0);
      await lost;
      expect(performance.now() - startedMs).to.be.at.least(2_900);
    });

    it('H17: when the connection comes back within the lifetime, the lock was never lost', async () => {
      const lease = await withLock.promise(key, { lifetime: 6_000, autoExtend: true });
      const { signal } = lease;
      const isMoved = moved(lease);
      proxy.blackHole();
      await renewed(1);
      proxy.heal();
      await isMoved;
      expect(signal.aborted).to.equal(false);
      expect(await direct.get(key)).to.equal(lease.token);
    });
  });

  describe('no more traffic than needed', () => {
    it('H15: a lifetime of a second costs three renewals per lifetime', async () => {
      const recording = await recordCommands({ port });
      const lease = await withLock.promise(key, { lifetime: 1_000, autoExtend: true });
      const startedMs = performance.now();
      while (lease.remaining() > 0 && performance.now() - startedMs < 5_000) await sleep(5);
      const lifetimes = (performance.now() - startedMs) / 1_000;
      await lease.release();
      const commands = (await recording.stop()).filter(({ args, lua }) => !lua && args.includes(key));
      const extensions = commands.filter(({ args }) => isExtension(args)).length;
      expect(extensions).to.be.within(Math.floor(lifetimes) - 1, Math.ceil(3 * lifetimes) + 5);
      expect(extensions, 'renewed at all').to.be.above(0);
      // The acquire, the release, the extensions: nothing else was asked about the key.
      expect(commands.length - extensions).to.equal(2);
    });

    for (const lifetime of [1, 2, 3, 10]) {
      it(`H15: a lifetime of ${lifetime} ms makes no hot loop, and silence after the loss`, async () => {
        const options = { lifetime, autoExtend: true, maxRetries: 5_000, retryTimeout: 1 };
        const lease = await withLock.promise(key, options);
        const before = renewals();
        const startedMs = performance.now();
        while (lease.remaining() > 0 && performance.now() - startedMs < 300) await sleep(1);
        const heldMs = performance.now() - startedMs;
        expect(renewals() - before).to.be.at.most(Math.ceil(heldMs) + 3);
        await lease.release();
        await sleep(50);
        const asked = renewals();
        await sleep(50);
        expect(renewals()).to.equal(asked);
      });
    }

    it('H15: after a stall one renewal goes out, not one for each that was missed', async () => {
      const lease = await withLock.promise(key, { lifetime: 6_000, autoExtend: true, commandTimeout: 10_000 });
      await proxy.seen({ match: isExtension });
      await waitFor(() => lease.remaining() > 5_600, { what: 'the renewal to be heard' });
      const before = renewals();
      blockFor(4_050); // two renewals long
      await sleep(150);
      expect(renewals() - before).to.be.at.most(2);
      expect(lease.remaining()).to.be.above(0);
    });

    it('one extension of a lease is in flight at a time, whatever asks for it', async () => {
      const lease = await withLock.promise(key, { lifetime: 4_000, autoExtend: true, commandTimeout: 5_000 });
      let inFlight = 0;
      let most = 0;
      proxy.onCommand(({ args }) => {
        if (!isExtension(args)) return undefined;
        const rows = extensionsIn(args).filter((each) => each === key).length; // two in one command are two
        inFlight += rows;
        most = Math.max(most, inFlight);
        return {
          reply: async (link, reply) => {
            await link.pause(40);
            inFlight -= rows;
            await link.toClient(reply);
          },
        };
      });
      const extended = await Promise.all(Array.from({ length: 8 }, () => lease.extend(3_000)));
      expect(extended).to.deep.equal(Array(8).fill(true));
      await renewed(2);
      expect(most).to.equal(1);
      expect(await lease.release()).to.equal(true);
    });
  });

  describe('what an extension sets', () => {
    it('renewals with a short lifetime do not undo an extension', async () => {
      const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
      await renewed(1);
      expect(await lease.extend(60_000)).to.equal(true);
      await sleep(2_500);
      expect(lease.remaining()).to.be.within(40_000, 60_000);
      expect(await direct.pTTL(key)).to.be.within(40_000, 60_000);
      expect(renewals()).to.be.at.most(5);
    });

    it('a renewal does not undo in Redis what an extension set whose reply was lost', async () => {
      const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
      proxy.rule({ match: isExtension, nth: 1 }, reset());
      expect(await rejectionOf(lease.extend(60_000))).to.include({ code: 'ERR_LOCK_BACKEND' });
      await proxy.seen({ match: isExtension });
      expect(await direct.pTTL(key)).to.be.within(40_000, 60_000);
      expect(lease.remaining()).to.be.at.most(60_000);
    });

    it('an extension moves the end from now, and never beyond what Redis keeps', async () => {
      const lease = await withLock.promise(key, { lifetime: 5_000 });
      for (const [lifetime, least, most] of [
        [60_000, 50_000, 60_000],
        [10_000, 5_001, 10_000],
        [undefined, 1, 5_000],
      ] as const) {
        expect(await lease.extend(lifetime)).to.equal(true);
        expect(lease.remaining()).to.be.within(least, most);
        const inRedisMs = await direct.pTTL(key);
        expect(inRedisMs).to.be.within(least, most);
        expect(lease.remaining()).to.be.at.most(inRedisMs);
      }
    });

    it('shortening lowers remaining() at once, also when its reply is lost', async () => {
      const lease = await withLock.promise(key, { lifetime: 60_000, commandTimeout: 1_000 });
      proxy.rule({ match: isExtension }, dropReply());
      const shortened = lease.extend(1_000);
      expect(lease.remaining()).to.be.at.most(1_000);
      expect(await rejectionOf(shortened)).to.include({ code: 'ERR_LOCK_BACKEND' });
      expect(lease.remaining()).to.be.at.most(1_000);
      expect(await direct.pTTL(key)).to.be.at.most(1_000);
    });

    it('a lease that is renewed goes on being renewed after it was shortened', async () => {
      const lease = await withLock.promise(key, { lifetime: 12_000, autoExtend: true, commandTimeout: 10_000 });
      expect(await lease.extend(6_000)).to.equal(true);
      await moved(lease);
      expect(lease.signal.reason?.reason).to.equal(undefined);
      expect(lease.remaining()).to.be.above(0);
      expect(await direct.get(key)).to.equal(lease.token);
    });

    for (const [what, commandTimeout, next] of [
      ['a renewal', 1_000, () => proxy.seen({ match: isExtension })],
      ['another extension', 5_000, (lease: redisExpLock.Lease) => lease.extend(30_000)],
    ] as const) {
      it(`an extension of unknown outcome that runs after ${what} leaves no holder a validity longer than Redis keeps`, async () => {
        const lease = await withLock.promise(key, { lifetime: 6_000, autoExtend: true, commandTimeout });
        let late: readonly string[] = [];
        // It is in a buffer of the connection that is given up.
        const swallow: Action = {
          request: (link, { command }) => {
            late = command.args;
            link.reset();
          },
        };
        proxy.rule({ match: isExtension, nth: 1 }, swallow);
        expect(await rejectionOf(lease.extend(4_000))).to.include({ code: 'ERR_LOCK_BACKEND' });
        await next(lease);
        await sleep(20);
        await direct.sendCommand([...late]).catch(() => {}); // now it runs
        const inRedisMs = await direct.pTTL(key);
        expect(lease.remaining()).to.be.at.most(inRedisMs);
      });
    }
  });

  describe('the end of a section', () => {
    it('H16: an extension in flight when run ends arms nothing: no command about the key follows the release', async () => {
      const held = holdReply();
      proxy.rule({ match: isExtension, nth: 1 }, held);
      const released = proxy.seen({ match: isRelease });
      const running = withLock.run(key, { lifetime: 3_000 }, () => held.arrived.then(() => 'result'));
      await released;
      const recording = await recordCommands({ port });
      held.release();
      expect(await running).to.equal('result');
      await sleep(1_500); // past a renewal
      const later = (await recording.stop()).filter(({ args }) => args.includes(key));
      expect(later).to.deep.equal([]);
      expect(await direct.exists(key)).to.equal(0);
    });

    it('H16: 1,000 sections that end with an extension in flight leave no key and no traffic', async () => {
      for (let wave = 0; wave < 10; wave += 1) {
        await Promise.all(
          Array.from({ length: 100 }, (_, i) =>
            withLock.run(`${key}:${wave}:${i}`, { lifetime: 3_000, commandTimeout: 10_000 }, (lease) => {
              void lease.extend().catch(() => {});
            }),
          ),
        );
      }
      await nothingFollows(1_200);
    });

    it('H16: 10,000 rounds of acquire, release and abort leave no key and no traffic', async () => {
      // A lifetime that the test does not outlive: what is left behind would be seen.
      const options = { lifetime: 60_000, commandTimeout: 5_000, timeout: 20_000, autoExtend: true };
      let taken = 0;
      const round = async (lane: number, i: number): Promise<void> => {
        const abort = new AbortController();
        if (i % 4 === 3) setImmediate(() => abort.abort());
        const lease = await withLock.promise(`${key}:${lane}`, { ...options, signal: abort.signal }).catch(() => null);
        if (lease === null) return;
        taken += 1;
        if (i % 4 === 1) void lease.extend().catch(() => {});
        if (i % 4 === 2) void lease.signal;
        await lease();
      };
      await Promise.all(
        Array.from({ length: 100 }, async (_, lane) => {
          for (let i = 0; i < 100; i += 1) await round(lane, i);
        }),
      );
      expect(taken).to.be.within(7_500, 10_000);
      await withLock.close();
      await nothingFollows(700);
    });

    async function nothingFollows(quietMs: number): Promise<void> {
      await waitFor(async () => (await lockKeys()).length === 0, { what: 'every key to be free' });
      const recording = await recordCommands({ port });
      await sleep(quietMs);
      const later = (await recording.stop()).filter(({ args }) => args.some((word) => word.includes(key)));
      expect(later.filter(({ args }) => args[0]!.toLowerCase() !== 'keys')).to.deep.equal([]);
      expect(await lockKeys()).to.deep.equal([]);
    }

    /** All keys of this test but the fences, which are meant to stay. */
    async function lockKeys(): Promise<string[]> {
      return (await direct.keys(`*${key}*`)).filter((each) => !each.endsWith(':fence'));
    }
  });

  describe('many leases at once', () => {
    it('500 leases of one process are renewed by one command per turn, not one each', async () => {
      const options = { lifetime: 4_000, autoExtend: true, commandTimeout: 10_000 };
      const leases = await Promise.all(Array.from({ length: 500 }, (_, i) => withLock.promise(`${key}:${i}`, options)));
      await waitFor(() => extendedKeys(proxy).length >= 500 * 2);
      const extensions = proxy.commands.filter(({ args }) => isExtension(args));
      const rows = extendedKeys(proxy).length;
      expect(leases.filter((lease) => lease.remaining() === 0)).to.have.length(0);
      expect(rows).to.be.within(500 * 2, 500 * 7);
      expect(extensions.length).to.be.at.most(rows / 20);
      await Promise.all(leases.map((lease) => lease()));
    });

    it('a lease whose key was deleted, taken or spoilt loses itself, and none of those renewed with it', async () => {
      const options = { lifetime: 6_000, autoExtend: true, commandTimeout: 10_000 };
      const leases = await Promise.all(Array.from({ length: 20 }, (_, i) => withLock.promise(`${key}:${i}`, options)));
      const signals = leases.map((lease) => lease.signal);
      await direct.del(`${key}:3`);
      await direct.set(`${key}:7`, 'stranger', { PX: 60_000 });
      await direct.del(`${key}:11`);
      await direct.rPush(`${key}:11`, 'not a lock');
      await waitFor(() => [3, 7, 11].every((i) => signals[i]!.aborted), { what: 'their losses' });
      await renewed(1);
      const reasons = signals.map((signal) => signal.reason?.reason);
      expect(reasons).to.deep.equal(
        leases.map((_, i) => ({ 3: 'missing', 7: 'taken', 11: 'taken' })[i] as string | undefined),
      );
      const tokens = await direct.mGet(leases.map((_, i) => `${key}:${i}`));
      // A test process that stands still here has lost them meanwhile, and says so.
      const valid = leases.flatMap((lease, i) => (lease.remaining() > 0 ? [i] : []));
      for (const i of valid) expect(tokens[i]).to.equal(leases[i]!.token);
      expect(await direct.exists(`${key}:3`)).to.equal(0);
      expect(await direct.get(`${key}:7`)).to.equal('stranger');
      expect(await direct.lRange(`${key}:11`, 0, -1)).to.deep.equal(['not a lock']);
      const batches = proxy.commands.filter(({ args }) => extensionsIn(args).length > 1);
      expect(batches.length, 'they were renewed together').to.be.above(0);
    });

    it('a batch that Redis refuses for one key goes out one by one: only that lock is lost', async () => {
      const server = await startRedis();
      await server.command('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '&*', '+@all');
      const limited = await server.connect({ username: 'limited', password: 'pw' });
      const lock = redisExpLock({ redis: limited, lifetime: 3_000, autoExtend: true });
      // In one tick, so that they are renewed in one.
      const names = [...Array.from({ length: 9 }, (_, i) => `ok:${i}`), 'no:1'];
      const mine = await Promise.all(names.map((name) => lock.promise(name)));
      const forbidden = mine.pop()!;
      const signals = mine.map((lease) => lease.signal);
      await server.command('ACL', 'SETUSER', 'limited', 'resetkeys', '~ok:*', '~redis-exp-lock:fence*');
      const lost = lossOf(forbidden);
      expect((await lost).reason).to.be.oneOf(['unreachable', 'stalled']);
      expect(signals.filter((signal) => signal.aborted)).to.have.length(0);
      for (const [i, lease] of mine.entries()) {
        expect(await server.command('GET', `ok:${i}`)).to.equal(lease.token);
      }
      limited.destroy();
      await server.stop();
    });

    it('a batch whose connection broke is not sent again one by one', async () => {
      const options = { lifetime: 9_000, autoExtend: true, commandTimeout: 10_000 };
      const leases = await Promise.all(Array.from({ length: 200 }, (_, i) => withLock.promise(`${key}:${i}`, options)));
      proxy.rule({ match: (args) => extensionsIn(args).length > 20, nth: 1 }, reset());
      await Promise.all(leases.map((lease) => moved(lease)));
      const rows = extendedKeys(proxy).length;
      expect(rows).to.be.at.least(200);
      expect(renewals(), `${rows} renewals`).to.be.at.most(60);
      expect(leases.filter((lease) => lease.remaining() === 0)).to.have.length(0);
      await Promise.all(leases.map((lease) => lease()));
    });
  });

  it('the tests above know the scripts apart', async () => {
    const lease = await withLock.promise(key, { lifetime: 30_000, commandTimeout: 10_000 });
    await lease.extend();
    await lease.release();
    for (const script of [isAcquire, isExtension, isRelease]) expect(proxy.count(script)).to.equal(1);
  });
});
