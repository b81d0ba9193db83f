// The connection to the locks: to Redis with the installed client, or to shared memory, as the options or the environment say. A server
// that cannot be reached at the start is an error. A server that goes away later may come back.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RedisLike } from '../../core/redis-like';
import { sharedMemoryStore } from '../../store/embedded/shared-memory/shared-memory';
import type { ScriptClient } from '../../store/redis/client';
import { scriptClient } from '../../store/redis/clients/script-client';
import { Exit, exitCodes, usage } from './exit';

export type LockPlace = { readonly url: URL } | { readonly table: string };

export interface CliConnection {
  readonly redis: RedisLike;
  /** The address, without a password. */
  readonly name: string;
  /** The installed client and its version; undefined if there is no server. */
  readonly client: string | undefined;
  /** Functions that send a command to each master; undefined if there is no server. */
  readonly masters: ScriptClient['masters'];
  close(): void;
}

type LoadedClient = Record<string, any>;

type Opened = Pick<CliConnection, 'close'> & { readonly redis: LoadedClient };

const defaultUrl = 'redis://127.0.0.1:6379';
const connectMs = 5000;
const maxPauseMs = 500;

/** Reads the place from the options. Nothing connects yet. @throws {Exit} an impossible address. */
export function placeOf(values: Readonly<Record<string, unknown>>): LockPlace {
  if (values.store !== undefined) {
    throw usage('--store: memory is of one process alone, and a command is one; use --url, or --shared-memory NAME');
  }
  const table = values['shared-memory'];
  if (table !== undefined) {
    if (values.url !== undefined) throw usage('--url and --shared-memory name two places');
    return { table: String(table) };
  }
  const text = String(values.url ?? (process.env.REDIS_URL || defaultUrl));
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^(rediss?|valkeys?):$/.test(url.protocol) || url.hostname === '') {
    throw usage('--url (or REDIS_URL): an address such as redis://127.0.0.1:6379');
  }
  try {
    credentialsOf(url);
  } catch {
    throw usage('--url (or REDIS_URL): a % in the name or the password is written %25');
  }
  url.protocol = url.protocol.replace('valkey', 'redis');
  return { url };
}

/** Connects. @throws {Exit} the server cannot be reached, or no client is installed. @throws the reason of `signal` when it aborts. */
export async function connect(place: LockPlace, signal?: AbortSignal): Promise<CliConnection> {
  if ('table' in place) {
    const store = sharedMemoryStore(place.table);
    const name = `shared memory ${place.table}`;
    return { redis: store, name, client: undefined, masters: undefined, close: () => void store.close() };
  }
  const { url } = place;
  const name = `${url.protocol}//${url.host}`;
  try {
    const { redis, client, close } = await inTime(open(url), connectMs, signal);
    return { redis: redis as RedisLike, name, client, masters: scriptClient(redis).masters, close };
  } catch (error) {
    if (error instanceof Exit) throw error;
    throw new Exit(exitCodes.unreachable, `Redis at ${name} cannot be reached: ${reasonOf(error, url)}`);
  }
}

async function open(url: URL): Promise<Opened & { readonly client: string }> {
  const { name, version, module } = installed();
  const client = `${name} ${version}`;
  const openWith = name === 'redis' ? openNodeRedis : openIoredis;
  const single = await openWith(module, url, false);
  const info = await single.redis.info().catch(() => '');
  if (!/^(?:cluster_enabled:1|sentinel_masters:)/m.test(info)) return { ...single, client };
  single.close();
  if (!/^cluster_enabled:1/m.test(info)) throw new Error('this is a Sentinel: give the address of the master');
  return { ...(await openWith(module, url, true)), client };
}

/** Loads the client beside this package, or in the project where the command runs. */
function installed(): { name: string; version: string; module: LoadedClient } {
  for (const from of [__filename, join(process.cwd(), 'package.json')]) {
    for (const name of ['redis', 'ioredis', 'iovalkey']) {
      try {
        const require = createRequire(from);
        const { version } = require(`${name}/package.json`);
        // The core of node-redis, which always comes with it, loads in 30 ms less than the whole package.
        const module = name === 'redis' ? createRequire(require.resolve(name))('@redis/client') : require(name);
        return { name, version, module };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
      }
    }
  }
  throw new Exit(exitCodes.unreachable, 'no client of Redis is installed: npm install redis (or ioredis, or iovalkey)');
}

function againMs(times: number): number {
  return Math.min(times * 50, maxPauseMs);
}

async function openNodeRedis(module: LoadedClient, url: URL, isCluster: boolean): Promise<Opened> {
  let isOpen = false;
  const reconnectStrategy = (times: number, cause: Error): number | Error => (isOpen ? againMs(times + 1) : cause);
  const redis = isCluster
    ? module.createCluster({ rootNodes: [{ url: url.href }], defaults: credentialsOf(url) })
    : module.createClient({ url: url.href, socket: { connectTimeout: connectMs, reconnectStrategy } });
  redis.on('error', () => {});
  await redis.connect();
  isOpen = true;
  const end = async (): Promise<void> => (redis.destroy ? redis.destroy() : redis.disconnect());
  return { redis, close: () => void end().catch(() => {}) }; // The client may be closed already.
}

async function openIoredis(module: LoadedClient, url: URL, isCluster: boolean): Promise<Opened> {
  let isOpen = false;
  let cause: unknown;
  const retryStrategy = (times: number): number | null => (isOpen ? againMs(times) : null);
  const single = { lazyConnect: true, connectTimeout: connectMs, maxRetriesPerRequest: null, retryStrategy };
  const { Redis = module } = module; // Before 5.3, ioredis exports the class alone.
  const redis = isCluster ? ioredisCluster(module, url) : new Redis(url.href, single);
  redis.on('error', (error: unknown) => {
    cause = error;
  });
  await redis.connect().catch((error: unknown) => {
    throw isCluster ? error : (cause ?? error);
  });
  isOpen = true;
  return { redis, close: () => redis.disconnect() };
}

function ioredisCluster(module: LoadedClient, url: URL): LoadedClient {
  const { hostname: host, port, protocol } = url;
  const redisOptions = { ...credentialsOf(url), ...(protocol === 'rediss:' && { tls: {} }) };
  return new module.Cluster([{ host, port: Number(port || 6379) }], { lazyConnect: true, redisOptions });
}

function credentialsOf({ username, password }: URL): { username?: string; password?: string } {
  return {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
  };
}

/** The reason of an error in one line, without secrets of the address. */
function reasonOf(error: unknown, url: URL): string {
  const { message, code, errors } = error as { message?: string; code?: string; errors?: Error[] };
  const text = (message || errors?.[0]?.message || code || String(error)).split('\n')[0]!;
  if (url.password === '') return text;
  return text.replaceAll(url.password, '…').replaceAll(decodeURIComponent(url.password), '…');
}

/** Settles as `work` does. Rejects after `ms`, or with the reason of the signal when it aborts. */
export function inTime<T>(work: Promise<T>, ms: number, signal?: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no reply within ${ms} ms`)), ms);
    const onAbort = (): void => reject(signal!.reason);
    signal?.addEventListener('abort', onAbort);
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
  });
}
