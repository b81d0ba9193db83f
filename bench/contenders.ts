// The contenders, each behind one small interface and set up the way its own documentation shows. A contender names the
// settings to try; main takes the best of them in each scenario and says which.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { RedisClientType } from 'redis';
import { buildBefore } from './build-before';
import { shimContenders } from './shims';

export type ClientKind = 'node-redis' | 'ioredis' | 'ioredis, auto-pipelining' | 'none';

/** A choice that is made for one contender, for its own good. */
export interface Setting {
  readonly client: ClientKind;
  /** Pause between attempts of one that polls. */
  readonly retryMs?: number;
  /** For node-redis, whose default of 5 s is too short for a thousand attempts at once. */
  readonly commandTimeoutMs?: number;
}

/** The requirements of a scenario, the same for every contender. */
export interface Terms {
  readonly lifetimeMs: number;
  /** True if another caller may hold the key: the contender waits for it. */
  readonly contended: boolean;
  /** True if contenders that can mint fences do so. */
  readonly fencing: boolean;
}

export type Release = () => Promise<unknown>;

export interface Locks {
  /** For readers and a writer: acquires to read. */
  acquire(key: string): Promise<Release>;
  write?(key: string): Promise<Release>;
  /** Acquires and releases in one call, where that is another way. */
  pair?(key: string): Promise<void>;
  cached?(key: string, load: () => Promise<string>): Promise<unknown>;
}

export interface Contender {
  /** The package whose version is reported. */
  readonly package: string;
  /** Another library, to be compared with: neither a hand-written floor, nor the bound, nor ourselves. */
  readonly peer: boolean;
  settings(contended: boolean): readonly Setting[];
  /** `client` is the connected one that the setting needs; a list of them where the scenario is a quorum. */
  make(client: any, setting: Setting, terms: Terms): Locks;
}

/** The permits of every semaphore here. */
export const permits = 8;
/** The longest wait: with 1,000 waiters some of them take very long. */
const waitMs = 60_000;

const nothing = async (): Promise<void> => {};

const compareAndDelete =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

const only = (client: ClientKind) => () => [{ client }];

/** Auto-pipelining on or off; and where others may hold the key, three pauses with it, one without. */
const ioredisSettings = (contended: boolean): readonly Setting[] =>
  contended
    ? [
        ...[1, 5, 20].map((retryMs): Setting => ({ client: 'ioredis, auto-pipelining', retryMs })),
        { client: 'ioredis', retryMs: 5 },
      ]
    : [{ client: 'ioredis' }, { client: 'ioredis, auto-pipelining' }];

/** The hand-written pair: SET NX PX (again each 5 ms), and EVALSHA of compare-and-delete. No fence, no validity. */
function raw(
  set: (key: string, token: string) => Promise<string | null>,
  evalsha: (sha: string, key: string, token: string) => Promise<unknown>,
  load: () => Promise<string>,
): Locks {
  let sha: Promise<string> | undefined;
  return {
    async acquire(key) {
      sha ??= load();
      const loaded = await sha;
      const token = randomUUID();
      while ((await set(key, token)) !== 'OK') await sleep(5);
      return () => evalsha(loaded, key, token);
    },
  };
}

const rawIoredis = (client: ClientKind): Contender => ({
  package: 'ioredis',
  peer: false,
  settings: only(client),
  make: (redis: Redis, _, { lifetimeMs }) =>
    raw(
      (key, token) => redis.set(key, token, 'PX', lifetimeMs, 'NX'),
      (sha, key, token) => redis.evalsha(sha, 1, key, token),
      () => redis.script('LOAD', compareAndDelete) as Promise<string>,
    ),
});

/** A call of a bare lock; with `release`, the lock is given back. */
interface BareCall {
  readonly key: string;
  readonly token: string;
  readonly release: boolean;
  readonly resolve: () => void;
}

