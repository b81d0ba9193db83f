/**
 * An acquire whose outcome the caller does not know: the reply is lost, comes too late, or comes when nobody is waiting.
 * Either the caller has the lock, once and under one fence, or nobody has it, and soon: never until the lifetime frees it.
 */

import { tracingChannel } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import * as scripts from '../../src/store/redis/scripts/generated';
import {
  type Action,
  close,
  cutReplyAfter,
  delayReply,
  delayRequest,
  duplicateRequest,
  type FaultProxy,
  fallSilent,
  holdReply,
  holdRequest,
  reset,
  startProxy,
} from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, commandStats, connect, recordCommands } from '../support/redis';
import { backendError, callsOf, fencesOf, grantsOf, LONG_MS, REDIAL, useStage } from './faults';
import { blockFor, callsIn, isAcquire, isExtension, isRelease, rejectionOf } from './holding';

describe('the reply to an acquire is lost after Redis executed it (H2)', () => {
  const stage = useStage();
  /** None of these faults waits for it. */
  const commandTimeout = 10_000;
  const faults: [name: string, Action][] = [
    ['by a reset', reset()],
    ['by the end of the connection', close()],
    ['in its middle', cutReplyAfter(7)],
    // A connection that says nothing is broken, so that there is another one to try again on.
    ['in silence', fallSilent(500)],
  ];

  for (const [name, action] of faults) {
    for (const wait of [{ maxRetries: 20 }, { timeout: 20_000 }]) {
      it(`${name}: within ${JSON.stringify(wait)} the caller gets it, one grant, one fence (H2)`, async () => {
        const { server, proxy, key } = stage;
        const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
        const recording = await recordCommands(server);
        const lost = proxy.seen({ match: isAcquire });
        proxy.rule({ match: isAcquire, nth: 1 }, action);

        const lease = await withLock.promise(key, wait);
        const commands = await recording.stop();

        expect(lease.retries).to.be.greaterThan(0);
        expect(grantsOf(key, commands)).to.equal(1);
        expect(fencesOf(commands)).to.equal(1);
        expect(String((await lost).reply)).to.contain(`:${lease.fence}\r\n`);
        expect(await stage.fence()).to.equal(lease.fence);
        expect(await stage.holder()).to.equal(lease.token);
        expect(lease.remaining()).to.be.greaterThan(0);
        expect(await lease.release()).to.equal(true);
        await stage.expectFree();
      });
    }

    it(`${name}: with no retries the caller gets an error, and the key is free soon (H2)`, async () => {
      const { proxy, key } = stage;
      const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
      const executed = proxy.seen({ match: isAcquire });
      proxy.rule({ match: isAcquire, nth: 1 }, action);

      const error = await backendError(withLock.promise(key));
      await executed;
      expect(error.retryable).to.equal(true);
      expect(error.redisCode).to.equal(undefined);
      await stage.freed();
      await stage.expectFree();
    });
  }

  it('again and again: still one grant, one fence (H2)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    const recording = await recordCommands(server);
    proxy.rule({ match: isAcquire, nth: 1, times: 5 }, reset());
    const lease = await withLock.promise(key, { maxRetries: 5 });
    const commands = await recording.stop();
    expect(lease.retries).to.equal(5);
    expect([grantsOf(key, commands), fencesOf(commands)]).to.deep.equal([1, 1]);
    expect(await stage.holder()).to.equal(lease.token);
  });

  it('of several keys: every key is ours, under one fence, or none is held (H2)', async () => {
    const { proxy, key } = stage;
    const keys = [`${key}-a`, `${key}-b`, `${key}-c`];
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    const rule = proxy.rule({ match: isAcquire, nth: 1 }, reset());
    const lease = await withLock.promise(keys, { maxRetries: 5 });
    for (const each of keys) {
      expect(await stage.holder(each)).to.equal(lease.token);
      expect(await stage.fence()).to.equal(lease.fence);
    }
    expect(await lease.release()).to.equal(true);
    rule.remove();

    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    await backendError(withLock.promise(keys));
    for (const each of keys) await stage.freed(each);
  });

  it('and an extension of it is no second grant: a caller that got it on a retry keeps it alive (H2)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 9_000, commandTimeout: 1_000 });
    const recording = await recordCommands(server);
    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    // Longer than the compensations that an unknown outcome sets off, and than what was left of the lifetime until it was renewed.
    await withLock.run(key, { maxRetries: 20 }, async (lease) => {
      const firstEndMs = performance.now() + lease.remaining();
      await sleep(3_400);
      await waitFor(() => performance.now() + lease.remaining() > firstEndMs + 1_000, { what: 'a renewal' });
      expect(await stage.holder()).to.equal(lease.token);
      expect(lease.signal.aborted).to.equal(false);
    });
    expect(grantsOf(key, await recording.stop())).to.equal(1);
    await stage.expectFree();
  });

  for (const [what, match] of [
    ['the acquire', isAcquire],
    ['the step that makes it permanent', isExtension],
  ] as const) {
    it(`with lifetime null, the reply to ${what}: the caller gets it for good (H2)`, async () => {
      const { proxy, key } = stage;
      const withLock = redisExpLock({ redis: await stage.through(), lifetime: null, commandTimeout: 5_000 });
      proxy.rule({ match, nth: 1 }, reset());
      const lease = await withLock.promise(key, { maxRetries: 5 });
      expect(await stage.leftMs()).to.equal(-1);
      expect(await stage.holder()).to.equal(lease.token);
      expect(await stage.fence()).to.equal(lease.fence);
      expect(await lease.release()).to.equal(true);
      await stage.expectFree();
    });

    it(`with lifetime null and no retries, the reply to ${what}: no key stays for ever (H2)`, async () => {
      const { proxy, key } = stage;
      const withLock = redisExpLock({ redis: await stage.through(), lifetime: null, commandTimeout: 1_000 });
      const executed = proxy.seen({ match });
      proxy.rule({ match, nth: 1 }, reset());
      await backendError(withLock.promise(key));
      await executed;
      await stage.freed();
    });
  }

  it('with lifetime null, the key has an end until the caller has the reply: one that dies before leaves none for ever (H2)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: null, commandTimeout: 5_000 });
    const held = holdReply();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    const acquired = withLock.promise(key);
    await held.arrived;
    expect(await stage.leftMs()).to.be.within(1, 10_000);
    held.release();
    const lease = await acquired;
    expect(await stage.leftMs()).to.equal(-1);
    expect(await lease.release()).to.equal(true);
  });
});

