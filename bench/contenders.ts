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

const takeOrWait = `
  if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return redis.call('INCR', KEYS[2]) end
  redis.call('RPUSH', KEYS[3], ARGV[1])
  return 0`;
const handOn = `
  local next = redis.call('LPOP', KEYS[3])
  if not next then return redis.call('DEL', KEYS[1]) end
  redis.call('SET', KEYS[1], next)
  return redis.call('PUBLISH', next, redis.call('INCR', KEYS[2]))`;

/**
 * The least that hands a lock on from connection to connection in order: a list of those that wait, a counter, and a message to the
 * first. Nothing ends or is repaired: a process that dies stops all. What it costs is the machine's part of what a queue costs.
 */
function bareQueue(client: RedisClientType): Locks {
  const channel = randomUUID();
  let granted: (fence: string) => void;
  const loaded = (async () => {
    const subscriber = await client.duplicate().connect();
    await subscriber.subscribe(channel, (fence) => granted(fence));
    return [await client.scriptLoad(takeOrWait), await client.scriptLoad(handOn)] as const;
  })();
  return {
    async acquire(key) {
      const [take, release] = await loaded;
      const names = { keys: [key, `${key}:fence`, `${key}:waiting`], arguments: [channel] };
      const grant = new Promise<string>((resolve) => {
        granted = resolve;
      });
      const fence = (await client.evalSha(take, names)) || (await grant);
      return Object.assign(() => client.evalSha(release, names), { fence: Number(fence) });
    },
  };
}

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
  'a bare queue': { package: 'redis', peer: false, settings: only('node-redis'), make: bareQueue },
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
