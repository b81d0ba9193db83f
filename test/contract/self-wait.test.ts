// H70: waiting for oneself. And H71: several keys, in whatever order they are named.
import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach } from './places';

const endless = { timeout: Number.POSITIVE_INFINITY };

describeEach('one’s own hold', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey('own');
    withLock = redisExpLock({ redis: here.redis, lifetime: 10_000, commandTimeout: 10_000 });
  });

  it('H70: a nested call times out, and its error names the caller’s own lock', async () => {
    await withLock.run(key, async ({ fence }) => {
      const error = await failure(withLock.run(key, { timeout: 50 }, () => {}));
      expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError);
      expect(error.message).to.contain('the caller holds it itself').and.contain(String(fence));
    });
  });

  it('H70: two independent requests of one process: the error says that another call holds the lock', async () => {
    const lease = await withLock.promise(key);
    const error = await failure(withLock.promise(key, { timeout: 50 }));
    expect(error.message).to.contain(`: it is held in this process, by another call (fence ${lease.fence})`);
    expect(error.message).to.not.contain('`timeout`');
    await lease();
  });

  it('H70: calls of several contexts that time out together have errors of their own', async () => {
    const elsewhere = new AsyncResource('elsewhere');
    await withLock.run(key, async ({ fence }) => {
      const waits = { timeout: 50 };
      for (let n = 0; n < 5; n++) {
        const other = elsewhere.runInAsyncScope(() => failure(withLock.promise(key, waits)));
        const nested = failure(withLock.run(key, waits, () => {}));
        expect((await other).message).to.contain('in this process, by another call');
        expect((await nested).message)
          .to.contain('the caller holds it itself')
          .and.contain(String(fence));
      }
    });
  });

  it('a single attempt that finds the key busy says how to wait, unless the caller would wait for itself', async () => {
    const advice = '; to wait for it, set `timeout` to the longest wait in milliseconds';
    await withLock.run(key, async () => {
      for (const single of [{}, { maxRetries: 0 }, { timeout: 0 }]) {
        const nested = await failure(withLock.promise(key, single));
        expect(nested.message).to.contain(': the caller holds it itself').and.not.contain('`timeout`');
      }
    });
    const lease = await withLock.promise(key);
    const once = await failure(withLock.promise(key));
    expect(once.message).to.equal(`Exceeded max retry count: "${key}" is held by somebody else (attempts: 1)${advice}`);
    const atOnce = await failure(withLock.promise(key, { timeout: 0 }));
    expect(atOnce.message).to.match(/by another call \(fence \d+\); to wait for it, set `timeout`/);
    const twice = await failure(withLock.promise(key, { maxRetries: 1 }));
    expect(twice.message).to.match(/held by somebody else \(attempts: 2\)$/);
    await lease();
  });

  it('H70: an endless wait for what the same flow holds and renews: LockDeadlockError, at once; still held', async () => {
    await withLock.run(key, async (lease) => {
      for (const wait of [endless, { maxRetries: Number.POSITIVE_INFINITY }]) {
        const error = await failure(withLock.run([key, `{${key}}2`], wait, () => {}));
        expect(error).to.be.instanceOf(redisExpLock.LockDeadlockError);
        expect(error.code).to.equal('ERR_LOCK_DEADLOCK');
      }
      expect(await lease.extend(10_000)).to.equal(true);
    });
  });

  it('is nobody else’s: another flow waits for it without end, and gets it', async () => {
    const outer = withLock.run(key, () => sleep(60, 'outer'));
    await sleep(10);
    const inner = withLock.run(key, endless, () => 'inner');
    expect([await outer, await inner]).to.deep.equal(['outer', 'inner']);
  });

  it('readers may read again; a writer that reads, and a reader that writes, would wait for themselves', async () => {
    const rw = new redisExpLock.RWLock(key, { redis: here.redis, lifetime: 10_000, commandTimeout: 10_000 });
    await rw.read(endless, () => rw.read(endless, () => {}));
    await rw.read(async () => {
      expect(await failure(rw.write(endless, () => {}))).to.be.instanceOf(redisExpLock.LockDeadlockError);
    });
    await rw.write(async () => {
      expect(await failure(rw.read(endless, () => {}))).to.be.instanceOf(redisExpLock.LockDeadlockError);
    });
  });

  it('H71: opposite orders of several keys do not block one another', async () => {
    const far = redisExpLock({ redis: here.elsewhere, lifetime: 10_000, commandTimeout: 10_000 });
    const [a, b, c] = ['a', 'b', 'c'].map((name) => `{${key}}${name}`) as [string, string, string];
    let inside = 0;
    const orders = [
      [a, b],
      [b, a],
      [c, b, a],
      [a, a, b],
    ];
    await Promise.all(
      Array.from({ length: 24 }, (_, n) =>
        (n % 2 ? withLock : far).run(orders[n % 4]!, { timeout: 40_000, retryTimeout: 2, jitter: 0.5 }, async () => {
          expect(++inside).to.equal(1);
          await sleep(1);
          inside -= 1;
        }),
      ),
    );
    expect((await withLock.inspect(a)).locked).to.equal(false);
  });

  it('H12: a list is a list: a string is one key, however many letters it has', async () => {
    const lease = await withLock.promise(`abc${key}`);
    expect(lease.keys).to.deep.equal([`abc${key}`]);
    expect((await withLock.inspect('a')).locked).to.equal(false);
    await lease();
  });
});