describe('a request that Redis runs after its sender gave up (H3)', () => {
  const stage = useStage();

  it('by hand: an acquire after its notAfter grants nothing and writes nothing (H3)', async () => {
    const { server, key } = stage;
    const client = await stage.direct();
    const [seconds] = await server.command<string[]>('TIME');
    const tooLate = Number(seconds) * 1_000 - 5;
    const reply = await run(
      client,
      scripts.acquire([key], [`{${key}}:queue`], 'redis-exp-lock:fence', 'token', LONG_MS, tooLate, 1, []),
    );
    expect(await server.command('EXISTS', key, 'redis-exp-lock:fence')).to.equal(0);
    expect(reply.slice(0, 3)).to.deep.equal([-1, 0, 0]);
  });

  it('by hand: an extension after its notAfter changes nothing, not even for a moment (H3, H13)', async () => {
    const { server, key } = stage;
    const client = await stage.direct();
    const [seconds] = await server.command<string[]>('TIME');
    const tooLate = Number(seconds) * 1_000 - 5;
    await server.command('SET', key, 'token', 'PX', 5_000);
    const [result] = await run(client, scripts.extend([key], 'token', LONG_MS, 1, tooLate));
    expect(result).to.equal(-2);
    expect(await stage.leftMs()).to.be.within(1, 5_000);
  });

  for (const [what, give] of [
    ['its own timeout', {}],
    ['a timeout', { timeout: 50 }],
  ] as const) {
    it(`the server gets it only then: given up by ${what}, the key is not held (H3)`, async () => {
      const { server, proxy, key } = stage;
      const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 1_000 });
      // Now the server's clock is known.
      await (await withLock.promise(`${key}-before`, { commandTimeout: 10_000 })).release();
      const before = await stage.fence();
      const recording = await recordCommands(server);
      const held = holdRequest();
      proxy.rule({ match: isAcquire, nth: 1 }, held);
      await rejectionOf(withLock.promise(key, give));
      await sleep(1_050); // past notAfter
      const ran = proxy.seen({ match: isAcquire });
      held.release();
      await ran;
      expect(grantsOf(key, await recording.stop())).to.equal(0);
      expect(await stage.holder()).to.equal(null);
      expect(await stage.fence()).to.equal(before);
    });
  }

  /** The front one breaks the client's connection, the back one still has what was sent over it. */
  async function behindTwoProxies(
    commandTimeout: number,
  ): Promise<{ front: FaultProxy; withLock: redisExpLock.WithLock }> {
    const front = await startProxy(stage.proxy.port);
    const redis = stage.owns(await connect(front.url, REDIAL));
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
    await (await withLock.promise(`${stage.key}-before`, { commandTimeout: 10_000 })).release();
    return { front, withLock };
  }

  /** The back one forwards the acquire behind all its releases. */
  async function isRefusedBehindItsReleases(withLock: redisExpLock.WithLock, front: FaultProxy): Promise<void> {
    const { server, proxy, key } = stage;
    const recording = await recordCommands(server);
    const held = holdRequest();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    const lost = backendError(withLock.promise(key));
    await held.arrived;
    const second = proxy.seen({ match: isRelease, nth: 2 });
    front.resetAll();
    await lost;
    await second; // every release that will ever be sent
    const ran = proxy.seen({ match: isAcquire });
    held.release();
    await ran;
    expect(grantsOf(key, await recording.stop())).to.equal(0);
    expect(await stage.holder()).to.equal(null);
    await front.stop();
  }

  it('the server gets it after the releases that came over the next connection: refused (H3)', async () => {
    const { front, withLock } = await behindTwoProxies(1_000);
    await isRefusedBehindItsReleases(withLock, front);
  });

  it('an answer that took long does not make later requests live longer than their releases (H3)', async () => {
    const { proxy, key } = stage;
    const { front, withLock } = await behindTwoProxies(2_000);
    const slow = proxy.rule({ match: isAcquire, nth: 1 }, delayRequest(800));
    await withLock.promise(`${key}-slow`, { commandTimeout: 10_000 });
    slow.remove();

    await isRefusedBehindItsReleases(withLock, front);
  });

  it('a first attempt that Redis runs only when the lock that a second one got is released: freed again (H3)', async () => {
    const { server, proxy, key } = stage;
    const { front, withLock } = await behindTwoProxies(3_000);
    const recording = await recordCommands(server);
    const held = holdRequest();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    const acquired = withLock.promise(key, { maxRetries: 20 });
    await held.arrived;
    front.resetAll();
    const lease = await acquired;
    expect(await lease.release()).to.equal(true);
    const ran = proxy.seen({ match: isAcquire });
    held.release();
    await ran;
    expect(grantsOf(key, await recording.stop())).to.equal(2);
    await stage.freed();
    await stage.expectFree();
    await front.stop();
  });

  for (const disableOfflineQueue of [false, true]) {
    it(`the client drops out in the tick of the call, disableOfflineQueue ${disableOfflineQueue}: nothing is granted when it is back (H3)`, async () => {
      const { server, key } = stage;
      const redis = await stage.direct({ disableOfflineQueue, socket: { reconnectStrategy: () => 1_000 } });
      const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 1_000 });
      await (await withLock.promise(`${key}-before`, { commandTimeout: 10_000 })).release();

      // From within a timer on, the end of a connection is read before node-redis writes: it still says that it is ready, and
      // the command stays in its offline queue until it is back, long after the caller was told.
      await sleep(1);
      server.process.kill('SIGKILL');
      blockUntilGone(server.process.pid!);
      expect(redis.isReady).to.equal(true);
      const lost = backendError(withLock.promise(key));
      await server.restart();
      await lost;
      await waitFor(() => redis.isReady);
      await withLock.close(); // all that will be sent was sent

      // The acquire alone asks for the time. The server began anew, so that nothing escapes these numbers.
      const asked = async (): Promise<number> => (await commandStats(redis)).time ?? 0;
      if (disableOfflineQueue) expect(await asked()).to.equal(0);
      else await waitFor(asked, { what: 'the acquire to be sent from the offline queue' });
      const { set = 0, setnx = 0 } = await commandStats(redis);
      expect([set, setnx]).to.deep.equal([0, 0]);
      expect(await stage.holder()).to.equal(null);
    });
  }
});

