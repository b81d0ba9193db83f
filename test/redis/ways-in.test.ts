/**
 * Ways to a Redis that are not a plain port on 127.0.0.1: a cluster and a sentinel that speak TLS, to a user with the least
 * rights; `::1`; a unix socket. Every client, its connections of our own included (H54, H58). What a client cannot do is said by
 * a test that is pending.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startCluster, type TestCluster } from '../support/cluster';
import { freePort, waitFor } from '../support/processes';
import { type RedisServer, startRedis, startReplica } from '../support/redis';
import { startSentinels, type TestSentinels } from '../support/sentinel';
import { everythingWorks, restrict, type Way } from './everything';

const folder = join(__dirname, '../support/tls');
const ca = readFileSync(join(folder, 'ca.pem'));
const files = { cert: 'cert.pem', key: 'key.pem', 'ca-cert': 'ca.pem' };
const certificates = Object.entries(files).map(([name, file]) => [`tls-${name}-file`, join(folder, file)] as const);
const tls = [...certificates.flatMap(([name, path]) => [`--${name}`, path]), '--tls-auth-clients', 'no'];
const user = { username: 'lock', password: 'password' };

/** As options of either package; a path is a unix socket. */
interface Place {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
}

type Dial = (place: Place) => Promise<Way>;

interface Kind {
  readonly name: string;
  readonly hears: boolean;
  readonly server: Dial;
  readonly cluster: Dial;
  readonly sentinel?: Dial | undefined;
}

async function opened(redis: any): Promise<Way> {
  redis.on('error', () => {});
  await redis.connect();
  const close = redis.destroy ?? redis.disconnect;
  return { redis, close: () => void close.call(redis) };
}

function nodeRedis(name: string, packageName: string): Kind {
  const { createClient, createCluster, createSentinel } = require(packageName);
  const secure = { tls: true, ca };
  const isFirst = createSentinel === undefined; // 4 has none
  return {
    name,
    hears: true,
    server: (socket) => opened(createClient({ ...user, socket })),
    cluster: (socket) =>
      opened(
        createCluster({ rootNodes: [{ socket: { ...socket, ...secure } }], defaults: { ...user, socket: secure } }),
      ),
    sentinel: isFirst
      ? undefined
      : (place) =>
          opened(
            createSentinel({
              name: 'main',
              sentinelRootNodes: [place],
              sentinelClientOptions: { socket: secure },
              nodeClientOptions: { ...user, socket: secure },
            }),
          ),
  };
}

function ioredis(name: string, packageName: string): Kind {
  const IORedis = require(packageName);
  const options = { ...user, lazyConnect: true, enableReadyCheck: false };
  const secure = { ...options, tls: { ca } };
  return {
    name,
    hears: true,
    server: (place) => opened(new IORedis({ ...place, ...options })),
    cluster: (place) =>
      opened(new IORedis.Cluster([place], { lazyConnect: true, enableReadyCheck: false, redisOptions: secure })),
    sentinel: (place) =>
      opened(
        new IORedis({
          ...secure,
          name: 'main',
          sentinels: [place],
          sentinelTLS: { ca },
          enableTLSForSentinelMode: true,
          sentinelRetryStrategy: null,
        }),
      ),
  };
}

const glide: Kind = {
  name: 'Valkey GLIDE',
  hears: false,
  server: ({ host, port }) => glideTo('GlideClient', { host, port }, {}),
  cluster: ({ host, port }) =>
    glideTo(
      'GlideClusterClient',
      { host, port },
      {
        useTLS: true,
        advancedConfiguration: { tlsAdvancedConfiguration: { rootCertificates: ca } },
      },
    ),
};

async function glideTo(name: string, address: object, options: object): Promise<Way> {
  const package_ = require('@valkey/valkey-glide');
  package_.Logger.init('off');
  const redis = await package_[name].createClient({ addresses: [address], credentials: user, ...options });
  return { redis, close: () => redis.close() };
}

