/**
 * The quorum on real servers: what a majority grants, what a minority cannot undo, and what becomes of nodes that are killed,
 * stand still, refuse, lose their replies, restart empty, or are one server under two names.
 *
 * The five nodes do not tell when they were started (no right to INFO), so that young ones may vote; those of the last part do.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { storeOf } from '../../src/store/open';
import * as scripts from '../../src/store/redis/scripts/generated';
import { dropReply, dropRequest, type FaultProxy, holdReply, reset, startProxy } from '../support/fault-proxy';
import { exited, startChild, waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { backendError, LONG_MS, REDIAL } from './faults';
import { blockFor, isAcquire, isExtension, isRelease, lossOf, rejectionOf } from './holding';

interface Node {
  readonly server: RedisServer;
  readonly proxy: FaultProxy;
  readonly client: Client;
}

type Warning = { readonly code: string; readonly message: string };

describe('a quorum', () => {
  /** No reply of a healthy node comes too late. */
  const patient = { lifetime: LONG_MS, commandTimeout: 5000 };
  const nodes: Node[] = [];
  const others: Client[] = [];
  let key: string;
  let warnings: Warning[];
  const hear = (warning: unknown): void => void warnings.push(warning as Warning);

  before(async () => {
    nodes.push(...(await Promise.all(Array.from({ length: 5 }, makeNode))));
    others.push(...(await Promise.all(nodes.map(({ server }) => connect(server.url, REDIAL)))));
  });

  after(async () => {
    for (const client of [...nodes.map((node) => node.client), ...others]) client.destroy();
    await Promise.all(nodes.map(({ proxy }) => proxy.stop()));
    await Promise.all(nodes.map(({ server }) => server.discard()));
  });

  beforeEach(() => {
    key = uniqueKey();
    warnings = [];
    subscribe('redis-exp-lock:warning', hear);
  });

  afterEach(() => {
    unsubscribe('redis-exp-lock:warning', hear);
  });

  async function makeNode(): Promise<Node> {
    const server = await startRedis();
    await server.command('ACL', 'SETUSER', 'default', '-info');
    const proxy = await startProxy(server.port);
    return { server, proxy, client: await connect(proxy.url, REDIAL) };
  }

  async function restart({ server, client }: Node): Promise<void> {
    await server.start();
    await server.command('ACL', 'SETUSER', 'default', '-info');
    await waitFor(() => client.isReady, { what: 'the client of a node that came back' });
  }

  function lockOn(some: readonly Node[], options: redisExpLock.Options = {}): redisExpLock.WithLock {
    return redisExpLock({
      redis: some.map(({ client }) => client),
      ...patient,
      ...options,
    });
  }

  const three = (options?: redisExpLock.Options): redisExpLock.WithLock => lockOn(nodes.slice(0, 3), options);
  const tokens = (count = 3): Promise<(string | null)[]> =>
    Promise.all(nodes.slice(0, count).map(({ server }) => server.command('GET', key)));
  const allAre = (token: string | null, count = 3): Promise<unknown> =>
    waitFor(async () => (await tokens(count)).every((each) => each === token), { what: `all to have ${token}` });
  const seize = (some: readonly Node[]): Promise<unknown> =>
    Promise.all(some.map(({ server }) => server.command('SET', key, 'a stranger', 'PX', LONG_MS)));
  /** A node that was too slow to vote has it after an extension. */
  const heldByAll = (lease: redisExpLock.Lease): Promise<unknown> =>
    waitFor(
      async () => {
        if ((await tokens()).every((each) => each === lease.token)) return true;
        await lease.extend();
        return false;
      },
      { what: 'all to have the lock' },
    );
  const seen = (code: string): Warning[] => warnings.filter((each) => each.code === code);

  /** A promise that was broken by a node that is left alone ends here: each test finds all of them asked. */
  async function allAsked(some = nodes.slice(0, 3)): Promise<void> {
    const probe = uniqueKey('asked');
    const isAsked = async (): Promise<boolean> => {
      const lease = await lockOn(some).promise(probe, { timeout: 5_000 });
      const isHeld = async (): Promise<boolean> =>
        (await Promise.all(some.map(({ server }) => server.command('EXISTS', probe)))).every((each) => each === 1);
      for (let n = 0; n < 30 && !(await isHeld()); n++) await sleep(10);
      const areAllAsked = await isHeld();
      await lease.release();
      return areAllAsked;
    };
    await waitFor(isAsked, { what: 'all nodes to be asked again' });
  }

  describe('of three', () => {
    it('a lock is held on all, excludes, is renewed, inspected and released like any other', async () => {
      const withLock = three();
      const lease = await withLock.promise(key, { owner: 'me' });
      await heldByAll(lease);
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await redisExpLock({ redis: others.slice(0, 3), ...patient }).tryLock(key)).to.equal(null);
      expect(await lease.extend(2 * LONG_MS)).to.equal(true);
      const state = await withLock.inspect(key);
      expect(state).to.include({ locked: true, owner: 'me', mode: 'exclusive' });
      expect(state.fence).to.be.at.least(lease.fence);
      expect(state.remaining).to.be.within(LONG_MS, 2 * LONG_MS);
      expect([await lease.release(), await lease.release()]).to.deep.equal([true, true]);
      await allAre(null);
      expect(await withLock.inspect(key)).to.include({ locked: false, remaining: 0, mode: null });
      expect(await withLock.run(key, async ({ fence }) => fence > lease.fence)).to.equal(true);
      await withLock.close();
    });

    it('several keys are had together or not at all', async () => {
      const second = uniqueKey();
      await seize(nodes.slice(1, 3));
      expect(await three().tryLock([second, key])).to.equal(null);
      await waitFor(async () => (await nodes[0]!.server.command('EXISTS', second)) === 0, { what: 'the other key' });
      const lease = await three().promise([second, `${second}-b`]);
      expect(await lease.release()).to.equal(true);
    });

    it('many callers at once all get it, one at a time, their fences in order', async () => {
      const ways = [three(), redisExpLock({ redis: others.slice(0, 3), ...patient })];
      const fences: number[] = [];
      let inside = 0;
      const work = async ({ fence }: redisExpLock.Lease): Promise<void> => {
        expect(++inside).to.equal(1);
        fences.push(fence);
        await turn();
        inside -= 1;
      };
      const runs = Array.from({ length: 12 }, (_, n) => ways[n % 2]!.run(key, { timeout: 20_000 }, work));
      await Promise.all(runs);
      expect(fences).to.have.length(12);
      expect(fences).to.deep.equal([...fences].sort((a, b) => a - b));
      expect(new Set(fences).size).to.equal(12);
    });

    it('a minority in other hands does not matter, a majority is busy, and what was acquired of it is released', async () => {
      await seize(nodes.slice(0, 1));
      const lease = await three().promise(key);
      expect(await tokens()).to.deep.equal(['a stranger', lease.token, lease.token]);
      expect(await lease.extend()).to.equal(true);
      expect(await lease.release()).to.equal(true);
      expect(await tokens()).to.deep.equal(['a stranger', null, null]);
      await seize(nodes.slice(1, 2));
      const error = await rejectionOf(three().promise(key, { maxRetries: 2 }));
      expect(error).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
      await waitFor(async () => (await tokens())[2] === null, { what: 'the partial grant to be released' });
    });

    it('two commands at each of two nodes for a lock and its release, where their clocks agree', async () => {
      const withLock = three();
      const sent = (): number => nodes.slice(0, 3).reduce((sum, { proxy }) => sum + proxy.commands.length, 0);
      const commands = async (): Promise<number> => {
        const before = sent();
        for (let n = 0; n < 20; n++) await (await withLock.promise(key)).release();
        return sent() - before;
      };
      await commands();
      const counts: number[] = [];
      // A write-back now and then is no fault, nor a node that was slow. On a busy machine more of them are: the least of ten counts.
      for (let n = 0; n < 10 && !(Math.min(...counts) <= 110); n++) counts.push(await commands());
      expect(Math.min(...counts), `${counts}`).to.be.within(80, 110);
    });

    it('a lock that is held is soon on all nodes, although a majority was asked first', async () => {
      const lease = await three().promise(key);
      await allAre(lease.token);
      expect(await lease.release()).to.equal(true);
      await allAre(null);
    });

    it('H65: the largest fence is with a majority before the grant returns', async () => {
      const fencesNow = (): Promise<number[]> =>
        Promise.all(
          nodes.slice(0, 3).map(async ({ server }) => Number(await server.command('GET', 'redis-exp-lock:fence'))),
        );
      let last = 0;
      let ahead = Date.now() * 1000;
      // The key decides which of two nodes is asked first: each of them is ahead once.
      for (const first of [nodes[2]!, nodes[0]!]) {
        ahead += 3_600_000_000;
        await first.server.command('SET', 'redis-exp-lock:fence', ahead, 'PX', LONG_MS);
        // At first without the second node, so that the one that is ahead has a vote; then without that: another knows it by then.
        for (const absent of [nodes[1]!, first]) {
          await seize([absent]);
          const lease = await three().promise(key);
          const isKnown = (await fencesNow()).filter((fence) => fence >= lease.fence).length;
          expect(isKnown).to.be.at.least(2);
          expect(lease.fence).to.be.greaterThan(last);
          last = lease.fence;
          await lease.release();
          await absent.server.command('DEL', key);
          expect(last).to.be.greaterThan(ahead);
        }
      }
    });

    it('H65: a node that has lost the lock since it voted is no vote, also where only its fence was to be raised', async () => {
      const [voted, busy, ahead] = nodes as [Node, Node, Node];
      await seize([busy]);
      // Further ahead than any other test leaves a node.
      await ahead.server.command('SET', 'redis-exp-lock:fence', Date.now() * 1000 + 5 * 3_600_000_000, 'PX', LONG_MS);
      const held = holdReply();
      ahead.proxy.rule({ match: isAcquire, nth: 1 }, held);
      const trying = three({ commandTimeout: 5_000 }).tryLock(key);
      await held.arrived;
      await waitFor(async () => (await tokens())[0] !== null, { what: 'the first vote' });
      await seize([voted]);
      held.release();
      expect(await trying).to.equal(null);
    });

    it('H63: replies that come too late: nothing is held, also where the outcome was not known', async () => {
      const rules = nodes.slice(0, 2).map(({ proxy }) => proxy.rule({ match: isAcquire, nth: 1 }, dropReply()));
      const error = await backendError(three().promise(key));
      expect([error.retryable, error.unknown]).to.deep.equal([true, false]);
      for (const rule of rules) rule.remove();
      for (const { proxy } of nodes) proxy.resetAll();
      await waitFor(async () => (await tokens()).every((each) => each === null), {
        what: 'all to be released',
      });
      await allAsked();
    });

    it('H63: this process was paused for longer than the validity: failed, and released on all', async () => {
      await allAsked();
      const lock = three({ lifetime: 4_000 }); // of which a node has an eighth to reply
      await (await lock.promise(key, { lifetime: LONG_MS })).release();
      const late = rejectionOf(lock.promise(key));
      const sent = nodes.slice(0, 3).map(({ proxy }) => proxy.seen({ match: isAcquire }));
      await turn();
      blockFor(4_100);
      expect(await late).to.be.instanceOf(redisExpLock.LockBackendError);
      await Promise.all(sent);
      await allAre(null);
      await allAsked();
    });

    it('H64: extended on a minority only: lost, and released on all', async () => {
      const withLock = three();
      const lease = await withLock.promise(key);
      await heldByAll(lease);
      const loss = lossOf(lease);
      await Promise.all(nodes.slice(0, 2).map(({ server }) => server.command('DEL', key)));
      expect(await lease.extend()).to.equal(false);
      expect((await loss).reason).to.equal('missing');
      await withLock.close();
      expect(await tokens()).to.deep.equal([null, null, null]);
    });

    it('a node that has forgotten the lock is given it again by the next extension, and counts from then on', async () => {
      const lease = await three().promise(key);
      await heldByAll(lease);
      await nodes[0]!.server.command('DEL', key);
      expect(await lease.extend()).to.equal(true);
      await allAre(lease.token);
      await nodes[1]!.server.command('DEL', key);
      expect(await lease.extend()).to.equal(true);
      await allAre(lease.token);
      expect(await lease.release()).to.equal(true);
      await allAre(null);
    });

    it('an explicit extension waits out a node whose connection broke: there it may still be set', async () => {
      const commandTimeout = 2_000;
      const lease = await three({ commandTimeout }).promise(key);
      await heldByAll(lease);
      const [{ proxy }] = nodes as [Node];
      const sentMs = performance.now();
      const extending = lease.extend(LONG_MS / 2);
      const rule = proxy.rule({ match: isExtension, nth: 1 }, reset());
      expect(await extending).to.equal(true);
      expect(performance.now() - sentMs).to.be.at.least(commandTimeout - 1);
      rule.remove();
      await lease.release();
      await allAsked();
    });

    it('a node that joins by an extension does not save it: only those count that held the lock all the time', async () => {
      const lease = await three().promise(key);
      await heldByAll(lease);
      await nodes[0]!.server.command('DEL', key);
      await seize(nodes.slice(1, 2));
      expect(await lease.extend()).to.equal(false);
      await waitFor(async () => (await tokens())[2] === null, { what: 'the last of it to be released' });
      expect(await tokens()).to.deep.equal([null, 'a stranger', null]);
    });

    it('H66: a node that is paused is left alone until it answers again, warned about once, and then gets what it missed', async () => {
      const [one] = nodes as [Node];
      const withLock = three();
      await (await withLock.promise(key)).release();
      const held = await withLock.promise(`${key}-held`);
      await one.server.pause();
      const isNoticed = async (): Promise<boolean> => {
        await (await withLock.promise(uniqueKey())).release();
        return seen('node-silent').length > 0;
      };
      await waitFor(isNoticed, { what: 'the silent node to be noticed' });
      const before = one.proxy.count(isAcquire);
      // Each node is the first to be asked for a third of the keys.
      for (let n = 0; n < 6; n++) await (await withLock.promise(`${key}:${n}`)).release();
      expect(one.proxy.count(isAcquire)).to.equal(before);
      expect(await held.extend()).to.equal(true);
      expect(await held.release()).to.equal(true);
      expect(seen('node-silent')).to.have.length(1);
      await one.server.resume();
      await allAsked();
      for (const name of [key, `${key}-held`]) {
        await waitFor(async () => (await one.server.command('EXISTS', name)) === 0, { what: `${name} to be released` });
      }
    });

    it('H66: a node that stands still costs an extension its own time limit, and not the lease', async () => {
      const [one] = nodes as [Node];
      await allAsked();
      // A node has an eighth of the lifetime; an answer that took all of `commandTimeout` would come after the end.
      const lease = await three({ lifetime: 12_000, commandTimeout: 15_000 }).promise(key, { timeout: 20_000 });
      await heldByAll(lease);
      await one.server.pause();
      const extended = await lease.extend();
      await one.server.resume();
      expect(extended).to.equal(true);
      await lease.release();
      await allAsked();
    });

    it('a killed node: the lock goes on; two: it cannot be asked, and says so', async () => {
      const [one, two] = nodes as [Node, Node];
      const withLock = three();
      const lease = await withLock.promise(key);
      await heldByAll(lease);
      await one.server.kill();
      expect(await lease.extend()).to.equal(true);
      expect(await (await withLock.promise(`${key}-b`)).release()).to.equal(true);
      await two.server.kill();
      expect((await backendError(lease.extend())).retryable).to.equal(true);
      expect(lease.remaining()).to.be.greaterThan(0);
      const brief = three({ commandTimeout: 1000 });
      await backendError(brief.promise(`${key}-c`));
      expect(await rejectionOf(brief.inspect(key))).to.be.instanceOf(redisExpLock.LockBackendError);
      await backendError(lease.release());
      await Promise.all([restart(one), restart(two)]);
      await allAsked();
    });

    it('H35: asking after a silent node keeps no process alive', async () => {
      const [one] = nodes as [Node];
      const urls = nodes.slice(0, 3).map(({ server }) => server.url);
      const child = startChild(join(__dirname, '..', 'process', 'children', 'silent-node.ts'), [key, ...urls]);
      expect(await child.receive()).to.equal('held');
      await one.server.pause();
      child.send('extend');
      expect(await child.receive()).to.equal('silent');
      expect((await exited(child)).code, child.output()).to.equal(0);
      await one.server.resume();
      await allAsked();
    });

    it('a node that refuses is no vote; two, and the error has what they said, and the third is released', async () => {
      const [one, two, three_] = nodes as [Node, Node, Node];
      const withLock = three();
      try {
        await one.server.command('CONFIG', 'SET', 'maxmemory', 1);
        expect(await (await withLock.promise(key)).release()).to.equal(true);
        await two.server.command('CONFIG', 'SET', 'maxmemory', 1);
        const error = await backendError(withLock.promise(key));
        expect([error.redisCode, error.retryable]).to.deep.equal(['OOM', true]);
      } finally {
        for (const { server } of [one, two]) await server.command('CONFIG', 'SET', 'maxmemory', 0);
      }
      await waitFor(async () => (await three_.server.command('GET', key)) === null, { what: 'the third to be free' });
    });

    it('a release is lost on a minority: released on all as soon as that answers again', async () => {
      const lease = await three().promise(key);
      await heldByAll(lease);
      const rule = nodes[0]!.proxy.rule({ match: isRelease, nth: 1 }, dropRequest());
      expect(await lease.release()).to.equal(true);
      rule.remove();
      nodes[0]!.proxy.resetAll();
      await allAre(null);
      await allAsked();
    });

    it('`run` renews while a node stands still', async () => {
      const [one] = nodes as [Node];
      const before = nodes[1]!.proxy.count(isExtension);
      await three({ lifetime: 6_000 }).run(key, { timeout: 20_000 }, async (lease) => {
        await one.server.pause();
        await waitFor(() => nodes[1]!.proxy.count(isExtension) > before + 2, { what: 'three renewals' });
        expect(lease.signal.aborted).to.equal(false);
      });
      await one.server.resume();
      await allAsked();
    });

    it('close() releases what is held, and what is still on its way', async () => {
      const withLock = three();
      await withLock.promise(key);
      const waiting = rejectionOf(withLock.promise(key, { timeout: LONG_MS }));
      await turn();
      await withLock.close({ drain: false });
      expect(await waiting).to.be.instanceOf(redisExpLock.LockClosedError);
      await allAre(null);
    });
  });

  describe('of other numbers', () => {
    it('H62: an even number: a split vote is busy, what was acquired is released, and it goes on by itself', async () => {
      const four = lockOn(nodes.slice(0, 4));
      await seize(nodes.slice(0, 2));
      const once = lockOn(nodes.slice(0, 4));
      expect(await once.tryLock(key)).to.equal(null);
      await once.close();
      expect((await tokens(4)).slice(2)).to.deep.equal([null, null]);
      const before = nodes[3]!.proxy.count(isRelease);
      const waiting = four.promise(key, { timeout: 20_000 });
      expect(seen('quorum-size')).to.have.length(1);
      await waitFor(() => nodes[3]!.proxy.count(isRelease) > before, { what: 'partial grants to be released' });
      expect(await four.tryLock(key)).to.equal(null);
      await Promise.all(nodes.slice(0, 2).map(({ server }) => server.command('DEL', key)));
      expect(await (await waiting).release()).to.equal(true);
      await allAre(null, 4);
    });

    it('H62: two callers that split the votes again and again both get on', async () => {
      const ways = [lockOn(nodes.slice(0, 4)), redisExpLock({ redis: others.slice(0, 4), ...patient })];
      let done = 0;
      const loop = async (way: redisExpLock.WithLock): Promise<void> => {
        for (let n = 0; n < 10; n++)
          await way.run(key, { timeout: 20_000 }, async () => {
            done += 1;
          });
      };
      await Promise.all([...ways, ...ways].map(loop));
      expect(done).to.equal(40);
    });

    it('five survive the loss of two', async () => {
      const five = lockOn(nodes);
      const lease = await five.promise(key);
      await Promise.all(nodes.slice(3).map(({ server }) => server.pause()));
      expect(await lease.extend()).to.equal(true);
      expect(await five.tryLock(key)).to.equal(null);
      expect(await lease.release()).to.equal(true);
      expect(await (await five.promise(key)).release()).to.equal(true);
      await Promise.all(nodes.slice(3).map(({ server }) => server.resume()));
      await allAsked(nodes);
    });

    it('fewer than three are warned of, once, and work', async () => {
      const redis = others.slice(3, 5);
      for (let n = 0; n < 2; n++) {
        const lease = await redisExpLock({ redis: [...redis], ...patient }).promise(key);
        expect(await lease.release()).to.equal(true);
      }
      expect(seen('quorum-size').map(({ message }) => message)).to.match(/a quorum of 2 survives the loss of 0/);
      expect(seen('quorum-size')).to.have.length(1);
    });
  });

  describe('what it refuses', () => {
    it('H66: the same client twice, a list in the list, none at all, anything that is no client of a Redis', () => {
      const [a, b] = others as [Client, Client];
      for (const redis of [
        [a, b, a],
        [a, [b]],
        [],
        [a, undefined, b],
        [a, {}],
        [a, redisExpLock.memoryStore()],
        [a, 5],
      ]) {
        expect(() => redisExpLock()(key, { redis: redis as never }, () => {}))
          .to.throw()
          .with.property('code', 'ERR_LOCK_OPTION');
      }
    });

    it('a cached value, which no majority keeps', async () => {
      const redis = others.slice(0, 3);
      const error = await rejectionOf(redisExpLock({ redis }).cached(key, { ttl: 1000 }, () => 1));
      expect(error).to.include({ code: 'ERR_LOCK_BACKEND', retryable: false, key });
      expect(error.message).to.contain('cannot be had on a quorum');
      expect(await tokens()).to.deep.equal([null, null, null]);
    });

    it('a lifetime without an end', async () => {
      const error = await rejectionOf(three().promise(key, { lifetime: null }));
      expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
      expect(await tokens()).to.deep.equal([null, null, null]);
    });

    it('clients that put different prefixes before their keys', () => {
      const [a, b] = others as [Client, Client];
      const prefixed = Object.assign(b.duplicate({ keyPrefix: 'p:' } as never), {});
      prefixed.on('error', () => {});
      expect(() => storeOf([a, prefixed as never])).to.throw(/keyPrefix/);
    });
  });

  describe('of nodes that say when they were started', () => {
    const clients: Client[] = [];
    let redis: Client[];

    before(async () => {
      for (const { server } of nodes) await server.command('ACL', 'SETUSER', 'open', 'on', '>pw', '~*', '&*', '+@all');
    });

    beforeEach(async () => {
      const user = { ...REDIAL, username: 'open', password: 'pw' };
      redis = await Promise.all([0, 1, 2].map((n) => connect(nodes[n]!.server.url, user)));
      clients.push(...redis);
    });

    after(() => {
      for (const client of clients) client.destroy();
    });

    it('H66: the same server twice is refused, by name', async () => {
      const twin = await connect(nodes[1]!.server.url, { username: 'open', password: 'pw' });
      clients.push(twin);
      const error = await backendError(redisExpLock({ redis: [redis[0]!, redis[1]!, twin], ...patient }).promise(key));
      expect(error.message).to.match(/redis\[1\] and redis\[2\] are the same server/);
      expect(error.retryable).to.equal(false);
      expect(await tokens()).to.deep.equal([null, null, null]);
    });

    it('where it may not be asked, there is one warning, and it goes on without', async () => {
      const way = lockOn(nodes.slice(2, 5));
      for (let n = 0; n < 2; n++) await (await way.promise(key)).release();
      expect(seen('no-restart-guard').map(({ message }) => message.slice(0, 8))).to.have.members([
        'redis[0]',
        'redis[1]',
        'redis[2]',
      ]);
    });

    it('a node that restarts empty has no vote until every lock that it may have forgotten has ended', async () => {
      const lifetime = 6000; // a server is killed and started within it
      const one = redisExpLock({ redis, lifetime });
      const two = redisExpLock({ redis: [redis[1]!, redis[0]!, redis[2]!], lifetime });
      await (await two.promise(key, { timeout: 25_000 })).release();
      // It is held by the first two; the third is in other hands, and free by the time the first one has forgotten.
      await nodes[2]!.server.command('SET', key, 'a stranger', 'PX', LONG_MS);
      const lease = await one.promise(key, { timeout: 25_000 });
      await nodes[0]!.server.kill();
      await nodes[2]!.server.command('DEL', key);
      await nodes[0]!.server.start();
      await nodes[0]!.server.command('ACL', 'SETUSER', 'open', 'on', '>pw', '~*', '&*', '+@all');
      await waitFor(() => redis[0]!.isReady, { what: 'the client of the node that forgot' });
      const error = await rejectionOf(two.promise(key));
      expect(error.message, String(error.stack)).to.match(/started less than a lifetime ago|held by somebody else/);
      expect(lease.remaining(), 'too slow a machine to tell').to.be.greaterThan(0);
      const next = await two.promise(key, { timeout: 25_000 });
      expect(lease.remaining()).to.equal(0);
      expect(next.fence).to.be.greaterThan(lease.fence);
      await next.release();
    });
  });

  it('raising a fence, and proposing one: the machine answers as Redis does', async () => {
    const machine = new Machine(() => {});
    const micros = Date.now() * 1000;
    const least = micros + 60_000_000;
    const client = others[0]!;
    const fenceKey = 'redis-exp-lock:fence';
    const run = (call: ReturnType<typeof scripts.raiseFence>): Promise<any> =>
      client.eval(call.script.lua, { keys: [...call.keys], arguments: [...call.args] });
    const raise = async (token: string, fence: number): Promise<boolean> => {
      const ours = machine.raise([key], token, fence, micros);
      expect(await run(scripts.raiseFence([key], fenceKey, token, fence))).to.deep.equal([ours ? 1 : 0]);
      const remembered = Number(await client.get(fenceKey));
      if (machine.rows.fence > least - 1) expect(remembered).to.equal(machine.rows.fence);
      return ours;
    };
    expect(await raise('me', least)).to.equal(false);
    const granted = await run(
      scripts.acquire([key], [`{${key}}:queue`], fenceKey, 'me', LONG_MS, 2 ** 52, 1, [String(least)]),
    );
    const command = {
      keys: [key],
      token: 'me',
      lifetimeMs: LONG_MS,
      notAfterMs: 2 ** 52,
      fences: 1,
      minFence: least,
    };
    expect(machine.acquire(command, micros)).to.deep.equal({ outcome: 'granted', fence: granted[1], others: 0 });
    expect(granted[1]).to.equal(least);
    expect(await raise('me', least + 7)).to.equal(true);
    expect(await raise('me', least + 3)).to.equal(true);
    expect(await raise('somebody else', least + 9)).to.equal(false);
    expect(machine.rows.fence).to.equal(least + 7);
  });
});