/**
 * Blocks the event loop until a killed process has closed its connections. On a busy machine that can take longer than any pause: a
 * command would still be written to it, and is then no longer in the offline queue.
 */
function blockUntilGone(pid: number): void {
  blockFor(100);
  const stat = `/proc/${pid}/stat`;
  // Its state is Z: nobody has waited for it, since the event loop is blocked.
  while (existsSync(stat) && !/\) [ZX] /.test(readFileSync(stat, 'utf8'))) blockFor(10);
}

describe('a request that Redis runs twice (H4)', () => {
  const stage = useStage();

  it('one grant, one fence, and the release ends it (H4)', async () => {
    const { server, proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    const recording = await recordCommands(server);
    proxy.rule({ match: 'script' }, duplicateRequest());
    const lease = await withLock.promise(key);
    expect(await stage.holder()).to.equal(lease.token);
    expect(await stage.fence()).to.equal(lease.fence);
    expect(await lease.extend()).to.equal(true);
    expect(await stage.leftMs()).to.be.within(LONG_MS / 2, LONG_MS);
    expect(await lease.release()).to.equal(true);
    const commands = await recording.stop();
    expect(commands.filter(({ args }) => isAcquire(args))).to.have.length(2);
    expect([grantsOf(key, commands), fencesOf(commands)]).to.deep.equal([1, 1]);
    await stage.expectFree();
  });

  it('with lifetime null: one grant, and it stays without an end (H4)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: null, commandTimeout: 5_000 });
    proxy.rule({ match: 'script' }, duplicateRequest());
    const lease = await withLock.promise(key);
    expect(await stage.leftMs()).to.equal(-1);
    expect(await stage.fence()).to.equal(lease.fence);
    expect(await lease.release()).to.equal(true);
    await stage.expectFree();
  });

  it('by hand: the same fence, and the end only ever moves later (H4)', async () => {
    const { key } = stage;
    const client = await stage.direct();
    const acquire = (lifetimeMs: number): Promise<number[]> =>
      run(
        client,
        scripts.acquire(
          [key],
          [`{${key}}:queue`],
          'redis-exp-lock:fence',
          'token',
          lifetimeMs,
          Number.MAX_SAFE_INTEGER,
          1,
          [],
        ),
      );
    // A lock that was free is granted by its fence alone.
    const fence = (await acquire(20_000)) as unknown;
    expect(fence).to.equal(await stage.fence());
    expect((await acquire(1_000)).slice(0, 2)).to.deep.equal([1, fence]);
    expect(await stage.leftMs()).to.be.within(10_000, 20_000);
    expect((await acquire(50_000)).slice(0, 2)).to.deep.equal([1, fence]);
    expect(await stage.leftMs()).to.be.within(40_000, 50_000);
    expect(await stage.fence()).to.equal(fence);
  });

  it('by hand: what was made permanent stays so (H4)', async () => {
    const { server, key } = stage;
    const client = await stage.direct();
    await server.command('SET', key, 'token');
    const reply = await run(
      client,
      scripts.acquire(
        [key],
        [`{${key}}:queue`],
        'redis-exp-lock:fence',
        'token',
        1_000,
        Number.MAX_SAFE_INTEGER,
        1,
        [],
      ),
    );
    expect(reply[0]).to.equal(1);
    expect(await stage.leftMs()).to.equal(-1);
  });

  it('by hand: a release that comes again, late, leaves the next holder alone (H4)', async () => {
    const { server, key } = stage;
    const client = await stage.direct();
    await server.command('SET', key, 'first', 'PX', LONG_MS);
    expect(
      await run(client, scripts.release([key], [`{${key}}:queue`], 'redis-exp-lock:fence', 'first', 0, 0, [])),
    ).to.equal(1);
    await server.command('SET', key, 'second', 'PX', LONG_MS);
    expect(
      await run(client, scripts.release([key], [`{${key}}:queue`], 'redis-exp-lock:fence', 'first', 0, 0, [])),
    ).to.deep.equal([-1]);
    expect(await stage.holder()).to.equal('second');
  });
});

