// How long, how often, and until when a caller waits for a key that somebody else holds. Where time is the subject, it is the
// test's: the clock of this process stands still until it is told to go on.
import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import * as fc from 'fast-check';
import sinon from 'sinon';
import { pauses } from '../../src/acquire/attempts';
import { settle } from '../../src/core/options';
import redisExpLock from '../../src/index';
import { holdReply } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { called, failure, libraryTimers, noneLeft, pending, type TimerCount, uncaught } from './outcomes';
import { type Connection, describeEach, stranger } from './places';

type Options = redisExpLock.WaitOptions;

const hourMs = 3_600_000;
const { setImmediate: turn } = globalThis;

describeEach('waiting', (here) => {
  let key: string;
  let connection: Connection;
  let withLock: redisExpLock.WithLock;

  before(async () => {
    connection = await here.connection();
  });

  beforeEach(async () => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: connection.redis, lifetime: 10_000, commandTimeout: 10_000 });
    await here.seize(key, null);
  });

  describe('which level decides', () => {
    const attempts = (n: number) => ({ code: 'ERR_LOCK_ATTEMPTS', attempts: n });
    const timeout = { code: 'ERR_LOCK_TIMEOUT' };
    const rows: [what: string, factory: Options, call: Options, expected: object][] = [
      ['nothing given: one attempt', {}, {}, attempts(1)],
      ['maxRetries of the call', {}, { maxRetries: 2 }, attempts(3)],
      ['maxRetries of the factory', { maxRetries: 2 }, {}, attempts(3)],
      ['the call’s maxRetries goes before the factory’s', { maxRetries: 5 }, { maxRetries: 1 }, attempts(2)],
      ['timeout of the call', {}, { timeout: 30 }, timeout],
      ['timeout of the factory', { timeout: 30 }, {}, timeout],
      ['timeout 0: one attempt, and a LockTimeoutError', {}, { timeout: 0 }, timeout],
      ['timeout of the call: the factory’s maxRetries is not mixed in', { maxRetries: 0 }, { timeout: 30 }, timeout],
      ['maxRetries of the call: the factory’s timeout is not mixed in', { timeout: 0 }, { maxRetries: 2 }, attempts(3)],
      ['an endless timeout of the factory gives way too', { timeout: Infinity }, { maxRetries: 0 }, attempts(1)],
      ['undefined is not given', { maxRetries: 2 }, { timeout: undefined, maxRetries: undefined }, attempts(3)],
      ['other options of the call do not decide', { maxRetries: 2 }, { retryTimeout: 1, jitter: 0.5 }, attempts(3)],
      ['both: retries used up first', {}, { maxRetries: 2, timeout: hourMs }, attempts(3)],
      ['both: timeout used up first', {}, { maxRetries: Infinity, timeout: 30 }, timeout],
      ['both, of the factory', { maxRetries: 2, timeout: hourMs }, {}, attempts(3)],
      ['both, with timeout 0', {}, { maxRetries: 5, timeout: 0 }, timeout],
    ];
    for (const [what, factory, call, expected] of rows) {
      it(what, async () => {
        // A request that the end of the wait cuts off is waited for by `close`.
        const commandTimeout = [factory.timeout, call.timeout].includes(30) ? 1_000 : 10_000;
        const waiting = redisExpLock({ redis: connection.redis, commandTimeout, retryTimeout: 1, ...factory });
        const before = await connection.calls();
        const error = await failure(waiting.promise(key, call));
        expect(error).to.include(expected);
        const { err } = await called(waiting, key, call);
        expect(err).to.include(expected);
        expect(await failure(waiting.run(key, call, () => {}))).to.include(expected);
        if ('attempts' in expected) {
          expect((await connection.calls()) - before).to.equal(3 * Number(expected.attempts));
          expect(error).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
        } else {
          expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError);
        }
        if (call.timeout === 0) expect((await connection.calls()) - before).to.equal(3);
        expect(await here.holder(key)).to.equal(stranger);
        await waiting.close(); // what it still releases is not to be counted by others
      });
    }

    it('what a free key needs is one attempt, whatever the wait', async () => {
      await here.remove(key);
      const before = await connection.calls();
      const lease = await withLock.promise(key, { timeout: Number.POSITIVE_INFINITY });
      expect((await connection.calls()) - before).to.equal(1);
      await lease();
    });
  });

  if (here.place.polls || here.place.isQuorum) {
    it('H99: callers of one process line up where they poll: they are served in the order of their calls', async () => {
      const served: number[] = [];
      const all = Array.from({ length: 200 }, (_, n) => n);
      const works = all.map((n) => withLock.run(key, { timeout: 60_000 }, () => void served.push(n)));
      await here.remove(key);
      await Promise.all(works);
      expect(served).to.deep.equal(all);
    });
  }

  describe('pauses, on a clock of the test', () => {
    let clock: sinon.SinonFakeTimers;
    let timers: TimerCount;

    // A connection of its own for each test: what it has learned of the server's clock is true for one clock of ours only.
    beforeEach(async () => {
      connection = await here.connection();
      // On a busy machine, the clock of Redis goes seconds ahead of that of the test: no request may come too late by that.
      withLock = redisExpLock({ redis: connection.redis, lifetime: 10_000, commandTimeout: 60_000 });
    });

    // biome-ignore lint/suspicious/noDuplicateTestHooks: timers are counted from a hook that waits for nothing
    beforeEach(() => {
      clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'], now: Date.now() });
      timers = libraryTimers();
    });

    afterEach(() => clock.restore());

    /** Resolves when the wait has heard of its last attempt: it has timers then only if it pauses. */
    async function quiet(): Promise<void> {
      // An attempt leaves at the end of its tick: behind the first question, and before the second.
      for (let twice = 0; twice < 2; twice++) {
        await connection.calls();
        for (let n = 0; n < 5; n++) await new Promise((resolve) => turn(resolve));
      }
    }

    /** The number of attempts after each of the given times. */
    async function attemptsAfter(waiting: Promise<unknown>, ...ticksMs: number[]): Promise<number[]> {
      waiting.catch(() => {});
      const counts: number[] = [];
      for (const ms of [0, ...ticksMs]) {
        clock.tick(ms);
        await quiet();
        counts.push(await connection.calls());
      }
      return counts;
    }

    it('`retryTimeout` lies between two attempts', async () => {
      const waiting = withLock.promise(key, { maxRetries: 2, retryTimeout: 1_000 });
      expect(await attemptsAfter(waiting, 999, 1, 999)).to.deep.equal([1, 1, 2, 2]);
      expect(timers()).to.be.greaterThan(0);
      expect(await attemptsAfter(waiting, 1)).to.deep.equal([2, 3]);
      expect(await failure(waiting)).to.include({ code: 'ERR_LOCK_ATTEMPTS', attempts: 3 });
      await noneLeft(timers);
    });

    it('its default is 5 ms', async () => {
      const waiting = withLock.promise(key, { maxRetries: 2 });
      expect(await attemptsAfter(waiting, 4, 1, 4, 1)).to.deep.equal([1, 1, 2, 2, 3]);
      await failure(waiting);
    });

    it('`retryRatio` lengthens each pause, `maxRetryTimeout` bounds it', async () => {
      const options = { maxRetries: 4, retryTimeout: 1_000, retryRatio: 2, maxRetryTimeout: 3_000 };
      const waiting = withLock.promise(key, options);
      const counts = await attemptsAfter(waiting, 999, 1, 1_999, 1, 2_999, 1, 2_999, 1);
      expect(counts).to.deep.equal([1, 1, 2, 2, 3, 3, 4, 4, 5]);
      await failure(waiting);
    });

    it('`timeout` cuts the last pause: one more attempt at its end, and then LockTimeoutError', async () => {
      const waiting = withLock.promise(key, { timeout: 2_500, maxRetries: Infinity, retryTimeout: 1_000 });
      expect(await attemptsAfter(waiting, 1_000, 1_000, 499, 1)).to.deep.equal([1, 2, 3, 3, 4]);
      expect(await failure(waiting)).to.include({ code: 'ERR_LOCK_TIMEOUT', key });
      await noneLeft(timers);
    });

    it('a lock that becomes free in a pause is granted at its end', async () => {
      const waiting = withLock.promise(key, { timeout: hourMs, maxRetries: Infinity, retryTimeout: 60_000 });
      expect(await attemptsAfter(waiting, 60_000)).to.deep.equal([1, 2]);
      await here.remove(key);
      clock.tick(60_000);
      const lease = await waiting;
      expect(lease.retries).to.equal(2);
      expect(await here.holder(key)).to.equal(lease.token);
      await noneLeft(timers);
      await lease();
    });

    it('a timeout beyond the longest timer of Node does not end at once', async () => {
      const waiting = withLock.promise(key, {
        timeout: 2 ** 40,
        maxRetries: Infinity,
        retryTimeout: 2 ** 31 - 1,
        maxRetryTimeout: 2 ** 31 - 1,
      });
      expect(await attemptsAfter(waiting, hourMs, 2 ** 31 - 2 - hourMs, 1)).to.deep.equal([1, 1, 1, 2]);
      expect(await pending(waiting)).to.equal(true);
      await withLock.close();
      expect(await failure(waiting)).to.include({ code: 'ERR_LOCK_CLOSED' });
    });

    it('`timeout: Infinity` and `maxRetries: Infinity` go on', async () => {
      const both = [{ timeout: Infinity, maxRetries: Infinity }, { maxRetries: Infinity }];
      const waits = both.map((options) => withLock.promise(key, { ...options, retryTimeout: 400 }));
      for (const wait of waits) wait.catch(() => {});
      await attemptsAfter(waits[0]!, ...new Array(20).fill(400));
      expect(await pending(Promise.race(waits))).to.equal(true);
      // Attempts of the same tick share a request. A user without the rights of the plain batch learns so by one more.
      expect(await connection.calls()).to.be.within(21, 22);
      await withLock.close();
      for (const wait of waits) await failure(wait);
    });

    it('H36: an abort in a pause ends the wait now: no further attempt, no timer, no listener', async () => {
      const abort = new AbortController();
      const waiting = withLock.promise(key, {
        timeout: hourMs,
        maxRetries: Infinity,
        retryTimeout: 1_000,
        signal: abort.signal,
      });
      expect(await attemptsAfter(waiting, 1_000)).to.deep.equal([1, 2]);
      expect(getEventListeners(abort.signal, 'abort')).to.have.length(1);
      abort.abort();
      expect(timers()).to.equal(0);
      expect(await failure(waiting)).to.equal(abort.signal.reason);
      expect(await attemptsAfter(waiting, 10_000)).to.deep.equal([2, 2]);
      expect(getEventListeners(abort.signal, 'abort')).to.have.length(0);
    });
  });

  describe('the pauses themselves', () => {
    const options = fc.record({
      retryTimeout: fc.double({ min: 0, max: 10_000, noNaN: true }),
      retryRatio: fc.double({ min: 1, max: 10, noNaN: true }),
      maxRetryTimeout: fc.double({ min: 0, max: 10_000, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const randoms = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
      minLength: 30,
      maxLength: 30,
    });

    function drawn(given: Options, random: readonly number[]): number[] {
      let n = 0;
      const next = pauses(settle(given), () => random[n++]!);
      return random.map(() => next());
    }

    const steady = (random: readonly number[]): number[] => random.map(() => 0);

    it('without jitter: the first is retryTimeout, each is the last times retryRatio, and none is over the bound', () => {
      fc.assert(
        fc.property(options, randoms, (given, random) => {
          const { retryTimeout, retryRatio, maxRetryTimeout } = given;
          const series = drawn({ ...given, jitter: 0 }, random);
          expect(series[0]).to.equal(Math.min(retryTimeout, maxRetryTimeout));
          for (let n = 1; n < series.length; n++) {
            expect(series[n]).to.equal(Math.min(series[n - 1]! * retryRatio, maxRetryTimeout));
          }
        }),
      );
    });

    it('jitter takes its share of a pause, at most, and lengthens none', () => {
      fc.assert(
        fc.property(options, randoms, (given, random) => {
          const plain = drawn({ ...given, jitter: 0 }, random);
          const jittered = drawn(given, random);
          jittered.forEach((pause, n) => {
            expect(pause).to.be.within(plain[n]! * (1 - given.jitter) * (1 - 1e-9), plain[n]! * (1 + 1e-9));
          });
        }),
      );
    });

    it('jitter is not carried on: the next pause starts from the whole of the last', () => {
      fc.assert(
        fc.property(options, randoms, (given, random) => {
          const { jitter } = given;
          const plain = drawn({ ...given, jitter: 0 }, random);
          const shortest = drawn(given, steady(random));
          shortest.forEach((pause, n) => {
            expect(pause).to.be.closeTo(plain[n]! * (1 - jitter), 1e-6);
          });
        }),
      );
    });

    it('full jitter spreads over the whole of the pause', () => {
      fc.assert(
        fc.property(randoms, (random) => {
          const series = drawn({ retryTimeout: 100, jitter: 1 }, random);
          expect(series).to.deep.equal(random.map((share) => 100 * share));
        }),
      );
    });

    it('defaults: 5 ms, always; at most 500 ms once they grow; a longer retryTimeout bounds itself', () => {
      const random = new Array(30).fill(0.5);
      expect(drawn({}, random)).to.deep.equal(new Array(30).fill(5));
      expect(Math.max(...drawn({ retryRatio: 2 }, random))).to.equal(500);
      expect(drawn({ retryTimeout: 2_000 }, random)).to.deep.equal(new Array(30).fill(2_000));
    });
  });

  describe('H36: signal', () => {
    it('aborted before: rejects with its reason, and there is no I/O', async () => {
      await here.remove(key);
      const before = await connection.calls();
      const reason = new Error('mine');
      const signal = AbortSignal.abort(reason);
      expect(await failure(withLock.promise(key, { signal }))).to.equal(reason);
      expect(await failure(withLock.tryLock(key, { signal }))).to.equal(reason);
      expect(await failure(withLock.run(key, { signal }, () => {}))).to.equal(reason);
      expect((await called(withLock, key, { signal })).err).to.equal(reason);
      expect(await connection.calls()).to.equal(before);
      expect(getEventListeners(signal, 'abort')).to.have.length(0);
      expect(await here.holder(key)).to.equal(null);
    });

    it('aborted during the wait: rejects with its reason, and nothing is held later', async () => {
      const abort = new AbortController();
      const waiting = withLock.promise(key, { timeout: hourMs, retryTimeout: 1, signal: abort.signal });
      await connection.calls();
      const reason = new TypeError('mine');
      abort.abort(reason);
      expect(await failure(waiting)).to.equal(reason);
      await here.remove(key);
      // An attempt under way is released, and the connection for messages may still be opening. Polls would never end.
      await waitFor(
        async () => {
          const before = await connection.calls();
          await new Promise((resolve) => setTimeout(resolve, 50));
          return (await connection.calls()) === before;
        },
        { what: 'the end of its requests' },
      );
      expect(await here.holder(key)).to.equal(null);
    });

    it('aborted in the same turn as the call: rejects, and nothing stays held', async () => {
      await here.remove(key);
      const abort = new AbortController();
      const closing = redisExpLock({ redis: connection.redis, lifetime: 10_000 });
      const waiting = closing.promise(key, { signal: abort.signal });
      abort.abort();
      expect(await failure(waiting)).to.equal(abort.signal.reason);
      await closing.close();
      expect(await here.holder(key)).to.equal(null);
    });

    it('aborted afterwards: no effect on what is held', async () => {
      await here.remove(key);
      const abort = new AbortController();
      let calls = 0;
      const lease = await new Promise<redisExpLock.Lease>((resolve) =>
        withLock(key, { signal: abort.signal }, (_err, done) => {
          calls += 1;
          resolve(done!);
        }),
      );
      expect(getEventListeners(abort.signal, 'abort')).to.have.length(0);
      abort.abort();
      await connection.calls();
      expect(calls).to.equal(1);
      expect(lease.signal.aborted).to.equal(false);
      expect(lease.remaining()).to.be.greaterThan(0);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await lease()).to.equal(true);
    });

    it('no listener is left, however the wait ends', async () => {
      const { signal } = new AbortController();
      await failure(withLock.promise(key, { signal }));
      await failure(withLock.promise(key, { signal, maxRetries: 2 }));
      await failure(withLock.promise(key, { signal, timeout: 20 }));
      await failure(withLock.promise(key, { signal, redis: here.unconnected(), commandTimeout: 1_000 }));
      await here.remove(key);
      await (await withLock.promise(key, { signal }))();
      await withLock.run(key, { signal }, () => {});
      expect(getEventListeners(signal, 'abort')).to.have.length(0);
    });

    it('a reason that is an Error passes unchanged; any other is the cause of an AbortError', async () => {
      for (const reason of ['stop', 5, null, { why: 'stop' }, Symbol('stop')]) {
        for (const signal of [AbortSignal.abort(reason), undefined]) {
          const abort = new AbortController();
          const waiting = withLock.promise(key, { timeout: hourMs, signal: signal ?? abort.signal });
          if (!signal) setTimeout(() => abort.abort(reason), 5);
          const error = await failure(waiting);
          expect(error).to.be.instanceOf(Error);
          expect(error.name).to.equal('AbortError');
          expect(error.cause).to.equal(reason);
        }
      }
      const byDefault = await failure(withLock.promise(key, { signal: AbortSignal.abort() }));
      expect(byDefault.name).to.equal('AbortError');
      const timedOut = await failure(withLock.promise(key, { timeout: hourMs, signal: AbortSignal.timeout(10) }));
      expect(timedOut.name).to.equal('TimeoutError');
    });

    it('the call’s signal goes before the factory’s', async () => {
      const ours = redisExpLock({ redis: connection.redis, commandTimeout: 10_000, signal: AbortSignal.abort() });
      expect((await failure(ours.promise(key))).name).to.equal('AbortError');
      const { signal } = new AbortController();
      expect(await failure(ours.promise(key, { signal }))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    });

    it('H9: other listeners of the signal that throw do not disturb it', async () => {
      const abort = new AbortController();
      const bad = (): void => {
        throw new Error('a listener threw');
      };
      const { exceptions, rejections } = await uncaught(async () => {
        abort.signal.addEventListener('abort', bad);
        const waiting = withLock.promise(key, { timeout: hourMs, retryTimeout: 1, signal: abort.signal });
        abort.signal.addEventListener('abort', bad);
        abort.signal.addEventListener('abort', () => bad());
        await connection.calls();
        abort.abort();
        expect(await failure(waiting)).to.equal(abort.signal.reason);
      });
      expect(exceptions.map(String)).to.deep.equal(new Array(2).fill('Error: a listener threw'));
      expect(rejections).to.deep.equal([]);
    });

    it('one signal for many waits ends them all', async () => {
      const abort = new AbortController();
      const waits = Array.from({ length: 50 }, () =>
        failure(withLock.promise(key, { timeout: hourMs, retryTimeout: 50, signal: abort.signal })),
      );
      await connection.calls();
      abort.abort();
      for (const error of await Promise.all(waits)) expect(error).to.equal(abort.signal.reason);
      expect(getEventListeners(abort.signal, 'abort')).to.have.length(0);
    });

    if (!here.place.faults) return;

    it('aborted while the place is silent: rejects at once', async () => {
      const far = await here.connection();
      const held = holdReply();
      far.proxy.rule({ match: 'script', nth: 1 }, held);
      const abort = new AbortController();
      const waiting = redisExpLock({ redis: far.redis, commandTimeout: 60_000 }).promise(uniqueKey(), {
        signal: abort.signal,
      });
      await held.arrived;
      abort.abort();
      expect(await failure(waiting)).to.equal(abort.signal.reason);
      held.release();
    });
  });
});
