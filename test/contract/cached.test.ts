// `withLock.cached`: load once, for everybody. What is stored is what waits are served; what failed is stored nowhere.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach } from './places';

describeEach('cached', (here) => {
  let key: string;
  let near: redisExpLock.WithLock;
  let far: redisExpLock.WithLock;
  let loads: number;
  const ttl = 60_000;
  /** A busy machine may hold up a reply for seconds. */
  const patient = { lifetime: 10_000, commandTimeout: 10_000 };
  const slow = async () => {
    loads += 1;
    await sleep(30);
    return { loads };
  };

  beforeEach(() => {
    key = uniqueKey('cached');
    loads = 0;
    near = redisExpLock({ redis: here.redis, ...patient });
    far = redisExpLock({ redis: here.elsewhere, ...patient });
  });

  it('loads once, and serves everybody the same, here and elsewhere, now and later', async () => {
    const calls = Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? near : far).cached(key, { ttl }, slow));
    expect(await Promise.all(calls)).to.deep.equal(Array(50).fill({ loads: 1 }));
    expect(await far.cached(key, { ttl }, slow)).to.deep.equal({ loads: 1 });
    expect(await here.holder(key)).to.equal(null);
  });

  it('loads again when its time is over', async () => {
    await near.cached(key, { ttl: 50 }, slow);
    await sleep(120);
    expect(await far.cached(key, { ttl }, slow)).to.deep.equal({ loads: 2 });
  });

  it('a loader that throws leaves nothing stored, and the next in the queue loads', async () => {
    const error = new Error('no database');
    let [begin, finish] = [(): void => {}, (): void => {}];
    const began = new Promise<void>((resolve) => (begin = resolve));
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const bad = failure(
      near.cached(key, { ttl }, async () => {
        begin();
        await finished;
        throw error;
      }),
    );
    await began;
    const good = [near.cached(key, { ttl }, slow), far.cached(key, { ttl }, slow)];
    // Where waiting polls, there is no entry to see.
    if (!here.place.polls)
      await waitFor(async () => (await near.inspect(key)).waiters === 1, { what: 'the caller elsewhere to be queued' });
    finish();
    expect(await bad).to.equal(error);
    expect(await Promise.all(good)).to.deep.equal([{ loads: 1 }, { loads: 1 }]);
  });

  it('`undefined` is remembered for emptyTtl, and not at all without', async () => {
    const none = async () => {
      loads += 1;
      return undefined;
    };
    expect(await near.cached(key, { ttl }, none)).to.equal(undefined);
    expect(await far.cached(key, { ttl, emptyTtl: 60_000 }, none)).to.equal(undefined);
    expect(await near.cached(key, { ttl }, none)).to.equal(undefined);
    expect(loads).to.equal(2);
  });

  it('null, false, 0 and "" are values', async () => {
    for (const [n, value] of [null, false, 0, ''].entries()) {
      const load = async () => {
        loads += 1;
        return value;
      };
      for (const side of [near, far]) expect(await side.cached(`${key}${n}`, { ttl }, load)).to.equal(value);
    }
    expect(loads).to.equal(4);
  });

  it('stored only while still held: a caller that was overtaken stores nothing, and returns its own value', async () => {
    const load = async () => {
      await here.seize(key, 10_000);
      return 'stale';
    };
    expect(await near.cached(key, { ttl }, load)).to.equal('stale');
    expect((await here.keys()).filter((each) => each.includes(key) && each.includes(':value'))).to.deep.equal([]);
    await here.remove(key);
    expect(await far.cached(key, { ttl }, slow)).to.deep.equal({ loads: 1 });
  });

  it('what cannot be JSON is refused, and the lock released', async () => {
    expect(await failure(near.cached(key, { ttl }, () => 5n as unknown))).to.be.instanceOf(TypeError);
    expect(await here.holder(key)).to.equal(null);
  });

  it('H75: one factory, two stores: the value of one never reaches a caller of the other', async () => {
    const another = redisExpLock.memoryStore();
    const both = redisExpLock(patient);
    const ask = (redis: redisExpLock.Options['redis'], tenant: string) =>
      both.cached(key, { ttl, redis }, async () => {
        await sleep(30);
        return tenant;
      });
    const asked = [ask(here.redis, 'one'), ask(another, 'two'), ask(here.redis, 'one'), ask(another, 'two')];
    expect(await Promise.all(asked)).to.deep.equal(['one', 'two', 'one', 'two']);
  });

  it('H75: one store, two prefixes: each has its own value', async () => {
    const ask = (prefix: string) => near.cached(key, { ttl, prefix }, () => sleep(30, prefix));
    expect(await Promise.all([ask('a:'), ask('b:'), ask('a:')])).to.deep.equal(['a:', 'b:', 'a:']);
  });

  it('a caller’s own timeout ends its own wait alone', async () => {
    let [begin, finish] = [(): void => {}, (): void => {}];
    const began = new Promise<void>((resolve) => (begin = resolve));
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const loading = near.cached(key, { ttl }, async () => {
      begin();
      await finished;
      return slow();
    });
    await began;
    expect(await failure(near.cached(key, { ttl, timeout: 40 }, slow))).to.include({ code: 'ERR_LOCK_TIMEOUT' });
    const signal = AbortSignal.timeout(20);
    expect(await failure(far.cached(key, { ttl, signal }, slow))).to.include({ name: 'TimeoutError' });
    finish();
    expect(await loading).to.deep.equal({ loads: 1 });
  });

  it('H12: ttl is needed; impossible options are refused', async () => {
    for (const options of [undefined, {}, { ttl: 0 }, { ttl: '5' }, { ttl, emptyTtl: -1 }, { ttl, expiry: 5 }]) {
      const error = await failure(near.cached(key, options as redisExpLock.CachedOptions, slow));
      expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
    }
    expect(await failure(near.cached([key] as unknown as string, { ttl }, slow))).to.be.instanceOf(TypeError);
  });
});
