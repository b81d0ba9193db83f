/**
 * Extensions and releases that meet a key that is no longer ours, or that arrive after the end of the validity;
 * and releases whose reply is lost. Nothing brings a lost lock back to life, and nobody else's key is touched.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { delayRequest, holdRequest, reset } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { recordCommands } from '../support/redis';
import { backendError, LONG_MS, unreachable, useStage } from './faults';
import { isAcquire, isExtension, isRelease, lossOf, rejectionOf } from './holding';

/** For locks whose end, and whose silence, is not the subject. */
const patient = { lifetime: LONG_MS, commandTimeout: 10_000 };

describe('an extension (H13)', () => {
  const stage = useStage();

  it('does not bring a missing key back, and notifies the holder (H13)', async () => {
    const { server, key } = stage;
    const lease = await redisExpLock({ redis: await stage.direct(), ...patient }).promise(key);
    await server.command('DEL', key);
    expect(await lease.extend()).to.equal(false);
    expect(await stage.holder()).to.equal(null);
    expect((await lossOf(lease)).reason).to.equal('missing');
    expect(lease.remaining()).to.equal(0);
  });

  it('does not extend a stranger’s lock, and notifies the holder (H13)', async () => {
    const { server, key } = stage;
    const lease = await redisExpLock({ redis: await stage.direct(), ...patient }).promise(key);
    await server.command('SET', key, 'stranger', 'PX', 30_000);
    expect(await lease.extend(LONG_MS)).to.equal(false);
    expect(await stage.holder()).to.equal('stranger');
    expect(await stage.leftMs()).to.be.within(1, 30_000);
    expect((await lossOf(lease)).reason).to.equal('taken');
    expect(await lease.release()).to.equal(false);
    expect(await stage.holder()).to.equal('stranger');
  });

  it('is not even sent once the validity has ended here, although the key lives on (H13)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 1_000 });
    const lease = await withLock.promise(key, { maxRetries: 5 });
    await server.command('SET', key, lease.token, 'PX', 30_000); // also if a busy machine has let it end already
    await waitFor(() => lease.remaining() === 0);
    const asked = proxy.count('script');
    expect(await lease.extend(LONG_MS)).to.equal(false);
    expect(proxy.count('script')).to.equal(asked);
    expect(await stage.leftMs()).to.be.within(1, 30_000);
  });

  it('that Redis gets after the validity has ended is refused there, although the key lives on (H13)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), commandTimeout: 1_000 });
    const held = holdRequest();
    proxy.rule({ match: isExtension, nth: 1 }, held);
    // More than the time until the extension is given up, for a machine that stands still meanwhile.
    const lease = await withLock.promise(key, { lifetime: 2_500, maxRetries: 5 });
    const extended = rejectionOf(lease.extend(LONG_MS));
    await held.arrived;
    await server.command('SET', key, lease.token, 'PX', 30_000);
    await extended;
    await waitFor(() => lease.remaining() === 0);
    await sleep(10); // two clocks, each read in whole milliseconds
    const ran = proxy.seen({ match: isExtension });
    held.release();
    expect(String((await ran).reply)).to.match(/^\*2\r\n:-2\r\n/);
    expect(await stage.leftMs()).to.be.within(1, 30_000);
  });

  it('that Redis gets too late is refused there also when the grant took long to come (H13)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), commandTimeout: 5_000 });
    // Some quick answers: by now the server's clock is known well.
    for (let n = 0; n < 5; n += 1) await (await withLock.promise(`${key}-before`, { lifetime: LONG_MS })).release();
    proxy.rule({ match: isAcquire, nth: 1 }, delayRequest(1_000));
    const held = holdRequest();
    proxy.rule({ match: isExtension, nth: 1 }, held);
    const lease = await withLock.promise(key, { lifetime: 2_500 });
    const extended = lease.extend(LONG_MS);
    await held.arrived;
    // Redis would free the key one second after our validity ends, and here later: in between nothing may give it a longer life.
    await server.command('SET', key, lease.token, 'PX', 30_000);
    await waitFor(() => lease.remaining() === 0);
    await sleep(10);
    const ran = proxy.seen({ match: isExtension });
    held.release();
    expect(String((await ran).reply)).to.match(/^\*2\r\n:-2\r\n/);
    expect(await extended).to.equal(false);
    expect(await stage.leftMs()).to.be.within(1, 30_000);
  });

  it('by renewal, too late: the key does not live on for a holder that knows of its loss (H13)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 3_000, commandTimeout: 1_000 });
    const held = holdRequest();
    proxy.rule({ match: isExtension, nth: 1 }, held);
    const lease = await withLock.promise(key, { autoExtend: true, maxRetries: 5 });
    await server.command('SET', key, lease.token, 'PX', 30_000);
    expect((await lossOf(lease)).reason).to.be.oneOf(unreachable);
    await sleep(10);
    const recording = await recordCommands(server);
    const ran = proxy.seen({ match: isExtension });
    held.release();
    await ran;
    const commands = await recording.stop();
    expect(commands.some(({ args }) => args[0]!.toLowerCase() === 'pexpire')).to.equal(false);
  });

  it('in flight while the lock is released twice: one release, one answer to all, nothing revived (H22)', async () => {
    const { server, proxy, key } = stage;
    const lease = await redisExpLock({ redis: await stage.through(), ...patient }).promise(key);
    const held = holdRequest();
    proxy.rule({ match: isExtension, nth: 1 }, held);
    const extended = lease.extend();
    await held.arrived;
    const released = [lease.release(), lease(), lease.release()];
    held.release();
    expect(await Promise.all(released)).to.deep.equal([true, true, true]);
    expect(await extended).to.equal(false);
    expect(proxy.count(isRelease)).to.equal(1);
    expect(lease.signal.aborted).to.equal(false);
    expect(await stage.holder()).to.equal(null);
    await server.command('SET', key, 'next', 'PX', LONG_MS);
    expect(await lease.release()).to.equal(true);
    expect(await lease.extend()).to.equal(false);
    expect(await stage.holder()).to.equal('next');
  });
});

