/** One lock's keys live in one slot (H57, H58): the basics over every cluster client, on three masters. */
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { companionOf } from '../../src/keys';
import { scriptClient } from '../../src/stores/clients';
import { startCluster, type TestCluster } from '../support/cluster';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { backendError } from './faults';
import { rejectionOf } from './holding';

interface Way {
  readonly redis: any;
  close(): void;
}
type Dial = (ports: readonly number[], keyPrefix?: string) => Promise<Way>;

function nodeRedis(packageName: string): Dial {
  return async (ports, keyPrefix) => {
    const { createCluster } = require(packageName);
    const rootNodes = ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
    const cluster = createCluster({ rootNodes, ...(keyPrefix && { keyPrefix }) });
    cluster.on('error', () => {});
    await cluster.connect();
    return { redis: cluster, close: () => void (cluster.destroy ?? cluster.disconnect).call(cluster) };
  };
}

function ioredis(packageName: string): Dial {
  return async (ports, keyPrefix) => {
    const { Cluster } = require(packageName);
    const cluster = new Cluster(
      ports.map((port) => ({ port, host: '127.0.0.1' })),
      { lazyConnect: true, ...(keyPrefix && { keyPrefix }) },
    );
    cluster.on('error', () => {});
    await cluster.connect();
    return { redis: cluster, close: () => cluster.disconnect() };
  };
}

const glide: Dial = async (ports) => {
  const { GlideClusterClient, Logger } = require('@valkey/valkey-glide');
  Logger.init('off');
  const addresses = ports.map((port) => ({ port, host: '127.0.0.1' }));
  const client = await GlideClusterClient.createClient({ addresses, requestTimeout: 10_000 });
  return { redis: client, close: () => client.close() };
};

const clients: [name: string, dial: Dial, prefixes: boolean, subscribes: boolean][] = [
  ['node-redis 6', nodeRedis('redis'), true, true],
  ['node-redis 5', nodeRedis('redis-5'), false, true],
  ['node-redis 4', nodeRedis('redis-4'), false, true],
  ['ioredis 6', ioredis('ioredis'), true, true],
  ['ioredis 5', ioredis('ioredis-5'), true, true],
  ['iovalkey', ioredis('iovalkey'), true, true],
  ['Valkey GLIDE', glide, false, false],
];

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

  async function connected(dial: Dial, keyPrefix?: string): Promise<any> {
    const way = await dial(
      cluster.nodes.map(({ port }) => port),
      keyPrefix,
    );
    open.push(way);
    return way.redis;
  }

  for (const [name, dial, prefixes, subscribes] of clients) {
    describe(`through ${name}`, () => {
      it('acquire, busy, inspect, extend, release: on every node, many in one tick (H58)', async () => {
        const redis = await connected(dial);
        const withLock = redisExpLock({ redis, lifetime: 10_000, owner: 'me' });
        const keys = Array.from({ length: 12 }, () => uniqueKey());
        const nodes = new Set(await Promise.all(keys.map((key) => cluster.nodeOf(key))));
        expect(nodes.size).to.equal(3);
        const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
        for (const [i, key] of keys.entries()) {
          const node = await cluster.nodeOf(key);
          expect(await node.command('GET', key)).to.equal(leases[i]!.token);
          expect(await node.command('GET', companionOf(key, 'fence'))).to.equal(String(leases[i]!.fence));
          expect(await withLock.tryLock(key)).to.equal(null);
          expect(await withLock.inspect(key)).to.include({ locked: true, owner: 'me', fence: leases[i]!.fence });
        }
        expect(await Promise.all(leases.map((lease) => lease.extend(60_000)))).not.to.include(false);
        expect(await Promise.all(leases.map((lease) => lease()))).not.to.include(false);
        for (const key of keys) expect(await (await cluster.nodeOf(key)).command('EXISTS', key)).to.equal(0);
      });

      it('a script that a node has lost is sent again (H53)', async () => {
        const withLock = redisExpLock({ redis: await connected(dial), lifetime: 10_000 });
        const key = uniqueKey();
        await (await withLock.promise(key))();
        for (const node of cluster.nodes) await node.command('SCRIPT', 'FLUSH');
        expect(await (await withLock.promise(key))()).to.equal(true);
      });

      it('keys of several slots: an error that names them; of one slot: one lock (H57)', async () => {
        const withLock = redisExpLock({ redis: await connected(dial), lifetime: 10_000 });
        const keys = Array.from({ length: 4 }, () => uniqueKey());
        const error = await backendError(withLock.promise(keys));
        for (const key of keys) expect(error.message).to.contain(key);
        const tag = uniqueKey();
        const lease = await withLock.promise([`{${tag}}:a`, `{${tag}}:b`]);
        expect(await lease()).to.equal(true);
      });

      it('minReplicas is refused by name', async () => {
        const withLock = redisExpLock({ redis: await connected(dial) });
        const error = await rejectionOf(withLock.promise(uniqueKey(), { minReplicas: 1 }));
        expect(error.code).to.equal('ERR_LOCK_OPTION');
        expect(error.message).to.contain('minReplicas');
      });

      it('what it says of eviction', async () => {
        expect(await scriptClient(await connected(dial)).evictionPolicy()).to.equal('noeviction');
      });

      if (prefixes) {
        it('keyPrefix counts: the lock and its companion stay in one slot', async () => {
          for (const prefix of ['p:', '{p}:']) {
            const withLock = redisExpLock({ redis: await connected(dial, prefix), lifetime: 10_000 });
            const key = uniqueKey();
            const lease = await withLock.promise(key);
            const node = await cluster.nodeOf(prefix + key);
            expect(await node.command('GET', prefix + key)).to.equal(lease.token);
            expect(await node.command('GET', companionOf(prefix + key, 'fence'))).to.equal(String(lease.fence));
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
      } else {
        it('has no messages to give', async () => {
          expect(scriptClient(await connected(dial)).subscribe).to.equal(undefined);
        });
      }
    });
  }
});
