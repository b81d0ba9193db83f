// The keys that redlock and redis-semaphore take and the library itself refuses: the shims lock each that can be no key of ours.
import { once } from 'node:events';
import { expect } from 'chai';
import type { Redis } from 'ioredis';
import * as permitsPeer from 'redis-semaphore';
import * as permitsShim from '../../src/compat/redis-semaphore';
import * as redlockShim from '../../src/compat/redlock';
import { sharedRedis, startRedis, uniqueKey } from '../support/redis';
import { connect, disconnectAll } from './connections';

/** Its types cannot be found through its `exports`. */
const redlockPeer = require('redlock') as typeof redlockShim;

const oneAttempt = { retryCount: 0 };
const patient = { retryCount: -1, retryDelay: 10, retryJitter: 0 };
/** Longer than any test waits: only a release can end this pause. */
const wokenOnly = { retryCount: 1, retryDelay: 10_000_000, retryJitter: 0 };

type Name = (base: string) => string;

/** No companion has such a name, since companions have a hash tag. */
const taken: Record<string, Name> = {
  'ends with :fence': (base) => `${base}:fence`,
  'ends with :queue': (base) => `${base}:queue`,
  'ends with :fence behind a hash tag': (base) => `{${base}}:fence`,
  'has 2,000 bytes': (base) => base.padEnd(2000, 'x'),
};

const oddBraces: Record<string, Name> = {
  'has braces without a hash tag': (base) => `${base}{}`,
  'begins with {}': (base) => `{}${base}`,
};

const refused: Record<string, Name> = {
  'is the queue of another lock': (base) => `{${base}}:queue`,
  ...oddBraces,
};

async function failureOf(work: () => unknown): Promise<any> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  return expect.fail('it did not fail');
}

