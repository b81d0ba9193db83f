// redis-exp-lock/redis-semaphore beside redis-semaphore itself. First one program for both, with one outcome; then what is kept
// only here.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Redis } from 'ioredis';
import * as peer from 'redis-semaphore';
import { spy } from 'sinon';
import * as shim from '../../src/compat/redis-semaphore';
import { eventChannel, type LostEvent } from '../../src/core/events';
import { abortOf, failure as failureOf } from '../contract/outcomes';
import { describeAtOnce } from '../support/at-once';
import { type Action, close, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type RedisServer, sharedRedis, startRedis, uniqueKey } from '../support/redis';
import { connect, disconnectAll } from './connections';

/** Refreshed often enough that a slow machine loses nothing. */
const steady = { lockTimeout: 3_000, acquireTimeout: 10_000, refreshInterval: 500, retryInterval: 10 };
const longerThanSteadyMs = 3_400;
/** The options of a call that may wait in vain. */
const brief = { ...steady, acquireTimeout: 1_000 };
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;

/** The unhandled rejections while `work` runs. */
async function unhandled(work: () => Promise<unknown>): Promise<unknown[]> {
  const before = process.listeners('unhandledRejection');
  const seen: unknown[] = [];
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', (error) => seen.push(error));
  try {
    await work();
    await sleep(1);
  } finally {
    process.removeAllListeners('unhandledRejection');
    for (const each of before) process.on('unhandledRejection', each);
  }
  return seen;
}

after(() => {
  disconnectAll();
});

/** The common part of the classes, on one server. */
interface Kind {
  readonly name: string;
  readonly kind: string;
  readonly prefix: string;
  make(library: typeof shim, client: Redis, key: string, options?: shim.LockOptions): shim.Mutex;
}

const kinds: readonly Kind[] = [
  {
    ...{ name: 'Mutex', kind: 'mutex', prefix: 'mutex:' },
    make: ({ Mutex }, client, key, options) => new Mutex(client, key, options),
  },
  {
    ...{ name: 'Semaphore(1)', kind: 'semaphore', prefix: 'semaphore:' },
    make: ({ Semaphore }, client, key, options) => new Semaphore(client, key, 1, options),
  },
  {
    ...{ name: 'MultiSemaphore(3, 2)', kind: 'multi-semaphore', prefix: 'semaphore:' },
    make: ({ MultiSemaphore }, client, key, options) => new MultiSemaphore(client, key, 3, 2, options),
  },
];

const libraries = { 'redis-semaphore': peer as unknown as typeof shim, 'redis-exp-lock/redis-semaphore': shim };

