// The connection to the locks: to Redis with the installed client, or to shared memory. A server that cannot be reached at the start is
// an error. A server that goes away later may come back.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RedisLike } from '../../core/redis-like';
import { sharedMemoryStore } from '../../store/embedded/shared-memory';
import { scriptClient } from '../../store/redis/clients/script-client';
import type { CommandLine } from './command-line';
import { Exit, exitCodes, usage } from './exit';

export interface CliConnection {
  readonly redis: RedisLike;
  /** The address, without a password. */
  readonly name: string;
  /** Functions that send a command to each master; undefined if there is no server. */
  readonly masters: (() => Promise<((words: readonly string[]) => Promise<unknown>)[]>) | undefined;
  close(): void;
}

type LoadedClient = Record<string, any>;

const connectMs = 5000;
const maxPauseMs = 500;
const defaultUrl = 'redis://127.0.0.1:6379';

/** Reads the address from the options. Nothing connects yet. @throws {Exit} an impossible address. */
export function placeOf({ values }: CommandLine): { readonly url: URL } | { readonly table: string } {
  if (values.store !== undefined) {
    throw usage('--store: memory is of one process alone, and a command is one; use --url, or --shared-memory NAME');
  }
  const table = values['shared-memory'];
  if (table !== undefined) {
    if (values.url !== undefined) throw usage('--url and --shared-memory name two places');
    return { table };
  }
  const text = values.url ?? (process.env.REDIS_URL || defaultUrl);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^(rediss?|valkeys?):$/.test(url.protocol) || url.hostname === '') {
    throw usage('--url (or REDIS_URL): an address such as redis://127.0.0.1:6379');
  }
  if (!isDecodable(url.username) || !isDecodable(url.password)) {
    throw usage('--url (or REDIS_URL): a % in the name or the password is written %25');
  }
  url.protocol = url.protocol.replace('valkey', 'redis');
  return { url };
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Connects. @throws {Exit} the server cannot be reached, or no client is installed. @throws the reason of `signal` when it aborts. */
export async function connect(line: CommandLine, signal?: AbortSignal): Promise<CliConnection> {
  const place = placeOf(line);
  if ('table' in place) return openTable(place.table);
  const { url } = place;
  const name = `${url.protocol}//${url.host}`;
  try {
    const { redis, close } = await withDeadline(open(url), signal);
    return { redis: redis as RedisLike, name, masters: scriptClient(redis).masters, close };
  } catch (error) {
    if (error instanceof Exit) throw error;
    throw new Exit(exitCodes.unreachable, `Redis at ${name} cannot be reached: ${reasonOf(error, url)}`);
  }
}

function openTable(table: string): CliConnection {
  const store = sharedMemoryStore(table);
  return { redis: store, name: `shared memory ${table}`, masters: undefined, close: () => void store.close() };
}

interface Opened {
  readonly redis: LoadedClient;
  close(): void;
}

async function open(url: URL): Promise<Opened> {
  const [name, client] = installed();
  const single = name === 'redis' ? await nodeRedis(client, url) : await ioredis(client, url);
  const info = await single.info().catch(() => '');
  if (!/^(?:cluster_enabled:1|sentinel_masters:)/m.test(info)) return single;
  single.close();
  if (!/^cluster_enabled:1/m.test(info)) throw new Error('this is a Sentinel: give the address of the master');
  return name === 'redis' ? nodeRedisCluster(client, url) : ioredisCluster(client, url);
}

/** Loads the client beside this package, or in the project where the command runs. Loads only the core of node-redis, which is faster. */
function installed(): [name: string, module: LoadedClient] {
  for (const from of [__filename, join(process.cwd(), 'package.json')]) {
    for (const name of ['redis', 'ioredis', 'iovalkey']) {
      try {
        return [name, loaded(name, createRequire(from))];
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
      }
    }
  }
  throw new Exit(exitCodes.unreachable, 'no client of Redis is installed: npm install redis (or ioredis, or iovalkey)');
}

function loaded(name: string, from: NodeJS.Require): LoadedClient {
  if (name === 'redis') {
    try {
      return createRequire(from.resolve(name))('@redis/client');
    } catch {} // The whole package is loaded then.
  }
  return from(name);
}

function again(times: number): number {
  return Math.min(times * 50, maxPauseMs);
}

async function nodeRedis({ createClient }: LoadedClient, url: URL): Promise<Opened & { info(): Promise<string> }> {
  let isOpen = false;
  const reconnectStrategy = (times: number, cause: Error): number | Error => (isOpen ? again(times + 1) : cause);
  const redis = createClient({ url: url.href, socket: { connectTimeout: connectMs, reconnectStrategy } });
  redis.on('error', () => {});
  await redis.connect();
  isOpen = true;
  return { redis, info: () => redis.info(), close: () => endNodeRedis(redis) };
}

async function nodeRedisCluster({ createCluster }: LoadedClient, url: URL): Promise<Opened> {
  const { username, password } = url;
  const defaults = {
    username: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
  };
  const redis = createCluster({ rootNodes: [{ url: url.href }], defaults });
  redis.on('error', () => {});
  await redis.connect();
  return { redis, close: () => endNodeRedis(redis) };
}

function endNodeRedis(redis: LoadedClient): void {
  try {
    if (redis.destroy) redis.destroy();
    else void redis.disconnect().catch(() => {});
  } catch {} // The client was closed already.
}

async function ioredis(module: LoadedClient, url: URL): Promise<Opened & { info(): Promise<string> }> {
  const Redis = module.Redis ?? module.default ?? module;
  let isOpen = false;
  let cause: unknown;
  const retryStrategy = (times: number): number | null => (isOpen ? again(times) : null);
  const redis = new Redis(url.href, {
    lazyConnect: true,
    connectTimeout: connectMs,
    maxRetriesPerRequest: null,
    retryStrategy,
  });
  redis.on('error', (error: unknown) => {
    cause = error;
  });
  await redis.connect().catch((error: unknown) => {
    throw cause ?? error;
  });
  isOpen = true;
  return { redis, info: () => redis.info(), close: () => redis.disconnect() };
}

async function ioredisCluster(module: LoadedClient, url: URL): Promise<Opened> {
  const Cluster = module.Cluster ?? module.default?.Cluster;
  const { hostname: host, port, protocol, username, password } = url;
  const tls = protocol === 'rediss:' ? {} : undefined;
  const redisOptions = {
    username: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
    tls,
  };
  const redis = new Cluster([{ host, port: Number(port || 6379) }], { lazyConnect: true, redisOptions });
  redis.on('error', () => {});
  await redis.connect();
  return { redis, close: () => redis.disconnect() };
}

function withDeadline<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no reply within ${connectMs} ms`)), connectMs);
    const onAbort = (): void => reject(signal!.reason);
    signal?.addEventListener('abort', onAbort);
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
  });
}

/** The reason of an error in one line, without secrets of the address. */
function reasonOf(error: unknown, url: URL): string {
  const { message, code, errors } = error as { message?: string; code?: string; errors?: Error[] };
  const text = (message || errors?.[0]?.message || code || String(error)).split('\n')[0]!;
  return [url.password, decodeURIComponent(url.password)].reduce(
    (left, secret) => (secret ? left.replaceAll(secret, '…') : left),
    text,
  );
}
