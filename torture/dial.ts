/** A client of the place where the locks are: of one package or another, by the number of the process. */
import redisExpLock from '../src/index';
import type { Address } from './order';

export interface Dialled {
  readonly redis: redisExpLock.LockOptions['redis'];
  close(): void;
}

const redialMs = 20;

export async function dial(address: Address, number: number): Promise<Dialled> {
  const isNodeRedis = number % 2 === 0;
  switch (address.kind) {
    case 'redis':
      return isNodeRedis ? nodeRedis(address.url) : ioredis(address.url);
    case 'quorum':
      return quorum(await Promise.all(address.urls.map(isNodeRedis ? nodeRedis : ioredis)));
    case 'sentinel':
      return isNodeRedis ? nodeRedisSentinel(address.ports) : ioredisSentinel(address.ports);
    case 'cluster':
      return isNodeRedis ? nodeRedisCluster(address.ports) : ioredisCluster(address.ports);
    case 'shared-memory': {
      const redis = redisExpLock.sharedMemoryStore(address.name);
      return { redis, close: () => void redis.close() };
    }
  }
}

async function nodeRedis(url: string): Promise<Dialled> {
  const socket = { reconnectStrategy: redialMs };
  return connected(require('redis').createClient({ url, socket, commandOptions: { timeout: 0 } }));
}

function nodeRedisSentinel(ports: readonly number[]): Promise<Dialled> {
  const sentinelRootNodes = ports.map((port) => ({ port, host: '127.0.0.1' }));
  return connected(require('redis').createSentinel({ name: 'main', sentinelRootNodes }));
}

function nodeRedisCluster(ports: readonly number[]): Promise<Dialled> {
  const rootNodes = ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
  return connected(require('redis').createCluster({ rootNodes }));
}

/** Connects without the clients' own packages in the start of a process that needs none. */
async function connected(client: any): Promise<Dialled> {
  client.on('error', () => {});
  await client.connect();
  return { redis: client, close: () => client.destroy() };
}

function ioredis(url: string): Promise<Dialled> {
  const IORedis = require('ioredis');
  return ready(new IORedis(url, { lazyConnect: true, retryStrategy: () => redialMs, maxRetriesPerRequest: null }));
}

function ioredisSentinel(ports: readonly number[]): Promise<Dialled> {
  const IORedis = require('ioredis');
  const sentinels = ports.map((port) => ({ port, host: '127.0.0.1' }));
  return ready(new IORedis({ name: 'main', sentinels, lazyConnect: true, retryStrategy: () => redialMs }));
}

function ioredisCluster(ports: readonly number[]): Promise<Dialled> {
  const { Cluster } = require('ioredis');
  const nodes = ports.map((port) => ({ port, host: '127.0.0.1' }));
  return ready(new Cluster(nodes, { lazyConnect: true, clusterRetryStrategy: () => redialMs }));
}

/** Connects a client whose `connect` rejects when its first connection is cut, while it goes on connecting. */
async function ready(client: any): Promise<Dialled> {
  client.on('error', () => {});
  client.connect().catch(() => {});
  await new Promise((resolve) => client.once('ready', resolve));
  return { redis: client, close: () => client.disconnect() };
}

function quorum(nodes: readonly Dialled[]): Dialled {
  return {
    redis: nodes.map(({ redis }) => redis) as redisExpLock.RedisLike[],
    close: () => {
      for (const node of nodes) node.close();
    },
  };
}
