/** One lock's keys live in one slot (H57, H58): the basics over every cluster client, on three masters. */
import { expect } from 'chai';
import { fenceKeyBeside, slotOf } from '../../src/core/keys';
import { newToken } from '../../src/core/token';
import redisExpLock from '../../src/index';
import { scriptClient } from '../../src/store/redis/clients/script-client';
import { startCluster, type TestCluster } from '../support/cluster';
import { directStore } from '../support/direct-store';
import { waitFor } from '../support/processes';
import { recordCommands, uniqueKey } from '../support/redis';
import { type Dial, kinds, type Way } from './cluster-kinds';
import { backendError, LONG_MS } from './faults';
import { callsIn, rejectionOf } from './holding';

/** Hundreds of commands follow one another while locks are held, and a reply may be late. */
const patient = { lifetime: LONG_MS, commandTimeout: 10_000 };

describe('a cluster', () => {
  let cluster: TestCluster;
  const open: Way[] = [];

  before(async () => {
    cluster = await startCluster();
  });
  afterEach(() => {
    for (const way of open.splice(0)) way.close();
  });
  after(() => cluster.stop());

  async function connected(dial: Dial, options?: object): Promise<any> {
    const way = await dial(
      cluster.nodes.map(({ port }) => port),
      options,
    );
    open.push(way);
    return way.redis;
  }

  for (const { name, dial, mapped, prefixes, subscribes } of kinds) {
    describe(`through ${name}`, () => {
      it('acquire, busy, inspect, extend, release: on every node, many in one tick (H58)', async () => {
        const redis = await connected(dial);
        const withLock = redisExpLock({ redis, ...patient, owner: 'me' });
        const keys = Array.from({ length: 60 }, () => uniqueKey());
        const nodes = new Set(await Promise.all(keys.map((key) => cluster.nodeOf(key))));
        expect(nodes.size).to.equal(3);
        const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
        for (const [i, key] of keys.entries()) {
          const node = await cluster.nodeOf(key);
          expect(await node.command('GET', key)).to.equal(leases[i]!.token);
          // Two of the keys may lie in one slot.
          expect(Number(await node.command('GET', fenceKeyBeside(key)))).to.be.at.least(leases[i]!.fence);
          expect(await withLock.tryLock(key)).to.equal(null);
          const state = await withLock.inspect(key);
          expect(state).to.include({ locked: true, owner: 'me' });
          expect(state.fence).to.be.at.least(leases[i]!.fence);
        }
        expect(await Promise.all(leases.map((lease) => lease.extend(60_000)))).not.to.include(false);
        expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
        for (const key of keys) expect(await (await cluster.nodeOf(key)).command('EXISTS', key)).to.equal(0);
      });

      it('the verbs of the shims: each key with the queue and the fence counter of its own slot', async () => {
        const direct = directStore(await connected(dial));
        const terms = { lifetimeMs: 10_000, fences: 1, minReplicas: 0, commandTimeoutMs: 5000, begin: () => true };
        for (const key of Array.from({ length: 12 }, () => uniqueKey())) {
          const names = [key, `{${key}}:other`];
          for (const keys of [key, names]) {
            const token = newToken(undefined);
            const reply = await direct.acquire({ keys, token, ...terms });
            expect(reply.granted).to.equal(true);
            const node = await cluster.nodeOf(key);
            expect(await node.command('GET', key)).to.equal(token);
            expect(Number(await node.command('GET', fenceKeyBeside(key)))).to.equal(reply.granted && reply.fence);
            expect((await direct.acquire({ keys, token: newToken(undefined), ...terms })).granted).to.equal(false);
            expect(await direct.release({ keys, token, commandTimeoutMs: 5000, isConfirmed: true })).to.equal(
              'released',
            );
            expect(await node.command('EXISTS', ...names)).to.equal(0);
          }
        }
      });

      it('calls of one tick: one batch for each slot, whatever the tags', async () => {
        const withLock = redisExpLock({ redis: await connected(dial), ...patient });
        const [one, other, twin] = [uniqueKey(), uniqueKey(), uniqueKey()];
        let tail = 0;
        while (slotOf(`{${twin}${tail}}`) !== slotOf(`{${one}}`)) tail += 1;
        const names = [`{${one}}`, `{${other}}`, `{${twin}${tail}}`].flatMap((tag) =>
          [1, 2, 3].map((i) => `${tag}:${i}`),
        );
        // Once, so that every node has the scripts.
        for (const _ of [1, 2]) {
          const leases = await Promise.all(names.map((name) => withLock.promise(name)));
          expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
        }
        const recordings = await Promise.all(cluster.nodes.map((node) => recordCommands(node)));
        const leases = await Promise.all(names.map((name) => withLock.promise(name)));
        const commands = (await Promise.all(recordings.map((recording) => recording.stop()))).flat();
        expect(commands.filter(({ args, lua }) => !lua && callsIn(args).length > 0)).to.have.length(2);
        expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
      });

      it('a script that a node has lost is sent again (H53)', async () => {
        const withLock = redisExpLock({ redis: await connected(dial), ...patient });
        const key = uniqueKey();
        await (await withLock.promise(key))();
        for (const node of cluster.nodes) await node.command('SCRIPT', 'FLUSH');
        expect(await (await withLock.promise(key))()).to.equal(true);
      });

      it('readers and writers, permits and cached values: on every node, many in one tick (H58)', async () => {
        const redis = await connected(dial);
        const options = { redis, ...patient };
        const keys = Array.from({ length: 12 }, () => uniqueKey());
        const locks = keys.map((key) => new redisExpLock.RWLock(key, options));
        const readers = await Promise.all(locks.map((lock) => lock.acquireRead()));
        await Promise.all(readers.map((reader) => reader.upgrade()));
        expect(await Promise.all(readers.map((reader) => reader.release()))).not.to.include(false);
        const semaphores = keys.map((key) => new redisExpLock.Semaphore(key, 2, options));
        const permits = await Promise.all(semaphores.map((semaphore) => semaphore.acquire(2)));
        const waiting = semaphores.map((semaphore) => semaphore.acquire(1, { timeout: LONG_MS }));
        expect(await Promise.all(permits.map((lease) => lease.release()))).not.to.include(false);
        for (const lease of await Promise.all(waiting)) expect(await lease.release()).to.equal(true);
        expect(await redisExpLock(options).cached(`${keys[0]}:c`, { ttl: 1000 }, () => 5)).to.equal(5);
      });

      it('keys of several slots: an error that names them; of one slot: one lock (H57)', async () => {
        const withLock = redisExpLock({ redis: await connected(dial), ...patient });
        const keys = Array.from({ length: 4 }, () => uniqueKey());
        const error = await backendError(withLock.promise(keys));
        for (const key of keys) expect(error.message).to.contain(key);
        const tag = uniqueKey();
        const lease = await withLock.promise([`{${tag}}:a`, `{${tag}}:b`]);
        expect(await lease()).to.equal(true);
      });

      it('what it says of eviction', async () => {
        const policy = await scriptClient(await connected(dial)).command('CONFIG', 'GET', 'maxmemory-policy');
        expect(policy).to.contain('"noeviction"');
      });

      if (mapped) {
        it('types as the owner wants them for himself change nothing (H5)', async () => {
          const withLock = redisExpLock({ redis: await connected(dial, mapped), ...patient, owner: 'me' });
          const key = uniqueKey();
          const lease = await withLock.promise(key);
          expect(await withLock.inspect(key)).to.include({ locked: true, owner: 'me', fence: lease.fence });
          expect(await lease.extend()).to.equal(true);
          expect(await lease()).to.equal(true);
        });
      }

      if (prefixes) {
        it('keyPrefix counts: the lock and its companion stay in one slot', async () => {
          for (const prefix of ['p:', '{p}:']) {
            const withLock = redisExpLock({ redis: await connected(dial, { keyPrefix: prefix }), ...patient });
            const key = uniqueKey();
            const lease = await withLock.promise(key);
            const node = await cluster.nodeOf(prefix + key);
            expect(await node.command('GET', prefix + key)).to.equal(lease.token);
            expect(await node.command('GET', fenceKeyBeside(prefix + key))).to.equal(String(lease.fence));
            expect(await lease()).to.equal(true);
          }
        });
      }

      if (subscribes) {
        it('messages come from every node, also after the connection was lost', async () => {
          const { subscribe } = scriptClient(await connected(dial));
          const channel = uniqueKey();
          const seen: string[] = [];
          let gaps = 0;
          const subscription = await subscribe!(
            channel,
            (message) => seen.push(message),
            () => (gaps += 1),
          );
          for (const [i, node] of cluster.nodes.entries()) await node.command('PUBLISH', channel, i);
          await waitFor(() => seen.length === 3, { what: 'three messages' });
          for (const node of cluster.nodes) await node.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
          await waitFor(() => gaps === 1, { what: 'the gap to be told' });
          for (const [i, node] of cluster.nodes.entries()) await node.command('PUBLISH', channel, i);
          await waitFor(() => seen.length === 6, { what: 'three more' });
          subscription.close();
          await waitFor(async () => {
            const listed = await Promise.all(
              cluster.nodes.map((node) => node.command('CLIENT', 'LIST', 'TYPE', 'pubsub')),
            );
            return listed.join('').trim() === '';
          });
        });
        it('a caller in the queue is granted the lock, although its node hears of no subscriber (H58)', async () => {
          const [mine, others] = [await connected(dial), await connected(dial)].map((redis) =>
            redisExpLock({ redis, ...patient }),
          ) as [redisExpLock.WithLock, redisExpLock.WithLock];
          // Whichever node its messages come from: for most of the keys it is another one.
          const keys = Array.from({ length: 12 }, () => uniqueKey());
          const leases = await Promise.all(keys.map((key) => mine.promise(key)));
          const waiting = keys.map((key) => others.promise(key, { timeout: LONG_MS }));
          await waitFor(async () => (await Promise.all(keys.map(waitersOf))).every((count) => count === 1), {
            what: 'all to be queued',
          });
          const holders = leases.map(async (lease) => {
            expect(await lease()).to.equal(true);
            return (await cluster.nodeOf(lease.keys[0]!)).command('GET', lease.keys[0]!);
          });
          // In the same step: nobody had to poll for it.
          const granted = await Promise.all(waiting);
          expect(await Promise.all(holders)).to.deep.equal(granted.map(({ token }) => token));
          expect(await Promise.all(granted.map((lease) => lease()))).not.to.include(false);

          async function waitersOf(key: string): Promise<number> {
            return (await mine.inspect(key)).waiters;
          }
        });
      } else {
        it('minReplicas is refused by name', async () => {
          const withLock = redisExpLock({ redis: await connected(dial), ...patient });
          const error = await rejectionOf(withLock.promise(uniqueKey(), { minReplicas: 1 }));
          expect(error.code).to.equal('ERR_LOCK_OPTION');
          expect(error.message).to.contain('minReplicas');
        });

        it('has no messages to give', async () => {
          expect(scriptClient(await connected(dial)).subscribe).to.equal(undefined);
        });
      }
    });
  }

  it('messages between nodes: one to each other node for a hand-off to another process, none without one', async () => {
    const sent = async (): Promise<number> => {
      const counts = cluster.nodes.map(async (node) => {
        const info = await node.command<string>('CLUSTER', 'INFO');
        return Number(/cluster_stats_messages_publish_sent:(\d+)/.exec(info)?.[1] ?? 0);
      });
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    };
    const [{ dial }] = kinds as [(typeof kinds)[0]];
    const [one, other] = [await connected(dial), await connected(dial)].map((redis) =>
      redisExpLock({ redis, ...patient }),
    ) as [redisExpLock.WithLock, redisExpLock.WithLock];
    const key = uniqueKey();
    // Once the process listens, its callers wait in one queue. Before that, the first of them holds the lock outside of it.
    const first = await one.promise(key);
    const second = one.run(key, { timeout: LONG_MS }, () => {});
    await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a caller in the queue' });
    await first.release();
    await second;
    const before = await sent();
    for (let n = 0; n < 5; n += 1) await (await one.promise(key, { timeout: LONG_MS })).release();
    const within = await Promise.all([1, 2, 3].map(() => one.run(key, { timeout: LONG_MS }, () => sent())));
    expect(within.map((count) => count - before)).to.deep.equal([0, 0, 0]);
    const lease = await one.promise(key);
    const waiting = other.promise(key, { timeout: LONG_MS });
    await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a waiter' });
    await lease.release();
    await (await waiting).release();
    expect((await sent()) - before).to.equal(cluster.nodes.length - 1);
  });
});
