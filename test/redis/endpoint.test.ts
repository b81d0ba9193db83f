/**
 * H96: shards behind one endpoint. A plain client learns of them by its first call, which is refused (CROSSSLOT) before anything
 * ran. From then on each slot has a fence counter and batches of its own. The contract suite runs there too.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Mutex, Semaphore as PeerSemaphore } from '../../src/compat/redis-semaphore';
import Redlock from '../../src/compat/redlock';
import { fenceKey, fenceKeyBeside, slotOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { redisPlaces } from '../contract/places';
import { type ShardEndpoint, startEndpoint } from '../support/endpoint';
import { answer, delayReply, dropReply, FaultProxy, startProxy } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { recordCommands, startRedis, uniqueKey } from '../support/redis';
import { kinds as clusterKinds } from './cluster-kinds';
import { backendError, LONG_MS } from './faults';

const { Election, RWLock, Semaphore } = redisExpLock;

/** A reply passes three processes, and no test but those with `unansweredMs` waits for silence or the end of a lock. */
const patient = { lifetime: LONG_MS, commandTimeout: LONG_MS };

describe('shards behind one endpoint (H96)', () => {
  let endpoint: ShardEndpoint;
  let proxy: FaultProxy;
  const leaving: (() => unknown)[] = [];

  before(async () => {
    endpoint = await startEndpoint();
  });
  beforeEach(async () => {
    proxy = await startProxy(endpoint.port);
    endpoint.refused = 0;
  });
  afterEach(async () => {
    for (const leave of leaving.splice(0)) await leave();
    await proxy.stop();
    expect(endpoint.redirected, 'MOVED').to.equal(0);
  });
  after(() => endpoint.discard());

  /** A client that knows nothing yet. */
  async function connected(name = 'node-redis 6', url = proxy.url): Promise<any> {
    const place = redisPlaces.find((each) => each.name.startsWith(name))!;
    const { redis, leave } = await place.join(url);
    leaving.push(leave);
    return redis;
  }

  /** Keys on all three shards, each in a slot of its own. */
  function keysOnAll(count = 30): string[] {
    const keys = new Map<number, string>();
    const shards = new Set<number>();
    while (keys.size < count || shards.size < 3) {
      const key = uniqueKey();
      if (keys.has(slotOf(key))) continue;
      keys.set(slotOf(key), key);
      shards.add(endpoint.nodeOf(slotOf(key)));
    }
    return [...keys.values()];
  }

  for (const { name } of redisPlaces) {
    it(`${name.split(',')[0]}: learns once, and repeats the refused call at once (H96)`, async function () {
      // Its client needs fetch, and that of Node 20 throws out of its parser now and then.
      if (name.startsWith('Upstash') && process.versions.node.startsWith('20.')) this.skip();
      const withLock = redisExpLock({ redis: await connected(name.split(',')[0]), ...patient });
      const key = uniqueKey();
      const before = proxy.count('script');
      const lease = await withLock.promise(key);
      expect(proxy.count('script') - before).to.equal(2);
      expect(await endpoint.command('GET', key)).to.equal(lease.token);
      expect(Number(await endpoint.command('GET', fenceKeyBeside(key)))).to.equal(lease.fence);
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await lease.extend()).to.equal(true);
      expect(await lease()).to.equal(true);
      const keys = keysOnAll();
      const leases = await Promise.all(keys.map((each) => withLock.promise(each)));
      expect((await withLock.inspect(keys[0]!)).fence).to.equal(leases[0]!.fence);
      expect(await Promise.all(leases.map((each) => each()))).not.to.include(false);
      expect(endpoint.refused).to.equal(1);
      expect(await endpoint.command('EXISTS', fenceKey), 'the counter of a plain server').to.equal(0);
    });
  }

  for (const name of ['node-redis 6', 'ioredis 6']) {
    it(`${name}: 300 callers whose first calls are all in flight: one holder for each key, and nobody notices (H96)`, async () => {
      const redis = await connected(name);
      // The text of a script goes to a shard a hundred times, and a tag is found for each of a hundred slots.
      const withLock = redisExpLock({ redis, ...patient });
      const keys = keysOnAll(100);
      const leases = await Promise.all([...keys, ...keys, ...keys].map((key) => withLock.tryLock(key)));
      const held = leases.filter((lease) => lease !== null);
      expect(held.map(({ key }) => key)).to.have.members(keys);
      const { refused } = endpoint;
      expect(await Promise.all(held.map((lease) => lease()))).not.to.include(false);
      const permits = await Promise.all(keys.map((key) => new Semaphore(key, 1, { redis, ...patient }).acquire()));
      expect(await Promise.all(permits.map((permit) => permit.release()))).not.to.include(false);
      expect(endpoint.refused, 'after the first').to.equal(refused);
    });

    /** First calls, each on a client of its own. */
    const firsts: Record<string, (redis: any, key: string) => Promise<unknown>> = {
      async inspect(redis, key) {
        expect((await redisExpLock({ redis, ...patient }).inspect(key)).locked).to.equal(false);
      },
      async free(redis, key) {
        const lease = await redisExpLock({ redis: await connected(), ...patient }).promise(key);
        expect(await redisExpLock({ redis, ...patient }).free(key, { force: true })).to.equal(true);
        expect(await lease.extend()).to.equal(false);
      },
      async 'list with a scan: the keys of all shards'(redis) {
        const keys = keysOnAll().map((key) => `scanned:${name}:${key}`);
        const other = redisExpLock({ redis: await connected(), ...patient });
        const leases = await Promise.all(keys.map((key) => other.promise(key)));
        const found: string[] = [];
        for await (const { key } of redisExpLock({ redis, ...patient }).list({
          prefix: `scanned:${name}:`,
          scan: true,
        }))
          found.push(key);
        expect(found).to.have.members(keys);
        await Promise.all(leases.map((lease) => lease()));
      },
      async 'list of processes'(redis, key) {
        const withLock = redisExpLock({ redis, ...patient, register: true });
        const lease = await withLock.promise(key);
        const listed = async (): Promise<boolean> => {
          for await (const each of redisExpLock({ redis: await connected(), ...patient }).list())
            if (each.key === key) return true;
          return false;
        };
        await waitFor(listed, { what: 'the lock to be listed' });
        await lease();
        await withLock.close();
      },
      async 'adopt and release'(redis, key) {
        const lease = await redisExpLock({ redis: await connected(), ...patient }).promise(key);
        const adopted = await redisExpLock({ redis, ...patient }).adopt(lease.detach());
        expect(await adopted!.release()).to.equal(true);
        expect(await endpoint.command('EXISTS', key)).to.equal(0);
      },
      async once(redis, key) {
        const job = redisExpLock({ redis, ...patient });
        expect(await job.once(key, { every: 3_600_000 }, () => 'done')).to.deep.include({ value: 'done' });
        expect(await job.once(key, { every: 3_600_000 }, () => 'again')).not.to.have.property('value');
      },
      async cached(redis, key) {
        const withLock = redisExpLock({ redis, ...patient });
        for (const load of [1, 2]) expect(await withLock.cached(key, { ttl: LONG_MS }, () => load)).to.equal(1);
      },
      async election(redis, key) {
        const election = new Election(key, { redis, ...patient });
        const led = election.lead(async () => (await election.leader())?.term);
        expect(await led).to.be.greaterThan(0);
      },
      async 'a queue, and a message'(redis, key) {
        const withLock = redisExpLock({ redis, ...patient });
        const lease = await withLock.promise(key, { timeout: LONG_MS });
        const far = redisExpLock({ redis: await connected(), ...patient });
        const waiting = far.promise(key, { timeout: LONG_MS });
        await waitFor(async () => (await withLock.inspect(key)).waiters === 1, { what: 'a waiter' });
        expect(await lease()).to.equal(true);
        const next = await waiting;
        expect(next.fence).to.be.greaterThan(lease.fence);
        expect(await next()).to.equal(true);
      },
      async 'readers and a writer'(redis, key) {
        const rw = new RWLock(key, { redis, ...patient });
        const readers = await Promise.all([rw.acquireRead(), rw.acquireRead()]);
        const writing = new RWLock(key, { redis: await connected(), ...patient }).acquireWrite();
        await Promise.all(readers.map((reader) => reader.release()));
        expect(await (await writing).release()).to.equal(true);
      },
      async permits(redis, key) {
        const semaphore = new Semaphore(key, 2, { redis, ...patient });
        expect(await semaphore.available()).to.equal(2);
        const permits = await Promise.all([semaphore.acquire(), semaphore.acquire()]);
        expect(await semaphore.available()).to.equal(0);
        expect(await Promise.all(permits.map((permit) => permit.release()))).not.to.include(false);
      },
      async 'the shim of redlock'(redis, key) {
        const redlock = new Redlock([redis], { retryCount: 0 });
        const keys = [key, `${key}2`, `${key}3`];
        const locks = await Promise.all(keys.map((each) => redlock.acquire([each], LONG_MS)));
        for (const lock of locks) await (await lock.extend(LONG_MS)).release();
        for (const each of keys) expect(await endpoint.command('EXISTS', each)).to.equal(0);
      },
      async 'the shim of redis-semaphore'(redis, key) {
        const [mutex, other] = [new Mutex(redis, key), new Mutex(redis, `${key}2`)];
        await Promise.all([mutex.acquire(), other.acquire()]);
        expect(await new Mutex(redis, key, { acquireAttemptsLimit: 1 }).tryAcquire()).to.equal(false);
        await Promise.all([mutex.release(), other.release()]);
        const permit = new PeerSemaphore(redis, key, 1);
        await permit.acquire();
        await permit.release();
      },
    };
    for (const [what, first] of Object.entries(firsts)) {
      it(`${name}, first of all ${what} (H96)`, async () => {
        await first(await connected(name), uniqueKey());
        expect(endpoint.refused).to.be.at.least(1);
      });
    }
  }

  it('keys of several slots stay an error that names them, before and after it is known; of one slot: one lock (H57, H96)', async () => {
    const withLock = redisExpLock({ redis: await connected(), ...patient });
    const [a, b] = keysOnAll() as [string, string];
    for (const _ of ['unknown', 'known']) {
      const error = await backendError(withLock.promise([a, b], { timeout: LONG_MS }));
      expect([error.redisCode, error.retryable, error.unknown]).to.deep.equal(['CROSSSLOT', false, false]);
      expect(error.message).to.contain(a).and.to.contain(b).and.to.contain('hash tag');
    }
    expect(proxy.count('script'), 'it is sent once, and then known').to.equal(1);
    const fresh = redisExpLock({ redis: await connected(), ...patient });
    const lease = await fresh.promise([a, `{${a}}:b`]);
    expect(await endpoint.command('GET', `{${a}}:b`)).to.equal(lease.token);
    expect(await lease()).to.equal(true);
  });

  it('a service that refuses the keys of one hash tag too: an error after a second attempt, and no third (H96)', async () => {
    proxy.rule({ match: 'script' }, answer("-CROSSSLOT Keys in request don't hash to the same slot\r\n"));
    const withLock = redisExpLock({ redis: await connected(), ...patient });
    const error = await backendError(withLock.promise(uniqueKey(), { timeout: LONG_MS }));
    expect([error.redisCode, error.retryable]).to.deep.equal(['CROSSSLOT', false]);
    expect(proxy.count('script')).to.equal(2);
  });

  it('the first refusal is lost, or comes when its caller has given up: nothing stays held, and the next call is served (H3, H96)', async () => {
    for (const lose of [dropReply, () => delayReply(2 * unansweredMs)]) {
      const withLock = redisExpLock({ redis: await connected(), ...patient });
      const key = uniqueKey();
      const rule = proxy.rule({ match: 'script', times: 1 }, lose());
      const error = await backendError(withLock.promise(key, { commandTimeout: unansweredMs }));
      expect(error.unknown).to.equal(true);
      rule.remove();
      if (lose === dropReply) proxy.resetAll(); // else that connection stays silent
      const next = await withLock.promise(key, { timeout: LONG_MS });
      await sleep(3 * unansweredMs); // what is late has come
      expect(await endpoint.command('GET', key)).to.equal(next.token);
      expect(await next()).to.equal(true);
      await withLock.close();
      expect(await endpoint.command('EXISTS', key)).to.equal(0);
    }
  });

  it('minReplicas is refused by name: WAIT would speak of another shard; nothing stays held (H96)', async () => {
    for (const name of ['node-redis 6', 'ioredis 6']) {
      const withLock = redisExpLock({ redis: await connected(name), ...patient });
      const key = uniqueKey();
      for (const _ of ['unknown', 'known']) {
        const error = await backendError(withLock.promise(key, { minReplicas: 1 }));
        expect([error.redisCode, error.retryable]).to.deep.equal(['CROSSSLOT', false]);
        expect(error.message).to.contain(key).and.to.contain('minReplicas');
        expect(await endpoint.command('EXISTS', key)).to.equal(0);
        await (await withLock.promise(`${key}-known`)).release();
      }
    }
  });

  it('beside a cluster client: they exclude each other, and fences rise over both (H96)', async () => {
    const ports = endpoint.nodes.map(({ port }) => port);
    for (const { name, dial } of clusterKinds.filter((kind) => kind.subscribes)) {
      const way = await dial(ports);
      leaving.push(() => way.close());
      const plain = redisExpLock({ redis: await connected(), ...patient });
      const clustered = redisExpLock({ redis: way.redis, ...patient });
      for (const key of keysOnAll(6)) {
        let last = 0;
        for (const [one, other] of [
          [plain, clustered],
          [clustered, plain],
        ] as const) {
          const lease = await one.promise(key);
          expect(lease.fence, name).to.be.greaterThan(last);
          last = lease.fence;
          const waiting = other.promise(key, { timeout: LONG_MS });
          await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a waiter' });
          expect(await lease()).to.equal(true);
          const next = await waiting;
          expect(next.fence, name).to.be.greaterThan(last);
          last = next.fence;
          expect(await next()).to.equal(true);
        }
      }
    }
  });

  it('a plain server that is replaced by shards: the same client goes on, and no fence falls (H96)', async () => {
    const server = await startRedis();
    const keys = keysOnAll();
    const before = new Map<string, number>();
    for (const name of ['node-redis 6', 'ioredis 6']) {
      const line = await startProxy(server.port);
      const redis = await connected(name, line.url);
      const withLock = redisExpLock({ redis, ...patient });
      for (const key of keys) {
        const lease = await withLock.promise(key, { timeout: LONG_MS });
        before.set(key, lease.fence);
        await lease();
      }
      await line.stop();
      const replaced = new FaultProxy(line.port, endpoint.port);
      await replaced.start();
      const leases = await Promise.all(keys.map((key) => withLock.promise(key, { timeout: LONG_MS })));
      for (const lease of leases) expect(lease.fence).to.be.greaterThan(before.get(String(lease.key))!);
      expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
      await replaced.stop();
    }
    await server.discard();
  });

  it('costs a plain server nothing: the same two calls, one counter, and batches of any keys', async () => {
    const server = await startRedis();
    const withLock = redisExpLock({ redis: await connected('ioredis 6', server.url), ...patient });
    await (await withLock.promise('a')).release(); // the scripts are known
    await Promise.all((await Promise.all(['a', 'b'].map((key) => withLock.promise(key)))).map((lease) => lease()));
    const recording = await recordCommands(server);
    await (await withLock.promise('a')).release();
    const leases = await Promise.all(keysOnAll().map((key) => withLock.promise(key)));
    await Promise.all(leases.map((lease) => lease()));
    const sent = (await recording.stop()).filter(({ lua }) => !lua);
    expect(sent.map(({ args }) => args[0])).to.deep.equal(['evalsha', 'evalsha', 'evalsha', 'evalsha']);
    expect(await server.command('KEYS', '*')).to.deep.equal([fenceKey]);
    await server.discard();
  });
});