for (const [library, module] of Object.entries(libraries)) {
  const { LostLockError, Mutex, MultiSemaphore, RedlockMutex, Semaphore, TimeoutError, defaultTimeoutOptions } = module;

  describe(`${library}: what a program for redis-semaphore relies on`, () => {
    let redis: Redis;
    let key: string;

    before(async () => {
      redis = connect((await sharedRedis()).port);
    });

    beforeEach(() => {
      key = uniqueKey();
    });

    it('has its defaults', () => {
      expect(defaultTimeoutOptions).to.deep.equal({
        ...{ lockTimeout: 10_000, acquireTimeout: 10_000, retryInterval: 10 },
        acquireAttemptsLimit: Number.POSITIVE_INFINITY,
      });
    });

    it('wants a client, a key, a limit and permits, in its own words', () => {
      const none = undefined as any;
      expect(() => new Mutex(none, 'key')).to.throw('"client" is required');
      expect(() => new Mutex(redis, '')).to.throw('"key" is required');
      expect(() => new Mutex(redis, 1 as any)).to.throw('"key" must be a string');
      expect(() => new Semaphore(redis, 'key', 0)).to.throw('"limit" is required');
      expect(() => new Semaphore(redis, 'key', '10' as any)).to.throw('"limit" must be a number');
      expect(() => new MultiSemaphore(redis, 'key', 2, 0)).to.throw('"permits" is required');
      expect(() => new MultiSemaphore(redis, 'key', 2, '1' as any)).to.throw('"permits" must be a number');
      expect(() => new RedlockMutex(none, 'key')).to.throw('"clients" array is required');
      expect(() => new RedlockMutex([redis], '')).to.throw('"key" is required');
    });

    it('takes an identifier, or makes one, with a suffix where one is given', () => {
      expect(new Mutex(redis, key).identifier).to.match(new RegExp(`${uuid.source}$`));
      expect(new Mutex(redis, key, { identifierSuffix: 'abc' }).identifier).to.match(/-abc$/);
      expect(new Mutex(redis, key, { identifier: 'mine' }).identifier).to.equal('mine');
      expect(new Mutex(redis, key, { externallyAcquiredIdentifier: 'theirs' }).identifier).to.equal('theirs');
      expect(() => new Mutex(redis, key, { identifier: '' })).to.throw('identifier must be not empty random string');
      expect(() => new Mutex(redis, key, { identifier: 5 as any })).to.throw('identifier must be not empty random');
      expect(() => new Mutex(redis, key, { acquiredExternally: true })).to.throw(
        'acquiredExternally=true meanless without custom identifier',
      );
      expect(() => new Mutex(redis, key, { externallyAcquiredIdentifier: 'a', identifier: 'b' })).to.throw(
        'Invalid usage. Use custom identifier and acquiredExternally: true',
      );
    });

    for (const { name, kind, prefix, make } of kinds) {
      describe(name, () => {
        const lock = (options?: shim.LockOptions, of = key): shim.Mutex => make(module, redis, of, options);
        const held = (of = key): Promise<number> => redis.exists(prefix + of);

        describeAtOnce('as time passes', {
          'a second one waits for acquireTimeout, then acquire() fails and tryAcquire() is false': async (key) => {
            // A shorter lockTimeout would take the permit of the first for one of the dead.
            const [one, two] = [lock({}, key), lock({ ...brief, lockTimeout: 10_000, refreshInterval: 0 }, key)];
            await one.acquire();
            const error = await failureOf(two.acquire());
            expect(error).to.be.instanceOf(TimeoutError);
            expect(error.message).to.equal(`Acquire ${kind} ${prefix}${key} timeout`);
            expect(await two.tryAcquire()).to.equal(false);
            expect(two.isAcquired).to.equal(false);
            await one.release();
            expect(await two.tryAcquire()).to.equal(true);
            await two.release();
          },

          'is refreshed until it is released': async (key) => {
            const one = lock(steady, key);
            await one.acquire();
            await sleep(longerThanSteadyMs);
            expect(await held(key)).to.equal(1);
            expect(one.isAcquired).to.equal(true);
            await one.release();
            await sleep(300);
            expect(await held(key)).to.equal(0);
          },

          'ends by itself when refreshing is stopped, or never began': async (key) => {
            const one = lock({ ...steady, lockTimeout: 1_000, refreshInterval: 300 }, key);
            await one.acquire();
            one.stopRefresh();
            await sleep(1_100);
            const next = lock({ lockTimeout: 1_000, refreshInterval: 0 }, key);
            await next.acquire();
            const last = lock({ acquireTimeout: 20_000 }, key);
            await last.acquire();
            await last.release();
          },

          'is refreshed and released by another one with its identifier, acquired externally': async (key) => {
            const one = lock({ ...steady, refreshInterval: 0 }, key);
            await one.acquire();
            const two = lock({ ...steady, identifier: one.identifier, acquiredExternally: true }, key);
            await two.acquire();
            await sleep(longerThanSteadyMs);
            expect(await held(key)).to.equal(1);
            await two.release();
            expect(await held(key)).to.equal(0);
            const three = lock({ ...brief, externallyAcquiredIdentifier: one.identifier }, key);
            expect(await three.tryAcquire()).to.equal(false);
            expect(await failureOf(three.acquire())).to.be.instanceOf(TimeoutError);
          },
        });

        it('acquires and releases, again and again', async () => {
          const one = lock();
          for (let n = 0; n < 3; n += 1) {
            expect(one.isAcquired).to.equal(false);
            await one.acquire();
            expect(one.isAcquired).to.equal(true);
            expect(await held()).to.equal(1);
            await one.release();
            expect(one.isAcquired).to.equal(false);
            expect(await held()).to.equal(0);
          }
        });

        it('gets it when it is released meanwhile', async () => {
          const [one, two] = [lock(), lock()];
          await one.acquire();
          const waiting = two.acquire();
          await sleep(30);
          await one.release();
          await waiting;
          expect(two.isAcquired).to.equal(true);
          await two.release();
        });

        it('makes as many attempts as are allowed', async () => {
          const one = lock();
          await one.acquire();
          const fromMs = performance.now();
          expect(await lock({ acquireAttemptsLimit: 1 }).tryAcquire()).to.equal(false);
          expect(await lock({ acquireAttemptsLimit: 3 }).tryAcquire()).to.equal(false);
          expect(performance.now() - fromMs).to.be.lessThan(5000); // acquireTimeout is 10 s
          expect(await lock({ acquireTimeout: 0 }).tryAcquire()).to.equal(false);
          await one.release();
        });

        it('a refresh is not begun while another is under way', async () => {
          const one = lock({ ...steady, lockTimeout: 60_000, refreshInterval: 20 });
          let [running, most, calls] = [0, 0, 0];
          Object.assign(one, {
            async _refresh() {
              running += 1;
              most = Math.max(most, running);
              await sleep(100);
              running -= 1;
              calls += 1;
              return true;
            },
          });
          await one.acquire();
          await waitFor(() => calls >= 3);
          expect(most).to.equal(1);
          await one.release();
        });

        it('calls onLockLost after a loss, with itself as `this`', async () => {
          const calls: unknown[][] = [];
          const one = lock({
            ...steady,
            onLockLost(error) {
              calls.push([this, error, this.isAcquired]);
            },
          });
          await one.acquire();
          await redis.del(prefix + key);
          await waitFor(() => calls.length > 0);
          await sleep(100);
          expect(calls).to.have.length(1);
          const [self, error, isAcquired] = calls[0]!;
          expect(self).to.equal(one);
          expect(error).to.be.instanceOf(LostLockError);
          expect(error).to.have.property('message', `Lost ${kind} for key ${prefix}${key}`);
          expect(isAcquired).to.equal(false);
          await one.release();
        });

        it('without onLockLost, a LostLockError is an unhandled rejection', async () => {
          const seen = await unhandled(async () => {
            // Its time is not over before the next refresh, after which it would not be held either.
            const one = lock({ ...steady, lockTimeout: 60_000 });
            await one.acquire();
            await redis.del(prefix + key);
            await waitFor(() => !one.isAcquired);
          });
          expect(seen).to.have.length(1);
          expect(seen[0]).to.be.instanceOf(LostLockError);
        });

        it('H36 gives up with the reason of a signal: before, and while it waits', async () => {
          const reason = new Error('enough');
          expect(await failureOf(lock().acquire(AbortSignal.abort(reason)))).to.equal(reason);
          const one = lock();
          await one.acquire();
          const aborter = new AbortController();
          const waiting = failureOf(lock().tryAcquire(aborter.signal));
          await sleep(30);
          aborter.abort(reason);
          expect(await waiting).to.equal(reason);
          await one.release();
          const two = lock(steady);
          expect(await two.tryAcquire(new AbortController().signal)).to.equal(true);
          await two.release();
        });

        it('says so when Redis cannot be asked', async () => {
          const closed = connect(1, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
          const error = await failureOf(make(module, closed, key, brief).acquire());
          expect(error).to.be.instanceOf(Error);
          expect(error).to.not.be.instanceOf(TimeoutError);
        });
      });
    }

    it('Mutex: does not take its own lock for a new one', async () => {
      const one = new Mutex(redis, key, brief);
      await one.acquire();
      expect(await one.tryAcquire()).to.equal(false);
      expect(one.isAcquired).to.equal(true);
      const two = new Mutex(redis, key, { ...brief, identifier: one.identifier });
      expect(await two.tryAcquire()).to.equal(false);
      await one.release();
      const both = await Promise.all([one.tryAcquire(), one.tryAcquire()]);
      expect(both.sort()).to.deep.equal([false, true]);
      await one.release();
    });

    it('Mutex: the key holds the identifier, for lockTimeout', async () => {
      const mutex = new Mutex(redis, key, { lockTimeout: 600_000 });
      await mutex.acquire();
      expect(await redis.get(`mutex:${key}`)).to.equal(mutex.identifier);
      expect(await redis.pttl(`mutex:${key}`)).to.be.within(550_000, 600_000);
      const longer = { identifier: mutex.identifier, acquiredExternally: true, lockTimeout: 900_000 } as const;
      const same = new Mutex(redis, key, longer);
      await same.acquire();
      expect(await redis.pttl(`mutex:${key}`)).to.be.within(850_000, 900_000);
      await Promise.all([same.release(), mutex.release()]);
    });

    it('Semaphore: one member for each holder, its score the moment of its acquire', async () => {
      const [one, two, three] = [1, 2, 3].map(() => new Semaphore(redis, key, 2, brief));
      const beforeMs = Date.now();
      await one!.acquire();
      await two!.acquire();
      expect(await redis.zrange(`semaphore:${key}`, '0', '-1')).to.have.members([one!.identifier, two!.identifier]);
      const score = Number(await redis.zscore(`semaphore:${key}`, one!.identifier));
      expect(score).to.be.within(beforeMs, Date.now());
      expect(await three!.tryAcquire()).to.equal(false);
      await one!.release();
      await three!.acquire();
      await sleep(longerThanSteadyMs);
      expect([two!.isAcquired, three!.isAcquired]).to.deep.equal([true, true]);
      await two!.release();
      await three!.release();
      expect(await redis.exists(`semaphore:${key}`)).to.equal(0);
    });

    it('Semaphore: takes the place of a holder that died', async () => {
      await new Semaphore(redis, key, 1, { lockTimeout: 1_000, refreshInterval: 0 }).acquire();
      const next = new Semaphore(redis, key, 1, { lockTimeout: 1_000, acquireTimeout: 20_000 });
      await next.acquire();
      await next.release();
    });

    it('MultiSemaphore: as many members as permits, and a Semaphore beside it', async () => {
      const two = new MultiSemaphore(redis, key, 3, 2, steady);
      const one = new Semaphore(redis, key, 3, steady);
      await two.acquire();
      expect(await redis.zrange(`semaphore:${key}`, '0', '-1')).to.have.members(
        [0, 1].map((n) => `${two.identifier}_${n}`),
      );
      await one.acquire();
      expect(await new MultiSemaphore(redis, key, 3, 2, brief).tryAcquire()).to.equal(false);
      expect(await new Semaphore(redis, key, 3, brief).tryAcquire()).to.equal(false);
      await two.release();
      const other = new MultiSemaphore(redis, key, 3, 2, steady);
      await other.acquire();
      await sleep(longerThanSteadyMs);
      expect([one.isAcquired, other.isAcquired]).to.deep.equal([true, true]);
      await Promise.all([one.release(), other.release()]);
      expect(await redis.exists(`semaphore:${key}`)).to.equal(0);
    });
  });

  describe(`${library}: RedlockMutex on three servers`, () => {
    let servers: RedisServer[];
    let nodes: Redis[];
    let key: string;

    beforeEach(async () => {
      servers = await Promise.all([1, 2, 3].map(() => startRedis()));
      nodes = servers.map(({ port }) => connect(port, { maxRetriesPerRequest: 0, retryStrategy: () => 50 }));
      await Promise.all(nodes.map((node) => once(node, 'ready')));
      key = uniqueKey();
    });

    afterEach(() => Promise.all(servers.map((server) => server.discard())));

    const values = (): Promise<(string | null)[]> => Promise.all(nodes.map((node) => node.get(`mutex:${key}`)));
    const mutex = (options?: shim.LockOptions): shim.RedlockMutex => new RedlockMutex(nodes, key, options);
    /** A node has an eighth of the lockTimeout to answer, and a second at most. */
    const lasting = { ...steady, lockTimeout: 60_000 };
    /** Takes most of its time from the lock on each node, and waits until all have it again. */
    const refreshed = async (): Promise<void> => {
      await Promise.all(nodes.map((node) => node.pexpire(`mutex:${key}`, 20_000)));
      const left = () => Promise.all(nodes.map((node) => node.pttl(`mutex:${key}`)));
      await waitFor(async () => (await left()).every((ms) => ms > 30_000), { what: 'a refresh on all nodes' });
    };

    it('acquires, refreshes and releases on all', async () => {
      const one = mutex(lasting);
      await one.acquire();
      expect(await values()).to.deep.equal(Array(3).fill(one.identifier));
      await refreshed();
      await refreshed();
      expect(await values()).to.deep.equal(Array(3).fill(one.identifier));
      expect(one.isAcquired).to.equal(true);
      const error = await failureOf(mutex(brief).acquire());
      expect(error).to.be.instanceOf(TimeoutError);
      expect(error.message).to.equal(`Acquire redlock-mutex mutex:${key} timeout`);
      await one.release();
      expect(await values()).to.deep.equal([null, null, null]);
    });

    it('does without a minority, and leaves nothing where it got no majority', async () => {
      await nodes[0]!.set(`mutex:${key}`, 'another', 'PX', 60_000);
      const one = mutex(lasting);
      await one.acquire();
      await one.release();
      await nodes[1]!.set(`mutex:${key}`, 'another', 'PX', 60_000);
      expect(await mutex(brief).tryAcquire()).to.equal(false);
      expect(await values()).to.deep.equal(['another', 'another', null]);
    });

    it('gives the lock again to a node that lost it', async () => {
      const one = mutex(lasting);
      await one.acquire();
      await nodes[1]!.del(`mutex:${key}`);
      await waitFor(async () => (await values()).every((value) => value === one.identifier));
      expect(one.isAcquired).to.equal(true);
      await one.release();
      expect(await values()).to.deep.equal([null, null, null]);
    });

    it('without a majority it is lost, and released everywhere', async () => {
      const lost: unknown[] = [];
      const one = mutex({ ...lasting, onLockLost: (error) => void lost.push(error) });
      await one.acquire();
      for (const n of [0, 1]) await nodes[n]!.set(`mutex:${key}`, 'another', 'PX', 60_000);
      await waitFor(() => lost.length > 0);
      expect(lost[0]).to.be.instanceOf(LostLockError);
      expect(one.isAcquired).to.equal(false);
      expect(await values()).to.deep.equal(['another', 'another', null]);
    });

    it('survives the end of one server, and not of two', async () => {
      const lost: unknown[] = [];
      const one = mutex({
        ...steady,
        lockTimeout: 4_000,
        onLockLost: (error) => void lost.push(error),
      });
      await one.acquire();
      await servers[0]!.kill();
      await sleep(4_300);
      expect(one.isAcquired).to.equal(true);
      expect(await mutex(brief).tryAcquire()).to.equal(false);
      await servers[1]!.kill();
      await waitFor(() => lost.length > 0);
      await waitFor(async () => (await nodes[2]!.exists(`mutex:${key}`)) === 0);
      expect(await failureOf(mutex(brief).acquire())).to.be.instanceOf(TimeoutError);
    });
  });
}

describe('redis-exp-lock/redis-semaphore: what is kept only here', () => {
  const { LostLockError, Mutex, RedlockMutex, RedlockMultiSemaphore, RedlockSemaphore, Semaphore } = shim;
  let redis: Redis;
  let key: string;

  before(async () => {
    redis = connect((await sharedRedis()).port);
  });

  beforeEach(() => {
    key = uniqueKey();
  });

  it('H67 RedlockSemaphore and RedlockMultiSemaphore refuse, with the reason and the alternative', () => {
    for (const [name, make] of Object.entries({
      RedlockSemaphore: () => new RedlockSemaphore([redis], key, 2),
      RedlockMultiSemaphore: () => new RedlockMultiSemaphore([redis], key, 2, 1),
    })) {
      expect(make).to.throw(new RegExp(`^${name}: .*3 nodes and a limit of 2, three holders.*Semaphore.*one Redis`));
    }
  });

  it('gives a fence that rises with each grant', async () => {
    let last = 0;
    for (let n = 0; n < 3; n += 1) {
      const mutex = new Mutex(redis, key);
      await mutex.acquire();
      expect(mutex.fence).to.be.greaterThan(last);
      last = mutex.fence;
      await mutex.release();
    }
  });

  it('the signal aborts when the lock may have ended, or is seen to be lost; not on its own release', async () => {
    type Make = (options: shim.LockOptions) => shim.Mutex;
    const ends = async (make: Make): Promise<void> => {
      const ended = make({ lockTimeout: 3_000, refreshInterval: 0 });
      await ended.acquire();
      const { signal } = ended;
      expect(signal.aborted).to.equal(false);
      await abortOf(signal);
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired' });
      expect(ended.isAcquired).to.equal(false);
    };
    const isLost = async (make: Make): Promise<void> => {
      const lost = make({ ...steady, onLockLost() {} });
      await lost.acquire();
      const abort = abortOf(lost.signal);
      const published: unknown[] = [];
      const onLost = ({ fence, reason }: LostEvent): void => void published.push({ fence, reason });
      eventChannel('redis-exp-lock:lost').subscribe(onLost);
      await redis.del(`mutex:${key}-1`, `semaphore:${key}-1`);
      await abort;
      eventChannel('redis-exp-lock:lost').unsubscribe(onLost);
      expect(lost.signal.reason).to.include({ code: 'ERR_LOCK_LOST' });
      expect(published).to.deep.include({ fence: lost.fence, reason: lost.signal.reason.reason });
    };
    const isReleased = async (make: Make): Promise<void> => {
      const released = make({ ...steady, lockTimeout: 3_000, refreshInterval: 2_400 });
      await released.acquire();
      const quiet = released.signal;
      await released.release();
      await sleep(3_050);
      expect(quiet.aborted).to.equal(false);
    };
    // All at once, so that each lock may outlast a machine that stands still.
    const works = [ends, isLost, isReleased].flatMap((work, n) => {
      const makes: Make[] = [
        (options) => new Mutex(redis, `${key}-${n}`, options),
        (options) => new Semaphore(redis, `${key}-${n}`, 1, options),
      ];
      for (const make of makes) expect(make({}).signal.reason).to.include({ code: 'ERR_LOCK_NOT_ACQUIRED' });
      return makes.map((make) => [work, make] as const);
    });
    await Promise.all(works.map(([work, make]) => work(make)));
  });

  it('H14 a refresh that fails is tried again; after silence until its end, the lock is lost', async () => {
    const server = await startRedis();
    const client = connect(server.port);
    const lost: unknown[] = [];
    const onLockLost = (error: unknown): void => void lost.push(error);
    const lasting = new Mutex(client, key, { lockTimeout: 60_000, refreshInterval: 100, onLockLost });
    const mutex = new Mutex(client, `${key}-2`, { lockTimeout: 3_000, refreshInterval: 500, onLockLost });
    try {
      const seen = await unhandled(async () => {
        await lasting.acquire();
        await server.pause();
        await sleep(1_200);
        await server.resume();
        await client.pexpire(`mutex:${key}`, 20_000);
        await waitFor(async () => (await client.pttl(`mutex:${key}`)) > 30_000, { what: 'a refresh' });
        expect(lost).to.deep.equal([]);
        expect(lasting.isAcquired).to.equal(true);
        await lasting.release();
        await mutex.acquire();
        await server.pause();
        await abortOf(mutex.signal);
        expect(mutex.isAcquired).to.equal(false);
        await waitFor(() => lost.length > 0);
        expect(lost[0]).to.be.instanceOf(LostLockError);
      });
      expect(seen).to.deep.equal([]);
    } finally {
      await server.resume();
      await server.discard();
    }
  });

  it('H3 an acquire of unknown outcome leaves nothing behind, and does not hurt the next of the same object', async () => {
    const server = await startRedis();
    const client = connect(server.port);
    await once(client, 'ready');
    const options = { acquireTimeout: 2_000, acquireAttemptsLimit: 1 };
    const [mutex, semaphore] = [new Mutex(client, key, options), new Semaphore(client, key, 1, options)];
    await server.pause();
    const failures = await Promise.all([failureOf(mutex.acquire()), failureOf(semaphore.acquire())]);
    for (const error of failures) expect(error).to.include({ code: 'ERR_LOCK_BACKEND' });
    await server.resume();
    await Promise.all([mutex.acquire(), semaphore.acquire()]);
    await sleep(2_500); // past what the first may still do
    expect(await client.get(`mutex:${key}`)).to.equal(mutex.identifier);
    expect(await client.zrange(`semaphore:${key}`, '0', '-1')).to.deep.equal([semaphore.identifier]);
    await Promise.all([mutex.release(), semaphore.release()]);
    await server.discard();
  });

  it('H3 an aborted acquire of unknown outcome does not release what another call of the same object acquires', async () => {
    const proxy = await startProxy((await sharedRedis()).port);
    const client = connect(proxy.port, { autoResendUnfulfilledCommands: false });
    await once(client, 'ready');
    proxy.rule({ match: 'script', nth: 1 }, close('before'));
    const mutex = new Mutex(client, key, { lockTimeout: 60_000 });
    const controller = new AbortController();
    const aborted = failureOf(mutex.acquire(controller.signal));
    const acquired = mutex.acquire();
    controller.abort(new Error('no longer wanted'));
    expect(await aborted).to.have.property('message', 'no longer wanted');
    await acquired;
    await sleep(2_500); // past the time at which the aborted call could still release
    expect(await client.get(`mutex:${key}`)).to.equal(mutex.identifier);
    await mutex.release();
  });

  it('H14 a refresh that fails after stopRefresh() is not tried again', async () => {
    const proxy = await startProxy((await sharedRedis()).port);
    const client = connect(proxy.port);
    await once(client, 'ready');
    const mutex = new Mutex(client, key, { lockTimeout: 2_000, refreshInterval: 100 });
    await mutex.acquire();
    const stopped = new Promise<void>((resolve) => {
      const request: Action['request'] = async (link, exchange) => {
        mutex.stopRefresh();
        await link.answer(exchange, Buffer.from('-LOADING Redis is loading the dataset in memory\r\n'));
        resolve();
      };
      proxy.rule({ match: 'script' }, { request });
    });
    await stopped;
    const sent = proxy.count('script');
    await abortOf(mutex.signal);
    expect(proxy.count('script')).to.equal(sent);
  });

  it('H47 a shorter lockTimeout never lets the whole semaphore end sooner', async () => {
    const long = new Semaphore(redis, key, 2, { lockTimeout: 60_000 });
    await long.acquire();
    const short = new Semaphore(redis, key, 2, { lockTimeout: 5000 });
    await short.acquire();
    expect(await redis.pttl(`semaphore:${key}`)).to.be.greaterThan(50_000);
    await Promise.all([long.release(), short.release()]);
  });

  it('H1 an impossible lockTimeout takes nothing', async () => {
    for (const lockTimeout of [0, -1, 1.5, Number.NaN]) {
      const options = { lockTimeout, refreshInterval: 0 };
      for (const lock of [new Mutex(redis, key, options), new Semaphore(redis, key, 1, options)]) {
        expect(await failureOf(lock.acquire())).to.be.instanceOf(Error);
      }
    }
    expect(await redis.exists(`mutex:${key}`, `semaphore:${key}`)).to.equal(0);
  });

  it('H10 a key of another type is an error by name, and stays as it is', async () => {
    await redis.set(`semaphore:${key}`, 'text');
    await redis.zadd(`mutex:${key}`, 1, 'member');
    for (const lock of [new Mutex(redis, key), new Semaphore(redis, key, 1)]) {
      expect(await failureOf(lock.acquire())).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'WRONGTYPE' });
    }
    expect(await redis.get(`semaphore:${key}`)).to.equal('text');
  });

  it('Mutex: of many that wait in one process, few ask, and each attempt counts', async () => {
    const name = uniqueKey('many');
    const holder = new Mutex(redis, name);
    await holder.acquire();
    const many = connect((await sharedRedis()).port);
    let sent = 0;
    const { sendCommand } = many;
    many.sendCommand = (...args: Parameters<typeof sendCommand>) => {
      sent += 1;
      return sendCommand.apply(many, args);
    };
    const options = { acquireAttemptsLimit: 10, retryInterval: 40, acquireTimeout: 60_000 };
    const all = Array.from({ length: 20 }, () => new Mutex(many, name, options).tryAcquire());
    expect(await Promise.all(all)).to.deep.equal(all.map(() => false));
    expect(sent).to.be.within(1, 110);
    await holder.release();
  });

  it('a release in this process wakes the one that waits longest', async () => {
    const one = new Semaphore(redis, key, 1);
    await one.acquire();
    const order: number[] = [];
    const slow = { retryInterval: 5000 };
    const waiting = [1, 2].map(async (n) => {
      const lock = new Semaphore(redis, key, 1, slow);
      await lock.acquire();
      order.push(n);
      await lock.release();
    });
    await sleep(50);
    await one.release();
    await Promise.all(waiting);
    expect(order).to.deep.equal([1, 2]);
  });

  it('RedlockMutex: a refresh asks a silent node once, so that it does not keep the others waiting for their next one', async () => {
    const servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
    try {
      const nodes = servers.map(({ port }) => connect(port));
      await Promise.all(nodes.map((node) => node.ping()));
      // Each refresh waits for a quarter of that, and a live node has no longer for its answer.
      const mutex = new RedlockMutex(nodes, uniqueKey('node'), { lockTimeout: 4_000, refreshInterval: 50 });
      await mutex.acquire();
      await servers[2]!.pause();
      const [live, silent] = [spy(nodes[0]!, 'sendCommand'), spy(nodes[2]!, 'sendCommand')];
      await waitFor(() => live.callCount >= 3, { what: 'three refreshes' });
      mutex.stopRefresh();
      expect(silent.callCount).to.be.within(1, live.callCount);
      await servers[2]!.resume();
      await mutex.release();
    } finally {
      await Promise.all(servers.map((server) => server.discard()));
    }
  });

  it('RedlockMutex: fences rise, whatever majority granted', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    const nodes = servers.map(({ port }) => connect(port));
    let last = 0;
    for (const absent of [0, 1, 2, 0]) {
      await nodes[absent]!.set(`mutex:${key}`, 'another', 'PX', 60_000);
      const mutex = new RedlockMutex(nodes, key);
      await mutex.acquire();
      expect(mutex.fence).to.be.greaterThan(last);
      last = mutex.fence;
      await mutex.release();
      await nodes[absent]!.del(`mutex:${key}`);
    }
    await Promise.all(servers.map((server) => server.discard()));
  });

  it('works with a keyPrefix of the client, as there', async () => {
    const prefixed = connect((await sharedRedis()).port, { keyPrefix: 'app:' });
    const [old, mutex] = [new peer.Mutex(prefixed, key), new Mutex(prefixed, key, brief)];
    await old.acquire();
    expect(await mutex.tryAcquire()).to.equal(false);
    await old.release();
    await mutex.acquire();
    expect(await redis.get(`app:mutex:${key}`)).to.equal(mutex.identifier);
    await mutex.release();
    const semaphore = new Semaphore(prefixed, key, 1);
    await semaphore.acquire();
    expect(await new peer.Semaphore(prefixed, key, 1, brief).tryAcquire()).to.equal(false);
    await semaphore.release();
  });
});
