/**
 * Keys that several may hold, on a quorum of three real servers: readers and a writer by majority, permits as places, and
 * what becomes of them when a node is gone, has forgotten them, or is in other hands.
 *
 * The nodes do not tell when they were started (no right to INFO), so that young ones may vote.
 */
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { REDIAL } from './faults';
import { lossOf, rejectionOf } from './holding';

const { RWLock, Semaphore } = redisExpLock;
/** A node has an eighth of the lifetime to reply. */
const patient = { lifetime: 30_000, commandTimeout: 5_000 };

describe('several holders on a quorum', () => {
  let servers: RedisServer[];
  let redis: Client[];
  let elsewhere: Client[];
  let key: string;
  const open: { close(options: redisExpLock.CloseOptions): Promise<void> }[] = [];

  before(async () => {
    servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
    for (const server of servers) await server.command('ACL', 'SETUSER', 'default', '-info');
    const dial = (): Promise<Client[]> => Promise.all(servers.map(({ url }) => connect(url, REDIAL)));
    [redis, elsewhere] = [await dial(), await dial()];
  });

  after(async () => {
    for (const client of [...redis, ...elsewhere]) client.destroy();
    await Promise.all(servers.map((server) => server.discard()));
  });

  beforeEach(() => {
    key = uniqueKey();
  });

  afterEach(() => Promise.all(open.splice(0).map((each) => each.close({ drain: false }))));

  const near = (options: Partial<redisExpLock.RWLockOptions> = {}): redisExpLock.RWLock => make(redis, options);
  const far = (options: Partial<redisExpLock.RWLockOptions> = {}): redisExpLock.RWLock => make(elsewhere, options);
  function make(clients: Client[], options: Partial<redisExpLock.RWLockOptions>): redisExpLock.RWLock {
    const lock = new RWLock(key, { redis: clients, ...patient, ...options });
    open.push(lock);
    return lock;
  }
  function semaphore(permits: number, clients = redis): redisExpLock.Semaphore {
    const made = new Semaphore(key, permits, { redis: clients, ...patient });
    open.push(made);
    return made;
  }
  const once = { maxRetries: 0 };
  const members = (server: RedisServer): Promise<string[]> => server.command('ZRANGE', key, 0, -1);
  const kinds = async (): Promise<string[]> =>
    Promise.all(servers.map(async (server) => (await members(server)).map((text) => text[2]).join('')));
  const nothingIsLeft = (): Promise<unknown> =>
    waitFor(
      async () => {
        const left = await Promise.all(servers.map((server) => server.command('KEYS', `*${key}*`)));
        return left.flat().length === 0;
      },
      { what: 'every vote to be released' },
    );

  it('H62: what a minority has voted for is released when the caller hears that it is busy', async () => {
    // A stranger reads at two nodes: the third votes for the writer, in vain.
    const stranger = '1 r 1 0 1 8 stranger';
    for (const server of servers.slice(0, 2)) await server.command('ZADD', key, Date.now() + 60_000, stranger);
    expect(await rejectionOf(near().acquireWrite(once))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    await waitFor(async () => (await members(servers[2]!)).length === 0, { what: 'the vote to be released' });
    const reader = await near().acquireRead(once);
    await reader.release();
    for (const server of servers.slice(0, 2)) expect(await members(server)).to.deep.equal([stranger]);
  });

  it('H62: one that was queued at every node leaves all queues, also where its last attempt did not ask', async () => {
    const queued = async (some = servers): Promise<number[]> =>
      Promise.all(some.map((server) => server.command<number>('ZCARD', `{${key}}:queue`)));
    const writer = await far().acquireWrite();
    await waitFor(async () => (await kinds()).every((kind) => kind === 'w'), { what: 'all votes' });
    const read = near()
      .acquireRead({ timeout: 50_000, retryTimeout: 100 })
      .then((lease) => lease.release());
    // A majority is asked, and the third node only where one of them is late.
    for (const late of servers) {
      await late.pause();
      const others = servers.filter((server) => server !== late);
      const areQueued = async () => (await queued(others)).every((count) => count > 0);
      await waitFor(areQueued, { what: 'an entry at each other node' }).finally(() => late.resume());
    }
    await writer.release();
    expect(await read).to.equal(true);
    await waitFor(async () => (await queued()).every((count) => count === 0), { what: 'no entry' });
  });

  it('an upgrade is made by a majority, where only a minority has other readers', async () => {
    const reader = await near().acquireRead();
    await waitFor(async () => (await kinds()).every((kind) => kind === 'r'), { what: 'all votes' });
    await servers[0]!.command('ZADD', key, Date.now() + 60_000, '1 r 1 0 1 8 stranger');
    const { token, fence } = reader;
    await reader.upgrade(once);
    expect([reader.mode, reader.token]).to.deep.equal(['write', token]);
    expect(reader.fence).to.be.greaterThan(fence);
    expect((await kinds()).slice(1)).to.deep.equal(['w', 'w']);
    // Where it still reads it has no vote: with one of the others gone, it no longer is a writer.
    await servers[1]!.command('DEL', key);
    const loss = lossOf(reader);
    expect(await reader.extend()).to.equal(false);
    expect((await loss).reason).to.equal('missing');
  });

  it('H65: the fence of an upgrade is with a majority before it returns', async () => {
    const reader = await near().acquireRead();
    await waitFor(async () => (await kinds()).every((kind) => kind === 'r'), { what: 'all votes' });
    // One node has no vote, so that the one that is ahead has one.
    await servers[1]!.command('ZADD', key, Date.now() + 60_000, '1 r 1 0 1 8 stranger');
    const ahead = Date.now() * 1000 + 3_600_000_000;
    await servers[2]!.command('SET', 'redis-exp-lock:fence', ahead);
    await reader.upgrade(once);
    const fences = await Promise.all(servers.map((server) => server.command('GET', 'redis-exp-lock:fence')));
    for (const server of servers) await server.command('DEL', 'redis-exp-lock:fence');
    expect(reader.fence).to.be.greaterThan(ahead);
    expect(fences.filter((fence) => Number(fence) >= reader.fence).length).to.be.at.least(2);
    expect(await reader.release()).to.equal(true);
  });

  it('a downgrade keeps the fence and lets readers in, which share it, and no writer', async () => {
    const writer = await near().acquireWrite();
    const { fence } = writer;
    await writer.downgrade();
    expect([writer.mode, writer.fence]).to.deep.equal(['read', fence]);
    const reader = await far().acquireRead(once);
    expect(reader.fence).to.be.at.least(fence);
    expect(await rejectionOf(far().acquireWrite(once))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    await Promise.all([reader.release(), writer.release()]);
    await nothingIsLeft();
  });

  it('H46: an upgrade that was given up leaves a reader, and a second one a LockDeadlockError', async () => {
    const [one, two] = [await near().acquireRead(), await far().acquireRead()];
    const waiting = one.upgrade({ timeout: 20_000 });
    await waitFor(async () => (await redisExpLock({ redis, ...patient }).inspect(key)).waiters > 0, {
      what: 'the upgrade to wait',
    });
    const error = await rejectionOf(two.upgrade({ timeout: 20_000 }));
    expect(error).to.be.instanceOf(redisExpLock.LockDeadlockError);
    expect([two.mode, await two.extend()]).to.deep.equal(['read', true]);
    await two.release();
    await waiting;
    expect(one.mode).to.equal('write');
    await one.release();
    const [three, four] = [await near().acquireRead(), await far().acquireRead()];
    expect(await rejectionOf(three.upgrade({ maxRetries: 2 }))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect([three.mode, await three.extend()]).to.deep.equal(['read', true]);
    const five = await near().acquireRead({ timeout: 20_000 });
    await Promise.all([three, four, five].map((lease) => lease.release()));
    await nothingIsLeft();
  });

  it('H67: both permits are out where two majorities know one each, although a majority has room for a third', async () => {
    const ends = Date.now() + 60_000;
    for (const server of servers.slice(0, 2)) await server.command('ZADD', key, ends, '1 p 1 0 1 8 stranger,0,');
    for (const server of servers.slice(1)) await server.command('ZADD', key, ends, '1 p 1 0 2 7 another,1,');
    expect(await rejectionOf(semaphore(2).acquire(1))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect(await semaphore(2).available()).to.equal(0);
  });

  it('H67: permits are places: each has one holder, also where nodes have different ones', async () => {
    // Two strangers have a place each, at one node each: no majority, so both places are free.
    const ends = Date.now() + 60_000;
    await servers[0]!.command('ZADD', key, ends, '1 p 1 0 1 8 stranger,0,');
    await servers[1]!.command('ZADD', key, ends, '1 p 1 0 2 8 stranger,1,');
    expect(await semaphore(3).available()).to.equal(3);
    for (const server of servers) await server.command('DEL', key);
    const two = await semaphore(3).acquire(2);
    const one = await semaphore(3, elsewhere).acquire(1);
    expect(await rejectionOf(semaphore(3).acquire(1))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect(await semaphore(3, elsewhere).available()).to.equal(0);
    const texts = (await Promise.all(servers.map(members))).flat();
    const places = texts.map((text) => /,[\d,]*,$/.exec(text)![0]).join('');
    expect([...new Set([...places.matchAll(/\d/g)].map(String))].sort()).to.deep.equal(['0', '1', '2']);
    expect([await two.extend(), await two.release(), await one.release()]).to.deep.equal([true, true, true]);
    await waitFor(async () => (await semaphore(3).available()) === 3, { what: 'all permits to be free' });
  });

  it('200 waiters of two processes for five permits, some for two at once: all get in', async () => {
    let inside = 0;
    let most = 0;
    const use = async (n: number): Promise<void> => {
      const permits = n % 20 === 0 ? 2 : 1;
      const lease = await semaphore(5, n % 2 === 0 ? redis : elsewhere).acquire(permits, { timeout: 60_000 });
      inside += permits;
      most = Math.max(most, inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= permits;
      expect(await lease.release()).to.equal(true);
    };
    await Promise.all(Array.from({ length: 200 }, (_, n) => use(n)));
    expect(most).to.be.within(1, 5);
    // The limit is remembered for a while; no vote is left, and nobody in a queue.
    const left = async (server: RedisServer): Promise<number> => server.command('EXISTS', key, `{${key}}:queue`);
    await waitFor(async () => (await Promise.all(servers.map(left))).every((count) => count === 0), {
      what: 'all votes',
    });
  });

  it('a permit that a node has forgotten is restored by the next extension', async () => {
    const lease = await semaphore(2).acquire();
    await waitFor(async () => (await kinds()).every((kind) => kind === 'p'), { what: 'all votes' });
    for (const server of servers) {
      await server.command('DEL', key);
      expect(await lease.extend()).to.equal(true);
      await waitFor(async () => (await members(server)).length === 1, { what: 'the permit to be back' });
    }
    expect(await semaphore(2).available()).to.equal(1);
    expect(await lease.release()).to.equal(true);
  });

  it('readers and a writer go on while one node is gone; with two, the caller gets an error', async () => {
    await servers[2]!.kill();
    const reader = await near().acquireRead({ maxRetries: 0, timeout: 20_000 });
    expect(await rejectionOf(far().acquireWrite(once))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect(await reader.extend()).to.equal(true);
    await reader.upgrade({ timeout: 20_000 });
    expect(await reader.release()).to.equal(true);
    await servers[1]!.kill();
    expect(await rejectionOf(near().acquireRead(once))).to.include({ code: 'ERR_LOCK_BACKEND', retryable: true });
    for (const server of servers.slice(1)) {
      await server.start();
      await server.command('ACL', 'SETUSER', 'default', '-info');
    }
    await waitFor(() => [...redis, ...elsewhere].every((client) => client.isReady), { what: 'the clients' });
    await (await near().acquireWrite({ timeout: 25_000 })).release();
    await (await far().acquireWrite({ timeout: 25_000 })).release();
  });
});
