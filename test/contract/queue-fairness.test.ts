// In what order queued waits are served, beside others and without end. It depends on no client: one is tried.
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { isAcquire } from '../redis/holding';
import { holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { failure } from './outcomes';
import { places } from './places';
import { cutOff, Scene, takeAndGive } from './queue-scene';

describe('queued: order and fairness', () => {
  const here = places[0]!.create();
  before(() => here.open());
  after(() => here.close());
  const scene = new Scene(here);

  describe('H29: the head of the queue gives up', () => {
    it('aborts, times out and closes at the head: the lock goes to those that are left', async () => {
      const held = await scene.lock(here.redis, { lifetime: 60_000 }).promise(scene.key);
      const connections = await Promise.all([here.connection(), here.connection(), here.connection()]);
      const abort = new AbortController();
      const closing = scene.lock(connections[2]!.redis, cutOff);
      const gone = [
        failure(scene.lock(connections[0]!.redis, cutOff).promise(scene.key, { signal: abort.signal })),
        failure(scene.lock(connections[1]!.redis, cutOff).promise(scene.key, { timeout: 2_000 })),
        failure(closing.promise(scene.key)),
      ];
      // On a busy machine the second one may time out before the others are queued.
      let timedOutAlready = 0;
      void gone[1]!.then(() => {
        timedOutAlready = 1;
      });
      const queued = (count: number): Promise<unknown> =>
        waitFor(async () => (await scene.queueLength()) + timedOutAlready >= count, { what: `${count} queued` });
      await queued(3);
      const waiting = scene.lock(here.elsewhere, { timeout: 60_000 }).promise(scene.key);
      await queued(4);
      abort.abort();
      await closing.close();
      const [aborted, timedOut, closed] = await Promise.all(gone);
      expect(aborted).to.equal(abort.signal.reason);
      expect(timedOut).to.be.instanceOf(redisExpLock.LockTimeoutError);
      expect(closed).to.be.instanceOf(redisExpLock.LockClosedError);
      await scene.queued(1); // well before the holder's end
      expect(await held.release()).to.equal(true);
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('some of one process give up: the others keep their position and their order', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lock = scene.lock(here.elsewhere);
      const aborts = Array.from({ length: 30 }, () => new AbortController());
      const order: number[] = [];
      const waits = aborts.map(({ signal }, n) =>
        lock
          .run(scene.key, { signal }, () => void order.push(n))
          .catch((error) => expect(error).to.equal(signal.reason)),
      );
      await scene.queued(1);
      for (let n = 0; n < 30; n += 3) aborts[n]!.abort();
      expect(await scene.queueLength()).to.equal(1);
      await held.release();
      await Promise.all(waits);
      expect(order).to.deep.equal(Array.from({ length: 30 }, (_, n) => n).filter((n) => n % 3 !== 0));
      await scene.nothingLeft();
    });
  });

  describe('H32: no caller jumps the queue', () => {
    it('in one process: first come, first served, exactly', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lock = scene.lock(here.elsewhere);
      const order: number[] = [];
      const waits = Array.from({ length: 300 }, (_, n) => {
        return lock.run(scene.key, async () => {
          order.push(n);
          if (n % 50 === 0) await sleep(2);
        });
      });
      await scene.queued(1);
      await held.release();
      await Promise.all(waits);
      expect(order).to.deep.equal(waits.map((_, n) => n));
    });

    it('two processes: the one behind gets the lock after one grant of the other and eight hand-offs within it', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const [one, two] = [await here.connection(), await here.connection()];
      let before = 0;
      const many = scene.lock(one.redis);
      const waits = Array.from({ length: 60 }, () =>
        many.run(scene.key, async () => {
          before += 1;
          if (before === 1) await sleep(50); // until the grant is confirmed: no hand-off goes before that
        }),
      );
      await scene.queued(1);
      const waiting = scene.lock(two.redis).run(scene.key, () => before);
      await scene.queued(2);
      await held.release();
      expect(await waiting).to.be.within(1, 9);
      await Promise.all(waits);
      expect(before).to.equal(60);
      await scene.nothingLeft();
    });

    it('a process that was alone hands off 64 times at most once another is queued', async () => {
      const [one, two] = [await here.connection(), await here.connection()];
      const lock = scene.lock(one.redis);
      let grants = 0;
      const waits = Array.from({ length: 300 }, () =>
        lock.run(scene.key, async () => {
          grants += 1;
          await sleep(1);
        }),
      );
      await waitFor(() => grants > 5);
      const other = scene.lock(two.redis);
      await (await other.promise(`${scene.key}:warm`)).release();
      const stood = two.proxy.seen({ match: isAcquire, nth: 2 }).then(() => grants);
      const served = other.run(scene.key, () => grants);
      const overtaken = (await served) - (await stood);
      expect(overtaken).to.be.at.most(64 + 1 + 8 + 4); // the last: what happened here before it was seen here
      await Promise.all(waits);
      await scene.nothingLeft();
    });

    it('tryLock and polling callers do not overtake the queue of a free key', async () => {
      await here.seize(scene.key);
      const connection = await here.connection();
      const order: string[] = [];
      const waiting = scene
        .lock(connection.redis, { retryTimeout: 5_000 })
        .run(scene.key, () => void order.push('waited'));
      await scene.queued(1);
      // It must not ask by itself meanwhile: it would have the lock, and have released it.
      const poll = holdRequest();
      connection.proxy.rule({ match: isAcquire }, poll);
      await here.remove(scene.key);
      expect(await scene.lock(here.redis).tryLock(scene.key)).to.equal(null);
      poll.release();
      const options = { maxRetries: Number.POSITIVE_INFINITY, retryTimeout: 1 };
      const counting = scene.lock(here.elsewhere).run(scene.key, options, () => void order.push('counted'));
      await Promise.all([waiting, counting]);
      expect(order).to.deep.equal(['waited', 'counted']);
      await scene.nothingLeft();
    });

    it('a queue that never ends yields after 64 grants: non-queueing clients are not starved', async () => {
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 25 }));
      const connection = await here.connection();
      let over = false;
      let grants = 0;
      const users = Array.from({ length: 8 }, async (_, n) => {
        while (!over) {
          await locks[n % 2]!.run(scene.key, () => {
            grants += 1;
          });
        }
      });
      await scene.queued(1);
      const lease = await scene.lock(connection.redis).promise(scene.key, { maxRetries: 5_000, retryTimeout: 5 });
      expect(await lease.release()).to.equal(true);
      over = true;
      await Promise.all(users);
      // 64 grants, each handed off 8 times at most: a few rounds of that, should a moment be missed.
      expect(grants).to.be.at.most(10 * 64 * 9);
      await scene.nothingLeft();
    });

    it('so it is with retryTimeout 0: there is a yield window all the same', async () => {
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 0 }));
      let over = false;
      const users = Array.from({ length: 8 }, async (_, n) => {
        while (!over) await locks[n % 2]!.run(scene.key, () => {});
      });
      try {
        await scene.queued(1);
        const counting = scene.lock((await here.connection()).redis);
        const options = { maxRetries: Infinity, retryTimeout: 0, timeout: 20_000 };
        expect(await (await counting.promise(scene.key, options)).release()).to.equal(true);
      } finally {
        over = true;
        await Promise.all(users);
      }
    });

    it('an old client (SETNX, GET, DEL) beside the queue: it starves no caller, and is not starved', async () => {
      const { key, direct } = scene;
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 25 }));
      let holders = 0;
      let over = false;
      const served = new Array(6).fill(0);
      const enter = async (): Promise<void> => {
        expect(++holders).to.equal(1);
        await turn();
        holders -= 1;
      };
      const users = served.map(async (_, n) => {
        while (!over || served[n] < 20) {
          await locks[n % 2]!.run(key, enter);
          served[n] += 1;
        }
      });
      await scene.queued(1);
      for (let turns = 0; turns < 5; ) {
        if ((await direct.set(key, 'old', { condition: 'NX', expiration: { type: 'PX', value: 30_000 } })) === null) {
          await sleep(5);
          continue;
        }
        await enter();
        const before = [...served];
        expect(await direct.get(key)).to.equal('old');
        await direct.del(key);
        turns += 1;
        await waitFor(() => served.some((count, n) => count > before[n]), { what: 'the queue to go on' });
      }
      over = true;
      await Promise.all(users);
      expect(Math.min(...served)).to.be.at.least(20);
      await scene.nothingLeft();
    });
  });

  it('H33: 10,000 waiters in one process: each is served once, in order, within a budget of memory', async () => {
    const held = await scene.lock(here.redis, { lifetime: 60_000 }).promise(scene.key);
    const lock = scene.lock(here.elsewhere, { lifetime: 60_000, timeout: 60_000, commandTimeout: 60_000 });
    const count = 10_000;
    global.gc!();
    const before = process.memoryUsage().heapUsed;
    const waits = Array.from({ length: count }, () => lock.promise(scene.key));
    await scene.queued(1);
    await sleep(1_200); // it has asked again since, for all of them
    global.gc!();
    const bytesEach = (process.memoryUsage().heapUsed - before) / count;
    const order: number[] = [];
    await held.release();
    await takeAndGive(waits, (_, n) => void order.push(n));
    expect(order).to.deep.equal(waits.map((_, n) => n));
    expect(bytesEach).to.be.below(2_800);
    await scene.nothingLeft();
  });

  it('inspect().waiters is the number of queued processes', async () => {
    const lock = scene.lock(here.redis);
    const held = await lock.promise(scene.key);
    expect((await lock.inspect(scene.key)).waiters).to.equal(0);
    const waits = [here.elsewhere, here.elsewhere, (await here.connection()).redis].map((redis) =>
      scene.lock(redis).promise(scene.key),
    );
    // The same answer: an entry expires when its process stands still.
    const isQueued = async (): Promise<redisExpLock.LockState | false> => {
      const state = await lock.inspect(scene.key);
      return state.waiters === 2 && state;
    };
    const state = await waitFor(isQueued, { what: 'two in the queue' });
    expect(state).to.include({ waiters: 2, locked: true, mode: 'exclusive' });
    await held.release();
    await takeAndGive(waits, () => {});
    expect(await lock.inspect(scene.key)).to.include({ waiters: 0, locked: false });
  });

  it('several keys, a lifetime without end, and replicas that must acknowledge: such waits poll', async () => {
    const held = await scene.lock(here.redis).promise(scene.key);
    const connection = await here.connection();
    const lock = scene.lock(connection.redis, { commandTimeout: 2_000 });
    const abort = new AbortController();
    const { signal } = abort;
    const waits = [
      failure(lock.promise([scene.key, `${scene.key}:2`], { signal })),
      failure(lock.promise(scene.key, { lifetime: null, signal })),
      failure(lock.promise(scene.key, { minReplicas: 1, signal })),
      failure(lock.promise(scene.key, { maxRetries: 1_000, timeout: 10_000, signal })),
    ];
    await waitFor(() => connection.proxy.count(isAcquire) > 10);
    expect(await scene.queueLength()).to.equal(0);
    expect(connection.proxy.count('SUBSCRIBE')).to.equal(0);
    abort.abort();
    for (const error of await Promise.all(waits)) expect(error).to.equal(signal.reason);
    expect(await held.release()).to.equal(true);
    await lock.close();
    await scene.nothingLeft();
  });

  it('the last wait ends by itself: a LockTimeoutError, no entry, and the holder undisturbed', async () => {
    const held = await scene.lock(here.redis).promise(scene.key);
    const lock = scene.lock(here.elsewhere);
    const errors = await Promise.all([60, 80, 100].map((timeout) => failure(lock.promise(scene.key, { timeout }))));
    for (const error of errors) expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError);
    await scene.queued(0);
    expect(await here.holder(scene.key)).to.equal(held.token);
    expect(await held.release()).to.equal(true);
    await scene.nothingLeft();
  });
});
