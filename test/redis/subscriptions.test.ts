/**
 * The connection for messages. Nothing is sent over it, so it does not learn by itself that its server stands still, or that the
 * network is gone; and what it leaves behind when it is closed keeps a process alive.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { heartbeatMs, type Subscriber, subscribeOver } from '../../src/store/redis/clients/subscriptions';
import { libraryTimers, noneLeft, type TimerCount, timersFromHere } from '../contract/outcomes';
import { dropRequest, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { sharedRedis, startRedis, uniqueKey } from '../support/redis';

interface Way {
  readonly redis: any;
  close(): void;
}
const dials: Record<string, (url: string) => Promise<Way>> = {};
for (const name of ['redis', 'redis-5', 'redis-4']) {
  dials[name] = async (url) => {
    const redis = require(name).createClient({ url });
    redis.on('error', () => {});
    await redis.connect();
    return { redis, close: () => void (redis.isOpen && (redis.destroy ?? redis.disconnect).call(redis)) };
  };
}
for (const name of ['ioredis', 'ioredis-5', 'iovalkey']) {
  dials[name] = async (url) => {
    const redis = new (require(name))(url, { lazyConnect: true });
    redis.on('error', () => {});
    await redis.connect();
    return { redis, close: () => redis.disconnect() };
  };
}

describe('the connection for messages', () => {
  describe('whatever the client', () => {
    const lines: { answers: boolean; closed: boolean; pings: number }[] = [];
    const opened: string[] = [];
    let clock: sinon.SinonFakeTimers;
    let closedByOwner: boolean;
    /** The way in which the next subscription is treated: let in or not, answered or not. */
    let next: { opens: boolean; answers: boolean };

    let timers: TimerCount;
    beforeEach(() => {
      clock = sinon.useFakeTimers({
        toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'],
      });
      lines.length = 0;
      opened.length = 0;
      closedByOwner = false;
      next = { opens: true, answers: true };
      timers = libraryTimers();
    });
    afterEach(() => clock.restore());

    const forever = new Promise<never>(() => {});
    async function open(): Promise<Subscriber> {
      const line = { answers: next.answers, closed: false, pings: 0 };
      lines.push(line);
      if (!next.opens) await forever;
      return {
        subscribe: async (channel) => opened.push(channel),
        unsubscribe: async () => {},
        ping() {
          line.pings += 1;
          return line.answers ? Promise.reject(new Error('NOPERM: is an answer, too')) : forever;
        },
        close() {
          line.closed = true;
        },
      };
    }
    const subscribe = subscribeOver(open, () => closedByOwner);

    it('stays while the server answers, with one ping at a time', async () => {
      const gap = sinon.spy();
      const { close } = await subscribe('a', () => {}, gap);
      await clock.tickAsync(10 * heartbeatMs);
      expect(lines).to.have.length(1);
      expect(lines[0]!.pings).to.equal(10);
      expect(gap.callCount).to.equal(0);
      close();
      expect(timers()).to.equal(0);
    });

    it('is made anew when the server is paused, also one that accepts no connection; then all subscribers are notified', async () => {
      const gap = sinon.spy();
      const { close } = await subscribe('a', () => {}, gap);
      lines[0]!.answers = false;
      next = { opens: false, answers: true };
      await clock.tickAsync(2 * heartbeatMs + 100);
      expect(lines.map(({ closed }) => closed)).to.deep.equal([true, false]);
      expect(gap.callCount).to.equal(0);
      next = { opens: true, answers: true };
      await clock.tickAsync(heartbeatMs + 100);
      expect(lines).to.have.length(3);
      expect(opened).to.deep.equal(['a', 'a']);
      expect(gap.callCount).to.equal(1);
      close();
      expect(timers()).to.equal(0);
    });

    it('ends with its client, and says so once; a later subscriber subscribes again', async () => {
      const closed = sinon.spy();
      const { close } = await subscribe(
        'a',
        () => {},
        () => {},
        closed,
      );
      closedByOwner = true;
      await clock.tickAsync(heartbeatMs);
      expect(lines[0]!.closed).to.equal(true);
      expect(closed.callCount).to.equal(1);
      expect(timers()).to.equal(0);
      closedByOwner = false;
      const again = await subscribe(
        'a',
        () => {},
        () => {},
      );
      close();
      expect(lines[1]!.closed).to.equal(false);
      again.close();
      expect(timers()).to.equal(0);
    });

    it('closed in the pause before the next: no timer is left', async () => {
      const { close } = await subscribe(
        'a',
        () => {},
        () => {},
      );
      lines[0]!.answers = false;
      next = { opens: false, answers: false };
      await clock.tickAsync(2 * heartbeatMs + 1);
      close();
      await clock.tickAsync(0);
      expect(timers()).to.equal(0);
    });
  });

  /** A factory that has waited in a queue, so that there is a connection for messages. */
  async function waited(redis: any): Promise<redisExpLock.WithLock> {
    const withLock = redisExpLock({ redis, lifetime: 60_000, commandTimeout: 10_000 });
    const key = uniqueKey();
    const lease = await withLock.promise(key);
    const waiting = withLock.promise(key, { timeout: 20_000 });
    await waitFor(async () => (await withLock.inspect(key)).waiters === 1);
    await lease();
    await (await waiting)();
    return withLock;
  }

  /** The time from a release to the grant of a caller that waits for it. */
  async function handOffMs(redis: any, withLock: redisExpLock.WithLock): Promise<number> {
    const key = uniqueKey();
    const lease = await redisExpLock({ redis, lifetime: 60_000, commandTimeout: 10_000 }).promise(key);
    const waiting = withLock.promise(key, { timeout: 20_000 });
    await waitFor(async () => (await withLock.inspect(key)).waiters === 1);
    const startMs = performance.now();
    await lease();
    await (await waiting)();
    return performance.now() - startMs;
  }

  /** Lets the connection for messages go silent: another one replaces it, and messages that are published there wake waiters. */
  async function goesSilent(dial: (url: string) => Promise<Way>): Promise<void> {
    const proxy = await startProxy((await sharedRedis()).port);
    const { redis, close } = await dial(proxy.url);
    const withLock = await waited(redis);
    const connections = proxy.connections;
    proxy.rule({ match: 'PING', nth: 1 }, dropRequest());
    // Two channels: its own, and the one on which all hear of locks that were freed by hand.
    await waitFor(() => proxy.count('SUBSCRIBE') === 4, { what: 'another connection' });
    expect(proxy.connections).to.equal(connections + 1);
    // A poll would come a second later each time; a machine that stands still does not do so each time.
    const tookMs = [];
    for (let n = 0; n < 3; n++) tookMs.push(await handOffMs(redis, withLock));
    expect(Math.min(...tookMs)).to.be.lessThan(900);
    await withLock.close();
    close();
    await proxy.stop();
  }

  it('when it goes silent, there is another, and what is published there wakes: of every client', () =>
    Promise.all(
      Object.entries(dials).map(async ([name, dial]) => {
        await goesSilent(dial).catch((cause) => {
          throw new Error(`${name}: ${cause.message}`, { cause });
        });
      }),
    ));

  for (const [name, dial] of Object.entries(dials)) {
    describe(`of ${name}`, () => {
      it('closed while its server is gone, or stands still: nothing of it keeps the process alive', async () => {
        for (const end of ['stop', 'stand still'] as const) {
          const server = await startRedis();
          const timers = timersFromHere();
          const { redis, close } = await dial(server.url);
          const ours = libraryTimers();
          const withLock = await waited(redis);
          if (end === 'stop') await server.stop();
          else await server.pause();
          await sleep(100);
          expect(timers.count(), 'timers of its connection, before').to.be.above(0);
          const ofClose = timersFromHere();
          await withLock.close({ drain: false });
          await sleep(50);
          await noneLeft(ours);
          expect(await ofClose.holding(), 'timers of its end').to.equal(0);
          close(); // else the client dials anew, and has now more timers, now fewer
          await waitFor(async () => (await timers.holding()) === 0, { what: 'no timer of its connection to be left' });
          timers.stop();
          ofClose.stop();
          if (end === 'stand still') await server.stop();
        }
      });
    });
  }
});