describe('a grant that comes too late to be of use (H6, H7)', () => {
  const stage = useStage();
  const lifetime = 1_000;

  it('the reply takes longer than the lifetime: refused, and the next caller gets in (H6)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime, commandTimeout: 5_000 });
    proxy.rule({ match: isAcquire, nth: 1 }, delayReply(lifetime + 100));
    const error = await backendError(withLock.promise(key));
    expect(error.retryable).to.equal(true);
    const next = await withLock.promise(key, { lifetime: LONG_MS, timeout: 20_000 });
    expect(next.remaining()).to.be.greaterThan(0);
    expect(await stage.holder()).to.equal(next.token);
  });

  it('the reply takes longer than the lifetime: the retry is a grant of its own, with a fence of its own (H6)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime, commandTimeout: 5_000 });
    const first = proxy.seen({ match: isAcquire });
    proxy.rule({ match: isAcquire, nth: 1 }, delayReply(lifetime + 100));
    const lease = await withLock.promise(key, { maxRetries: 50 });
    expect(lease.remaining()).to.be.greaterThan(0);
    const { command, reply } = await first;
    expect(command.args).not.to.include(lease.token);
    expect(lease.fence).to.be.greaterThan(Number(/^:(\d+)/.exec(String(reply))![1]));
  });

  it('Redis was paused before it granted: the key that would live on is released (H6)', async () => {
    const { server, key } = stage;
    const redis = await stage.direct();
    const withLock = redisExpLock({ redis, lifetime: 1_500, commandTimeout: 10_000 });
    await (await withLock.promise(`${key}-before`, { lifetime: LONG_MS })).release();
    const recording = await recordCommands(server);
    // Over the same connection, so that the acquire arrives behind it however slow this process is.
    const asleep = redis.sendCommand(['DEBUG', 'SLEEP', '1.7']);
    await backendError(withLock.promise(key));
    await asleep;
    await stage.freed();
    const commands = await recording.stop();
    expect(grantsOf(key, commands)).to.equal(1);
    expect(callsOf('del', key, commands)).to.equal(1);
    await stage.expectFree();
  });

  it('this process was paused between the reply and the callback: the callback gets an error, the key is free (H7)', async () => {
    const { key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: 1_000 });
    const listeners = { asyncEnd: () => blockFor(1_100) };
    const events = tracingChannel<object>('redis-exp-lock:acquire');
    events.asyncEnd.subscribe(listeners.asyncEnd);
    try {
      const [err, done] = await new Promise<unknown[]>((resolve) =>
        withLock(key, (...args: unknown[]) => resolve(args)),
      );
      expect(err).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(done).to.equal(undefined);
    } finally {
      events.asyncEnd.unsubscribe(listeners.asyncEnd);
    }
    await stage.freed();
    await stage.expectFree();
  });

  it('this process was paused while the reply was in its socket: refused (H6, H7)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: 1_000, commandTimeout: 5_000 });
    proxy.afterAnswer({ match: isAcquire, nth: 1 }, () => blockFor(1_100));
    await backendError(withLock.promise(key));
    await stage.expectFree();
  });
});

