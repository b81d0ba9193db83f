// `Semaphore`: never more permits out than there are, each with an end of its own, given out strictly in order of arrival.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, pending, thrown } from './outcomes';
import { describeEach, renewed, shortLifetime, slowly } from './places';

const { Semaphore } = redisExpLock;

describeEach('Semaphore', (here) => {
  let key: string;
  const open: redisExpLock.Semaphore[] = [];

  function make(permits = 3, redis = here.redis): redisExpLock.Semaphore {
    const semaphore = new Semaphore(key, permits, { redis, lifetime: 10_000, commandTimeout: 10_000 });
    open.push(semaphore);
    return semaphore;
  }
  const elsewhere = (permits = 3): redisExpLock.Semaphore => make(permits, here.elsewhere);
  const byPlace = { timeout: 15_000 };
  async function stands(waiting: Promise<unknown>, waiters = 1): Promise<void> {
    waiting.catch(() => {});
    const look = redisExpLock({ redis: here.redis, commandTimeout: 10_000 });
    // Once: an entry expires when its process stands still, and on a quorum a waiter is in no queue between two of its rounds.
    await waitFor(async () => (await look.inspect(key)).waiters >= waiters, {
      what: `${waiters} waiters in the queue`,
    });
  }

  beforeEach(() => {
    key = uniqueKey('semaphore');
  });

  afterEach(() => Promise.all(open.splice(0).map((semaphore) => semaphore.close({ drain: false }))));

  it('as many at once as there are permits, over all processes', async () => {
    const semaphore = make();
    const leases = [await semaphore.acquire(), await elsewhere().acquire(2)];
    expect(await semaphore.available()).to.equal(0);
    expect(await failure(semaphore.acquire())).to.include({ code: 'ERR_LOCK_ATTEMPTS', key });
    expect(await leases[1]!.release()).to.equal(true);
    expect(await leases[1]!.release()).to.equal(true); // the same answer, and nobody else's permit
    expect(await elsewhere().available()).to.equal(2);
    await leases[0]!.release();
    expect(await semaphore.available()).to.equal(3);
  });

  it('never more inside than there are, and everybody gets in', async () => {
    const sides = [make(), elsewhere()];
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        sides[n % 2]!.run({ ...byPlace, permits: 1 + (n % 3), retryTimeout: 5 }, async () => {
          inside += 1 + (n % 3);
          most = Math.max(most, inside);
          await sleep(5);
          inside -= 1 + (n % 3);
        }),
      ),
    );
    expect(most).to.be.at.most(3);
  });

  it('strict order of arrival: a caller that wants few permits does not pass one that wants many', async () => {
    const lease = await make().acquire(2);
    const much = elsewhere().acquire(3, slowly());
    await stands(much);
    expect(await failure(make().acquire(1))).to.include({ code: 'ERR_LOCK_ATTEMPTS' }); // one is free, and not for it
    const little = make().acquire(1, byPlace);
    if (!here.place.isQuorum) await stands(little, 2); // there, one permit is polled for
    await lease.release();
    const first = await much;
    expect(await pending(little)).to.equal(true);
    await first.release();
    await (await little).release();
  });

  it('H47: each permit has its own end: nobody’s lifetime ends another’s, and the dead free theirs', async () => {
    const shortMs = shortLifetime(here);
    const short = await make(2).acquire(1, { lifetime: shortMs, timeout: 20_000 });
    const long = await elsewhere(2).acquire(1, { lifetime: 30_000 });
    await sleep(shortMs + 100);
    expect(await make(2).available()).to.equal(1);
    expect(await (await make(2).acquire(1, { maxRetries: 0 })).release()).to.equal(true);
    expect(await short.release()).to.equal(false);
    expect(await make(2).available()).to.equal(1);
    expect(await long.extend(5000)).to.equal(true);
    expect(await long.release()).to.equal(true);
  });

  it('`lifetime: null`: out until it is released', async () => {
    if (here.place.isQuorum) return; // refused there: a node may forget
    const lease = await make(2).acquire(1, { lifetime: null });
    const other = await elsewhere(2).acquire(1, { lifetime: 1_000, timeout: 20_000 });
    await sleep(1_100);
    expect(lease.remaining()).to.equal(Number.POSITIVE_INFINITY);
    expect(await other.release()).to.equal(false);
    expect(await elsewhere(2).available()).to.equal(1);
    expect(await lease.release()).to.equal(true);
    // The permit that ended may stay for one more millisecond.
    await waitFor(async () => (await here.leftMs(key)) === 0);
  });

  it('more than there are: a RangeError', async () => {
    const semaphore = make(2);
    expect(await failure(semaphore.acquire(3)))
      .to.be.instanceOf(RangeError)
      .and.include({ code: 'ERR_LOCK_OPTION' });
    expect(await failure(semaphore.run({ permits: 3 }, () => {}))).to.be.instanceOf(RangeError);
    for (const permits of [0, -1, 1.5, Number.NaN]) {
      expect(await failure(semaphore.acquire(permits))).to.be.instanceOf(RangeError);
      expect(thrown(() => make(permits))).to.be.instanceOf(RangeError);
    }
    expect(thrown(() => make('3' as unknown as number))).to.be.instanceOf(TypeError);
  });

  it('two processes that disagree about the limit: the second gets an error with both numbers', async () => {
    const lease = await make(3).acquire();
    const error = await failure(elsewhere(5).acquire());
    expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(error).to.include({ redisCode: 'LIMIT', retryable: false, key });
    expect(error.message).to.contain('3 permits').and.contain('5');
    await lease.release();
    await (await elsewhere(5).acquire(5)).release(); // nothing is out: the limit may change
  });

  it('run: renewed, one permit by default, released', async () => {
    const semaphore = make(2);
    const seen = await semaphore.run({ lifetime: 9_000 }, async (lease) => {
      await renewed(lease);
      return [lease.signal.aborted, await semaphore.available()];
    });
    expect(seen).to.deep.equal([false, 1]);
    expect(await semaphore.available()).to.equal(2);
  });

  it('H30: a herd of 200 waiters costs a constant number of commands per release', async () => {
    if (here.place.polls || here.place.isQuorum) return; // no message is heard there, and they poll
    const connection = await here.connection();
    const options = { redis: connection.redis, lifetime: 30_000, commandTimeout: 20_000 };
    const semaphore = new Semaphore(key, 2, options);
    const holders = [await semaphore.acquire(1), await semaphore.acquire(1)];
    // One object each: callers of one have as many entries as there are permits, and hand them off.
    const each = () => new Semaphore(key, 2, options).acquire(1, { timeout: 40_000, retryTimeout: 1000 });
    const waiting = Array.from({ length: 200 }, each);
    await stands(Promise.all(waiting), 200);
    const before = await connection.calls();
    for (const lease of holders) await lease.release();
    for (const next of waiting) await (await next).release();
    expect(((await connection.calls()) - before) / 200).to.be.below(6);
    await semaphore.close();
  });
});
