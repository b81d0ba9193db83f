// `tryRun`: the function runs under the lock now, or not at all, and that it did not is a value.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { unansweredMs } from '../support/patience';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach, renewed } from './places';

describeEach('tryRun', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  let other: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, lifetime: 20_000, commandTimeout: 10_000 });
    other = redisExpLock({ redis: here.elsewhere, lifetime: 20_000, commandTimeout: 10_000 });
  });

  it('free: runs the function under the lock, and gives its value and the lock back', async () => {
    const result = await withLock.tryRun(key, async (lease) => {
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await other.tryRun(key, () => 'both')).to.deep.equal({ ran: false });
      return 'value';
    });
    expect(result).to.deep.equal({ ran: true, value: 'value' });
    expect(await here.holder(key)).to.equal(null);
    expect(await withLock.tryRun(key, () => undefined)).to.deep.equal({ ran: true, value: undefined });
  });

  it('busy: a value, and the function never runs; one attempt, whatever factory and call say of waiting', async () => {
    await here.seize(key);
    const connection = await here.connection();
    let ran = 0;
    for (const wait of [{ timeout: 60_000 }, { maxRetries: 1_000, retryTimeout: 1_000 }, { timeout: 0 }, {}]) {
      const patient = redisExpLock({ redis: connection.redis, lifetime: 20_000, commandTimeout: 10_000, ...wait });
      const before = await connection.calls();
      expect(await patient.tryRun(key, () => ++ran)).to.deep.equal({ ran: false });
      expect(await patient.tryRun(key, wait, () => ++ran)).to.deep.equal({ ran: false });
      expect((await connection.calls()) - before).to.be.at.most(4); // two attempts; the first of a script is made twice
    }
    expect(ran).to.equal(0);
  });

  it('is renewed while the function runs', async () => {
    const result = await withLock.tryRun(key, { lifetime: 9_000 }, async (lease) => {
      await renewed(lease);
      expect(await here.leftMs(key)).to.be.above(6_000);
      expect(await here.holder(key)).to.equal(lease.token);
      return lease.signal.aborted;
    });
    expect(result).to.deep.equal({ ran: true, value: false });
  });

  it('what the function throws is what it rejects with; lost meanwhile: LockLostError with the result', async () => {
    const mine = new Error('mine');
    expect(await failure(withLock.tryRun(key, () => Promise.reject(mine)))).to.equal(mine);
    expect(await here.holder(key)).to.equal(null);
    const lost = await failure(
      withLock.tryRun(key, async () => {
        await here.remove(key);
        return 'late';
      }),
    );
    expect(lost).to.include({ code: 'ERR_LOCK_LOST', result: 'late' });
  });

  it('H12: no function at the end, or an impossible option: rejected before any I/O', async () => {
    const connection = await here.connection();
    const { tryRun } = redisExpLock({ redis: connection.redis }) as any;
    for (const args of [[key], [key, {}], [key, () => {}, {}], [key, { lifetime: 0 }, () => {}], [5, () => {}]]) {
      expect((await failure(tryRun(...args))).code).to.equal('ERR_LOCK_OPTION');
    }
    expect(await connection.calls()).to.equal(0);
  });

  it('closed: LockClosedError, not busy', async () => {
    await withLock.close();
    expect((await failure(withLock.tryRun(key, () => {}))).code).to.equal('ERR_LOCK_CLOSED');
  });

  if (here.place.faults) {
    it('Redis that cannot be asked is not busy: LockBackendError', async () => {
      const connection = await here.connection();
      connection.proxy.blackHole();
      const far = redisExpLock({ redis: connection.redis, commandTimeout: unansweredMs });
      expect((await failure(far.tryRun(key, () => {}))).code).to.equal('ERR_LOCK_BACKEND');
    });
  }
});
