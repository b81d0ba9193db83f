// The original's form: `withLock(key, [options,] (err, done) => …)`. What it did, this does.

import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { holdReply } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { blockFor, called, published, uncaught } from './outcomes';
import { describeEach, type Here, stranger } from './places';

describeEach('the callback form', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  /** A busy machine may hold up a reply for seconds. */
  const patient = { lifetime: 60_000, commandTimeout: 10_000 };

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...patient });
  });

  describe('as the original', () => {
    it('two arguments: the lock is held until done', (finished) => {
      withLock(key, (err, done) => {
        expect(err).to.equal(null);
        void here
          .holder(key)
          .then((holder) => {
            expect(holder).to.equal(done!.token);
            done!(async (releaseErr, released) => {
              expect(releaseErr).to.equal(null);
              expect(released).to.equal(true);
              expect(await here.holder(key)).to.equal(null);
              finished();
            });
          })
          .catch(finished);
      });
    });

    it('three arguments: the call’s options override the factory’s', async () => {
      const { done } = await called(withLock, key, { lifetime: 30_000 });
      expect(await here.leftMs(key)).to.be.within(10_000, 30_000);
      await done();
    });

    it('`undefined` in the place of the options, and in an option, means "not given"', async () => {
      const results = await new Promise<unknown[]>((resolve) =>
        (withLock as (...args: unknown[]) => void)(key, undefined, (...args: unknown[]) => resolve(args)),
      );
      expect(results[0]).to.equal(null);
      await (results[1] as redisExpLock.Lease)();
      const { err, done } = await called(withLock, key, { lifetime: undefined, maxRetries: undefined });
      expect(err).to.equal(null);
      expect(await here.leftMs(key)).to.be.within(1_001, 60_000);
      await done();
      // The default is a second, which a busy machine may take until it is asked.
      const plain = redisExpLock({ redis: here.redis, lifetime: undefined, commandTimeout: 10_000, maxRetries: 50 });
      expect((await called(plain, `${key}:2`, { lifetime: undefined })).err).to.equal(null);
      expect(await here.leftMs(`${key}:2`)).to.be.at.most(1_000);
    });

    it('`redis` may come with the call', async () => {
      const { err, done } = await called(redisExpLock(patient), key, { redis: here.redis });
      expect(err).to.equal(null);
      expect(await here.holder(key)).to.equal(done.token);
      await done();
    });

    it('`redis` of the call goes before the factory’s', async () => {
      const elsewhere = here.place.create();
      await elsewhere.open();
      try {
        const { done } = await called(withLock, key, { redis: elsewhere.redis });
        expect(await elsewhere.holder(key)).to.equal(done.token);
        expect(await here.holder(key)).to.equal(null);
        expect(await done()).to.equal(true);
        expect(await elsewhere.holder(key)).to.equal(null);
      } finally {
        await elsewhere.close();
      }
    });

    it('busy: "Exceeded max retry count" after the last retry, and nothing is held', async () => {
      await here.seize(key);
      const connection = await here.connection();
      const counting = redisExpLock({ redis: connection.redis, ...patient, retryTimeout: 1 });
      const { err, done } = await called(counting, key, { maxRetries: 3 });
      expect(err).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
      expect(err.message).to.contain('Exceeded max retry count');
      expect(err.attempts).to.equal(4);
      expect(done).to.equal(undefined);
      expect(await connection.calls()).to.equal(4);
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('without `maxRetries` there is one attempt', async () => {
      await here.seize(key);
      const connection = await here.connection();
      const { err } = await called(redisExpLock({ redis: connection.redis, ...patient }), key);
      expect(err.attempts).to.equal(1);
      expect(await connection.calls()).to.equal(1);
    });

    it('a retry gets the lock once it is free', async () => {
      const first = await called(withLock, key, { lifetime: 30_000 });
      const second = called(withLock, key, { maxRetries: 5_000, retryTimeout: 2 });
      setTimeout(() => first.done(() => {}), 50);
      const { err, done } = await second;
      expect(err).to.equal(null);
      expect(done.retries).to.be.greaterThan(0);
      expect(done.fence).to.be.greaterThan(first.done.fence);
      await done();
    });

    it('contention has a single winner, and done lets the next in', async () => {
      const results = await Promise.all(Array.from({ length: 10 }, () => called(withLock, key, { lifetime: 30_000 })));
      const winners = results.filter(({ err }) => err === null);
      expect(winners).to.have.length(1);
      for (const { err } of results) if (err) expect(err.code).to.equal('ERR_LOCK_ATTEMPTS');
      await winners[0]!.done();
      const next = await called(withLock, key);
      expect(next.err).to.equal(null);
      await next.done();
    });

    it('util.promisify(withLock) is the promise form', async () => {
      const lock = promisify(withLock);
      const lease = await lock(key, { lifetime: 30_000 });
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await here.leftMs(key)).to.be.within(10_000, 30_000);
      expect(await lease()).to.equal(true);
      const short = await lock(key);
      expect(await short()).to.equal(true);
      expect(promisify(withLock)).to.equal(withLock.promise);
    });
  });

  describe('H68: exactly once, asynchronously, on a fresh stack', () => {
    it('nothing is called back before the call has returned, for a grant, a refusal and what needs no I/O', async () => {
      await here.seize(`${key}:busy`);
      const closed = redisExpLock({ redis: here.redis });
      await closed.close();
      const calls: [redisExpLock.WithLock, string, redisExpLock.Options][] = [
        [withLock, key, {}],
        [withLock, `${key}:busy`, {}],
        [closed, key, {}],
        [withLock, key, { signal: AbortSignal.abort() }],
        [withLock, key, { redis: here.unconnected(), commandTimeout: 1_000 }],
      ];
      for (const [form, each, options] of calls) {
        let returned = false;
        let times = 0;
        await new Promise<void>((resolve) => {
          form(each, options, () => {
            expect(returned).to.equal(true);
            times += 1;
            resolve();
          });
          returned = true;
        });
        await sleep(20);
        expect(times).to.equal(1);
      }
    });

    it('the callback’s stack is not that of a parser or a promise', async () => {
      const frames = await new Promise<string>((resolve) => {
        withLock(key, (_err, done) => {
          const { stack } = new Error();
          void done!();
          resolve(stack!);
        });
      });
      expect(frames).not.to.match(/@redis|parser|socket|async /i);
    });

    for (const [what, options] of [
      ['a grant', () => ({})],
      ['an error', (at: Here) => ({ redis: at.unconnected(), commandTimeout: 1_000 })],
    ] as const) {
      it(`a throw in the callback, for ${what}, is an uncaught exception of the process, once`, async () => {
        const mine = new Error('thrown in the callback');
        let times = 0;
        const { exceptions, rejections } = await uncaught(async () => {
          withLock(key, options(here), () => {
            times += 1;
            throw mine;
          });
          await waitFor(() => times > 0);
        });
        expect(exceptions).to.deep.equal([mine]);
        expect(rejections).to.deep.equal([]);
        expect(times).to.equal(1);
      });
    }

    it('a throw in the callback of done is an uncaught exception too, and the lock is released', async () => {
      const mine = new Error('thrown in the callback of done');
      let times = 0;
      const { exceptions, rejections } = await uncaught(async () => {
        withLock(key, (_err, done) =>
          done!(() => {
            times += 1;
            throw mine;
          }),
        );
        await waitFor(() => times > 0);
      });
      expect(exceptions).to.deep.equal([mine]);
      expect(rejections).to.deep.equal([]);
      expect(times).to.equal(1);
      expect(await here.holder(key)).to.equal(null);
    });

    it('the callback of done is called asynchronously and once, at every done', async () => {
      const { done } = await called(withLock, key);
      const calls: unknown[][] = [];
      let returned = false;
      for (let n = 0; n < 3; n++) {
        done((...args) => {
          expect(returned).to.equal(true);
          calls.push(args);
        });
      }
      returned = true;
      await waitFor(() => calls.length === 3);
      expect(calls).to.deep.equal(new Array(3).fill([null, true]));
    });

    it('the callback runs in the asynchronous context of the call', async () => {
      const storage = new AsyncLocalStorage<string>();
      const seen = await new Promise<string | undefined>((resolve) =>
        storage.run('mine', () =>
          withLock(key, (_err, done) => {
            void done!();
            resolve(storage.getStore());
          }),
        ),
      );
      expect(seen).to.equal('mine');
    });
  });

  it('H7: a grant that was over before the callback could run is an error, and the key is released', async () => {
    // Requested again if its reply took longer than the lifetime: the callback alone is to be too late.
    const short = redisExpLock({ redis: here.redis, ...patient, lifetime: 1_000, maxRetries: 50 });
    // Runs between the reply and the callback, and takes longer than the lifetime.
    const stall = { asyncStart: () => blockFor(1_100) };
    const channel = tracingChannel('redis-exp-lock:acquire');
    channel.subscribe(stall as never);
    const { err, done } = await called(short, key).finally(() => channel.unsubscribe(stall as never));
    expect(err).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(err.cause).to.be.instanceOf(redisExpLock.LockLostError);
    expect(done).to.equal(undefined);
    await waitFor(async () => (await here.holder(key)) === null);
  });

  if (here.place.faults) {
    it('H8, H68: an abort while an attempt is under way that then succeeds: one call, with the reason; handed back', async () => {
      const connection = await here.connection();
      const held = holdReply();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const abort = new AbortController();
      const calls: unknown[][] = [];
      const aborted = redisExpLock({ redis: connection.redis, ...patient });
      aborted(key, { signal: abort.signal }, (...args: unknown[]) => calls.push(args));
      await held.arrived;
      abort.abort();
      await waitFor(() => calls.length > 0);
      held.release();
      await waitFor(async () => (await here.holder(key)) === null);
      await connection.calls();
      expect(calls).to.deep.equal([[abort.signal.reason]]);
    });
  }

  /** Of the tests that begin together: `withLock` is of the present test. */
  const form = (): redisExpLock.WithLock => redisExpLock({ redis: here.redis, ...patient });

  describeAtOnce('as the original, at the end of a lifetime', {
    'the lifetime frees the key where done is never called': async (key) => {
      await called(form(), key, { lifetime: 1_000, maxRetries: 50 });
      const { err } = await called(form(), key, { maxRetries: 5_000 });
      expect(err).to.equal(null);
    },

    'it is not renewed unless asked: autoExtend holds it past its lifetime': async (key) => {
      const lifetime = 4_500; // a busy machine may stop for two thirds of it
      const [plain, renewed] = await Promise.all([
        called(form(), key, { lifetime }),
        called(form(), `${key}:renewed`, { lifetime, autoExtend: true }),
      ]);
      await sleep(lifetime + 500);
      expect(plain.done.remaining()).to.equal(0);
      expect(await here.holder(`${key}:renewed`)).to.equal(renewed.done.token);
      expect(await renewed.done()).to.equal(true);
    },
  });

  describeAtOnce('H69: done is never called', {
    'a warning says where the lock was taken, and its lifetime has freed the key': async (key) => {
      const warnings = await published('redis-exp-lock:warning', async () => {
        await called(form(), key, { lifetime: 1_000, maxRetries: 50 });
        expect(await here.leftMs(key)).to.be.at.most(1_000);
        await waitFor(async () => (await here.holder(key)) === null);
        await sleep(100);
      });
      const mine = warnings.filter((warning) => warning.key === key);
      expect(mine).to.have.length(1);
      expect(mine[0]).to.include({ code: 'never-released' });
      expect(mine[0].message).to.contain(JSON.stringify(key));
      expect(mine[0].error).to.be.instanceOf(Error);
      expect(mine[0].error.stack).to.contain('callback.test.ts');
    },

    'no warning when it was called, or when the key was lost otherwise': async (key) => {
      const warnings = await published('redis-exp-lock:warning', async () => {
        const lifetime = 3_000; // a busy machine may take most of it to remove the key
        const released = await called(form(), key, { lifetime, maxRetries: 50 });
        await released.done();
        const gone = await called(form(), key, { lifetime, maxRetries: 50 });
        await here.remove(key);
        expect(await gone.done()).to.equal(false);
        await sleep(lifetime + 200);
      });
      expect(warnings.filter((warning) => warning.key === key)).to.deep.equal([]);
    },
  });

  // Other clients, and the sockets of Node, need the real process.nextTick for themselves.
  const needsNone = !here.place.faults || here.place.name.startsWith('node-redis');
  describe('under fake timers', () => {
    let clock: sinon.SinonFakeTimers;

    beforeEach(() => withLock.inspect(key)); // a connection is there, a script is known

    afterEach(() => clock?.restore());

    if (needsNone) {
      it('a faked process.nextTick, which jest installs, holds up no callback', async () => {
        clock = sinon.useFakeTimers({ toFake: ['nextTick', 'queueMicrotask'] });
        const { err, done } = await called(withLock, key);
        expect(err).to.equal(null);
        expect((await called(withLock, key)).err).to.be.instanceOf(redisExpLock.LockBusyError);
        const released = new Promise((resolve) => done((...args) => resolve(args)));
        expect(await released).to.deep.equal([null, true]);
      });
    }

    if (!here.place.shared) {
      it('nor do any of the others hold up a grant, a hand-off in the queue, or a release', async () => {
        clock = sinon.useFakeTimers({ toFake: everyTimer });
        const { done } = await called(withLock, key, { timeout: 60_000 });
        const next = called(withLock, key, { timeout: 60_000 });
        const elsewhere = called(redisExpLock({ redis: here.redis, ...patient }), key, { timeout: 60_000 });
        const rw = await new redisExpLock.RWLock(`${key}:rw`, { redis: here.redis, ...patient }).acquireRead();
        await done();
        await (await next).done();
        await (await elsewhere).done();
        await rw.upgrade();
        expect(await rw.release()).to.equal(true);
      });
    }
  });
});

const everyTimer = [
  ...(['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'setTimeout', 'clearTimeout'] as const),
  ...(['setInterval', 'clearInterval', 'Date', 'performance', 'hrtime'] as const),
];
