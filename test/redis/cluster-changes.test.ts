/**
 * A cluster that changes under locks: slots on the move (H56), all of them at once, and a master that dies (H59). Three masters
 * and a replica of each, through every client; what is on the move is real, and so are MOVED, ASK and TRYAGAIN.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { scriptClient } from '../../src/store/redis/clients/script-client';
import { type Move, startCluster, type TestCluster } from '../support/cluster';
import { waitFor } from '../support/processes';
import { type RedisServer, recordCommands, uniqueKey } from '../support/redis';
import { kinds, type Way } from './cluster-kinds';
import { backendError, LONG_MS } from './faults';
import { isAcquire, rejectionOf } from './holding';

const hearing = kinds.filter(({ subscribes }) => subscribes);

const endMs = (lease: redisExpLock.Lease): number => performance.now() + lease.remaining();

describe('a cluster of six that changes under locks', () => {
  let cluster: TestCluster;
  /** Two clients of each kind: two processes, as far as the cluster can tell. */
  const ways = new Map<string, readonly [Way, Way]>();

  before(async () => {
    cluster = await startCluster(3, 1);
    const ports = cluster.nodes.map(({ port }) => port);
    for (const { name, dial } of kinds) ways.set(name, [await dial(ports), await dial(ports)]);
  });
  after(async () => {
    for (const way of [...ways.values()].flat()) way.close();
    await cluster.stop();
  });

  const locksOf = (name: string, options: object = {}): [redisExpLock.WithLock, redisExpLock.WithLock] => {
    const [one, other] = ways.get(name)!;
    const settings = { lifetime: LONG_MS, commandTimeout: 15_000, retryTimeout: 10, ...options };
    return [redisExpLock({ redis: one.redis, ...settings }), redisExpLock({ redis: other.redis, ...settings })];
  };

  async function begin(key: string): Promise<{ from: RedisServer; to: RedisServer; move: Move }> {
    const from = await cluster.nodeOf(key);
    const to = await cluster.otherThan(from);
    return { from, to, move: await cluster.move(key, to) };
  }

  /** The other keys in the slot. While the slot moves, the node that imports it is asked as by a client that was sent there. */
  const companions = (key: string): string[] => [`{${key}}:fence`, `{${key}}:queue`];

  for (const { name } of kinds) {
    describe(`through ${name}`, () => {
      it('a lock moves while it is held: token and time intact, renewed on both sides, nobody else gets it (H56)', async () => {
        const [mine, others] = locksOf(name);
        const key = uniqueKey();
        const lease = await mine.promise(key);
        const { from, to, move } = await begin(key);
        expect(await lease.extend(50_000), 'MIGRATING, still there').to.equal(true);
        await move.keys(key); // its fence stays behind: what needs both is told TRYAGAIN
        expect(await from.command('EXISTS', key).catch((error) => error.message)).to.match(/^ASK /);
        expect(await lease.extend(40_000), 'by ASK').to.equal(true);
        const refused = await rejectionOf(others.promise(key, { commandTimeout: 1_000 }));
        expect(refused, 'neither free nor granted').to.be.instanceOf(redisExpLock.LockBackendError);
        expect(refused).to.include({ retryable: true });
        await move.keys(...companions(key));
        await move.end();
        expect(await to.command('GET', key)).to.equal(lease.token);
        expect(await to.command('PTTL', key)).to.be.within(1, 40_000);
        expect(await others.tryLock(key), 'by MOVED').to.equal(null);
        expect(await lease.extend(30_000), 'by MOVED').to.equal(true);
        expect(await lease()).to.equal(true);
        const next = await others.promise(key);
        expect(next.fence).to.be.greaterThan(lease.fence);
        expect(await next()).to.equal(true);
      });

      it('the only waiter repeats its request beside a lock of a slot on the move (H56)', async function () {
        if (!hearing.some((kind) => kind.name === name)) this.skip();
        const [mine, others] = locksOf(name);
        const key = uniqueKey();
        const lease = await mine.promise(key);
        const waiting = others.promise(key, { timeout: LONG_MS });
        waiting.catch(() => {});
        const node = await cluster.nodeOf(key);
        const entry = async (): Promise<string> => String(await node.command('ZRANGE', `{${key}}:queue`, '0', '-1'));
        await waitFor(async () => (await entry()) !== '');
        const { move } = await begin(key);
        const first = await entry();
        await waitFor(async () => (await entry()) !== first);
        await move.keys(key, ...companions(key));
        await move.end();
        expect(await lease()).to.equal(true);
        expect((await waiting).fence).to.be.greaterThan(lease.fence);
        expect(await (await waiting)()).to.equal(true);
      });

      it('a lock of a slot on the move: acquire and release wait until it has moved (TRYAGAIN, H56)', async () => {
        const [mine, others] = locksOf(name);
        const tag = uniqueKey();
        const [held, free] = [`{${tag}}:held`, `{${tag}}:free`];
        const lease = await mine.promise(held);
        const { to, move } = await begin(tag);
        const released = lease();
        const acquired = others.promise(free, { timeout: LONG_MS });
        await sleep(100);
        expect(await to.command('CLUSTER', 'COUNTKEYSINSLOT', move.slot)).to.equal(0);
        await move.end();
        expect(await released).to.equal(true);
        const next = await acquired;
        expect(await to.command('GET', free)).to.equal(next.token);
        expect(await next()).to.equal(true);
      });

      it('two of one slot, of which one has moved: both are renewed in one tick (TRYAGAIN, one by one, H56)', async () => {
        const [mine] = locksOf(name);
        const tag = uniqueKey();
        const [one, other] = [`{${tag}}:1`, `{${tag}}:2`] as const;
        const leases = [await mine.promise(one), await mine.promise(other)];
        const { from, to, move } = await begin(tag);
        await move.keys(one);
        const recording = await recordCommands(to);
        const asked = leases.map((lease) => lease.extend(50_000));
        // These ask again for the whole by themselves, for longer than anybody waits: it is answered when all has moved.
        if (/^io|GLIDE/.test(name)) await sleep(150).then(() => move.keys(other));
        expect(await Promise.all(asked)).to.deep.equal([true, true]);
        expect((await recording.stop()).some(({ args }) => args[0]?.toUpperCase() === 'ASKING')).to.equal(true);
        await move.end();
        expect(await to.command('GET', one)).to.equal(leases[0]!.token);
        expect(await from.command('EXISTS', other).catch((error) => error.message)).to.match(/^MOVED /);
        expect(await Promise.all(leases.map((lease) => lease()))).to.deep.equal([true, true]);
      });

      it('a slot moves from node to node under load: no update lost, never two holders, fences rise (H56)', async () => {
        const locks = locksOf(name, { lifetime: 15_000 });
        const key = uniqueKey();
        const fences: number[] = [];
        let holders = 0;
        let balance = 0;
        let overlaps = 0;
        let moving = true;
        const work = async (withLock: redisExpLock.WithLock): Promise<number> => {
          let turns = 0;
          for (; moving || turns === 0; turns += 1) {
            await withLock.run(key, { timeout: 40_000 }, async ({ fence }) => {
              holders += 1;
              if (holders > 1) overlaps += 1;
              fences.push(fence);
              const read = balance;
              await sleep(1);
              balance = read + 1;
              holders -= 1;
            });
          }
          return turns;
        };
        const working = Promise.all([...locks, ...locks].map(work));
        for (let round = 0; round < 4; round += 1) {
          await waitFor(() => fences.length > 5 * round);
          const { from, move } = await begin(key);
          await move.keys(key); // one by one, so that it lies on both sides for a while
          await sleep(10);
          await move.end();
          expect(await cluster.nodeOf(key)).not.to.equal(from);
        }
        moving = false;
        const turns = (await working).reduce((sum, each) => sum + each, 0);
        expect(overlaps, 'two at a time').to.equal(0);
        expect(balance).to.equal(turns);
        expect(fences).to.deep.equal([...new Set(fences)].sort((a, b) => a - b));
      });
    });
  }

  describe('all of it', () => {
    for (const { name } of hearing) {
      it(`${name}: a queued caller is notified, whichever node has the lock (H27)`, async () => {
        const [mine, others] = locksOf(name, { retryTimeout: 1 });
        for (let nodes = new Set<RedisServer>(); nodes.size < 3; ) {
          const key = uniqueKey();
          const node = await cluster.nodeOf(key);
          if (nodes.has(node)) continue;
          nodes = new Set([...nodes, node]);
          const held = await mine.promise(key);
          const recording = await recordCommands(node);
          const waiting = others.promise(key, { timeout: LONG_MS });
          await waitFor(async () => (await others.inspect(key)).waiters === 1, { what: 'a queued waiter' });
          await sleep(100);
          await held();
          await (await waiting)();
          const commands = await recording.stop();
          expect(commands.some(({ args, lua }) => lua && /^publish$/i.test(args[0]!))).to.equal(true);
          const asked = commands.filter(({ args, lua }) => !lua && isAcquire(args));
          expect(asked.length, 'a hundred pauses have passed').to.be.at.most(5);
        }
      });
    }

    it('minReplicas asks the node that has the key, also after its slot has moved (H59)', async () => {
      const readers = await Promise.all(cluster.nodes.map((node) => node.connect()));
      await Promise.all(readers.map((reader) => reader.sendCommand(['READONLY'])));
      const keys = hearing.map(() => uniqueKey());
      const locks = hearing.map(({ name }) => locksOf(name, { minReplicas: 1, commandTimeout: 1_500 })[0]);
      for (const round of [1, 2]) {
        const granted = async ({ name }: { name: string }, i: number): Promise<void> => {
          const lease = await locks[i]!.promise(keys[i]!, { timeout: 40_000 });
          const found = await Promise.all(readers.map((reader) => reader.get(keys[i]!).catch(() => null)));
          expect(
            found.filter((token) => token === lease.token),
            `${name}, round ${round}`,
          ).to.have.length(2);
          expect(await lease()).to.equal(true);
        };
        await Promise.all(hearing.map(granted));
        for (const key of round === 1 ? keys : []) await (await begin(key)).move.end();
      }
      // Half of it is waited for a second replica; the rest is for a machine that is busy.
      const tooMany = { minReplicas: 2, commandTimeout: 3_000 };
      const missing = locks.map((lock, i) => backendError(lock.promise(keys[i]!, tooMany)));
      for (const error of await Promise.all(missing)) expect(error.redisCode).to.equal('NOREPLICAS');
      await Promise.all(locks.map((lock) => lock.close()));
    });

    it('minReplicas asks a node to which the client has no connection of its own yet (H59)', async () => {
      const ports = cluster.nodes.map(({ port }) => port);
      for (const { name, dial } of kinds.filter((kind) => kind.name.startsWith('node-redis'))) {
        const way = await dial(ports, { minimizeConnections: true });
        const withLock = redisExpLock({ redis: way.redis, lifetime: LONG_MS, minReplicas: 1, commandTimeout: 15_000 });
        try {
          for (const key of Array.from({ length: 9 }, () => uniqueKey())) {
            const lease = await withLock.promise(key, { timeout: 40_000 });
            expect(await lease(), name).to.equal(true);
          }
          await withLock.close();
        } finally {
          way.close();
        }
      }
    });

    it('minReplicas: keys of all nodes at once share one WAIT for each node (H99)', async () => {
      const waits = async (): Promise<number> => {
        const stats = await Promise.all(cluster.nodes.map((node) => node.command<string>('INFO', 'commandstats')));
        return stats.reduce((sum, text) => sum + Number(/cmdstat_wait:calls=(\d+)/.exec(text)?.[1] ?? 0), 0);
      };
      for (const { name } of hearing) {
        const [withLock] = locksOf(name, { minReplicas: 1, commandTimeout: 100_000 });
        const keys = Array.from({ length: 60 }, () => uniqueKey());
        const take = () => Promise.all(keys.map((key) => withLock.promise(key, { timeout: 40_000 })));
        await Promise.all((await take()).map((lease) => lease()));
        const before = await waits();
        const leases = await take();
        expect((await waits()) - before, name).to.equal(3);
        expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
        await withLock.close();
      }
    });

    it('resharding: locks that are held and renewed meanwhile are all kept, and released (H56)', async () => {
      const held: { name: string; lease: redisExpLock.Lease; key: string }[] = [];
      for (const { name } of kinds) {
        // Renewed by themselves every two seconds, so that a machine may stand still in between, and once by hand while they move.
        const [mine] = locksOf(name, { lifetime: 6_000, autoExtend: true });
        const keys = Array.from({ length: 5 }, () => uniqueKey());
        const leases = await Promise.all(keys.map((key) => mine.promise(key)));
        held.push(...leases.map((lease, i) => ({ name, lease, key: keys[i]! })));
      }
      for (const { lease } of held) lease.signal.addEventListener('abort', () => {});
      // One after the other: two nodes that send each other keys at the same time block each other.
      for (const { name, lease, key } of held) {
        const { move } = await begin(key);
        const extended = lease.extend();
        await move.keys(key);
        await move.end();
        expect(await extended, `${name}: renewed on the move`).to.equal(true);
      }
      // Each is renewed where it is now.
      await Promise.all(
        held.map(async ({ name, lease }) => {
          const firstEndMs = endMs(lease);
          const isOver = () => endMs(lease) > firstEndMs + 1_000 || lease.signal.aborted;
          await waitFor(isOver, { what: `${name} to renew` });
        }),
      );
      for (const { name, lease, key } of held) {
        expect(lease.signal.aborted, `${name}: ${lease.signal.reason}`).to.equal(false);
        expect(await (await cluster.nodeOf(key)).command('GET', key)).to.equal(lease.token);
      }
      expect(await Promise.all(held.map(({ lease }) => lease()))).not.to.include(false);
    });

    // Last: from here on one of the six is gone.
    it('a master stands still, its connections open: its replica takes over, and locks are kept and renewed there (H59)', async () => {
      await loseAMaster(false).finally(() => cluster.nodes[1]!.resume());
    });

    it('a master is killed: what its replica has is kept and renewed, waiting goes on, messages come again (H59)', async () => {
      await loseAMaster(true);
    });

    async function loseAMaster(dies: boolean): Promise<void> {
      const dying = cluster.nodes[dies ? 0 : 1]!;
      const keyThere = async (): Promise<string> => {
        for (;;) {
          const key = uniqueKey();
          if ((await cluster.nodeOf(key)) === dying) return key;
        }
      };
      // GLIDE learns of a node that stands still by its own checks only, once a minute.
      const spared = kinds.filter(({ name }) => dies || name !== 'Valkey GLIDE');
      const stories = await Promise.all(
        spared.map(async ({ name, subscribes }) => {
          // Longer than a failover, which takes two votes on a busy machine.
          const [mine, others] = locksOf(name, { lifetime: 24_000, commandTimeout: 1_000 });
          const key = await keyThere();
          const lease = await mine.promise(key, { autoExtend: true, maxRetries: 10 });
          const free = await keyThere();
          const first = await others.promise(free, { maxRetries: 10 });
          await first();
          const heard = subscribes && dies ? await listenAt(dying, ways.get(name)![0].redis) : undefined;
          return { name, others, key, lease, free, fence: first.fence, heard };
        }),
      );
      await dying.command('SET', `{${await keyThere()}}`, 'the last write');
      expect(await dying.command('WAIT', 1, 5_000)).to.equal(1);
      await cluster.givesUpSoon();
      await (dies ? dying.kill() : dying.pause());
      const failedOver = cluster.failedOver(dying);
      const ended = stories.map(async ({ name, others, key, lease, free, fence, heard }) => {
        const acquired = others.promise(free, { timeout: 20_000 });
        const passed = others.run(key, { timeout: 20_000 }, (next) => next.fence);
        for (const waiting of [acquired, passed]) waiting.catch(() => {}); // they may end after this test
        await failedOver;
        // One question to a node that stands still is in vain; it is how a client learns where to ask.
        const seen = (): Promise<boolean> =>
          others.inspect(key).then(
            () => true,
            () => dies,
          );
        await waitFor(seen, { what: `${name} to find the successor` });
        const firstEndMs = endMs(lease);
        await waitFor(() => endMs(lease) > firstEndMs + 1_000, { what: `${name} to renew` });
        expect(await others.tryLock(key), `${name}: held`).to.equal(null);
        expect(await lease(), `${name}: released`).to.equal(true);
        const next = await acquired;
        expect(next.fence, name).to.be.greaterThan(fence);
        expect(await passed, name).to.be.greaterThan(lease.fence);
        expect(await next(), name).to.equal(true);
        await heard?.again();
      });
      await Promise.all(ended);
    }
  });

  /** Hears a channel over this very node; `again` resolves when the gap was told and messages come over another. */
  async function listenAt(node: RedisServer, redis: unknown): Promise<{ again(): Promise<void> }> {
    for (;;) {
      const channel = uniqueKey();
      const seen: string[] = [];
      const subscription = await scriptClient(redis).subscribe!(
        channel,
        (message) => seen.push(message),
        () => seen.push('a gap'),
      );
      const [, count] = await node.command<[string, number]>('PUBSUB', 'NUMSUB', channel);
      if (count === 0) {
        subscription.close();
        continue;
      }
      return {
        async again() {
          await waitFor(() => seen.at(-1) === 'a gap', { what: 'the gap to be told' });
          await cluster.nodes[1]!.command('PUBLISH', channel, 'from another');
          await waitFor(() => seen.at(-1) === 'from another', { what: 'a message' });
          subscription.close();
        },
      };
    }
  }
});
