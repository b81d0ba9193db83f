// `Lock`: one lock as an object, as Ruby's redis_exp_lock has it. It knows what it holds without asking, and asks Redis only
// where its names say so.
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, pending, thrown } from './outcomes';
import { describeEach, stranger } from './places';

const { Lock } = redisExpLock;

describeEach('Lock', (here) => {
  let key: string;
  let lock: redisExpLock.Lock;

  beforeEach(() => {
    key = uniqueKey();
    lock = new Lock(key, { redis: here.redis, lifetime: 10_000, commandTimeout: 10_000 });
  });

  it('lock, unlock: `locked` follows, and Redis agrees', async () => {
    expect(lock.locked).to.equal(false);
    expect(await lock.lock()).to.equal(1);
    expect(lock.locked).to.equal(true);
    expect(await here.holder(key)).to.be.a('string');
    expect(await lock.unlock()).to.equal(true);
    expect(lock.locked).to.equal(false);
    expect(await here.holder(key)).to.equal(null);
  });

  it('lives for a minute by default', async () => {
    const usual = new Lock(key, { redis: here.redis, commandTimeout: 10_000 });
    await usual.lock();
    expect(await here.leftMs(key)).to.be.within(50_000, 60_000);
    await usual.unlock();
  });

  it('unlock of what was never acquired, or has expired: false, and the present holder is left alone', async () => {
    expect(await lock.unlock()).to.equal(false);
    await lock.lock();
    await here.seize(key);
    expect(await lock.unlock()).to.equal(false);
    expect(lock.locked).to.equal(false);
    expect(await here.holder(key)).to.equal(stranger);
    expect(await lock.unlock()).to.equal(false);
  });

  it('lock while it holds one: AlreadyAcquiredLockError, and it still does', async () => {
    await lock.lock();
    const { fence } = lock;
    expect(await failure(lock.lock())).to.be.instanceOf(redisExpLock.AlreadyAcquiredLockError);
    expect(await failure(lock.tryLock())).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED', key });
    expect(await failure(lock.synchronize(() => 1))).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED' });
    expect(lock).to.include({ locked: true, fence });
    await lock.unlock();
  });

  it('tryLock: at once, true or false', async () => {
    const other = new Lock(key, { redis: here.elsewhere, lifetime: 10_000, commandTimeout: 10_000, maxRetries: 1000 });
    expect(await lock.tryLock()).to.equal(true);
    expect(await other.tryLock()).to.equal(false);
    expect(other.locked).to.equal(false);
    await lock.unlock();
    expect(await other.tryLock()).to.equal(true);
    await other.unlock();
  });

  it('retries used up: TooManyLockAttemptsError with their number; the attempts it took: as the result', async () => {
    await here.seize(key, null);
    const error = await failure(lock.lock({ maxRetries: 2, retryTimeout: 1 }));
    expect(error).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
    expect(error).to.include({ attempts: 3, key });
    expect(error.message).to.contain('Exceeded max retry count');
    const connection = await here.connection();
    const counted = new Lock(key, { redis: connection.redis, lifetime: 10_000, commandTimeout: 10_000 });
    const waiting = counted.lock({ maxRetries: Number.POSITIVE_INFINITY, retryTimeout: 20 });
    expect(await pending(waiting)).to.equal(true);
    await waitFor(async () => (await connection.calls()) > 1, { what: 'a second attempt' });
    await here.remove(key);
    expect(await waiting).to.be.greaterThan(1);
    await counted.unlock();
  });

  it('H12: `lock` and `synchronize` take what says how to wait; all else is the constructor’s, and refused', async () => {
    for (const options of [{ lifetime: 5 }, { prefix: 'a' }, { redis: here.redis }, { owner: 'a' }, { nonsense: 1 }]) {
      for (const call of [
        lock.lock(options as object),
        lock.synchronize(options as object, () => expect.fail('locked')),
      ]) {
        expect(await failure(call))
          .to.be.instanceOf(TypeError)
          .and.to.include({ code: 'ERR_LOCK_OPTION' });
      }
    }
    expect(await here.holder(key)).to.equal(null);
  });

  it('keyLocked and keyOwned are Redis’s word', async () => {
    const other = new Lock(key, { redis: here.elsewhere, lifetime: 10_000, commandTimeout: 10_000 });
    expect([await lock.keyLocked(), await lock.keyOwned()]).to.deep.equal([false, false]);
    await lock.lock();
    expect([await lock.keyLocked(), await lock.keyOwned()]).to.deep.equal([true, true]);
    expect([await other.keyLocked(), await other.keyOwned()]).to.deep.equal([true, false]);
    await here.seize(key);
    expect([await lock.keyLocked(), await lock.keyOwned()]).to.deep.equal([true, false]);
    await here.remove(key);
    expect([await lock.keyLocked(), await lock.keyOwned()]).to.deep.equal([false, false]);
    expect(lock.locked).to.equal(true); // it has not been told
    await lock.unlock();
  });

  it('synchronize: the attempts go in, the result comes out, the lock is released', async () => {
    expect(await lock.synchronize((attempts) => [attempts, lock.locked])).to.deep.equal([1, true]);
    expect(lock.locked).to.equal(false);
    const error = new Error('mine');
    const reject = (): Promise<never> => Promise.reject(error);
    expect(await failure(lock.synchronize({ maxRetries: 3 }, reject))).to.equal(error);
    expect(await here.holder(key)).to.equal(null);
  });

  it('synchronize resolves, as Ruby’s does, although the lock was lost meanwhile; `signal` has aborted', async () => {
    const result = await lock.synchronize(async () => {
      const { signal } = lock;
      await here.seize(key);
      expect(await lock.extend(5000)).to.equal(false);
      expect(signal.aborted).to.equal(true);
      return 'done';
    });
    expect(result).to.equal('done');
    expect(await here.holder(key)).to.equal(stranger);
  });

  it('extend, fence, signal: of what it holds; nothing when it holds nothing', async () => {
    expect(await lock.extend()).to.equal(false);
    expect(lock.fence).to.equal(0);
    expect(lock.signal.reason).to.be.instanceOf(redisExpLock.NotAcquiredLockError);
    await lock.lock();
    expect(lock.fence).to.be.greaterThan(0);
    expect(lock.signal.aborted).to.equal(false);
    expect(await lock.extend(50_000)).to.equal(true);
    expect(await here.leftMs(key)).to.be.greaterThan(20_000);
    await lock.unlock();
  });

  it('H26: concurrent callers of one object have an identity each: one after the other, never at once', async () => {
    let inside = 0;
    const fences = await Promise.all(
      Array.from({ length: 5 }, () =>
        lock.synchronize({ timeout: 30_000, retryTimeout: 5 }, async () => {
          expect(++inside).to.equal(1);
          await new Promise((resolve) => setTimeout(resolve, 2));
          inside -= 1;
          return lock.fence;
        }),
      ),
    );
    expect(new Set(fences).size).to.equal(5);
  });

  describe('H26: two callers of one object, and the lock of the first has expired', () => {
    // A grant whose reply takes longer than the lifetime is given back, and asked for again within this time.
    const brief = { timeout: 15_000 };
    let shared: redisExpLock.Lock;

    beforeEach(() => {
      shared = new Lock(key, { redis: here.redis, lifetime: 1_000, retryTimeout: 5, commandTimeout: 10_000 });
    });

    /** Locks, for longer than any step takes. A busy machine may let the lock expire before it is extended. */
    async function lockForLong(): Promise<void> {
      do await shared.lock(brief);
      while (!(await shared.extend(20_000)));
    }

    /** One caller, as one request to a server is: what it does next it does in a flow of its own. */
    async function caller<T>(work: () => Promise<T>): Promise<T> {
      await turn();
      return work();
    }

    /** The first has locked; the second locks as soon as that has expired, and then the first goes on. */
    async function both<T>(first: (secondFence: number) => Promise<T>, take = () => shared.lock(brief)): Promise<T> {
      let wake!: (fence: number) => void;
      const secondHas = new Promise<number>((resolve) => {
        wake = resolve;
      });
      let goOn!: () => void;
      const firstHas = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const one = caller(async () => {
        await take();
        goOn();
        return first(await secondHas);
      });
      const two = caller(async () => {
        await Promise.race([firstHas, one]);
        await shared.lock(brief).catch(async (error) => {
          expect(error).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED' });
          await waitFor(() => !shared.locked);
          await shared.lock(brief);
        });
        if (!(await shared.extend(20_000))) await lockForLong();
        wake(shared.fence);
        const result = await one;
        expect(shared.locked).to.equal(true);
        expect(await shared.keyOwned()).to.equal(true);
        expect(await shared.unlock()).to.equal(true);
        return result;
      });
      return two;
    }

    it('`unlock` of the first: false, and the second still has it', async () => {
      expect(await both(() => shared.unlock())).to.equal(false);
    });

    it('`tryLock` counts like `lock`', async () => {
      const unlock = () => shared.unlock();
      const take = async (): Promise<number> => {
        for (;;) {
          // A grant whose reply takes longer than the lifetime is given back, with a LockBackendError.
          const isLocked = await shared.tryLock().catch((error) => {
            if (error.code !== 'ERR_LOCK_BACKEND') throw error;
          });
          if (isLocked !== undefined) return Number(isLocked);
        }
      };
      expect(await both(unlock, take)).to.equal(false);
    });

    it('what the first gets is not the second’s: fence, signal, locked, extend, keyOwned', async () => {
      const told = await both(async (secondFence) => {
        const { fence, signal, locked } = shared;
        expect(secondFence).to.be.greaterThan(0);
        return [fence, signal.aborted, locked, await shared.extend(), await shared.keyOwned()];
      });
      expect(told).to.deep.equal([0, true, false, false, false]);
    });

    it('a caller that locks again unlocks what it has now, also when a function that it called has locked', async () => {
      const again = async (): Promise<void> => {
        await turn();
        await lockForLong();
      };
      await caller(async () => {
        await shared.lock(brief);
        await waitFor(() => !shared.locked);
        await again();
        expect(shared.locked).to.equal(true);
        expect(await shared.unlock()).to.equal(true);
        expect(await here.holder(key)).to.equal(null);
      });
    });

    it('code without a `lock()` of its own means what the object holds', async () => {
      await caller(() => lock.lock());
      const another = caller(() => lock.unlock());
      expect(await another).to.equal(true);
      expect(await lock.unlock()).to.equal(false);
    });

    it('`unlock` in a function of `synchronize` is about that function’s own lock', async () => {
      let begin!: (value?: unknown) => void;
      const begun = new Promise((resolve) => {
        begin = resolve;
      });
      const second = caller(async () => {
        await begun;
        await lockForLong();
      });
      const result = await shared.synchronize(brief, async () => {
        await waitFor(() => !shared.locked);
        begin();
        await second;
        return shared.unlock();
      });
      expect(result).to.equal(false);
      expect(await here.holder(key)).to.be.a('string');
      await here.remove(key);
    });
  });

  it('H12: impossible arguments throw in the constructor', () => {
    const wrong: [unknown, unknown][] = [
      ['', { redis: here.redis }],
      [5, { redis: here.redis }],
      [[], { redis: here.redis }],
      [key, {}],
      [key, undefined],
      [key, { redis: here.redis, lifetime: 0 }],
      [key, { redis: here.redis, retries: 5 }],
    ];
    for (const [badKey, options] of wrong) {
      const make = () => new Lock(badKey as string, options as redisExpLock.LockOptions);
      expect(thrown(make)).to.include({ code: 'ERR_LOCK_OPTION' });
    }
  });

  if (!here.place.faults) return;

  it('H72: a Redis that cannot be asked is never a "false"', async () => {
    const connection = await here.connection();
    const lonely = new Lock(key, { redis: connection.redis, commandTimeout: unansweredMs });
    connection.proxy.blackHole();
    expect(await failure(lonely.keyLocked())).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(await failure(lonely.tryLock())).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(lonely.locked).to.equal(false);
    connection.proxy.heal();
  });
});
