/**
 * Late requests: they lie in the buffers of a stopped server, or of a stopped client, and run after their caller has given up.
 * Real processes, stopped and killed: no key is left longer than `commandTimeout` and a round trip after the server answers
 * again, and no grant counts that was read too late.
 */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { backendError, grantsOf, LONG_MS, REDIAL, useStage } from '../redis/faults';
import { isAcquire, rejectionOf } from '../redis/holding';
import { holdRequest, type Match } from '../support/fault-proxy';
import { cont, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { type Client, type ClientOptions, recordCommands } from '../support/redis';

const script = join(__dirname, 'children', 'caller.ts');

/** A process with a client of its own, ready for orders. */
async function startCaller(url: string, skewMs = 0): Promise<NodeChild> {
  const child = startChild(script, [url, String(skewMs)]);
  expect(await child.receive()).to.equal('ready');
  return child;
}

async function order(child: NodeChild, message: object): Promise<{ done?: any; failed?: any }> {
  child.send(message);
  return child.receive();
}

describe('a server that is stopped with our request in its buffer (H3)', () => {
  const stage = useStage();

  afterEach(() => stage.server.resume());

  const breaking = { reconnectStrategy: 10, socketTimeout: 600 };
  const clients: [name: string, ClientOptions][] = [
    ['a client as it comes', REDIAL],
    ['a client without an offline queue', { ...REDIAL, disableOfflineQueue: true }],
    ['a client that breaks silent connections', { socket: breaking }],
    ['a client that breaks them, without an offline queue', { disableOfflineQueue: true, socket: breaking }],
  ];
  const waysToGiveUp: [name: string, options: redisExpLock.Options][] = [
    ['its command timeout', {}],
    ['its timeout', { timeout: 50 }],
    ['its signal', {}],
  ];

  for (const [client, options] of clients) {
    for (const [way, given] of waysToGiveUp) {
      it(`${client}, given up by ${way}; the server goes on too late: nothing is granted (H3)`, async () => {
        const { server, key } = stage;
        const commandTimeout = 1_000;
        const redis = await stage.direct(options);
        const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
        await warmUp(withLock);
        const recording = await recordCommands(server);
        await pauseUnder(redis);
        const controller = new AbortController();
        const lost = rejectionOf(withLock.promise(key, { ...given, signal: controller.signal }));
        await sleep(50);
        if (way === 'its signal') controller.abort();
        expect(await lost).to.be.instanceOf(Error);
        await sleep(commandTimeout + 50); // past notAfter, whenever it was sent
        await server.resume();
        await stage.freed();
        await withLock.close(); // all that would ever be sent was sent
        const commands = await recording.stop();
        expect(commands.some(({ args }) => isAcquire(args) && args.includes(key))).to.equal(true);
        expect(grantsOf(key, commands)).to.equal(0);
        await stage.expectFree();
      });
    }

    it(`${client}; the server goes on in time: what it grants is released at once (H3)`, async () => {
      const { server, key } = stage;
      // Where a grant is expected, the server goes on before that also on a busy machine.
      const commandTimeout = options.socket === breaking ? 1_300 : 3_000;
      const redis = await stage.direct(options);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
      await warmUp(withLock);
      const recording = await recordCommands(server);
      await pauseUnder(redis);
      expect(await rejectionOf(withLock.promise(key, { timeout: 150 }))).to.be.instanceOf(redisExpLock.LockError);
      await server.resume();
      await server.command('PING'); // it answers again
      await stage.freed();
      await withLock.close();
      expect(await stage.holder()).to.equal(null);
      // Once for each connection that an attempt was sent over: the next one may find the key released already. What a closed
      // connection had in the server's buffer need not run at all: Redis runs it, Valkey 8 does not.
      const grants = grantsOf(key, await recording.stop());
      if (options.socket !== breaking) expect(grants).to.be.greaterThan(0);
      await stage.expectFree();
    });
  }

  it('the process that sent it is killed: nothing is granted later (H3)', async () => {
    const { server, key } = stage;
    const child = await startCaller(server.url);
    expect((await order(child, { take: `${key}-before` })).done.fence).to.be.greaterThan(0);
    const recording = await recordCommands(server);
    await server.pause();
    child.send({ take: key, options: { lifetime: LONG_MS, commandTimeout: 1_000 }, tells: true });
    expect(await child.receive()).to.equal('sent');
    await kill9(child); // what it sent lies in the kernel, and nobody is left to take it back
    await sleep(1_050);
    await server.resume();
    await server.command('PING');
    await sleep(100);
    const commands = await recording.stop();
    expect(commands.some(({ args }) => isAcquire(args) && args.includes(key))).to.equal(true);
    expect(grantsOf(key, commands)).to.equal(0);
    expect(await stage.holder()).to.equal(null);
  });

  it('a lock that is held, its release in the buffer: an error, and free when the server goes on (H3, H17)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS, commandTimeout: 1_000 });
    const lease = await withLock.promise(key);
    await server.pause();
    await backendError(lease.extend());
    await backendError(lease.release());
    await server.resume();
    await stage.freed();
    expect(await lease.release()).to.equal(false);
    await stage.expectFree();
  });

  it('many callers of one key, a stopped server now and then: in the end it is free (H3)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS, commandTimeout: 1_000 });
    await warmUp(withLock);
    let holders = 0;
    const calls = Array.from({ length: 60 }, async (_, n) => {
      await sleep(n * 15);
      const work = withLock.run(key, { timeout: 100 + 10 * n }, async () => {
        holders += 1;
        expect(holders).to.equal(1);
        await sleep(2);
        holders -= 1;
      });
      await work.catch((error) => expect(error).to.be.instanceOf(redisExpLock.LockError));
    });
    for (const ms of [100, 200, 300]) {
      await sleep(100);
      await server.pause();
      await sleep(ms);
      await server.resume();
    }
    await Promise.all(calls);
    await stage.freed();
    await withLock.close();
    await stage.expectFree();
  });

  /** The server's clock is known, and the scripts are there. */
  async function warmUp(withLock: redisExpLock.WithLock): Promise<void> {
    const lease = await withLock.promise(`${stage.key}-before`, { maxRetries: 5 });
    await lease.release().catch(() => {}); // a client that breaks silent connections may break its own, on a busy machine
  }

  /** Stops the server under a client that is connected: one that breaks silent connections needs a word now and then. */
  async function pauseUnder(redis: Client): Promise<void> {
    const isAnswered = (): Promise<boolean> =>
      redis.ping().then(
        () => true,
        () => false,
      );
    for (;;) {
      await waitFor(isAnswered);
      await stage.server.pause();
      if (redis.isReady) return;
      await stage.server.resume();
    }
  }
});

