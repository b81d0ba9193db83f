// `reentrant: true`: calls inside a function that holds a key join its lock.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach } from './places';

const atOnce = { timeout: 0 };

describeEach('reentrant locks', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey('reentrant');
    withLock = redisExpLock({ redis: here.redis, lifetime: 10_000, commandTimeout: 10_000, reentrant: true });
  });

  const isLocked = async (): Promise<boolean> => (await withLock.inspect(key)).locked;

  it('each form joins the lock of the function around it, with its fence, and releases nothing', async () => {
    await withLock.run(key, async ({ fence, token }) => {
      await withLock.run(key, async (inner) => {
        expect([inner.fence, inner.token]).to.deep.equal([fence, token]);
        await withLock.run(key, ({ fence: innermost }) => expect(innermost).to.equal(fence));
      });
      const tried = await withLock.tryRun(key, (inner) => inner.fence);
      expect(tried).to.deep.equal({ ran: true, value: fence });
      for (const take of [withLock.promise, withLock.tryLock]) {
        const lease = (await take(key))!;
        expect([lease.fence, lease.key, lease.keys, lease.retries]).to.deep.equal([fence, key, [key], 0]);
        expect(lease.remaining()).to.be.within(1, 10_000);
        expect(await Promise.all([lease.release(), lease()])).to.deep.equal([true, true]);
        expect([lease.remaining(), await lease.extend(10_000)]).to.deep.equal([0, false]);
      }
      const done = await new Promise<redisExpLock.Lease>((resolve, reject) => {
        withLock(key, (err, lease) => (err ? reject(err) : resolve(lease)));
      });
      expect(await new Promise((resolve) => done((_err, released) => resolve(released)))).to.equal(true);
      expect([done.fence, await isLocked()]).to.deep.equal([fence, true]);
    });
    expect(await isLocked()).to.equal(false);
  });

  it('an option of a single call is enough, and joins a lock that was taken without it', async () => {
    const plain = redisExpLock({ redis: here.redis, lifetime: 10_000, commandTimeout: 10_000 });
    await plain.run(key, async ({ fence }) => {
      expect(await plain.run(key, { ...atOnce, reentrant: true }, (inner) => inner.fence)).to.equal(fence);
      expect((await failure(plain.run(key, atOnce, () => {}))).code).to.equal('ERR_LOCK_TIMEOUT');
    });
    await withLock.run(key, async () => {
      const error = await failure(withLock.run(key, { ...atOnce, reentrant: false }, () => {}));
      expect(error.code).to.equal('ERR_LOCK_TIMEOUT');
    });
  });

  it('some of several keys join; a key more does not', async () => {
    const [one, other, third] = ['one', 'other', 'third'].map((name) => `{${key}}:${name}`) as [string, string, string];
    await withLock.run([one, other], async ({ fence }) => {
      expect(await withLock.run(other, (inner) => inner.fence)).to.equal(fence);
      expect((await failure(withLock.run([one, third], atOnce, () => {}))).code).to.equal('ERR_LOCK_TIMEOUT');
    });
  });

  it('other contexts do not join', async () => {
    let inside = 0;
    const alone = async (): Promise<void> => {
      inside += 1;
      await sleep(5);
      await withLock.run(key, () => expect(inside).to.equal(1));
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 10 }, () => withLock.run(key, { timeout: 15_000 }, alone)));
    const lease = await withLock.promise(key);
    expect((await failure(withLock.promise(key, atOnce))).code).to.equal('ERR_LOCK_TIMEOUT');
    await lease.release();
  });

  it('other modes do not join: a permit, a writer, and a mutex of a key that is held in another mode', async () => {
    const options = { redis: here.redis, lifetime: 10_000, commandTimeout: 10_000, reentrant: true, timeout: 20_000 };
    const semaphore = new redisExpLock.Semaphore(`${key}:s`, 1, options);
    await semaphore.run(async () => {
      expect((await failure(semaphore.run({ timeout: 100 }, () => {}))).code).to.equal('ERR_LOCK_TIMEOUT');
      expect((await failure(withLock.run(`${key}:s`, { timeout: 100 }, () => {}))).code).to.be.oneOf(foreign);
    });
    const lock = new redisExpLock.RWLock(`${key}:rw`, options);
    await lock.write(async () => {
      expect((await failure(lock.write({ timeout: 100 }, () => {}))).code).to.equal('ERR_LOCK_TIMEOUT');
    });
  });

  it('H70: the key stays locked until the last function that joined has ended, also if nobody waits for it', async () => {
    const steps: string[] = [];
    let joined: Promise<void> | undefined;
    let left: (() => void) | undefined;
    const outer = withLock.run(key, () => {
      joined = withLock.run(key, async ({ signal }) => {
        await new Promise<void>((resolve) => (left = resolve));
        expect([await isLocked(), signal.aborted]).to.deep.equal([true, false]);
        steps.push('inner');
      });
      steps.push('outer function');
    });
    const end = outer.then(() => steps.push('outer'));
    while (left === undefined) await sleep(1);
    expect(await isLocked()).to.equal(true);
    left();
    await Promise.all([end, joined]);
    expect(steps).to.deep.equal(['outer function', 'inner', 'outer']);
    expect(await isLocked()).to.equal(false);
  });

  it('calls after the function has ended take a lock of their own', async () => {
    let later: Promise<number> | undefined;
    const fence = await withLock.run(key, (lease) => {
      later = sleep(50).then(() => withLock.run(key, { timeout: 15_000 }, (own) => own.fence));
      return lease.fence;
    });
    expect(await later).to.be.greaterThan(fence);
  });

  it('H70: code that goes on after its function, beside one that joined and still runs, does not join', async () => {
    let end: (() => void) | undefined;
    const order: string[] = [];
    let later: Promise<void> | undefined;
    let hasAsked = false;
    const outer = withLock.run(key, () => {
      void withLock.run(key, async () => {
        await new Promise<void>((resolve) => (end = resolve));
        order.push('joined');
      });
      later = sleep(20).then(() => {
        hasAsked = true;
        return withLock.run(key, { timeout: 15_000 }, () => void order.push('later'));
      });
    });
    while (end === undefined || !hasAsked) await sleep(1);
    await sleep(40);
    end();
    await Promise.all([outer, later]);
    expect(order).to.deep.equal(['joined', 'later']);
  });

  it('a lost lock is lost for all that joined, each with its result', async () => {
    const outer = failure(
      withLock.run(key, async (lease) => {
        const inner = await failure(
          withLock.run(key, async ({ signal }) => {
            const joined = await withLock.promise(key);
            await here.remove(key);
            expect(await joined.extend(10_000)).to.equal(false);
            expect([signal.aborted, lease.signal.aborted, await joined.release()]).to.deep.equal([true, true, false]);
            return 'inner';
          }),
        );
        expect(inner).to.include({ code: 'ERR_LOCK_LOST', result: 'inner' });
        return 'outer';
      }),
    );
    expect(await outer).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing', result: 'outer' });
  });

  it('a joined lease that was released is over, also if it is called through a wrapper', async () => {
    await withLock.run(key, async () => {
      const joined = new Proxy(await withLock.promise(key), {});
      expect(joined.remaining()).to.be.greaterThan(0);
      expect(await joined.release()).to.equal(true);
      expect([joined.remaining(), await joined.extend(20_000)]).to.deep.equal([0, false]);
      expect(await isLocked()).to.equal(true);
    });
  });

  it('errors pass: of the inner function, of an aborted signal, of a closed factory', async () => {
    await withLock.run(key, async () => {
      expect((await failure(withLock.run(key, () => Promise.reject(new Error('inner'))))).message).to.equal('inner');
      const signal = AbortSignal.abort(new Error('enough'));
      expect((await failure(withLock.run(key, { signal }, () => {}))).message).to.equal('enough');
      expect((await failure(withLock.promise(key, { lifetime: 0 }))).code).to.equal('ERR_LOCK_OPTION');
      const lease = await withLock.promise(key);
      expect(() => lease.detach()).to.throw('detach');
      expect(await isLocked()).to.equal(true);
      const closing = withLock.close();
      expect((await failure(withLock.run(key, () => {}))).code).to.equal('ERR_LOCK_CLOSED');
      void closing;
    });
  });

  it('H70: without it, the error of an endless wait names it', async () => {
    const plain = redisExpLock({ redis: here.redis, lifetime: 10_000, commandTimeout: 10_000 });
    await plain.run(key, async () => {
      const error = await failure(plain.run(key, { timeout: Number.POSITIVE_INFINITY }, () => {}));
      expect(error.code).to.equal('ERR_LOCK_DEADLOCK');
      expect(error.message).to.contain('with `reentrant: true` the call would join that lock');
    });
  });
});

/** A mutex finds a semaphore's key to be of another type, or to be held. */
const foreign = ['ERR_LOCK_BACKEND', 'ERR_LOCK_TIMEOUT'];