const kinds = [
  nodeRedis('node-redis 6', 'redis'),
  nodeRedis('node-redis 5', 'redis-5'),
  nodeRedis('node-redis 4', 'redis-4'),
  ioredis('ioredis 6', 'ioredis'),
  ioredis('ioredis 5', 'ioredis-5'),
  ioredis('iovalkey', 'iovalkey'),
  glide,
];

describe('ways to a Redis', () => {
  const ways: Way[] = [];
  const two = async (dial: Dial, place: Place): Promise<Way[]> => {
    for (const _ of [1, 2]) ways.push(await dial(place));
    return ways;
  };
  afterEach(() => {
    for (const way of ways.splice(0)) way.close();
  });

  describe('a cluster on ::1 that speaks TLS, to a user with the least rights (H54, H58)', () => {
    let cluster: TestCluster;
    before(async () => {
      cluster = await startCluster(2, 0, { tls, host: '::1' });
      for (const node of cluster.nodes) {
        await restrict(node);
        await node.command('ACL', 'SETUSER', 'lock', ...clusterRights);
      }
    });
    after(() => cluster.stop());

    for (const { name, hears, cluster: dial } of kinds) {
      it(`${name}: everything works, by its own connections too`, async () => {
        if (!hears) for (const node of cluster.nodes) await node.command('ACL', 'SETUSER', 'lock', '+info');
        const place = { host: '::1', port: cluster.tlsPorts[0]! };
        await everythingWorks(await two(dial, place), { hears, replicas: hears ? 0 : undefined });
      });
    }
  });

  describe('a sentinel that speaks TLS, and a user with the least rights (H54, H59)', () => {
    let master: RedisServer;
    let replica: RedisServer;
    let sentinels: TestSentinels;
    before(async () => {
      const port = await freePort();
      master = await startRedis({ args: ['--tls-port', String(port), ...tls] });
      await restrict(master);
      replica = await startReplica(master);
      await master.command('SET', 'first', 'x');
      await waitFor(() => replica.command('GET', 'first'), { what: 'the stream to begin' });
      const lines = [...certificates.map((line) => line.join(' ')), 'tls-auth-clients no', 'tls-replication yes'];
      sentinels = await startSentinels({ main: { dir: master.dir, port } }, 1, { lines, tls: true });
    });
    after(async () => {
      await sentinels.stop();
      await Promise.all([master.discard(), replica.discard()]);
    });

    for (const { name, hears, sentinel: dial } of kinds) {
      it(`${name}: everything works, minReplicas too`, async function () {
        if (dial === undefined) return cannot(this, `${name} has no client for sentinels`);
        const place = { host: '127.0.0.1', port: sentinels.tlsPorts[0]! };
        await everythingWorks(await two(dial, place), { hears, replicas: 1 });
      });
    }
  });

  describe('one server, by ::1 and by a unix socket, and a user with the least rights (H58)', () => {
    let server: RedisServer;
    let path: string;
    before(async () => {
      server = await startRedis({ args: ['--bind', '127.0.0.1', '::1', '--unixsocket', './redis.sock'] });
      await restrict(server);
      path = join(server.dir, 'redis.sock');
    });
    after(() => server.discard());

    for (const { name, hears, server: dial } of kinds) {
      const abilities = { hears, replicas: hears ? 0 : undefined };
      it(`${name}: ::1`, async () => {
        if (!hears) await server.command('ACL', 'SETUSER', 'lock', '+info');
        await everythingWorks(await two(dial, { host: '::1', port: server.port }), abilities);
      });

      it(`${name}: a unix socket`, async function () {
        if (!hears) return cannot(this, `${name} connects to addresses only`);
        await everythingWorks(await two(dial, { path }), abilities);
      });
    }
  });
});

const operations = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
const clusterRights = /^In a cluster.*?`(\+[^`]+)`/m.exec(operations)![1]!.split(' ');

function cannot(test: Mocha.Context, reason: string): void {
  test.test!.title += ` (${reason})`;
  test.skip();
}
