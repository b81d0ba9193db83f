/**
 * The client between us and Redis: silent, unconnected, closed, connecting, reconnecting, and shared by callers who ask at the
 * same time. Every call settles by our own deadline, and what was not sent in time is never sent.
 */

import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { reset } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, type ClientOptions, newClient, recordCommands } from '../support/redis';
import { backendError, grantsOf, LONG_MS, REDIAL, unreachable, useStage } from './faults';
import { isAcquire, lossOf, rejectionOf } from './holding';

const commandTimeout = 1_000;

describe('a socket that has become a black hole (H17)', () => {
  const stage = useStage();
  const clients: [name: string, ClientOptions][] = [
    ['as it comes', REDIAL],
    ['without a command timeout', { ...REDIAL, commandOptions: { timeout: 0 } }],
    ['with a command timeout longer than ours', { ...REDIAL, commandOptions: { timeout: 60_000 } }],
    ['with one shorter than ours', { ...REDIAL, commandOptions: { timeout: 500 } }],
    ['without an offline queue', { ...REDIAL, disableOfflineQueue: true }],
    ['that breaks silent sockets', { socket: { reconnectStrategy: 10, socketTimeout: 500 } }],
    ['that keeps them', { ...REDIAL, pingInterval: 50 }],
  ];

  for (const [name, options] of clients) {
    it(`a client ${name}: acquire, extend, release and inspect settle by our own deadline (H17)`, async () => {
      const { proxy, key } = stage;
      const withLock = redisExpLock({ redis: await stage.through(options), lifetime: LONG_MS, commandTimeout });
      const lease = await withLock.promise(key, { maxRetries: 5 });
      const kept = await withLock.promise(`${key}-kept`, { maxRetries: 5 });
      proxy.blackHole();
      const settled = Promise.all([
        backendError(withLock.promise(`${key}-other`)),
        backendError(withLock.tryLock(`${key}-other`)),
        backendError(withLock.run(`${key}-other`, () => expect.fail('nothing was granted'))),
        backendError(new Promise((_, reject) => withLock(`${key}-other`, (err) => reject(err)))),
        backendError(kept.extend()),
        backendError(lease.release()),
        backendError(withLock.inspect(key)),
      ]);
      for (const error of await settled) expect(error.retryable).to.equal(true);
      proxy.heal();
      await stage.freed(`${key}-other`);
    });
  }

  it('with a wait: it ends when the wait does, whatever the attempts are doing (H17)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    await (await withLock.promise(key, { commandTimeout: 10_000 })).release();
    proxy.blackHole();
    await backendError(withLock.promise(key, { maxRetries: 2 }));
    await backendError(withLock.promise(key, { timeout: 2_500 }));
    const early = await rejectionOf(withLock.promise(key, { timeout: 50, commandTimeout: LONG_MS }));
    expect(early).to.be.instanceOf(redisExpLock.LockError);
  });

  it('with renewal: lost when the validity ends, as unreachable (H17)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 1_500, commandTimeout });
    const lease = await withLock.promise(key, { autoExtend: true, maxRetries: 5 });
    proxy.blackHole();
    expect((await lossOf(lease)).reason).to.be.oneOf(unreachable);
    expect(lease.remaining()).to.equal(0);
  });

  it('close() ends soon, with a lock held and an acquire given up on (H17, H35)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 1_000, commandTimeout });
    await withLock.promise(key, { maxRetries: 5 });
    proxy.blackHole();
    await backendError(withLock.promise(`${key}-other`));
    // Long after the last lifetime there is nothing in Redis that a release could still free.
    await withLock.close({ drain: false });
  });
});

