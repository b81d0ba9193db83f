// The memory store beyond the contract: a clock to hand in, locks that end on demand, and a table that stays small.
import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { failure, thrown } from '../contract/outcomes';
import { keysOf, tableOf } from '../support/embedded-table';
import { waitFor } from '../support/processes';

const { memoryStore, RWLock, Semaphore } = redisExpLock;

describe('the memory store', () => {
  it('each call makes another place', async () => {
    const [one, two] = [memoryStore(), memoryStore()];
    expect(one.kind).to.equal('memory');
    const leases = await Promise.all([one, two].map((redis) => redisExpLock({ redis }).promise('key')));
    expect(await redisExpLock({ redis: one }).tryLock('key')).to.equal(null);
    for (const lease of leases) expect(await lease()).to.equal(true);
  });

  it('waiting is by place: first come, first served, with fences that rise', async () => {
    const withLock = redisExpLock({ redis: memoryStore(), lifetime: 10_000, timeout: 10_000 });
    const served: number[] = [];
    const fences: number[] = [];
    await Promise.all(
      Array.from({ length: 300 }, (_, n) =>
        withLock.run('key', async (lease) => {
          served.push(n);
          fences.push(lease.fence);
          if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
        }),
      ),
    );
    expect(served).to.deep.equal(Array.from({ length: 300 }, (_, n) => n));
    for (const [n, fence] of fences.entries()) if (n > 0) expect(fence).to.be.greaterThan(fences[n - 1]!);
  });

  it('a waiter is woken by the release, and requests nothing meanwhile', async () => {
    const store = memoryStore();
    const [one, two] = [redisExpLock({ redis: store }), redisExpLock({ redis: store })];
    const lease = await one.promise('key', { lifetime: 60_000 });
    const waiting = two.promise('key', { timeout: 60_000, lifetime: 5_000 });
    await waitFor(async () => (await one.inspect('key')).waiters === 1);
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'Date', 'performance'] }); // which stands still
    await lease();
    const next = await waiting.finally(() => clock.restore());
    expect(next.fence).to.be.greaterThan(lease.fence);
    await next();
  });

  it('on a clock that stands at 0: a second writer that waits is no reader that upgrades', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['Date', 'performance'], now: 0 });
    try {
      const lock = new redisExpLock.RWLock('key', { redis: memoryStore(), lifetime: 60_000, timeout: 60_000 });
      const reader = await lock.acquireRead();
      const writers = [lock.acquireWrite(), lock.acquireWrite()];
      await new Promise((resolve) => setImmediate(resolve));
      await reader.upgrade();
      expect(reader.mode).to.equal('write');
      await reader();
      for (const writer of writers) expect(await (await writer)()).to.equal(true);
    } finally {
      clock.restore();
    }
  });

  it('H24: a release that cannot be carried out is an error, counts as handled, and can be tried again', async () => {
    const store = memoryStore();
    const table = tableOf(store);
    const lease = await redisExpLock({ redis: store }).promise('key');
    const failing = sinon.stub(table, 'run').throws(new redisExpLock.LockBackendError('out of order'));
    void lease(); // nobody awaits this one
    await new Promise((resolve) => setImmediate(resolve));
    expect(await failure(lease())).to.include({ code: 'ERR_LOCK_BACKEND', message: 'out of order' });
    failing.restore();
    expect(await lease()).to.equal(true);
  });

  it('H47: lifetimes are each lock’s own, by a clock that is handed in', async () => {
    let nowMs = 1000;
    const withLock = redisExpLock({ redis: memoryStore({ now: () => nowMs }) });
    const short = await withLock.promise('short', { lifetime: 10_000 });
    await withLock.promise('long', { lifetime: 20_000 });
    nowMs += 9_999;
    expect((await withLock.inspect('short')).remaining).to.equal(1);
    nowMs += 1;
    expect(await withLock.inspect('short')).to.include({ locked: false });
    expect(await withLock.inspect('long')).to.include({ locked: true, remaining: 10_000 });
    const next = await withLock.promise('short');
    expect(next.fence).to.be.greaterThan(short.fence);
    expect(await short()).to.equal(false);
  });

  it('a clock that goes back ends nothing sooner, and no fence falls', async () => {
    let nowMs = 1_000_000;
    const withLock = redisExpLock({ redis: memoryStore({ now: () => nowMs }) });
    const first = await withLock.promise('key', { lifetime: 10_000 });
    nowMs = 5;
    expect((await withLock.inspect('key')).remaining).to.equal(10_000);
    nowMs += 10_000;
    const second = await withLock.promise('key');
    expect(second.fence).to.be.greaterThan(first.fence);
  });

  it('a lock that is valid until its last part of a ms has no other holder before', async () => {
    const clock = sinon.useFakeTimers();
    try {
      clock.tick(0.5); // the store's ms and those of the wall clock do not begin together
      const withLock = redisExpLock({ redis: memoryStore(), lifetime: 100 });
      clock.tick(0.9);
      const lease = await withLock.promise('key');
      clock.tick(99.1);
      expect(await withLock.tryLock('key'), 'its whole ms are over').to.not.equal(null);
      expect(lease.remaining()).to.equal(0);
    } finally {
      clock.restore();
    }
  });

  it('fake timers own it', async () => {
    const withLock = redisExpLock({ redis: memoryStore(), lifetime: 10_000 });
    const clock = sinon.useFakeTimers();
    try {
      const lease = await withLock.promise('key');
      const { signal } = lease;
      const waiting = withLock.promise('key', { timeout: 60_000 });
      await clock.tickAsync(9_980);
      expect(signal.aborted).to.equal(false);
      await clock.tickAsync(2_000);
      expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired' });
      const next = await waiting;
      expect(next.fence).to.be.greaterThan(lease.fence);
      await next();
    } finally {
      clock.restore();
    }
  });

  it('`timeout` is the longest wait of `cached`, also for a value that another caller of the process loads', async () => {
    const withLock = redisExpLock({ redis: memoryStore() });
    const clock = sinon.useFakeTimers();
    try {
      let finish!: (value: string) => void;
      const loading = withLock.cached(
        'key',
        { ttl: 60_000 },
        () => new Promise<string>((resolve) => (finish = resolve)),
      );
      const late = withLock.cached('key', { ttl: 60_000, timeout: 40 }, () => 'another');
      let error: unknown;
      late.catch((reason) => (error = reason));
      await clock.tickAsync(39);
      expect(error).to.equal(undefined);
      await clock.tickAsync(2);
      expect(error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      expect((error as Error).message).to.include('within 40 ms');
      const third = withLock.cached('key', { ttl: 60_000 }, () => 'a third');
      finish('the first');
      expect(await Promise.all([loading, third])).to.deep.equal(['the first', 'the first']);
    } finally {
      clock.restore();
    }
  });

  it('ten thousand callers of a semaphore hand its permits off without a command, in their order', async () => {
    const store = memoryStore();
    const semaphore = new Semaphore('key', 3, { redis: store, timeout: 60_000, lifetime: 60_000 });
    const run = sinon.spy(tableOf(store), 'run');
    const served: number[] = [];
    const all = Array.from({ length: 10_000 }, (_, n) => n);
    const use = (n: number): Promise<void> =>
      semaphore.run(async () => {
        served.push(n);
        await turn();
      });
    await Promise.all(all.map(use));
    expect(served).to.deep.equal(all);
    expect(run.callCount).to.be.below(1_000); // 20,000 if each caller acquired and released a permit of its own
  });

  it('four thousand writers that wait ask 1,250 times a second in all, and are served in their order', async () => {
    const store = memoryStore();
    const lock = new RWLock('key', { redis: store, timeout: 3_600_000, lifetime: 3_600_000 });
    const lease = await lock.acquireWrite();
    const clock = sinon.useFakeTimers();
    try {
      const served: number[] = [];
      const all = Array.from({ length: 4_000 }, (_, n) => n);
      const waits = all.map((n) => lock.write(() => void served.push(n)));
      await clock.tickAsync(4_000); // each has made a second request, and announced how often it asks
      const run = sinon.spy(tableOf(store), 'run');
      await clock.tickAsync(5_000);
      expect(run.callCount).to.be.within(4_000, 9_000); // 11,000 if each asked as often as one alone
      run.restore();
      await lease();
      while (served.length < all.length) await clock.tickAsync(10);
      await Promise.all(waits);
      expect(served).to.deep.equal(all);
    } finally {
      clock.restore();
    }
  });

  it('a caller that times out looks at a hundred held locks for its message: ten thousand may time out at once', async () => {
    const withLock = redisExpLock({ redis: memoryStore(), lifetime: 60_000 });
    const keys = ['first', ...Array.from({ length: 99 }, (_, n) => `key ${n}`), 'the 101st'];
    for (const key of keys) await withLock.promise(key);
    const messageOf = async (key: string) => (await failure(withLock.promise(key, { timeout: 0 }))).message;
    expect(await messageOf('first')).to.include('held in this process');
    expect(await messageOf('the 101st')).to.not.include('held in this process');
    expect(await messageOf('the 101st')).to.include('was not free within 0 ms');
  });

  describe('on demand', () => {
    it('`expire` ends a lock: the next in the queue has it, the holder learns at its next extension', async () => {
      const store = memoryStore();
      const withLock = redisExpLock({ redis: store, lifetime: 60_000 });
      const lease = await withLock.promise('key');
      const waiting = redisExpLock({ redis: store }).promise('key', { timeout: 60_000 });
      await waitFor(async () => (await withLock.inspect('key')).waiters === 1);
      expect(store.expire('key')).to.equal(true);
      const next = await waiting;
      expect(lease.signal.aborted).to.equal(false);
      expect(await lease.extend()).to.equal(false);
      expect(lease.signal.reason).to.include({ reason: 'taken' });
      await next();
      expect(store.expire('key')).to.equal(false);
    });

    it('H12: `expire` and `seize` of what is no key, or for what is no lifetime, are refused by name', async () => {
      const store = memoryStore() as any;
      const evil = { [inspect.custom]: () => expect.fail('looked at'), toString: () => expect.fail('made a text') };
      for (const key of [10n, Symbol('key'), undefined, 5, evil, '']) {
        expect(thrown(() => store.expire(key))).to.include({ code: 'ERR_LOCK_OPTION' });
        expect(thrown(() => store.seize(key))).to.include({ code: 'ERR_LOCK_OPTION' });
      }
      for (const lifetime of [10n, '5', 0, -1, Number.NaN, null, evil]) {
        expect(thrown(() => store.seize('key', lifetime))).to.include({ code: 'ERR_LOCK_OPTION' });
      }
      expect((await redisExpLock({ redis: store }).inspect('key')).locked).to.equal(false);
    });

    it('`run` learns of it by renewing, and says so', async () => {
      const store = memoryStore();
      const withLock = redisExpLock({ redis: store, lifetime: 150 });
      const running = withLock.run('key', async ({ signal }) => {
        store.expire('key');
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return 'stopped';
      });
      expect(await failure(running)).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing', result: 'stopped' });
    });

    it('`seize` gives it to a stranger, until it is expired', async () => {
      const store = memoryStore();
      const withLock = redisExpLock({ redis: store });
      store.seize('key');
      expect(await withLock.tryLock('key')).to.equal(null);
      expect(await withLock.inspect('key')).to.include({ remaining: Number.POSITIVE_INFINITY, owner: null });
      store.expire('key');
      const lease = await withLock.promise('key');
      store.seize('key', 30);
      expect(await lease()).to.equal(false);
      await (await withLock.promise('key', { timeout: 5000 }))();
    });
  });

  it('does not grow with every key that was ever used, and forgets nothing that matters', async () => {
    const store = memoryStore();
    const withLock = redisExpLock({ redis: store, lifetime: 60_000 });
    const held = await Promise.all(Array.from({ length: 100 }, (_, n) => withLock.promise(`held:${n}`)));
    const many = await withLock.promise(Array.from({ length: 50 }, (_, n) => `together:${n}`));
    const fences = new Map<number, number>();
    for (let n = 0; n < 30_000; n++) {
      const lease = await withLock.promise(`free:${n % 9_000}`);
      expect(lease.fence).to.be.greaterThan(fences.get(n % 9_000) ?? 0);
      fences.set(n % 9_000, lease.fence);
      await lease();
    }
    expect(keysOf(store).length).to.be.lessThan(5_000);
    for (const lease of [...held, many]) expect(await lease()).to.equal(true);
  });

  it('does not forget readers, permits, their waiters, or what is cached; and forgets them when they are over', async () => {
    const store = memoryStore();
    const withLock = redisExpLock({ redis: store, lifetime: 60_000 });
    const rw = new redisExpLock.RWLock('rw', { redis: store, lifetime: 60_000 });
    const semaphore = new redisExpLock.Semaphore('semaphore', 2, { redis: store, lifetime: 60_000 });
    const [reader, permits] = [await rw.acquireRead(), await semaphore.acquire(2)];
    const waiting = semaphore.acquire(1, { timeout: 60_000 });
    await withLock.cached('cached', { ttl: 60_000 }, () => 'kept');
    const crowd = async () => {
      for (let n = 0; n < 6_000; n++) await (await rwOf(n).acquireWrite()).release();
    };
    const rwOf = (n: number) => new redisExpLock.RWLock(`free:${n}`, { redis: store });
    await crowd();
    expect(keysOf(store).length).to.be.lessThan(5_000);
    expect(await withLock.cached('cached', { ttl: 60_000 }, () => 'again')).to.equal('kept');
    expect(await failure(rw.acquireWrite({ maxRetries: 0 }))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect(await withLock.inspect('semaphore')).to.include({ mode: 'permits', waiters: 1 });
    expect([await reader.release(), await permits.release()]).to.deep.equal([true, true]);
    expect(await (await waiting).release()).to.equal(true);
    await crowd();
    expect(keysOf(store)).not.to.include.members(['rw']);
    expect(keysOf(store)).not.to.include.members(['semaphore']);
  });

  it('a closed store refuses; options that are none are refused', async () => {
    const store = memoryStore();
    await store.close();
    const error = await failure(redisExpLock({ redis: store }).promise('key'));
    expect(error).to.include({ code: 'ERR_LOCK_BACKEND', retryable: false, key: 'key' });
    for (const bad of [5, null, { clock: 1 }, { now: 5 }]) {
      expect(thrown(() => memoryStore(bad as any))).to.include({ code: 'ERR_LOCK_OPTION' });
    }
  });

  it('minReplicas is refused: there are none', async () => {
    const error = await failure(redisExpLock({ redis: memoryStore(), minReplicas: 1 }).promise('key'));
    expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
  });
});