describe('the reply to a release is lost (H23)', () => {
  const stage = useStage();

  /** The messages of the `lost` channel while `work` runs. */
  async function alarms(work: () => Promise<void>): Promise<unknown[]> {
    const heard: unknown[] = [];
    const listener = (event: unknown): void => {
      heard.push(event);
    };
    subscribe('redis-exp-lock:lost', listener);
    try {
      await work();
    } finally {
      unsubscribe('redis-exp-lock:lost', listener);
    }
    return heard;
  }

  it('the caller hears that Redis was silent, and may ask again: false, at worst (H23)', async () => {
    const { proxy, key } = stage;
    const lease = await redisExpLock({ redis: await stage.through(), ...patient }).promise(key);
    proxy.rule({ match: isRelease, nth: 1 }, reset());
    const error = await backendError(lease.release());
    expect(error.retryable).to.equal(true);
    expect(await lease.release()).to.equal(false);
    expect(lease.signal.aborted).to.equal(false);
    await stage.expectFree();
  });

  it('what our own first release freed is not reported as lost (H23)', async () => {
    const { proxy, key } = stage;
    const lease = await redisExpLock({ redis: await stage.through(), ...patient }).promise(key);
    proxy.rule({ match: isRelease, nth: 1 }, reset());
    const heard = await alarms(async () => {
      await backendError(lease.release());
      expect(await lease.release()).to.equal(false);
    });
    expect(heard).to.deep.equal([]);
  });

  it('within run, repeated by hand: the result, no LockLostError (H23)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), ...patient });
    proxy.rule({ match: isRelease, nth: 1 }, reset());
    const heard = await alarms(async () => {
      const result = await withLock.run(key, async (lease) => {
        await backendError(lease.release());
        expect(await lease.release()).to.equal(false);
        return 'done';
      });
      expect(result).to.equal('done');
    });
    expect(heard).to.deep.equal([]);
    await stage.expectFree();
  });

  it('of run itself: the result, and no key stays (H23)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 1_000 });
    proxy.rule({ match: isRelease, nth: 1 }, reset());
    expect(await withLock.run(key, { maxRetries: 5 }, () => 'done')).to.equal('done');
    await stage.freed();
    await stage.expectFree();
  });

  it('the release is lost before Redis gets it: repeated it is true, and the key is free (H23)', async () => {
    const { proxy, key } = stage;
    const lease = await redisExpLock({ redis: await stage.through(), ...patient }).promise(key);
    proxy.rule({ match: isRelease, nth: 1 }, reset('before'));
    await backendError(lease.release());
    expect(await stage.holder()).to.equal(lease.token);
    expect(await lease.release()).to.equal(true);
    await stage.expectFree();
  });

  it('of run itself, before Redis gets it: the result, and the key is free soon (H23)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 1_000 });
    proxy.rule({ match: isRelease, nth: 1, times: 2 }, reset('before'));
    expect(await withLock.run(key, { maxRetries: 5 }, () => 'done')).to.equal('done');
    await stage.freed();
    await withLock.close();
    await stage.expectFree();
  });
});