const releaseAndTake = `
  local releases, calls = tonumber(ARGV[1]), (#KEYS - 1) / 2
  if redis.call('EXISTS', unpack(KEYS, calls + 1, 2 * calls)) > 0 then return redis.error_reply('QUEUED') end
  local ours = {}
  local held = releases > 0 and redis.call('MGET', unpack(KEYS, 1, releases))
  for i = 1, releases do
    if held[i] == ARGV[3 + i] then ours[#ours + 1] = KEYS[i] end
  end
  if #ours > 0 then redis.call('DEL', unpack(ours)) end
  if releases == calls then return 0 end
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  if micros / 1000 > tonumber(ARGV[3]) then return redis.error_reply('LATE') end
  local fence = math.max((redis.call('GET', KEYS[#KEYS]) or 0) + 1, micros)
  redis.call('SET', KEYS[#KEYS], string.format('%.0f', fence + calls - releases - 1))
  for i = releases + 1, calls do
    if not redis.call('SET', KEYS[i], ARGV[3 + i], 'NX', 'PX', ARGV[2]) then return redis.error_reply('BUSY') end
  end
  return fence`;

/**
 * The least that takes a lock with a fence, not after its deadline and not past a queue, and gives it back: the calls of a tick in one
 * script, 128 at most. Nobody can wait for it, and nothing is checked, observed, renewed or repaired. It is what any library must cost.
 */
function bareLock(
  load: (lua: string) => Promise<string>,
  evalsha: (sha: string, keys: readonly string[], args: readonly string[]) => Promise<unknown>,
  lifetimeMs: number,
): Locks {
  let loading: Promise<string> | undefined;
  let sha = '';
  const calls: BareCall[] = [];
  const flush = (): void => {
    const some = calls.splice(0, 128);
    if (calls.length > 0) setImmediate(flush);
    const [releases, takes] = [some.filter(({ release }) => release), some.filter(({ release }) => !release)];
    const inOrder = [...releases, ...takes];
    const keys = [...inOrder.map(({ key }) => key), ...inOrder.map(({ key }) => `{${key}}:queue`), 'bench:fence'];
    const terms = [String(releases.length), String(lifetimeMs), String(Date.now() + 1000)];
    const answered = (): void => {
      for (const { resolve } of inOrder) resolve();
    };
    evalsha(sha, keys, [...terms, ...inOrder.map(({ token }) => token)]).then(answered, (error) => {
      console.error(error);
      process.exit(1);
    });
  };
  const call = (key: string, token: string, release: boolean): Promise<void> =>
    new Promise((resolve) => {
      if (calls.length === 0) process.nextTick(flush);
      calls.push({ key, token, release, resolve });
    });
  return {
    async acquire(key) {
      loading ??= load(releaseAndTake);
      sha ||= await loading;
      const token = randomUUID();
      await call(key, token, false);
      return () => call(key, token, true);
    },
  };
}

const takeOrWait = `
  local weight, capacity = tonumber(ARGV[2]), tonumber(ARGV[3])
  if (redis.call('GET', KEYS[1]) or 0) + weight <= capacity and redis.call('LLEN', KEYS[3]) == 0 then
    redis.call('INCRBY', KEYS[1], weight)
    return redis.call('INCR', KEYS[2])
  end
  redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[1])
  return 0`;
const handOn = `
  local held, capacity = redis.call('DECRBY', KEYS[1], ARGV[2]), tonumber(ARGV[3])
  while held < capacity do
    local first = redis.call('LINDEX', KEYS[3], 0)
    local weight = first and tonumber(string.match(first, '^%d+'))
    if not first or held + weight > capacity then break end
    held = redis.call('INCRBY', KEYS[1], weight)
    redis.call('LPOP', KEYS[3])
    redis.call('PUBLISH', string.match(first, ' (.*)'), redis.call('INCR', KEYS[2]))
  end
  return 1`;

