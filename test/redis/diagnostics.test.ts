/**
 * The events that others may listen to, through node:diagnostics_channel: each event at its moment, with the key and without the token;
 * nothing at all while nobody listens; and a listener that throws reaches no lock.
 */

import { channel, subscribe, tracingChannel, unsubscribe } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { libraryTimers } from '../contract/outcomes';
import { answer, dropReply, type FaultProxy, startProxy } from '../support/fault-proxy';
import { exited, startChild, waitFor } from '../support/processes';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';
import { FakeRedis, isExtension, isRelease, rejectionOf } from './holding';

const parts = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const;

describe('diagnostics', () => {
  let url: string;
  let port: number;
  let direct: Client;
  let proxy: FaultProxy;
  let client: Client;
  let withLock: redisExpLock.WithLock;
  let key: string;
  let undo: (() => void)[];

  before(async () => {
    ({ url, port } = await sharedRedis());
    direct = await connect(port);
  });

  beforeEach(async () => {
    undo = [];
    proxy = await startProxy(port);
    client = await connect(proxy.url);
    // The end of a lock, and silence, are the subject only where a test says so.
    withLock = redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 10_000 });
    key = uniqueKey('diagnostics');
  });

  afterEach(async () => {
    for (const each of undo) each();
    client.destroy();
    void withLock.close({ drain: false });
    await proxy.stop();
  });

  /** The messages of the channel about this test's key, as they come. */
  function hear(name: 'release' | 'lost' | 'warning'): any[] {
    const heard: any[] = [];
    const listener = (message: any) => {
      if (message.key === key || message.key === null) heard.push(message);
    };
    subscribe(`redis-exp-lock:${name}`, listener);
    undo.push(() => unsubscribe(`redis-exp-lock:${name}`, listener));
    return heard;
  }

  /** `[part, message]` of every acquire of this test's key. */
  function hearAcquires(): [string, any][] {
    const heard: [string, any][] = [];
    const entries = parts.map((part) => {
      return [part, (message: any) => message.key === key && heard.push([part, { ...message }])] as const;
    });
    const subscribers = Object.fromEntries(entries) as any;
    const traces = tracingChannel('redis-exp-lock:acquire');
    traces.subscribe(subscribers);
    undo.push(() => traces.unsubscribe(subscribers));
    return heard;
  }

  describe('redis-exp-lock:acquire', () => {
    it('traces a grant from start to asyncEnd, with the key, and the lease as its result', async () => {
      const heard = hearAcquires();
      const lease = await withLock.promise(key);
      expect(heard.map(([part]) => part)).to.deep.equal(['start', 'end', 'asyncStart', 'asyncEnd']);
      expect(heard.map(([, message]) => message.key)).to.deep.equal(Array(4).fill(key));
      expect(heard.at(-1)![1].result).to.equal(lease);
      await lease();
    });

    it('traces a refusal with its error', async () => {
      const lease = await withLock.promise(key);
      const heard = hearAcquires();
      const error = await rejectionOf(withLock.promise(key));
      expect(heard.map(([part]) => part)).to.deep.equal(['start', 'end', 'error', 'asyncStart', 'asyncEnd']);
      expect(heard[2]![1]).to.include({ key, error });
      expect(error.code).to.equal('ERR_LOCK_ATTEMPTS');
      await lease();
    });

    it('traces every form once, however many attempts it takes', async () => {
      const heard = hearAcquires();
      await withLock.run(key, () => {});
      await (await withLock.tryLock(key))!();
      await new Promise<void>((resolve) => withLock(key, (_, done) => done!(() => resolve())));
      const holder = await withLock.promise(key);
      setTimeout(() => holder(), 50);
      await (await withLock.promise(key, { maxRetries: 10_000 }))();
      expect(heard.filter(([part]) => part === 'start')).to.have.length(5);
      expect(heard.filter(([part]) => part === 'asyncEnd')).to.have.length(5);
      expect(heard.filter(([part]) => part === 'error')).to.have.length(0);
    });
  });

  describe('redis-exp-lock:release', () => {
    it('publishes each release once, with key and fence, and whether it was still ours', async () => {
      const heard = hear('release');
      const lease = await withLock.promise(key);
      await Promise.all([lease(), lease.release(), lease()]);
      const late = await withLock.promise(key);
      await direct.del(key);
      await late();
      const facts = { key, name: '', kind: 'mutex', store: 'redis' };
      expect(heard.map(({ heldMs: _, ...event }) => event)).to.deep.equal([
        { ...facts, fence: lease.fence, released: true },
        { ...facts, fence: late.fence, released: false },
      ]);
      for (const { heldMs } of heard) expect(heldMs).to.be.within(0, 20_000);
    });

    it('is silent about a release that was not answered', async () => {
      const heard = hear('release');
      const lease = await withLock.promise(key, { commandTimeout: 1_000, maxRetries: 5 });
      proxy.rule({ match: isRelease }, dropReply());
      await rejectionOf(lease());
      expect(heard).to.deep.equal([]);
    });
  });

  describe('redis-exp-lock:lost', () => {
    it('publishes each loss once, with key, fence and reason', async () => {
      const heard = hear('lost');
      const deleted = await withLock.promise(key);
      await direct.del(key);
      await deleted.extend();
      await deleted.extend();
      void deleted.signal;
      await deleted();
      const expired = await withLock.promise(key, { lifetime: 1_000, maxRetries: 5 });
      await waitFor(() => expired.remaining() === 0);
      void expired.signal;
      await expired();
      const taken = await withLock.promise(key);
      await direct.set(key, 'stranger');
      expect(await taken(), 'found out by the release').to.equal(false);
      const facts = { key, name: '', kind: 'mutex', store: 'redis' };
      expect(heard.map(({ heldMs: _, ...event }) => event)).to.deep.equal([
        { ...facts, fence: deleted.fence, reason: 'missing' },
        { ...facts, fence: expired.fence, reason: 'expired' },
        { ...facts, fence: taken.fence, reason: 'taken' },
      ]);
      // From its grant; the lifetime began when its request was sent.
      expect(heard[1].heldMs, 'its lifetime, less the request').to.be.within(1, 20_000);
      await direct.del(key);
    });

    it('is silent about our own release', async () => {
      const heard = hear('lost');
      const lease = await withLock.promise(key, { lifetime: 1_500, autoExtend: true, maxRetries: 5 });
      void lease.signal;
      await lease();
      await new Promise((resolve) => setTimeout(resolve, 1_700));
      expect(heard).to.deep.equal([]);
    });
  });

  describe('redis-exp-lock:warning', () => {
    it('warns of a renewal that failed, and is being tried again', async () => {
      const heard = hear('warning');
      proxy.rule({ match: isExtension, nth: 1 }, answer('-LOADING Redis is loading\r\n'));
      const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
      await waitFor(() => proxy.count(isExtension) >= 2);
      expect(heard).to.have.length(1);
      expect(heard[0]).to.include({ code: 'renewal-failed', key });
      expect(heard[0].error).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'LOADING' });
      expect(heard[0].message).to.contain(JSON.stringify(key));
      await lease();
    });
  });

  it('H11: no event carries a token', async () => {
    const heard: unknown[] = [hearAcquires(), hear('release'), hear('lost'), hear('warning')];
    proxy.rule({ match: isExtension, nth: 1 }, answer('-LOADING Redis is loading\r\n'));
    proxy.rule({ match: isRelease, nth: 1 }, answer('-MISCONF no\r\n'));
    const tokens: string[] = [];
    await withLock.run(key, { lifetime: 3_000, owner: 'me', commandTimeout: 1_000, maxRetries: 5 }, async (lease) => {
      tokens.push(lease.token.slice('me_'.length));
      await waitFor(() => proxy.count(isExtension) >= 2);
    });
    await waitFor(async () => (await direct.exists(key)) === 0);
    const lease = await withLock.promise(key, { lifetime: 1_000, maxRetries: 5 });
    tokens.push(lease.token);
    await waitFor(() => lease.remaining() === 0);
    await lease();
    const told = inspect(heard, { depth: null, maxStringLength: null, maxArrayLength: null }) + JSON.stringify(heard);
    for (const token of tokens) expect(told).not.to.contain(token);
    for (const events of heard) expect(events).not.to.have.length(0);
  });

  describe('while nobody listens', () => {
    const names = [
      ...parts.map((part) => `tracing:redis-exp-lock:acquire:${part}`),
      ...['release', 'lost', 'warning'].map((name) => `redis-exp-lock:${name}`),
    ];

    it('nothing is published', async () => {
      const channels = names.map((name) => channel(name) as any);
      for (const each of channels) {
        expect(each.hasSubscribers, each.name).to.equal(false);
        const published = sinon.spy();
        Object.assign(each, { publish: published, runStores: published });
        undo.push(() => {
          delete each.publish;
          delete each.runStores;
        });
      }
      const lease = await withLock.promise(key);
      await rejectionOf(withLock.promise(key));
      await lease();
      proxy.rule({ match: isRelease, nth: 1 }, answer('-MISCONF no\r\n'));
      await withLock.run(key, { commandTimeout: 1_000, maxRetries: 5 }, () => 'its release fails');
      const lost = await withLock.promise(key, { maxRetries: 10_000, lifetime: 1_000 });
      await waitFor(() => lost.remaining() === 0);
      await lost();
      for (const each of channels) expect(each.publish.callCount, each.name).to.equal(0);
    });

    it('no timer looks for forgotten locks, and Redis is not asked about its memory', async () => {
      const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
      undo.push(() => clock.restore());
      const timers = libraryTimers();
      const lock = redisExpLock({ redis: new FakeRedis() as unknown as redisExpLock.RedisLike, lifetime: 60_000 });
      for (let i = 0; i < 10; i += 1) await lock.promise(`k${i}`);
      expect(timers()).to.equal(0);
      clock.restore();

      const asked = proxy.commands.length;
      await (await withLock.promise(key))();
      expect(proxy.commands.length - asked).to.equal(2);
    });
  });

  it('H9: subscribers that throw are the process’s own exceptions, and reach no lock', async () => {
    const shouting = startChild(join(__dirname, '../process/children/shouting.ts'), [url, key]);
    const { seen, thrown } = await shouting.receive();
    expect(seen).to.deep.equal({
      held: true,
      busy: 'ERR_LOCK_ATTEMPTS',
      tried: null,
      released: true,
      called: true,
      ran: 'result',
      lost: 'missing',
      left: 0,
      closed: true,
    });
    expect(thrown).to.deep.equal([...parts, 'lost', 'release', 'warning'].sort());
    expect((await exited(shouting)).code).to.equal(0);
  });
});