describe('the caller gives up while an attempt is under way that then succeeds (H8, H36)', () => {
  const stage = useStage();
  /** A request that is held is run within it. */
  const commandTimeout = 2_000;
  const reason = new Error('changed my mind');

  interface Given {
    readonly withLock: redisExpLock.WithLock;
    readonly lost: Promise<any>;
    /** Has it given up, if it does not by itself; resolves when the library says that nothing is left. */
    giveUp(): void | Promise<void>;
    expectReason(error: any): void;
  }
  const ways: [name: string, start: (withLock: redisExpLock.WithLock, key: string) => Omit<Given, 'withLock'>][] = [
    [
      'its timeout',
      (withLock, key) => ({
        lost: rejectionOf(withLock.promise(key, { timeout: 100 })),
        giveUp: () => {},
        expectReason: (error) => expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError),
      }),
    ],
    [
      'its signal',
      (withLock, key) => {
        const controller = new AbortController();
        return {
          lost: rejectionOf(withLock.promise(key, { signal: controller.signal, timeout: 5_000 })),
          giveUp: () => controller.abort(reason),
          expectReason: (error) => {
            expect(error).to.equal(reason);
            expect(getEventListeners(controller.signal, 'abort')).to.deep.equal([]);
          },
        };
      },
    ],
    [
      'close()',
      (withLock, key) => ({
        lost: rejectionOf(withLock.promise(key, { timeout: 5_000 })),
        giveUp: () => withLock.close(),
        expectReason: (error) => expect(error).to.be.instanceOf(redisExpLock.LockClosedError),
      }),
    ],
  ];

  /** The client that `ready` made. */
  let redis: Client;

  async function ready(): Promise<redisExpLock.WithLock> {
    redis = await stage.through();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
    await (await withLock.promise(`${stage.key}-before`, { commandTimeout: 10_000 })).release();
    return withLock;
  }

  for (const [name, start] of ways) {
    it(`${name}, the reply on its way: an error at once, and the key is free before the reply is read (H8, H36)`, async () => {
      const { proxy, key } = stage;
      const withLock = await ready();
      const held = holdReply();
      proxy.rule({ match: isAcquire, nth: 1 }, held);
      const { lost, giveUp, expectReason } = start(withLock, key);
      await held.arrived;
      expect(await stage.holder()).not.to.equal(null);
      void giveUp();
      expectReason(await lost);
      await stage.freed();
      held.release();
      await quiet(proxy);
      await stage.expectFree();
    });

    it(`${name}, the request on its way: what it gets is released (H8, H36)`, async () => {
      const { server, proxy, key } = stage;
      const withLock = await ready();
      const recording = await recordCommands(server);
      const held = holdRequest();
      proxy.rule({ match: isAcquire, nth: 1 }, held);
      const { lost, giveUp, expectReason } = start(withLock, key);
      await held.arrived;
      void giveUp();
      expectReason(await lost);
      held.release();
      await waitFor(() => proxy.count(isRelease) >= 3); // one from before, one now, one after notAfter
      await quiet(proxy);
      const commands = await recording.stop();
      expect(grantsOf(key, commands)).to.equal(1);
      expect(callsOf('del', key, commands)).to.equal(1);
      await stage.expectFree();
    });

    it(`${name}, and the first release is lost as well: a second one frees the key (H8, H36)`, async () => {
      const { proxy, key } = stage;
      const withLock = await ready();
      const held = holdReply();
      proxy.rule({ match: isAcquire, nth: 1 }, held);
      proxy.rule({ match: isRelease, nth: 1 }, reset('before'));
      const { lost, giveUp, expectReason } = start(withLock, key);
      await held.arrived;
      void giveUp();
      expectReason(await lost);
      held.release();
      await stage.freed();
      await stage.expectFree();
    });
  }

  it('the releases are lost again and again: they are sent until Redis has answered (H8)', async () => {
    const { proxy, key } = stage;
    const withLock = await ready();
    const executed = proxy.seen({ match: isAcquire });
    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    proxy.rule({ match: isRelease, times: 5 }, reset('before'));
    await backendError(withLock.promise(key, { commandTimeout: 1_000 })); // each release is sent after that time
    await executed;
    await stage.freed();
    await stage.expectFree();
  });

  it('close() resolves when nothing is left to release, not before (H8, H36)', async () => {
    const { proxy, key } = stage;
    const withLock = await ready();
    const held = holdReply();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    proxy.rule({ match: isRelease, nth: 1 }, reset('before'));
    const lost = rejectionOf(withLock.promise(key, { timeout: 5_000 }));
    await held.arrived;
    await Promise.all([withLock.close(), lost]);
    expect(await stage.holder()).to.equal(null);
    const asked = proxy.count('script');
    await sleep(commandTimeout + 500); // past the last release that an unknown outcome brings
    expect(proxy.count('script')).to.equal(asked);
  });

  it('a signal that was aborted before: its reason, and nothing is sent (H36)', async () => {
    const { proxy, key } = stage;
    const withLock = await ready();
    const asked = proxy.count('script');
    expect(await rejectionOf(withLock.promise(key, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
    await quiet(proxy);
    expect(proxy.count('script')).to.equal(asked);
  });

  it('a signal that aborts between two attempts: nothing more is sent for it (H36)', async () => {
    const { server, proxy, key } = stage;
    const withLock = await ready();
    await server.command('SET', key, 'somebody else', 'PX', LONG_MS);
    const controller = new AbortController();
    const lost = rejectionOf(
      withLock.promise(key, { signal: controller.signal, maxRetries: 10, retryTimeout: 1_500, retryRatio: 1 }),
    );
    await proxy.seen({ match: isAcquire });
    await redis.ping(); // behind the reply to the attempt, which is heard by then
    const asked = proxy.count('script');
    controller.abort(reason);
    expect(await lost).to.equal(reason);
    await sleep(1_600); // past the next attempt
    expect(proxy.count('script')).to.equal(asked);
    expect(await stage.holder()).to.equal('somebody else');
  });
});

describe('callers of one tick, which share a script call', () => {
  const stage = useStage();
  const commandTimeout = 2_000;
  let keys: string[];

  beforeEach(() => {
    keys = Array.from({ length: 20 }, (_, n) => `${stage.key}-${n}`);
  });

  /** The number of calls in the first acquire that the proxy saw. */
  const together = (): number => callsIn(stage.proxy.commands.find(({ args }) => isAcquire(args))!.args).length;

  it('the reply is lost: each gets its own, one grant, one fence (H2)', async () => {
    const { server, proxy } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    const recording = await recordCommands(server);
    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    const leases = await Promise.all(keys.map((key) => withLock.promise(key, { maxRetries: 20 })));
    const commands = await recording.stop();
    expect(together()).to.equal(keys.length);
    expect(fencesOf(commands), 'minted for all at once, and again where it ran again').to.be.within(1, 2);
    for (const [n, key] of keys.entries()) {
      expect(grantsOf(key, commands)).to.equal(1);
      expect(await stage.holder(key)).to.equal(leases[n]!.token);
      expect(leases[n]!.fence).to.be.at.most((await stage.fence())!);
    }
    expect(new Set(leases.map(({ token }) => token)).size).to.equal(keys.length);
  });

  it('the reply is lost and nobody tries again: each gets an error, and every key is free soon (H2)', async () => {
    const { proxy } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    const executed = proxy.seen({ match: isAcquire });
    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    await Promise.all(keys.map((key) => backendError(withLock.promise(key))));
    await executed;
    for (const key of keys) await stage.freed(key);
  });

  it('Redis runs it after all of them gave up: nothing is granted (H3)', async () => {
    const { server, proxy } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    await (await withLock.promise(`${stage.key}-before`, { commandTimeout: 10_000 })).release();
    const recording = await recordCommands(server);
    const held = holdRequest();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    await Promise.all(keys.map((key) => backendError(withLock.promise(key))));
    await sleep(50);
    const ran = proxy.seen({ match: isAcquire });
    held.release();
    await ran;
    const commands = await recording.stop();
    for (const key of keys) expect(grantsOf(key, commands)).to.equal(0);
  });

  it('Redis runs it twice: one grant, one fence, each (H4)', async () => {
    const { server, proxy } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    const recording = await recordCommands(server);
    proxy.rule({ match: 'script' }, duplicateRequest());
    const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
    expect(await Promise.all(leases.map((lease) => lease.release()))).to.deep.equal(keys.map(() => true));
    const commands = await recording.stop();
    expect(together()).to.equal(keys.length);
    expect(fencesOf(commands), 'minted for all at once, and again where it ran again').to.be.within(1, 2);
    // The second SET NX is refused.
    for (const key of keys) expect(grantsOf(key, commands)).to.be.within(1, 2);
    expect(new Set(leases.map(({ fence }) => fence)).size).to.equal(keys.length);
  });

  it('one gives up, the others do not: only its own grant is released (H8, H36)', async () => {
    const { proxy } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout });
    const controller = new AbortController();
    const held = holdReply();
    proxy.rule({ match: isAcquire, nth: 1 }, held);
    const [lost, ...others] = keys.map((key, n) => withLock.promise(key, n === 0 ? { signal: controller.signal } : {}));
    await held.arrived;
    controller.abort();
    expect((await rejectionOf(lost!)).name).to.equal('AbortError');
    held.release();
    const leases = await Promise.all(others);
    await stage.freed(keys[0]!);
    await sleep(commandTimeout + 500); // whatever its giving up has set off
    for (const [n, lease] of leases.entries()) expect(await stage.holder(keys[n + 1]!)).to.equal(lease.token);
  });

  it('the same key: the first has it, the others find it taken (H44)', async () => {
    const { key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    const [first, ...others] = await Promise.all(keys.map(() => withLock.tryLock(key)));
    expect(together()).to.equal(keys.length);
    expect(await stage.holder()).to.equal(first!.token);
    expect(others).to.deep.equal(others.map(() => null));
  });

  it('a release whose reply is lost shares it with an acquire: each gets an error, the key is never stolen (H23)', async () => {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis: await stage.through(), lifetime: LONG_MS, commandTimeout: 10_000 });
    const lease = await withLock.promise(key);
    proxy.rule({ match: isRelease, nth: 1 }, reset());
    const [released, acquired] = await Promise.allSettled([
      lease.release(),
      withLock.promise(key, { maxRetries: 20 }), // granted behind the release, in the same call
    ]);
    expect(released.status).to.equal('rejected');
    const next = (acquired as PromiseFulfilledResult<redisExpLock.Lease>).value;
    expect(await lease.release()).to.equal(false);
    expect(await stage.holder()).to.equal(next.token);
    expect(next.fence).to.be.greaterThan(lease.fence);
  });
});

/** Resolves when the client has heard all that was sent so far. */
async function quiet(proxy: FaultProxy): Promise<void> {
  const seen = proxy.commands.length;
  await sleep(50);
  if (proxy.commands.length !== seen) await quiet(proxy);
}

/** Runs a generated call as it stands. */
async function run(client: Client, { script, keys, args }: ReturnType<typeof scripts.acquire>): Promise<number[]> {
  return (await client.eval(script.lua, { keys: [...keys], arguments: [...args] })) as number[];
}