/**
 * The least that hands a lock on from connection to connection in order: a count of what is held, a list of those that wait, a counter,
 * and a message to each that is next. Nothing ends or is repaired: a process that dies stops all. It is the machine's part of a queue's cost.
 *
 * @param capacity The holders that there may be at once. A writer takes the place of all.
 */
const bareQueue = (capacity: number): Contender => ({
  package: 'redis',
  peer: false,
  settings: only('node-redis'),
  make(client: RedisClientType) {
    const channel = randomUUID();
    let granted: (fence: string) => void;
    const loaded = (async () => {
      const subscriber = await client.duplicate().connect();
      await subscriber.subscribe(channel, (fence) => granted(fence));
      return [await client.scriptLoad(takeOrWait), await client.scriptLoad(handOn)] as const;
    })();
    const take = async (key: string, weight: number): Promise<Release> => {
      const [acquire, release] = await loaded;
      const names = {
        keys: [key, `${key}:fence`, `${key}:waiting`],
        arguments: [channel, String(weight), String(capacity)],
      };
      const grant = new Promise<string>((resolve) => {
        granted = resolve;
      });
      const fence = (await client.evalSha(acquire, names)) || (await grant);
      return Object.assign(() => client.evalSha(release, names), { fence: Number(fence) });
    };
    return { acquire: (key) => take(key, 1), write: (key) => take(key, capacity) };
  },
});

/** Both Redlocks: endless attempts for the acquire only, since a release that is refused would be repeated too. */
function redlock(instance: any, { retryMs = 5 }: Setting, { lifetimeMs, contended }: Terms): Locks {
  const retries = { retryCount: contended ? -1 : 0, retryDelay: retryMs, retryJitter: Math.ceil(retryMs / 2) };
  return {
    async acquire(key) {
      const lock = await instance.acquire([key], lifetimeMs, retries);
      return () => lock.release();
    },
  };
}