describe('an operator takes the key away from its holder (H60, H61)', () => {
  const stage = useStage();
  const lifetime = 3_000; // a third of it until the next renewal; the rest is for a machine that is busy

  type Way = [name: string, reason: string, take: (key: string) => Promise<unknown>];
  const ways: Way[] = [
    ['FLUSHALL', 'missing', () => stage.server.command('FLUSHALL')],
    ['DEL', 'missing', (key) => stage.server.command('DEL', key)],
    ['RENAME', 'missing', (key) => stage.server.command('RENAME', key, `${key}-elsewhere`)],
    ['a SET', 'taken', (key) => stage.server.command('SET', key, 'somebody else', 'PX', LONG_MS)],
    ['another type', 'taken', (key) => replaceByList(key)],
    [
      'DEL and the next caller',
      'taken',
      async (key) => {
        const redis = await stage.direct();
        const next = redisExpLock({ redis, ...patient });
        // Sent together, so that no renewal finds that there is no key.
        await Promise.all([redis.del(key), next.promise(key)]);
      },
    ],
  ];

  async function replaceByList(key: string): Promise<void> {
    const list = `${key}-list`;
    await stage.server.command('RPUSH', list, 'x');
    await stage.server.command('PEXPIRE', list, LONG_MS);
    await stage.server.command('RENAME', list, key); // in one step, so that no renewal finds that there is no key
  }

  for (const [name, reason, take] of ways) {
    it(`by ${name}: noticed at the next extension (${reason}), and the fence still rises (H61)`, async () => {
      const { key } = stage;
      const withLock = redisExpLock({ redis: await stage.direct(), lifetime, commandTimeout: 10_000 });
      const lease = await withLock.promise(key, { autoExtend: true });
      expect(lease.signal.aborted).to.equal(false);
      await take(key);
      const error = await lossOf(lease);
      expect(error.reason).to.equal(reason);
      expect(error.code).to.equal('ERR_LOCK_LOST');
      expect(await lease.release()).to.equal(false);

      await stage.server.command('DEL', key);
      const next = await withLock.promise(key, { maxRetries: 5 });
      expect(next.fence).to.be.greaterThan(lease.fence);
    });
  }

  it('by FLUSHALL: run resolves to nothing, it says what was lost and what fn made (H61)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime, commandTimeout: 10_000 });
    const error = await rejectionOf(
      withLock.run(key, async (lease) => {
        await server.command('FLUSHALL');
        await lossOf(lease);
        return 42;
      }),
    );
    expect(error).to.be.instanceOf(redisExpLock.LockLostError);
    expect([error.reason, error.result]).to.deep.equal(['missing', 42]);
  });

  it('by PERSIST: still ours, and the next renewal leaves it without an end until the release (H61)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime, commandTimeout: 10_000 });
    const renewed = stage.proxy.seen({ match: isExtension });
    const lease = await withLock.promise(key, { autoExtend: true });
    await server.command('PERSIST', key);
    await renewed;
    expect(lease.signal.aborted).to.equal(false);
    expect(await stage.leftMs()).to.equal(-1);
    expect(await lease.release()).to.equal(true);
    await stage.expectFree();
  });

  it('by eviction: noticed at the next extension, and the fence still rises (H60)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime, commandTimeout: 10_000 });
    const lease = await withLock.promise(key, { autoExtend: true });
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
    await server.command('CONFIG', 'SET', 'maxmemory', 1);
    try {
      await rejectionOf(server.command('SET', `${key}-full`, 'x')); // evicts what it can: lock and fence
      expect(await stage.holder()).to.equal(null);
      expect((await lossOf(lease)).reason).to.equal('missing');
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', 0);
      await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    }
    const next = await withLock.promise(key);
    expect(next.fence).to.be.greaterThan(lease.fence);
  });
});