describe('H12 keys that only the shims lock', () => {
  let port: number;
  let redis: Redis;
  let base: string;

  before(async () => {
    ({ port } = await sharedRedis());
    redis = connect(port);
  });

  beforeEach(() => {
    base = uniqueKey('shim');
  });

  after(() => {
    disconnectAll();
  });

  const leftOf = (): Promise<string[]> => redis.keys(`*${base}*`);

  describe('redis-exp-lock/redlock', () => {
    const shim = (settings: Partial<redlockShim.Settings>) => new redlockShim.Redlock([redis], settings);

    for (const [what, named] of Object.entries(taken)) {
      describe(`a key that ${what}`, () => {
        it('is locked as redlock locks it, and each excludes the other', async () => {
          const resources = [named(base)];
          const peer = new redlockPeer.default([redis], oneAttempt);
          const lock = await shim(oneAttempt).acquire(resources, 60_000);
          expect(await redis.get(resources[0]!)).to.equal(lock.value);
          expect(await leftOf()).to.deep.equal(resources);
          await failureOf(() => peer.acquire(resources, 60_000));
          await (await lock.extend(60_000)).release();

          const theirs = await peer.acquire(resources, 60_000);
          expect(await failureOf(() => shim(oneAttempt).acquire(resources, 60_000))).to.be.instanceOf(
            redlockShim.ExecutionError,
          );
          const waiting = shim(patient).acquire(resources, 60_000);
          await theirs.release();
          await (await waiting).release();
          expect(await leftOf()).to.deep.equal([]);
        });

        it('callers of one process wait for it, and a release wakes the next', async () => {
          const redlock = shim(wokenOnly);
          const first = await redlock.acquire([named(base)], 60_000);
          const attempted = new Promise((resolve) => redlock.once('error', resolve));
          const second = redlock.acquire([named(base)], 60_000);
          await attempted;
          await first.release();
          const lock = await second;
          expect(lock.fence).to.be.greaterThan(first.fence);
          await lock.release();
          expect(await leftOf()).to.deep.equal([]);
        });
      });
    }

    for (const [what, named] of Object.entries<Name>({ ...refused, 'is empty': () => '' }))
      it(`a key that ${what} is refused before any I/O`, async () => {
        const error = await failureOf(() => shim(oneAttempt).acquire([named(base)], 60_000));
        expect(error).to.have.property('code', 'ERR_LOCK_OPTION');
        expect(await leftOf()).to.deep.equal([]);
      });

    it('the fence counter is refused', async () => {
      for (const key of ['redis-exp-lock:fence', 'redis-exp-lock:fence:{5}']) {
        const error = await failureOf(() => shim(oneAttempt).acquire([key], 60_000));
        expect(error, key).to.have.property('code', 'ERR_LOCK_OPTION');
      }
    });

    it('a key given twice is locked once, and its release succeeds', async () => {
      const lock = await shim(oneAttempt).acquire([base, base], 60_000);
      await failureOf(() => new redlockPeer.default([redis], oneAttempt).acquire([base], 60_000));
      await (await lock.extend(60_000)).release();
      expect(await leftOf()).to.deep.equal([]);
    });

    it('a keyPrefix that makes a companion of the name: refused', async () => {
      const prefixed = connect(port, { keyPrefix: `{${base}}:` });
      const error = await failureOf(() => new redlockShim.Redlock([prefixed], oneAttempt).acquire(['x:queue'], 60_000));
      expect(error).to.have.property('code', 'ERR_LOCK_OPTION');
    });
  });

  describe('redis-exp-lock/redis-semaphore', () => {
    const options = { acquireAttemptsLimit: 1, refreshInterval: 0, lockTimeout: 60_000 };
    const classes = {
      Mutex: (library: typeof permitsShim, key: string) => new library.Mutex(redis, key, options),
      Semaphore: (library: typeof permitsShim, key: string) => new library.Semaphore(redis, key, 1, options),
      MultiSemaphore: (library: typeof permitsShim, key: string) =>
        new library.MultiSemaphore(redis, key, 2, 2, options),
      RedlockMutex: (library: typeof permitsShim, key: string) => new library.RedlockMutex([redis], key, options),
    };

    for (const [name, make] of Object.entries(classes)) {
      const isPermits = name.endsWith('Semaphore');
      for (const [what, named] of Object.entries(isPermits ? { ...taken, ...oddBraces } : taken))
        it(`${name}: a key that ${what} is locked as redis-semaphore locks it, and each excludes the other`, async () => {
          const theirs = make(permitsPeer as unknown as typeof permitsShim, named(base));
          const ours = make(permitsShim, named(base));
          await ours.acquire();
          expect(await leftOf()).to.deep.equal([`${isPermits ? 'semaphore' : 'mutex'}:${named(base)}`]);
          expect(await theirs.tryAcquire()).to.equal(false);
          await ours.release();
          await theirs.acquire();
          expect(await ours.tryAcquire()).to.equal(false);
          await theirs.release();
          expect(await leftOf()).to.deep.equal([]);
        });

      const impossible = isPermits
        ? { 'is the queue of another lock': refused['is the queue of another lock']! }
        : refused;
      for (const [what, named] of Object.entries(impossible))
        it(`${name}: a key that ${what} is refused in the constructor`, async () => {
          const error = await failureOf(() => make(permitsShim, named(base)));
          expect(error).to.have.property('code', 'ERR_LOCK_OPTION');
        });

      it(`${name}: a keyPrefix that makes a companion of the name: refused before any I/O`, async () => {
        const prefixed = connect(port, { keyPrefix: `{${base}}:` });
        const before = redis;
        redis = prefixed;
        const lock = make(permitsShim, 'x:queue');
        redis = before;
        expect(await failureOf(() => lock.acquire())).to.have.property('code', 'ERR_LOCK_OPTION');
        expect(await leftOf()).to.deep.equal([]);
      });
    }
  });

  it('on three servers, redlock and the shim exclude each other', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    // A server that was started just now has no vote, unless it does not tell when that was.
    await Promise.all(servers.map((each) => each.command('ACL', 'SETUSER', 'default', '-info')));
    const three = servers.map((each) => connect(each.port, { enableReadyCheck: false }));
    await Promise.all(three.map((each) => once(each, 'ready'))); // a single attempt does not wait long for a connection
    const [peer, shim] = [redlockPeer, redlockShim].map((library) => new library.default(three, oneAttempt));
    for (const named of Object.values(taken)) {
      const lock = await shim!.acquire([named(base)], 60_000);
      await failureOf(() => peer!.acquire([named(base)], 60_000));
      await (await lock.extend(60_000)).release();
      await (await peer!.acquire([named(base)], 60_000)).release();
    }
    await Promise.all(servers.map((each) => each.discard()));
  });
});
