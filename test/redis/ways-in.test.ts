/**
 * Ways to a Redis that are not a plain port on 127.0.0.1: a cluster and a sentinel that speak TLS, to a user with the least
 * rights; `::1`; a unix socket. Every client, its connections of our own included (H54, H58). What a client cannot do is said by
 * a test that is pending.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeAtOnce } from '../support/at-once';
import { startCluster, type TestCluster } from '../support/cluster';
import { freePort, waitFor } from '../support/processes';
import { needsTls, type RedisServer, startRedis, startReplica } from '../support/redis';
import { startSentinels, type TestSentinels } from '../support/sentinel';
import { type Abilities, everythingWorks, restrict, type Way } from './everything';

const folder = join(__dirname, '../support/tls');
const ca = readFileSync(join(folder, 'ca.pem'));
const files = { cert: 'cert.pem', key: 'key.pem', 'ca-cert': 'ca.pem' };
const certificates = Object.entries(files).map(([name, file]) => [`tls-${name}-file`, join(folder, file)] as const);
const tls = [...certificates.flatMap(([name, path]) => [`--${name}`, path]), '--tls-auth-clients', 'no'];
const user = { username: 'lock', password: 'password' };

/** The address as options of either package; a path is a unix socket. */
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
        advancedConfiguration: {
          connectionTimeout: 20_000,
          tlsAdvancedConfiguration: { rootCertificates: ca },
        },
      },
    ),
};

async function glideTo(name: string, address: object, options: object): Promise<Way> {
  const package_ = require('@valkey/valkey-glide');
  package_.Logger.init('off');
  const redis = await package_[name].createClient({
    addresses: [address],
    credentials: user,
    requestTimeout: 20_000, // 250 ms by default, which a busy machine exceeds
    advancedConfiguration: { connectionTimeout: 20_000 },
    ...options,
  });
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
  async function works(dial: Dial, place: Place, abilities: Abilities): Promise<void> {
    const ways: Way[] = [];
    try {
      for (const _ of [1, 2]) ways.push(await dial(place));
      await everythingWorks(ways, abilities);
    } finally {
      for (const way of ways) way.close();
    }
  }
  const hearing = kinds.filter((kind) => kind !== glide);
  const eachHearing = (title: string, run: (kind: Kind) => Promise<void>) =>
    Object.fromEntries(hearing.map((kind) => [`${kind.name}: ${title}`, () => run(kind)]));

  describe('a cluster on ::1 that speaks TLS, to a user with the least rights (H54, H58)', () => {
    let cluster: TestCluster;
    before(async () => {
      await needsTls();
      cluster = await startCluster(2, 0, { tls, host: '::1' });
      for (const node of cluster.nodes) {
        await restrict(node);
        await node.command('ACL', 'SETUSER', 'lock', ...clusterRights);
      }
    });
    after(() => cluster.stop());

    // One after another: a client of a cluster gives up when its TLS handshakes with all nodes take some seconds.
    for (const { name, hears, cluster: dial } of kinds) {
      it(`${name}: everything works, by its own connections too`, async () => {
        if (!hears) for (const node of cluster.nodes) await node.command('ACL', 'SETUSER', 'lock', '+info');
        const place = { host: '::1', port: cluster.tlsPorts[0]! };
        await works(dial, place, { hears, replicas: hears ? 0 : undefined });
      });
    }
  });

  describe('a sentinel that speaks TLS, and a user with the least rights (H54, H59)', () => {
    let master: RedisServer;
    let replica: RedisServer;
    let sentinels: TestSentinels;
    before(async () => {
      await needsTls();
      const port = await freePort();
      master = await startRedis({ args: ['--tls-port', String(port), ...tls] });
      await restrict(master);
      replica = await startReplica(master);
      await master.command('SET', 'first', 'x');
      await waitFor(() => replica.command('GET', 'first'), { what: 'the stream to begin' });
      const lines = [...certificates.map((line) => line.join(' ')), 'tls-auth-clients no', 'tls-replication yes'];
      lines.push('sentinel down-after-milliseconds main 60000'); // node-redis takes no master that counts as down
      sentinels = await startSentinels({ main: { dir: master.dir, port } }, 1, { lines, tls: true });
    });
    after(async () => {
      await sentinels.stop();
      await Promise.all([master.discard(), replica.discard()]);
    });

    const able = kinds.filter(({ sentinel }) => sentinel !== undefined);
    const tests = able.map(({ name, hears, sentinel: dial }) => {
      const test = () => works(dial!, { host: '127.0.0.1', port: sentinels.tlsPorts[0]! }, { hears, replicas: 1 });
      return [`${name}: everything works, minReplicas too`, test];
    });
    describeAtOnce('at once', Object.fromEntries(tests));
    for (const { name } of kinds.filter((kind) => !able.includes(kind)))
      it(`${name}: everything works, minReplicas too (${name} has no client for sentinels)`);
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

    const place = () => ({ host: '::1', port: server.port });
    describeAtOnce('at once', {
      ...eachHearing('::1', ({ server: dial }) => works(dial, place(), { hears: true, replicas: 0 })),
      ...eachHearing('a unix socket', ({ server: dial }) => works(dial, { path }, { hears: true, replicas: 0 })),
    });
    it(`${glide.name}: a unix socket (${glide.name} connects to addresses only)`);

    // After the others: it needs one right more.
    describe('and then', () => {
      it(`${glide.name}: ::1`, async () => {
        await server.command('ACL', 'SETUSER', 'lock', '+info');
        await works(glide.server, place(), { hears: false, replicas: undefined });
      });
    });
  });
});

const operations = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
const clusterRights = /^In a cluster.*?`(\+[^`]+)`/m.exec(operations)![1]!.split(' ');