export const contenders: Readonly<Record<string, Contender>> = {
  'raw node-redis': {
    package: 'redis',
    peer: false,
    settings: only('node-redis'),
    make: (client: RedisClientType, _, { lifetimeMs }) =>
      raw(
        (key, token) => client.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: lifetimeMs } }),
        (sha, key, token) => client.evalSha(sha, { keys: [key], arguments: [token] }),
        () => client.scriptLoad(compareAndDelete),
      ),
  },
  'a bare lock': {
    package: 'redis',
    peer: false,
    settings: only('node-redis'),
    make: (client: RedisClientType, _, { lifetimeMs }) =>
      bareLock(
        (lua) => client.scriptLoad(lua),
        (sha, keys, args) => client.evalSha(sha, { keys: [...keys], arguments: [...args] }),
        lifetimeMs,
      ),
  },
  'a bare lock, ioredis': {
    package: 'ioredis',
    peer: false,
    settings: only('ioredis'),
    make: (redis: Redis, _, { lifetimeMs }) =>
      bareLock(
        (lua) => redis.script('LOAD', lua) as Promise<string>,
        (sha, keys, args) => redis.evalsha(sha, keys.length, ...keys, ...args),
        lifetimeMs,
      ),
  },
  'a bare queue': bareQueue(1),
  'a bare queue of readers and writers': bareQueue(1_000_000),
  [`a bare queue of ${permits}`]: bareQueue(permits),
  'raw ioredis': rawIoredis('ioredis'),
  'raw ioredis, auto-pipelining': rawIoredis('ioredis, auto-pipelining'),
  redlock: {
    package: 'redlock',
    peer: true,
    settings: ioredisSettings,
    make(client, setting, terms) {
      const { default: Redlock } = require('redlock'); // its types cannot be found through its `exports`
      return redlock(new Redlock([client].flat(), { retryCount: 0 }), setting, terms);
    },
  },
  '@sesamecare-oss/redlock': {
    package: '@sesamecare-oss/redlock',
    peer: true,
    settings: ioredisSettings,
    make(client, setting, terms) {
      const { Redlock } = require('@sesamecare-oss/redlock') as typeof import('@sesamecare-oss/redlock');
      return redlock(new Redlock([client].flat(), { retryCount: 0 }), setting, terms);
    },
  },
  'redis-semaphore': {
    package: 'redis-semaphore',
    peer: true,
    settings: ioredisSettings,
    make(client, { retryMs = 5 }, { lifetimeMs, contended }) {
      const { Mutex } = require('redis-semaphore') as typeof import('redis-semaphore');
      const options = {
        lockTimeout: lifetimeMs,
        refreshInterval: 0, // else a timer for each lock
        retryInterval: retryMs,
        ...(contended ? { acquireTimeout: waitMs } : { acquireAttemptsLimit: 1 }),
      };
      return {
        async acquire(key) {
          const mutex = new Mutex(client, key, options);
          await mutex.acquire();
          return () => mutex.release();
        },
      };
    },
  },
  'redlock-universal': {
    package: 'redlock-universal',
    peer: true,
    settings: (contended) => [
      ...ioredisSettings(contended),
      { client: 'node-redis', ...(contended && { retryMs: 5 }) },
    ],
    make(client, setting, { lifetimeMs, contended }) {
      const { createLock, IoredisAdapter, NodeRedisAdapter } =
        require('redlock-universal') as typeof import('redlock-universal');
      const adapter =
        setting.client === 'node-redis' ? NodeRedisAdapter.from(client) : IoredisAdapter.from(client as any);
      const { retryMs = 5 } = setting;
      const retryAttempts = contended ? Math.ceil(waitMs / retryMs) : 0;
      return {
        async acquire(key) {
          // Lean is its fastest; a lock of its own for each holder, as its handles want.
          const options = { adapter, key, ttl: lifetimeMs, retryAttempts, retryDelay: retryMs };
          const lock = createLock({ ...options, performance: 'lean' });
          const handle = await lock.acquire();
          return () => lock.release(handle);
        },
      };
    },
  },
  'simple-redis-mutex': {
    package: 'simple-redis-mutex',
    peer: true,
    // It is notified of releases by Pub/Sub; the pause is that of its safety net.
    settings: (contended) =>
      contended
        ? [10_000, 1000].map((retryMs) => ({ client: 'node-redis', retryMs, commandTimeoutMs: waitMs }))
        : [{ client: 'node-redis' }],
    make(client, { retryMs = 10_000 }, { lifetimeMs, contended }) {
      const { lock } = require('simple-redis-mutex') as typeof import('simple-redis-mutex');
      const options = { timeout: lifetimeMs, pollingInterval: retryMs, ...(contended && { failAfter: waitMs }) };
      return { acquire: (key) => lock(client, key, options) };
    },
  },
  /** The bound of one process: no Redis at all. */
  'async-mutex': {
    package: 'async-mutex',
    peer: false,
    settings: only('none'),
    make() {
      const { Mutex } = require('async-mutex') as typeof import('async-mutex');
      const mutexes = new Map<string, import('async-mutex').Mutex>();
      return {
        async acquire(key) {
          const mutex = mutexes.get(key) ?? new Mutex();
          mutexes.set(key, mutex);
          const release = await mutex.acquire();
          return async () => release();
        },
      };
    },
  },
  /** The same, by its own `runExclusive`: what a function that runs under a lock costs it. */
  'async-mutex, runExclusive': {
    package: 'async-mutex',
    peer: false,
    settings: only('none'),
    make() {
      const { Mutex } = require('async-mutex') as typeof import('async-mutex');
      const mutexes = new Map<string, import('async-mutex').Mutex>();
      return {
        acquire: () => Promise.reject(new Error('it runs functions only')),
        pair(key) {
          const mutex = mutexes.get(key) ?? new Mutex();
          mutexes.set(key, mutex);
          return mutex.runExclusive(nothing);
        },
      };
    },
  },
  'redis-exp-lock': ours('node-redis'),
  'redis-exp-lock, ioredis': ours('ioredis'),
  'the build before': ours('node-redis', () => join(buildBefore(), 'lib/index')),
  'RWLock, writers first': ourRWLock('writer'),
  'RWLock, readers first': ourRWLock('reader'),
  'RWLock, fair': ourRWLock('fair'),
  'Semaphore of 8': {
    package: '..',
    peer: false,
    settings: only('node-redis'),
    make(redis, _, { lifetimeMs }) {
      const { Semaphore }: Library = require(lib);
      const semaphores = new Map<string, import('../src/index').Semaphore>();
      return {
        acquire(key) {
          const ours =
            semaphores.get(key) ?? new Semaphore(key, permits, { redis, lifetime: lifetimeMs, timeout: waitMs });
          semaphores.set(key, ours);
          return ours.acquire();
        },
      };
    },
  },
  'redis-semaphore, Semaphore of 8': {
    package: 'redis-semaphore',
    peer: false,
    settings: ioredisSettings,
    make(client, { retryMs = 5 }, { lifetimeMs }) {
      const { Semaphore } = require('redis-semaphore') as typeof import('redis-semaphore');
      const options = { lockTimeout: lifetimeMs, refreshInterval: 0, retryInterval: retryMs, acquireTimeout: waitMs };
      return {
        async acquire(key) {
          const semaphore = new Semaphore(client, key, permits, options);
          await semaphore.acquire();
          return () => semaphore.release();
        },
      };
    },
  },
  'redis-exp-lock, memory': withoutRedis('uuid', ({ memoryStore }) => memoryStore()),
  ...shimContenders,
  'redis-exp-lock, shared memory': withoutRedis('..', ({ sharedMemoryStore }) => sharedMemoryStore('bench')),
};

