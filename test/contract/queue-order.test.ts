// Waiting by place, as it is seen from outside, at every place: in turn, woken, and gone without a trace.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach, type Redis } from './places';

describeEach('turns', (here) => {
  let key: string;
  let locks: redisExpLock.WithLock[];

  const lock = (redis: Redis, commandTimeout = 10_000): redisExpLock.WithLock => {
    const made = redisExpLock({ redis, lifetime: 20_000, timeout: 40_000, commandTimeout });
    locks.push(made);
    return made;
  };

  beforeEach(() => {
    key = uniqueKey();
    locks = [];
  });

  afterEach(() => Promise.all(locks.map((each) => each.close({ drain: false }))));

  // A client that cannot hear messages counts, and counting knows no order.
  const counts = here.place.polls;
  it(`H32: within a process ${counts ? 'each once' : 'in the order in which they asked'}, under fences that rise`, async () => {
    const withLock = lock(here.redis);
    const held = await withLock.promise(key);
    const order: [number, number][] = [];
    const turns = Array.from({ length: 30 }, (_, n) =>
      withLock.run(key, async (lease) => void order.push([n, lease.fence])),
    );
    await held();
    await Promise.all(turns);
    const turnsTaken = order.map(([n]) => n);
    if (counts) turnsTaken.sort((one, other) => one - other);
    expect(turnsTaken).to.deep.equal(Array.from({ length: 30 }, (_, n) => n));
    for (let n = 1; n < 30; n++) expect(order[n]![1]).to.be.above(order[n - 1]![1]);
  });

  it('two processes take turns: never two holders, everybody is served', async () => {
    let holders = 0;
    let served = 0;
    const work = async (withLock: redisExpLock.WithLock): Promise<void> => {
      for (let turn = 0; turn < 5; turn++) {
        await withLock.run(key, async () => {
          holders += 1;
          expect(holders).to.equal(1);
          await new Promise((resolve) => setTimeout(resolve, 1));
          holders -= 1;
          served += 1;
        });
      }
    };
    const both = [lock(here.redis), lock(here.elsewhere)];
    await Promise.all(both.flatMap((withLock) => Array.from({ length: 10 }, () => work(withLock))));
    expect(served).to.equal(100);
  });

  it('H36: a caller that gives up leaves nothing behind, and the lock goes on to the others', async () => {
    const held = await lock(here.redis).promise(key);
    const waiting = lock(here.elsewhere, 1_000); // `close` waits for the end of the request that is given up
    const abort = new AbortController();
    const gone = failure(waiting.promise(key, { signal: abort.signal }));
    const left = waiting.promise(key);
    abort.abort();
    expect(await gone).to.equal(abort.signal.reason);
    await held();
    const lease = await left;
    expect(await here.holder(key)).to.equal(lease.token);
    expect(await lease()).to.equal(true);
    await waitFor(async () => (await waiting.inspect(key)).waiters === 0);
    expect(await here.holder(key)).to.equal(null);
  });
});
