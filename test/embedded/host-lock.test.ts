// HostLock: the Lua original's object, and its faults that are none here.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { Database } from '../../src/store/embedded/shared-memory/sqlite';
import { failure, fileOfCaller, pending, thrown } from '../contract/outcomes';
import { kill9, startChild, waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { describeWithEngine } from './engine';
import { ownRuntimeFolder } from './folder';

const { HostLock, sharedMemoryStore } = redisExpLock;
const name = 'host';

describeWithEngine('HostLock', () => {
  const runtime = ownRuntimeFolder();
  let key: string;
  let withLock: redisExpLock.WithLock;
  let store: redisExpLock.Store;

  before(() => {
    store = sharedMemoryStore(name);
    withLock = redisExpLock({ redis: store });
  });
  after(() => store.close());
  beforeEach(() => {
    key = uniqueKey();
  });

  describe('lock and unlock', () => {
    it('0 ms when free at once; `key` says what it has; true when it was ours', async () => {
      const lock = new HostLock(name);
      expect(lock).to.include({ name, key: null });
      expect(await lock.lock(key)).to.equal(0);
      expect(lock.key).to.equal(key);
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await lock.unlock()).to.equal(true);
      expect(lock.key).to.equal(null);
      expect(await lock.lock(key)).to.equal(0);
      await lock.unlock();
    });

    it('one lock for each object: `locked`, also while it is still asking', async () => {
      const lock = new HostLock(name);
      const first = lock.lock(key);
      for (const other of [key, uniqueKey()]) {
        const error = await failure(lock.lock(other));
        expect(error).to.be.instanceOf(redisExpLock.AlreadyAcquiredLockError);
        expect(error).to.include({ message: 'locked', key: other });
      }
      expect(await first).to.equal(0);
      expect(await failure(lock.lock(key))).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED' });
      expect(await lock.unlock()).to.equal(true);
    });

    it('of nothing: `unlocked`', async () => {
      const lock = new HostLock(name);
      for (const call of [() => lock.unlock(), () => lock.expire()]) {
        const error = await failure(call());
        expect(error).to.be.instanceOf(redisExpLock.NotAcquiredLockError);
        expect(error.message).to.equal('unlocked');
      }
    });

    it('H48: after it expired, unlock is false and leaves the present holder alone', async () => {
      const lock = new HostLock(name, { lifetime: 20 });
      await lock.lock(key);
      await waitFor(async () => !(await withLock.inspect(key)).locked);
      const other = new HostLock(name);
      expect(await other.lock(key)).to.equal(0);
      expect((await failure(lock.expire(60_000))).message).to.equal('not found');
      expect(await lock.unlock()).to.equal(false);
      expect((await withLock.inspect(key)).locked).to.equal(true);
      expect((await failure(lock.unlock())).message).to.equal('unlocked');
      expect(await other.unlock()).to.equal(true);
    });

    it('H49: a second unlock touches no other key, and not the same key in other hands', async () => {
      const [one, two] = [new HostLock(name), new HostLock(name)];
      await one.lock(key);
      const answers = [one.unlock(), one.unlock().catch((error) => error.message)];
      await two.lock(key);
      expect(await Promise.all(answers)).to.include(true);
      await failure(one.unlock());
      expect(await two.unlock()).to.equal(true);
    });

    it('H49: an unlock that fails leaves the object its lock, and can be tried again', async () => {
      const lock = new HostLock(name);
      await lock.lock(key);
      const folder = join(runtime(), 'redis-exp-lock');
      const file = readdirSync(folder).find((each) => each.startsWith(`${name}-`) && each.endsWith('.sqlite'))!;
      const other = new Database(join(folder, file));
      try {
        const error = await other.transaction(() => failure(lock.unlock())); // another connection writes meanwhile
        expect(error).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'BUSY' });
      } finally {
        other.close();
      }
      expect(lock.key).to.equal(key);
      expect(await failure(lock.lock(uniqueKey()))).to.be.instanceOf(redisExpLock.AlreadyAcquiredLockError);
      expect(await lock.unlock()).to.equal(true);
      expect(await withLock.inspect(key)).to.include({ locked: false });
    });

    it('H51: a number is no key; a lifetime of 0 is refused', async () => {
      const lock = new HostLock(name);
      for (const bad of [undefined, null, 1, {}, ['a']]) {
        const error = await failure(lock.lock(bad as any));
        expect(error).to.be.instanceOf(TypeError);
        expect(error.code).to.equal('ERR_LOCK_OPTION');
      }
      expect(await failure(lock.lock(''))).to.include({ code: 'ERR_LOCK_OPTION' });
      expect(thrown(() => new HostLock(name, { lifetime: 0 }))).to.be.instanceOf(RangeError);
    });
  });

  describe('expire', () => {
    it('sets a new time to live; without an argument the constructor’s', async () => {
      const lock = new HostLock(name, { lifetime: 40_000 });
      await lock.lock(key);
      expect(await lock.expire(5_000)).to.equal(true);
      expect((await withLock.inspect(key)).remaining).to.be.within(4_000, 5_000);
      expect(await lock.expire()).to.equal(true);
      expect((await withLock.inspect(key)).remaining).to.be.within(39_000, 40_000);
      await lock.unlock();
    });

    it('0, and anything that is no time, is refused, and the lock is still held', async () => {
      const lock = new HostLock(name);
      await lock.lock(key);
      for (const bad of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        expect(await failure(lock.expire(bad))).to.be.instanceOf(RangeError);
      }
      expect(await failure(lock.expire('5' as any))).to.be.instanceOf(TypeError);
      expect(await lock.unlock()).to.equal(true);
    });
  });

  describe('steps, on a clock of the test', () => {
    let clock: sinon.SinonFakeTimers;
    let held: redisExpLock.Lease;
    /** The sleeps in ms that a HostLock has asked for and `sleeps` has not let pass. Others may set timers on this clock too. */
    let asked: number[];

    beforeEach(async () => {
      held = await withLock.promise(key, { lifetime: 3_600_000 });
      clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      asked = [];
      const { setTimeout: set } = globalThis;
      globalThis.setTimeout = ((ring: () => void, ms: number) => {
        if (fileOfCaller().endsWith('/host-lock.ts')) asked.push(ms);
        return set(ring, ms);
      }) as typeof setTimeout;
    });
    afterEach(async () => {
      clock.restore(); // also puts the real setTimeout back
      await held();
    });

    const { setImmediate: turn } = globalThis;

    /** Every sleep there was, until it ended. */
    async function sleeps(waiting: Promise<unknown>, most = 200): Promise<number[]> {
      const slept: number[] = [];
      let ended = false;
      const end = () => {
        ended = true;
      };
      waiting.then(end, end);
      while (slept.length < most) {
        await new Promise((resolve) => turn(resolve));
        if (ended) break;
        const ms = asked.shift();
        if (ms === undefined) continue;
        await clock.tickAsync(ms);
        slept.push(ms);
      }
      return slept;
    }

    it('1, 2, 4 … up to maxStep, the last cut to what is left of timeout', async () => {
      const waiting = failure(new HostLock(name, { timeout: 1000, maxStep: 100 }).lock(key));
      const slept = await sleeps(waiting);
      expect(slept).to.deep.equal([1, 2, 4, 8, 16, 32, 64, 100, 100, 100, 100, 100, 100, 100, 100, 73]);
      const error = await waiting;
      expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError);
      expect(error).to.include({ message: 'timeout', key });
    });

    it('the defaults: 1, ×2, at most 500, 5 s in all', async () => {
      const slept = await sleeps(failure(new HostLock(name).lock(key)));
      expect(slept).to.deep.equal([1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 500, 500, 500, 500, 500, 500, 489]);
    });

    it('resolves with the sum of the steps slept', async () => {
      const waiting = new HostLock(name).lock(key);
      await sleeps(waiting, 5);
      await held();
      await sleeps(waiting, 1);
      expect(await waiting).to.equal(1 + 2 + 4 + 8 + 16 + 32);
    });

    it('a step that shrinks is at least 1 ms', async () => {
      const slept = await sleeps(failure(new HostLock(name, { step: 8, ratio: 0.5, timeout: 20 }).lock(key)));
      expect(slept).to.deep.equal([8, 4, 2, 1, 1, 1, 1, 1, 1]);
    });

    it('a ratio of 1 keeps the step; fractions of a ms come out exactly too', async () => {
      const lock = new HostLock(name, { step: 2.5, ratio: 1, timeout: 100 });
      const waiting = lock.lock(key);
      await sleeps(waiting, 3);
      await held();
      await sleeps(waiting, 1);
      expect(await waiting).to.equal(10);
      await lock.unlock();
    });

    it('a given timeout is cut to lifetime, a given step to timeout', async () => {
      expect(
        await sleeps(failure(new HostLock(name, { lifetime: 50, timeout: 400, step: 80 }).lock(key))),
      ).to.deep.equal([50]);
      expect(await sleeps(failure(new HostLock(name, { timeout: 30, step: 80, maxStep: 20 }).lock(key)))).to.deep.equal(
        [20, 10],
      );
    });

    it('timeout 0: one attempt, no sleep', async () => {
      const error = await failure(new HostLock(name, { timeout: 0 }).lock(key));
      expect(error).to.include({ code: 'ERR_LOCK_TIMEOUT', message: 'timeout' });
      expect(asked).to.deep.equal([]);
    });

    it('an attempt that failed leaves the object free for another', async () => {
      const lock = new HostLock(name, { timeout: 0 });
      await failure(lock.lock(key));
      expect(lock.key).to.equal(null);
      expect(await lock.lock(`${key}:other`)).to.equal(0);
      await lock.unlock();
    });
  });

  describe('H48: an object that is collected without unlock', () => {
    const collect = async (isDone: () => Promise<boolean>): Promise<void> => {
      await waitFor(async () => {
        global.gc!();
        return isDone();
      });
    };

    it('frees its key', async () => {
      await (async () => void (await new HostLock(name, { lifetime: 600_000 }).lock(key)))();
      expect((await withLock.inspect(key)).locked).to.equal(true);
      await collect(async () => !(await withLock.inspect(key)).locked);
    });

    it('frees its own key only: not that of the holder by then', async () => {
      let gone = false;
      const watch = new FinalizationRegistry(() => {
        gone = true;
      });
      await (async () => {
        const lock = new HostLock(name, { lifetime: 20 });
        watch.register(lock, undefined);
        await lock.lock(key);
      })();
      await waitFor(async () => !(await withLock.inspect(key)).locked);
      const next = new HostLock(name);
      await next.lock(key);
      await collect(async () => gone);
      for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
      expect((await withLock.inspect(key)).locked).to.equal(true);
      expect(await next.unlock()).to.equal(true);
    });

    it('one that was unlocked, and is collected, touches nothing', async () => {
      await (async () => {
        const lock = new HostLock(name);
        await lock.lock(key);
        await lock.unlock();
      })();
      const next = new HostLock(name);
      await next.lock(key);
      for (let n = 0; n < 20; n++) {
        global.gc!();
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(await next.unlock()).to.equal(true);
    });

    it('one that is asked for, and waits, is not collected', async () => {
      const held = await withLock.promise(key, { lifetime: 60_000 });
      const waiting = new HostLock(name, { timeout: 20_000 }).lock(key);
      for (let n = 0; n < 10; n++) global.gc!();
      expect(await pending(waiting)).to.equal(true);
      await held();
      expect(await waiting).to.be.greaterThan(0);
    });
  });

  it('a table that it shares with withLock and with other processes: a holder there is killed, and it is free', async () => {
    const child = startChild(join(__dirname, 'children/worker.ts'), ['hold', name, key, '60000']);
    const { detached } = await child.receive();
    await kill9(child);
    expect(await failure(new HostLock(name, { timeout: 0 }).lock(key))).to.include({ message: 'timeout' });
    const lock = new HostLock(name);
    const waiting = lock.lock(key);
    expect(await pending(waiting)).to.equal(true);
    // Only now its lifetime nears its end.
    const adopted = await withLock.adopt(detached, { lifetime: 60_000 });
    await adopted!.extend(300);
    expect(await waiting).to.be.greaterThan(0);
    expect(await lock.unlock()).to.equal(true);
  });

  it('options: what is wrong is refused, and the original’s names are known', () => {
    for (const options of [
      null,
      5,
      [],
      { timeout: -1 },
      { step: 0 },
      { ratio: 0 },
      { maxStep: -1 },
      { lifetime: 1.5 },
    ]) {
      expect(thrown(() => new HostLock(name, options as any))).to.include({ code: 'ERR_LOCK_OPTION' });
    }
    expect(thrown(() => new HostLock(name, { exptime: 1 } as any)).message).to.contain('lifetime');
    expect(thrown(() => new HostLock(name, { max_step: 1 } as any)).message).to.contain('maxStep');
    for (const bad of ['', '../x', 5, undefined]) {
      expect(thrown(() => new HostLock(bad as any))).to.include({ code: 'ERR_LOCK_OPTION' });
    }
  });
});