/** The library as built and published, file by file: a path that is put together keeps it out of the bundle of a round. */
export const lib = join(__dirname, '../lib/index');

type Library = typeof import('../src/index');

function ours(client: ClientKind, from = (): string => lib): Contender {
  return {
    package: '..',
    peer: false,
    settings: only(client),
    make(redis, _, { lifetimeMs, contended, fencing }) {
      const redisExpLock: Library = require(from());
      const options = { redis, lifetime: lifetimeMs, fencing, ...(contended && { timeout: waitMs }) };
      const withLock = redisExpLock(options);
      return {
        acquire: (key) => withLock.promise(key),
        cached: (key, load) => withLock.cached(key, { ttl: lifetimeMs }, load),
      };
    },
  };
}

function ourRWLock(prefer: 'writer' | 'reader' | 'fair'): Contender {
  return {
    package: '..',
    peer: false,
    settings: only('node-redis'),
    make(redis, _, { lifetimeMs }) {
      const { RWLock }: Library = require(lib);
      const locks = new Map<string, import('../src/index').RWLock>();
      const lockOf = (key: string): import('../src/index').RWLock => {
        const lock = locks.get(key) ?? new RWLock(key, { redis, prefer, lifetime: lifetimeMs, timeout: waitMs });
        locks.set(key, lock);
        return lock;
      };
      return { acquire: (key) => lockOf(key).acquireRead(), write: (key) => lockOf(key).acquireWrite() };
    },
  };
}

function withoutRedis(packageName: string, store: (library: Library) => import('../src/index').Store): Contender {
  return {
    package: packageName,
    peer: false,
    settings: only('none'),
    make(_client, _setting, { lifetimeMs, contended, fencing }) {
      const library: Library = require(lib);
      const options = { lifetime: lifetimeMs, fencing, ...(contended && { timeout: waitMs }) };
      const withLock = library({ redis: store(library), ...options });
      return { acquire: (key) => withLock.promise(key) };
    },
  };
}