describe('a client that is stopped with the reply in its buffer (H6, H18)', () => {
  const stage = useStage();

  it('does not count a grant that it reads after its lifetime, and leaves the next holder alone (H6, H18)', async () => {
    const { server, proxy, key } = stage;
    const child = await startCaller(proxy.url);
    const recording = await recordCommands(server);
    const frozen = new Promise<void>((resolve) => {
      // The reply is forwarded to a process that stands still.
      proxy.afterAnswer({ match: isAcquire, nth: 1 }, async () => {
        await stop(child);
        resolve();
      });
    });
    child.send({ take: key, options: { lifetime: 1_000, maxRetries: 0 } });
    const said = child.receive();
    await frozen;
    expect(grantsOf(key, await recording.stop())).to.equal(1);
    const next = await redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS }).promise(key, {
      timeout: 20_000,
    });
    await sleep(50);
    await cont(child);
    expect((await said).failed).to.include({ code: 'ERR_LOCK_BACKEND' });
    expect(await server.command('GET', key)).to.equal(next.token);
    expect(await next.release()).to.equal(true);
    await kill9(child);
  });
});

describe('a process whose wall clock is wrong (H19)', () => {
  const stage = useStage();
  const hour = 3_600_000;
  const options = { lifetime: 20_000, commandTimeout: 3_000 };

  for (const [name, skewMs] of [
    ['an hour ahead', hour],
    ['an hour behind', -hour],
  ] as const) {
    it(`${name}: acquires, extends, releases; the first acquire may cost one command more (H3, H19)`, async () => {
      const { proxy, key } = stage;
      const child = await startCaller(proxy.url, skewMs);
      const asked = (match: Match): number => proxy.count(match);

      const first = await order(child, { take: key, options });
      expect(first.failed).to.equal(undefined);
      expect(asked('script')).to.be.within(1, 2);
      expect(await stage.holder()).to.equal(first.done.token);
      expect(first.done.remaining).to.be.within(1, options.lifetime);
      expect(first.done.fence).to.be.closeTo(Date.now() * 1_000, 60_000_000); // the server's time, not the client's

      const afterFirst = asked('script');
      expect((await order(child, { extend: 60_000 })).done).to.equal(true);
      expect(await stage.leftMs()).to.be.within(30_000, 60_000);
      expect((await order(child, { give: true })).done).to.equal(true);
      expect(await stage.holder()).to.equal(null);
      const second = await order(child, { take: key, options });
      expect(second.done.fence).to.be.greaterThan(first.done.fence);
      expect(asked('script') - afterFirst, 'extend, release, acquire').to.equal(3);
      await kill9(child);
    });

    it(`${name}: a request that Redis runs after its time is refused all the same (H3, H19)`, async () => {
      const { server, proxy, key } = stage;
      const child = await startCaller(proxy.url, skewMs);
      expect((await order(child, { take: `${key}-before`, options })).failed).to.equal(undefined);
      const recording = await recordCommands(server);
      const held = holdRequest();
      proxy.rule({ match: isAcquire, nth: 1 }, held);
      const { failed } = await order(child, { take: key, options: { lifetime: LONG_MS, commandTimeout: 1_000 } });
      expect(failed.code).to.equal('ERR_LOCK_BACKEND');
      await sleep(50);
      const ran = proxy.seen({ match: isAcquire });
      held.release();
      await ran;
      expect(grantsOf(key, await recording.stop())).to.equal(0);
      expect(await stage.holder()).to.equal(null);
      await kill9(child);
    });
  }
});
