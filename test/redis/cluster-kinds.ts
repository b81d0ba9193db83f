/** Every client of a cluster that the library promises to work with, by the name it has among our packages. */

export interface Way {
  readonly redis: any;
  close(): void;
}
export type Dial = (ports: readonly number[], options?: object) => Promise<Way>;

function nodeRedis(packageName: string): Dial {
  return async (ports, options) => {
    const { createCluster } = require(packageName);
    const rootNodes = ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
    const cluster = createCluster({ rootNodes, ...options });
    cluster.on('error', () => {});
    await cluster.connect();
    return { redis: cluster, close: () => void (cluster.destroy ?? cluster.disconnect).call(cluster) };
  };
}

function ioredis(packageName: string): Dial {
  return async (ports, options) => {
    const { Cluster } = require(packageName);
    const cluster = new Cluster(
      ports.map((port) => ({ port, host: '127.0.0.1' })),
      { lazyConnect: true, ...options },
    );
    cluster.on('error', () => {});
    await cluster.connect();
    return { redis: cluster, close: () => cluster.disconnect() };
  };
}

const glide: Dial = async (ports, options) => {
  const { GlideClusterClient, Logger } = require('@valkey/valkey-glide');
  Logger.init('off');
  const addresses = ports.map((port) => ({ port, host: '127.0.0.1' }));
  const client = await GlideClusterClient.createClient({ addresses, requestTimeout: 10_000, ...options });
  return { redis: client, close: () => client.close() };
};

export interface Kind {
  readonly name: string;
  readonly dial: Dial;
  /** Options by which its owner gets other types for himself; none where there are none. */
  readonly mapped?: object;
  readonly prefixes?: boolean;
  readonly subscribes?: boolean;
}

const mapped = { commandOptions: { typeMapping: { 36: Buffer, 58: String } } };
const stringNumbers = { redisOptions: { stringNumbers: true } };

export const kinds: readonly Kind[] = [
  { name: 'node-redis 6', dial: nodeRedis('redis'), mapped, prefixes: true, subscribes: true },
  { name: 'node-redis 5', dial: nodeRedis('redis-5'), mapped, subscribes: true },
  { name: 'node-redis 4', dial: nodeRedis('redis-4'), subscribes: true },
  { name: 'ioredis 6', dial: ioredis('ioredis'), mapped: stringNumbers, prefixes: true, subscribes: true },
  { name: 'ioredis 5', dial: ioredis('ioredis-5'), mapped: stringNumbers, prefixes: true, subscribes: true },
  { name: 'iovalkey', dial: ioredis('iovalkey'), mapped: stringNumbers, prefixes: true, subscribes: true },
  { name: 'Valkey GLIDE', dial: glide, mapped: { defaultDecoder: 0 } },
];
