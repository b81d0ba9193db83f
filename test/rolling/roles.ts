/** The ways to hold and to wait for a key, each for either build, in this process or in a child. */
import type redisExpLock from '../../src/index';
import type { Client } from '../support/redis';
import type { Build } from './versions';

export interface Place {
  readonly redis: Client;
  /** Three servers that know nothing of each other. */
  readonly nodes: readonly Client[];
}

/** A key that is held in some role. */
export interface Held {
  /** Absent where a shim has none. */
  readonly fence?: number;
  /** Aborts when the lock is lost; absent where a shim does not say so. */
  readonly signal?: AbortSignal;
  /** Resolves with false if the lock was lost before. */
  leave(): Promise<boolean>;
}

export interface Terms {
  readonly key: string;
  readonly lifetime: number;
}

/** Waits for the key, renews it, and resolves when it is held. */
export type Enter = (build: Build, place: Place, terms: Terms) => Promise<Held>;

const waitMs = 120_000;

function heldBy(lease: redisExpLock.Lease): Held {
  return { fence: lease.fence, signal: lease.signal, leave: () => lease.release() };
}

/** A lock of the factory. */
function locking(more: redisExpLock.Options, keysOf = (key: string): redisExpLock.Key => key): Enter {
  return async ({ library }, { redis }, { key, lifetime }) => {
    const withLock = library({ redis, lifetime, autoExtend: true, ...more });
    return heldBy(await withLock.promise(keysOf(key)));
  };
}

function sharing(acquire: 'acquireRead' | 'acquireWrite'): Enter {
  return async ({ library }, { redis }, { key, lifetime }) => {
    const lock = new library.RWLock(key, { redis, lifetime, autoExtend: true, timeout: waitMs });
    return heldBy(await lock[acquire]());
  };
}

/** A lock object of the shim for redis-semaphore. */
function peerLocking(
  make: (
    build: Build,
    place: Place,
    key: string,
    options: object,
  ) => { acquire(): Promise<void>; release(): Promise<void> },
): Enter {
  return async (build, place, { key, lifetime }) => {
    const lost = new AbortController();
    const onLockLost = (error: Error): void => lost.abort(error);
    const lock = make(build, place, key, {
      lockTimeout: lifetime,
      acquireTimeout: waitMs,
      retryInterval: 20,
      onLockLost,
    });
    await lock.acquire();
    const leave = async (): Promise<boolean> => {
      await lock.release();
      return !lost.signal.aborted;
    };
    return { signal: lost.signal, leave };
  };
}

const leader: Enter = async ({ library }, { redis }, { key, lifetime }) => {
  const election = new library.Election(key, { redis, lifetime });
  return new Promise<Held>((resolve, reject) => {
    const led = election.lead((term) => {
      return new Promise<boolean>((end) => {
        const leave = async (): Promise<boolean> => {
          const isLed = !term.signal.aborted;
          end(isLed);
          if (isLed) await led;
          await election.close({ drain: false }); // after a loss, it would stand again
          return isLed;
        };
        resolve({ fence: term.fence, signal: term.signal, leave });
      });
    });
    led.catch(reject);
  });
};

const redlock: Enter = async (build, { redis }, { key, lifetime }) => {
  const locks = new build.redlock.default([redis], { retryCount: -1, retryDelay: 20, retryJitter: 10 });
  const lock = await locks.acquire([key], lifetime);
  return {
    leave: () =>
      locks.release(lock, { retryCount: 0 }).then(
        () => true,
        () => false,
      ),
  };
};

export const roles = {
  queued: locking({ timeout: waitMs }),
  polling: locking({ maxRetries: 100_000, retryTimeout: 20, maxRetryTimeout: 20 }),
  'several keys': locking({ timeout: waitMs }, (key) => [`${key}:b`, key, `${key}:a`]),
  reader: sharing('acquireRead'),
  writer: sharing('acquireWrite'),
  permits: async ({ library }, { redis }, { key, lifetime }) => {
    const semaphore = new library.Semaphore(key, 3, { redis, lifetime, autoExtend: true, timeout: waitMs });
    return heldBy(await semaphore.acquire(2));
  },
  leader,
  quorum: async (build, { nodes }, terms) => {
    const more = { redis: nodes, timeout: waitMs, commandTimeout: 5_000 };
    return locking(more)(build, { redis: nodes[0]!, nodes }, terms);
  },
  redlock,
  Mutex: peerLocking(({ redisSemaphore: { Mutex } }, { redis }, key, options) => new Mutex(redis, key, options)),
  RedlockMutex: peerLocking(({ redisSemaphore: { RedlockMutex } }, { nodes }, key, options) => {
    return new RedlockMutex([...nodes], key, options);
  }),
  Semaphore: peerLocking(({ redisSemaphore: { Semaphore } }, { redis }, key, options) => {
    return new Semaphore(redis, key, 1, options);
  }),
  MultiSemaphore: peerLocking(({ redisSemaphore: { MultiSemaphore } }, { redis }, key, options) => {
    return new MultiSemaphore(redis, key, 3, 2, options);
  }),
} satisfies Record<string, Enter>;

export type Role = keyof typeof roles;

/** Roles that exclude each other on one key. */
export const pairs: readonly (readonly [holder: Role, waiter: Role])[] = [
  ['queued', 'queued'],
  ['queued', 'polling'],
  ['polling', 'queued'],
  ['several keys', 'several keys'],
  ['reader', 'writer'],
  ['writer', 'reader'],
  ['writer', 'writer'],
  ['permits', 'permits'],
  ['leader', 'leader'],
  ['quorum', 'quorum'],
  ['redlock', 'redlock'],
  ['Mutex', 'Mutex'],
  ['RedlockMutex', 'RedlockMutex'],
  ['Semaphore', 'Semaphore'],
  ['MultiSemaphore', 'MultiSemaphore'],
];

/** Roles that have an entry in the queue of their key. */
export const queuedRoles: readonly Role[] = ['queued', 'reader', 'writer', 'permits', 'leader'];