describe('a client that is not connected', () => {
  const stage = useStage();

  function unconnected(options: ClientOptions = REDIAL): Client {
    const client = newClient({ ...options, url: stage.proxy.url });
    client.on('error', () => {});
    return stage.owns(client);
  }

  for (const options of [{}, { maxRetries: 1_000 }, { timeout: LONG_MS }]) {
    it(`never connected, ${JSON.stringify(options)}: an error at once that says what is missing, and nothing is sent later`, async () => {
      const redis = unconnected();
      const withLock = redisExpLock({ redis });
      const error = await backendError(withLock.promise(stage.key, options));
      expect(error.message).to.contain('await client.connect()');
      expect(error.retryable).to.equal(false);
      await redis.connect();
      await redis.ping();
      expect(stage.proxy.count('script')).to.equal(0);
    });
  }

  it('closed: an error at once, by acquire, extend, release and inspect', async () => {
    const redis = await stage.through();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 10_000 });
    const lease = await withLock.promise(stage.key);
    redis.destroy();
    for (const call of [withLock.promise('k'), lease.extend(), lease.release(), withLock.inspect('k')]) {
      const error = await backendError(call);
      expect(error.message).to.contain('await client.connect()');
      expect(error.retryable).to.equal(false);
    }
    expect(await stage.holder()).to.equal(lease.token);
  });

  it('still connecting: works once it is', async () => {
    const redis = unconnected();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 10_000 });
    const connecting = redis.connect();
    expect(redis.isReady).to.equal(false);
    const lease = await withLock.promise(stage.key);
    expect(await stage.holder()).to.equal(lease.token);
    expect(await lease.release()).to.equal(true);
    await connecting;
  });

  for (const disableOfflineQueue of [false, true]) {
    const options = { ...REDIAL, disableOfflineQueue };
    const title = `disableOfflineQueue ${disableOfflineQueue}`;

    it(`reconnecting, ${title}: works when it is back within commandTimeout`, async () => {
      const { proxy, key } = stage;
      const redis = await stage.through(options);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 20_000 });
      const held = await withLock.promise(`${key}-held`);
      await dropOut(redis);
      const calls = [withLock.promise(key), held.extend(), withLock.inspect(`${key}-held`)] as const;
      await sleep(100);
      proxy.heal();
      const [lease, extended, state] = await Promise.all(calls);
      expect(lease.retries).to.equal(0);
      expect([extended, state.locked]).to.deep.equal([true, true]);
      expect(await stage.holder()).to.equal(lease.token);
    });

    it(`reconnecting, ${title}: not back in time, the caller gets an error, and nothing is sent later (H3)`, async () => {
      const { proxy, key } = stage;
      const redis = await stage.through(options);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
      await dropOut(redis);
      const asked = proxy.count('script');
      const error = await backendError(withLock.promise(key, { maxRetries: 2 }));
      expect(error.retryable).to.equal(true);
      await nothingIsSent(redis, asked);
    });

    for (const way of ['its timeout', 'its signal', 'close()']) {
      it(`reconnecting, ${title}: given up meanwhile by ${way}, nothing is sent for nobody (H3, H36)`, async () => {
        const { proxy, server, key } = stage;
        const redis = await stage.through(options);
        const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 2_000 });
        await dropOut(redis);
        const controller = new AbortController();
        const timeout = way === 'its timeout' ? 100 : 5_000;
        const lost = rejectionOf(withLock.promise(key, { timeout, signal: controller.signal }));
        await sleep(50);
        if (way === 'its signal') controller.abort();
        const closed = way === 'close()' ? withLock.close() : undefined;
        expect(await lost).to.be.instanceOf(Error);
        expect(getEventListeners(controller.signal, 'abort')).to.deep.equal([]);
        const recording = await recordCommands(server);
        proxy.heal();
        await waitFor(() => redis.isReady);
        await closed;
        await sleep(100);
        const commands = await recording.stop();
        expect(commands.some(({ args }) => isAcquire(args))).to.equal(false);
        expect(grantsOf(key, commands)).to.equal(0);
      });
    }
  }

  it('reconnecting for a moment: a release waits for it, and frees the key', async () => {
    const { proxy } = stage;
    const redis = await stage.through();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 20_000 });
    const lease = await withLock.promise(stage.key);
    await dropOut(redis);
    const released = lease.release();
    await sleep(50);
    proxy.heal();
    expect(await released).to.equal(true);
    await stage.expectFree();
  });

  /** The client has lost its connection and finds no other until the proxy is healed. */
  async function dropOut(redis: Client): Promise<void> {
    stage.proxy.refuse();
    stage.proxy.resetAll();
    await waitFor(() => !redis.isReady);
  }

  async function nothingIsSent(redis: Client, asked: number): Promise<void> {
    stage.proxy.heal();
    await waitFor(() => redis.isReady);
    await redis.ping();
    await sleep(2 * commandTimeout);
    expect(stage.proxy.count('script')).to.equal(asked);
  }
});

describe('concurrent callers (H26, H44)', () => {
  const stage = useStage();

  for (const owner of [undefined, 'the same owner']) {
    it(`never share a lock, with ${owner ?? 'no owner'}: one of fifty gets it (H26, H44)`, async () => {
      const { key } = stage;
      const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS, commandTimeout: 20_000, owner });
      const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => withLock.promise(key)));
      const leases = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      expect(leases).to.have.length(1);
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          expect(outcome.reason).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
      expect(await stage.holder()).to.equal(leases[0]!.token);
    });
  }

  it('never share a lock when replies are lost and all try again (H2, H44)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    for (const nth of [1, 2, 4]) proxy.rule({ match: isAcquire, nth }, reset());
    let holders = 0;
    const fences = new Set<number>();
    const work = async (): Promise<void> => {
      await withLock.run(key, { timeout: 40_000, retryTimeout: 2 }, async (lease) => {
        holders += 1;
        fences.add(lease.fence);
        expect(holders).to.equal(1);
        await sleep(1);
        holders -= 1;
      });
    };
    await Promise.all(Array.from({ length: 20 }, work));
    expect(fences.size).to.equal(20);
    await stage.freed();
  });
});
