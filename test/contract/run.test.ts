// `run`: the lock is held while the function runs, whatever the function does, and whatever becomes of the lock.
import { tracingChannel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { answer } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { blockFor, failure, published, uncaught } from './outcomes';
import { describeEach, shortLifetime, stranger } from './places';

/** Longer than any step takes on a busy machine. */
const lasting = { lifetime: 20_000, commandTimeout: 10_000 };

describeEach('run', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  let other: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...lasting });
    other = redisExpLock({ redis: here.elsewhere, ...lasting });
  });

  describe('the function', () => {
    it('runs under the lock, gets the lease, and its result is the result', async () => {
      const result = await withLock.run(key, async (lease) => {
        expect(await here.holder(key)).to.equal(lease.token);
        expect(await other.tryLock(key)).to.equal(null);
        return lease.fence;
      });
      expect(result).to.be.greaterThan(0);
      expect(await here.holder(key)).to.equal(null);
    });

    it('may be synchronous, or return any thenable', async () => {
      expect(await withLock.run(key, () => 'plain')).to.equal('plain');
      class Thenable {
        // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is what this is about.
        then(resolve: (value: string) => void): void {
          setTimeout(resolve, 5, 'thenable');
        }
      }
      expect(await withLock.run<string>(key, () => new Thenable() as PromiseLike<any>)).to.equal('thenable');
      expect(await here.holder(key)).to.equal(null);
    });

    it('comes last, the options before it', async () => {
      const left = await withLock.run(key, { lifetime: 50_000 }, () => here.leftMs(key));
      expect(left).to.be.within(20_001, 50_000);
    });

    it('H12: anything but a function at the end is refused before any I/O', async () => {
      const connection = await here.connection();
      const { run } = redisExpLock({ redis: connection.redis }) as any;
      for (const args of [[key], [key, {}], [key, () => {}, {}], [key, undefined], [key, 'fn'], [key, {}, null]]) {
        const error = await failure(run(...args));
        expect(error).to.be.instanceOf(TypeError);
        expect(error.code).to.equal('ERR_LOCK_OPTION');
        expect(error.message).to.contain('fn');
      }
      expect(await connection.calls()).to.equal(0);
    });

    it('what it rejects with, or throws, is what run rejects with, and the lock is released', async () => {
      const mine = new Error('mine');
      expect(await failure(withLock.run(key, () => Promise.reject(mine)))).to.equal(mine);
      expect(await here.holder(key)).to.equal(null);
      const thrower = (): never => {
        throw mine;
      };
      expect(await failure(withLock.run(key, thrower))).to.equal(mine);
      expect(await here.holder(key)).to.equal(null);
      expect(await failure(withLock.run(key, () => Promise.reject(undefined)))).to.equal(undefined);
      expect(await here.holder(key)).to.equal(null);
    });

    it('does not run when the lock is not ours', async () => {
      await here.seize(key);
      let ran = false;
      const error = await failure(
        withLock.run(key, () => {
          ran = true;
        }),
      );
      expect(error.code).to.equal('ERR_LOCK_ATTEMPTS');
      expect(ran).to.equal(false);
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('may release the lease itself', async () => {
      const result = await withLock.run(key, async (lease) => {
        expect(await lease()).to.equal(true);
        await here.seize(key);
        return 'done';
      });
      expect(result).to.equal('done');
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('H7: does not run under a grant that was over before it could', async () => {
      const stall = { asyncStart: () => blockFor(1_100) };
      const channel = tracingChannel('redis-exp-lock:acquire');
      channel.subscribe(stall as never);
      let ran = false;
      // A machine that stops for a second before the reply is read gives the grant back: it is asked for again.
      const work = withLock.run(key, { lifetime: 1_000, ...untilInTime }, () => {
        ran = true;
      });
      const [outcome] = await Promise.allSettled([work]);
      channel.unsubscribe(stall as never);
      // Where no other process is, the grant is as good as before: it is renewed at once.
      expect(ran).to.equal(!here.place.shared);
      if (outcome.status === 'rejected') expect(outcome.reason).to.be.instanceOf(redisExpLock.LockError);
      expect(outcome.status).to.equal(here.place.shared ? 'rejected' : 'fulfilled');
      await waitFor(async () => (await here.holder(key)) === null);
    });
  });

  const lockHere = (): redisExpLock.WithLock => redisExpLock({ redis: here.redis, ...lasting });

  /** A grant whose reply takes longer than the lifetime is given back, and asked for again. */
  const untilInTime = { timeout: 20_000 };

  describeAtOnce('renewal', {
    'the lock is held past its lifetime while the function runs': async (key) => {
      const other = redisExpLock({ redis: here.elsewhere, ...lasting });
      const lifetime = 4_500; // a busy machine may stop for most of it
      await lockHere().run(key, { lifetime }, async (lease) => {
        for (let n = 0; n < 10; n++) {
          await sleep(500);
          expect(await here.holder(key)).to.equal(lease.token);
          expect(lease.remaining()).to.be.greaterThan(0);
          expect(await other.tryLock(key)).to.equal(null);
        }
        expect(lease.signal.aborted).to.equal(false);
      });
      expect(await here.holder(key)).to.equal(null);
    },

    '`autoExtend: false`, of the call or of the factory, turns it off: lost at the end of the lifetime': async (
      key,
    ) => {
      const plain = redisExpLock({
        redis: here.redis,
        ...untilInTime,
        autoExtend: false,
        lifetime: shortLifetime(here),
      });
      for (const work of [
        (fn: (lease: redisExpLock.Lease) => Promise<string>) =>
          lockHere().run(key, { ...untilInTime, lifetime: shortLifetime(here), autoExtend: false }, fn),
        (fn: (lease: redisExpLock.Lease) => Promise<string>) => plain.run(key, fn),
      ]) {
        const error = await failure(
          work(async (lease) => {
            await waitFor(async () => (await here.holder(key)) === null);
            await waitFor(() => lease.signal.aborted);
            return 'too late';
          }),
        );
        expect(error).to.be.instanceOf(redisExpLock.LockLostError);
        expect(error).to.include({ reason: 'expired', result: 'too late', key });
      }
    },

    'H21: `maxHold` ends it': async (key) => {
      let heldMs = 0;
      const error = await failure(
        lockHere().run(key, { lifetime: 3_000, maxHold: 3_500 }, async (lease) => {
          const startMs = performance.now();
          await waitFor(() => {
            const elapsedMs = performance.now() - startMs;
            if (lease.remaining() > 0) heldMs = elapsedMs;
            return lease.signal.aborted;
          });
          return 'hung';
        }),
      );
      expect(heldMs, 'renewed').to.be.above(3_000);
      expect(error).to.include({ code: 'ERR_LOCK_LOST', result: 'hung' });
    },

    'a renewal never undoes a longer extension': async (key) => {
      const lifetime = here.place.isQuorum ? 4_000 : 3_000;
      await lockHere().run(key, { ...untilInTime, lifetime }, async (lease) => {
        expect(await lease.extend(60_000)).to.equal(true);
        await sleep(lifetime); // past two renewals
        expect(await here.leftMs(key)).to.be.greaterThan(30_000);
        expect(lease.remaining()).to.be.greaterThan(30_000);
      });
    },
  });

  describe('the lock was lost meanwhile', () => {
    it('resolved, but the key was deleted: LockLostError with `result`', async () => {
      const error = await failure(
        withLock.run(key, async () => {
          await here.remove(key);
          return { answer: 42 };
        }),
      );
      expect(error).to.be.instanceOf(redisExpLock.LockLostError);
      expect(error).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing', key });
      expect(error.result).to.deep.equal({ answer: 42 });
    });

    it('resolved, but somebody else has the key: LockLostError, and theirs is untouched', async () => {
      const error = await failure(
        withLock.run(key, async () => {
          await here.seize(key);
          return 'result';
        }),
      );
      expect(error).to.include({ code: 'ERR_LOCK_LOST', reason: 'taken', result: 'result' });
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('a result of undefined is a result', async () => {
      const error = await failure(withLock.run(key, () => here.remove(key)));
      expect(error.code).to.equal('ERR_LOCK_LOST');
      expect(Object.hasOwn(error, 'result')).to.equal(true);
    });

    it('rejected, and lost: the function’s error', async () => {
      const mine = new Error('mine');
      const work = withLock.run(key, async () => {
        await here.remove(key);
        throw mine;
      });
      expect(await failure(work)).to.equal(mine);
    });

    it('the signal says so while the function runs', async () => {
      const error = await failure(
        withLock.run(key, { ...untilInTime, lifetime: here.place.isQuorum ? 4_000 : 3_000 }, async (lease) => {
          await here.seize(key);
          await waitFor(() => lease.signal.aborted);
          expect(lease.signal.reason).to.include({ reason: 'taken' });
          return 'stopped';
        }),
      );
      expect(error).to.include({ reason: 'taken', result: 'stopped' });
      expect(await here.holder(key)).to.equal(stranger);
    });

    it('a loss that nobody listens to is no unhandled rejection', async () => {
      const { exceptions, rejections } = await uncaught(async () => {
        const lease = await withLock.promise(key, { ...untilInTime, lifetime: shortLifetime(here), autoExtend: true });
        await here.seize(key);
        await waitFor(() => lease.remaining() === 0);
      });
      expect(exceptions).to.deep.equal([]);
      expect(rejections).to.deep.equal([]);
    });
  });

  if (!here.place.faults) return;

  describe('H24: the release fails', () => {
    for (const [what, fn] of [
      ['result', () => 'mine'],
      ['error', () => Promise.reject('mine')],
    ] as const) {
      it(`the function’s own ${what} comes first; a warning is given, and the key is freed in the end`, async () => {
        const connection = await here.connection();
        const far = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 1_000 });
        const warnings = await published('redis-exp-lock:warning', async () => {
          const outcome = await far
            .run<unknown>(key, { timeout: 20_000 }, async () => {
              connection.proxy.rule({ match: 'script', times: 2 }, answer('-LOADING in progress\r\n'));
              return fn();
            })
            .catch((error) => error);
          expect(outcome).to.equal('mine');
        });
        const mine = warnings.filter((warning) => warning.key === key);
        expect(mine).to.have.length(1);
        expect(mine[0]).to.include({ code: 'release-failed' });
        expect(mine[0].error).to.be.instanceOf(redisExpLock.LockBackendError);
        await waitFor(async () => (await here.holder(key)) === null);
      });
    }

    it('a silent place: the function’s result all the same, and the key is freed when it is back', async () => {
      const connection = await here.connection();
      const far = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 1_000 });
      const result = await far.run(key, { timeout: 20_000 }, () => {
        connection.proxy.blackHole();
        return 'mine';
      });
      expect(result).to.equal('mine');
      expect(await here.holder(key)).not.to.equal(null);
      await connection.heal();
      await waitFor(async () => (await here.holder(key)) === null);
    });
  });
});
