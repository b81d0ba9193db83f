// `once`: a job once a slot, by the clock of the place alone.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { unansweredMs } from '../support/patience';
import { connect, sharedRedis, uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach, renewed } from './places';

/** Longer than any test: no slot ends while a test runs. */
const longMs = 10 * 365 * 86_400_000;
const modes = ['at-most-once', 'until-success'] as const;

describeEach(
  'once',
  (here) => {
    let key: string;
    let withLock: redisExpLock.WithLock;
    let other: redisExpLock.WithLock;

    beforeEach(() => {
      key = uniqueKey();
      withLock = redisExpLock({ redis: here.redis, lifetime: 20_000, commandTimeout: 10_000 });
      other = redisExpLock({ redis: here.elsewhere, lifetime: 20_000, commandTimeout: 10_000 });
    });

    for (const mode of modes) {
      describe(mode, () => {
        const options = { every: longMs, mode };

        it('runs under the lock, with the slot; then the slot is done for everybody, and the lock is free', async () => {
          const result = await withLock.once(key, options, async (lease, slot) => {
            expect(await here.holder(key)).to.equal(lease.token);
            expect(lease.fence).to.be.greaterThan(0);
            return slot;
          });
          expect(result.ran).to.equal(true);
          const { slot } = result;
          expect(result).to.deep.equal({ ran: true, slot, value: slot });
          expect(slot.end - slot.start).to.equal(longMs);
          expect(slot.start).to.equal(slot.index * longMs);
          expect(Date.now()).to.be.within(slot.start, slot.end);
          expect(await here.holder(key)).to.equal(null);
          for (const each of [withLock, other]) {
            const again = await each.once(key, options, () => expect.fail('it ran again'));
            expect(again).to.deep.equal({ ran: false, slot, reason: 'done' });
          }
        });

        it('of many at once, one runs it; the others have it as a value at once', async () => {
          let ran = 0;
          const job = async (): Promise<number> => {
            ran += 1;
            await sleep(50);
            return ran;
          };
          const all = [withLock, other, withLock, other].map((each) => each.once(key, options, job));
          const results = await Promise.all(all);
          expect(ran).to.equal(1);
          expect(results.filter((each) => each.ran)).to.have.length(1);
          expect((await other.once(key, options, job)).ran).to.equal(false);
        });

        it('H85: a job that outlasts its slot keeps the next one busy until it ends, and that one is then free', async () => {
          const slots = { every: 1500, mode };
          let end!: () => void;
          const ended = new Promise<void>((resolve) => {
            end = resolve;
          });
          let begin!: (slot: redisExpLock.Slot) => void;
          const begun = new Promise<redisExpLock.Slot>((resolve) => {
            begin = resolve;
          });
          const long = withLock.once(key, { ...slots, lifetime: 6_000 }, async (lease, slot) => {
            begin(slot);
            await Promise.all([ended, renewed(lease)]);
          });
          const first = await begun;
          let late: redisExpLock.OnceResult<unknown>;
          do {
            await sleep(50);
            late = await other.once(key, slots, () => 'beside it');
          } while (late.slot.index < first.index + 2);
          expect(late).to.deep.include({ ran: false, reason: 'busy' });
          end();
          expect(await long).to.deep.include({ ran: true, slot: first });
          expect(await other.once(key, slots, () => 'after it')).to.include({ ran: true, value: 'after it' });
        });

        it('the next slot is another one: nothing is left of the last', async () => {
          const second = { every: 1000, mode };
          const first = await withLock.once(key, second, () => 1);
          for (;;) {
            const next = await other.once(key, second, () => 2);
            if (next.slot.index === first.slot.index) {
              expect(next).to.deep.equal({ ran: false, slot: first.slot, reason: 'done' });
              await sleep(20);
              continue;
            }
            expect(next).to.include({ ran: true, value: 2 });
            break;
          }
        });

        it('while the slot’s own job runs: busy, or done where that is decided', async () => {
          await withLock.once(key, options, async () => {
            const beside = await other.once(key, options, () => expect.fail('beside'));
            expect(beside).to.deep.include({ ran: false, reason: mode === 'at-most-once' ? 'done' : 'busy' });
          });
        });

        it('H85: lost meanwhile: LockLostError with the result, as `run`, and no mark of its own', async () => {
          const lost = await failure(
            withLock.once(key, options, async () => {
              await here.remove(key);
              return 'late';
            }),
          );
          expect(lost).to.include({ code: 'ERR_LOCK_LOST', result: 'late' });
          // Its mark was not written: the job of a holder that had lost the lock may have run beside another.
          const again = await other.once(key, options, () => 'again');
          expect(again.ran).to.equal(mode === 'until-success');
        });

        it('`close` waits for the running job, not for the slot, and leaves the slot done', async () => {
          await withLock.once(key, options, () => {});
          await withLock.close();
          expect((await failure(withLock.once(key, options, () => {}))).code).to.equal('ERR_LOCK_CLOSED');
          expect(await other.once(key, options, () => {})).to.deep.include({ ran: false, reason: 'done' });
        });
      });
    }

    it('a throw: at-most-once skips the rest of the slot, until-success lets the next caller run it', async () => {
      const mine = new Error('mine');
      for (const mode of modes) {
        const each = `${key}:${mode}`;
        const options = { every: longMs, mode };
        expect(await failure(withLock.once(each, options, () => Promise.reject(mine)))).to.equal(mine);
        const next = await other.once(each, options, () => 'next');
        expect(next.ran, mode).to.equal(mode === 'until-success');
        expect(await here.holder(each)).to.equal(null);
      }
    });

    it('at-most-once is the default; offset says where slots begin', async () => {
      const offset = Date.now() - 5_000 - (Date.now() % 1000);
      const result = await withLock.once(key, { every: 3_600_000, offset }, () => 1);
      expect(result.slot).to.deep.equal({ index: 0, start: offset, end: offset + 3_600_000 });
      const earlier = await withLock.once(`${key}:2`, { every: 3_600_000, offset: offset + 3_600_000 }, () => 1);
      expect(earlier.slot).to.deep.equal({ index: -1, start: offset, end: offset + 3_600_000 });
      const failed = await failure(withLock.once(`${key}:3`, { every: longMs }, () => Promise.reject(new Error('no'))));
      expect(failed.message).to.equal('no');
      expect((await withLock.once(`${key}:3`, { every: longMs }, () => 1)).ran).to.equal(false);
    });

    it('held by a lock of another kind of call: busy; and it hands off to what is queued when it ends', async () => {
      const lease = await other.promise(key);
      const options = { every: longMs, mode: 'until-success' as const };
      expect(await withLock.once(key, options, () => 1)).to.deep.include({ ran: false, reason: 'busy' });
      await lease();
      let queued!: Promise<string>;
      const result = await withLock.once(key, options, async () => {
        queued = other.run(key, { timeout: 20_000 }, () => 'its turn');
        await sleep(100);
        return 'job';
      });
      expect(result).to.deep.include({ ran: true, value: 'job' });
      expect(await queued).to.equal('its turn');
    });

    it('one attempt, whatever factory and call say of waiting; an aborted signal rejects with its reason', async () => {
      await here.seize(key);
      const patient = redisExpLock({ redis: here.redis, commandTimeout: 10_000, timeout: 60_000 });
      const options = { every: longMs, timeout: 60_000 };
      expect(await patient.once(key, options, () => 1)).to.deep.include({ ran: false, reason: 'busy' });
      const reason = new Error('no more');
      const aborted = { every: longMs, signal: AbortSignal.abort(reason) };
      expect(await failure(withLock.once(uniqueKey(), aborted, () => 1))).to.equal(reason);
    });

    it('a done slot costs one command, a job two', async () => {
      const connection = await here.connection();
      const counted = redisExpLock({ redis: connection.redis, lifetime: 20_000, commandTimeout: 10_000 });
      for (const mode of modes) {
        await withLock.once(`${key}:${mode}:warm`, { every: longMs, mode }, () => {});
        await counted.once(`${key}:${mode}:warm`, { every: longMs, mode }, () => {});
        let before = await connection.calls();
        await counted.once(`${key}:${mode}`, { every: longMs, mode }, () => {});
        const job = (await connection.calls()) - before;
        before = await connection.calls();
        await counted.once(`${key}:${mode}`, { every: longMs, mode }, () => {});
        const done = (await connection.calls()) - before;
        expect([job, done], mode).to.deep.equal([2, 1]);
      }
    });

    it('H12: impossible arguments are rejected before any I/O', async () => {
      const connection = await here.connection();
      const { once } = redisExpLock({ redis: connection.redis }) as any;
      const every = 1000;
      for (const args of [
        [key, { every }],
        [key, () => {}],
        [key, {}, () => {}],
        [key, { every: 999 }, () => {}],
        [key, { every: 1000.5 }, () => {}],
        [key, { every: '1000' }, () => {}],
        [key, { every: Number.POSITIVE_INFINITY }, () => {}],
        [key, { every, offset: 0.5 }, () => {}],
        [key, { every, offset: null }, () => {}],
        [key, { every, mode: 'exactly-once' }, () => {}],
        [key, { every, mode: true }, () => {}],
        [key, { every, ofset: 1 }, () => {}],
        [key, { every, lifetime: 0 }, () => {}],
        [[key], { every }, () => {}],
        [[key, `${key}:2`], { every }, () => {}],
        [`${key}:slot`, { every }, () => {}],
        ['', { every }, () => {}],
      ]) {
        expect((await failure(once(...args))).code, JSON.stringify(args)).to.equal('ERR_LOCK_OPTION');
      }
      expect(await connection.calls()).to.equal(0);
    });

    if (here.place.faults) {
      it('Redis that cannot be asked is neither busy nor done: LockBackendError', async () => {
        const connection = await here.connection();
        connection.proxy.blackHole();
        const far = redisExpLock({ redis: connection.redis, commandTimeout: unansweredMs });
        expect((await failure(far.once(key, { every: 1000 }, () => {}))).code).to.equal('ERR_LOCK_BACKEND');
      });
    }
  },
  ({ isQuorum }) => !isQuorum,
);

describe('once, on a quorum', () => {
  it('is refused by name before any I/O: its nodes have clocks of their own', async () => {
    const { url } = await sharedRedis();
    const redis = await Promise.all([1, 2, 3].map(() => connect(url)));
    const withLock = redisExpLock({ redis });
    const refused = await failure(withLock.once(uniqueKey(), { every: 1000 }, () => expect.fail('it ran')));
    expect(refused).to.include({ code: 'ERR_LOCK_BACKEND', retryable: false });
    expect(refused.message).to.match(/quorum.*single Redis/);
  });
});
