// The events of every way in which an acquire can end, and the locks that are held then.
import { subscribe, tracingChannel, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { failure, libraryTimers, published, thrown } from '../contract/outcomes';
import { waitFor } from '../support/processes';
import { scenes } from './scenes';

describe('events', () => {
  for (const { what, kind, outcome, code, contended, play } of scenes) {
    it(`tell once of ${what}: ${outcome}${code ? `, ${code}` : ''}`, async () => {
      const ended: redisExpLock.AcquireEvent[] = [];
      const errors: unknown[] = [];
      const subscribers: any = {
        asyncEnd: (event: redisExpLock.AcquireEvent) => ended.push(event),
        error: (event: redisExpLock.AcquireEvent) => errors.push(event.error),
      };
      const channel = tracingChannel('redis-exp-lock:acquire');
      await play(() => channel.subscribe(subscribers)).finally(() => channel.unsubscribe(subscribers));
      expect(ended).to.have.length(1);
      const [event] = ended;
      expect(event).to.include({ key: 'p:secret-key', name: 'scene', kind, store: 'memory', outcome });
      expect(event!.waitedMs).to.be.within(0, 20_000);
      expect((event!.error as any)?.code).to.equal(code);
      expect(errors).to.deep.equal(code === undefined ? [] : [event!.error]);
      const hasWaited = event!.queued || event!.attempts! > 1 || (outcome === 'aborted' && event!.attempts === 1);
      expect(hasWaited || ['busy', 'timeout'].includes(outcome)).to.equal(contended);
      if (outcome === 'granted') expect(event!.fence).to.be.greaterThan(0);
      else expect(event!.fence).to.equal(0);
      if (outcome === 'busy' && code === undefined) expect(event!.result).to.equal(null);
    });
  }

  it('what the caller gets is the same, with and without a listener', async () => {
    const redis = redisExpLock.memoryStore();
    const withLock = redisExpLock({ redis });
    const outcomes = async (): Promise<unknown[]> => {
      const lease = await withLock.promise('k');
      const busy = await failure(withLock.promise('k'));
      const tried = await withLock.tryLock('k');
      return [typeof lease, busy.code, tried, await lease.release()];
    };
    const unheard = await outcomes();
    let heard: unknown[] = [];
    await published('tracing:redis-exp-lock:acquire:start', async () => {
      heard = await outcomes();
    });
    expect(heard).to.deep.equal(unheard);
    expect(unheard).to.deep.equal(['function', 'ERR_LOCK_ATTEMPTS', null, true]);
  });

  it('several keys are their list; each kind of lock and of store is named', async () => {
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), prefix: 'p:' });
    const [release] = await published('redis-exp-lock:release', async () => (await withLock.promise(['a', 'b']))());
    expect(release).to.include({ kind: 'mutex', store: 'memory', name: '', released: true });
    expect(release.key).to.deep.equal(['p:a', 'p:b']);
  });

  it('an extension and a renewal say whether it was still ours, and for how long', async () => {
    const redis = redisExpLock.memoryStore();
    const withLock = redisExpLock({ redis, name: 'n' });
    const all = await published('redis-exp-lock:extend', async () => {
      const lease = await withLock.promise('k', { lifetime: 60_000 });
      await lease.extend(5000);
      redis.seize('k', 60_000);
      await lease.extend();
      redis.expire('k');
      await withLock.run('k', { lifetime: 60 }, () => waitForRenewal('n'));
    });
    const heard = all.filter(({ name }) => name === 'n'); // not the renewals of what earlier tests left behind
    const facts = { key: 'k', name: 'n', kind: 'mutex', store: 'memory' };
    expect(heard.slice(0, 2)).to.deep.equal([
      { ...facts, extended: true, lifetime: 5000 },
      { ...facts, extended: false, lifetime: 60_000 },
    ]);
    expect(heard[2]).to.deep.equal({ ...facts, extended: true, lifetime: 60 });
  });

  it('a lock that was held before anybody listened has been held since Redis last confirmed it', async () => {
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
    const lease = await withLock.promise('k', { lifetime: 60_000 });
    await new Promise((resolve) => setTimeout(resolve, 30));
    const [event] = await published('redis-exp-lock:release', () => lease());
    expect(event.heldMs).to.be.within(25, 20_000);
  });

  it('a loss and the release after it have the same end', async () => {
    const redis = redisExpLock.memoryStore();
    const name = 'loss and release'; // no other test's: what those left behind may end meanwhile
    const withLock = redisExpLock({ redis, name });
    const released: any[] = [];
    const onRelease = (event: any): void => void (event.name === name && released.push(event));
    subscribe('redis-exp-lock:release', onRelease);
    const losses = await published('redis-exp-lock:lost', async () => {
      const lease = await withLock.promise('k', { lifetime: 60_000 });
      await lease.extend(20);
      await waitFor(() => lease.remaining() === 0);
      void lease.signal;
      await lease();
    });
    unsubscribe('redis-exp-lock:release', onRelease);
    const [lost] = losses.filter((event) => event.name === name);
    expect(lost).to.include({ reason: 'expired' });
    expect(released).to.have.length(1);
    expect(released[0].heldMs).to.equal(lost.heldMs);
  });

  describe('on a clock of the test', () => {
    let clock: sinon.SinonFakeTimers;

    beforeEach(() => {
      clock = sinon.useFakeTimers();
    });

    afterEach(() => clock.restore());

    it('the watch for locks that are never released ends with the release', async () => {
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), lifetime: 60_000 });
      const warnings = await published('redis-exp-lock:warning', async () => {
        const timers = libraryTimers();
        const released = await withLock.promise('watched');
        const detached = await withLock.promise('watched and detached');
        expect(timers()).to.be.greaterThan(0);
        await released();
        detached.detach();
        expect(timers()).to.equal(0);
        await clock.tickAsync(120_000);
      });
      // Without those of locks that earlier tests left behind.
      expect(warnings.filter(({ key }) => key.startsWith('watched'))).to.deep.equal([]);
    });

    it('why a lock was lost does not depend on instruments that listen', async () => {
      const reasons: string[] = [];
      for (const channel of ['redis-exp-lock:lost', 'redis-exp-lock:hold']) {
        const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), lifetime: 500 });
        await published(channel, async () => {
          const lease = await withLock.promise('k');
          clock.jump(1000); // as if this process had not run
          const [loss] = await published('redis-exp-lock:release', () => lease());
          expect(loss).to.include({ released: false });
          reasons.push(await lease.signal.reason.reason);
        });
      }
      expect(reasons).to.deep.equal(['expired', 'expired']);
    });
  });

  it('a wrong argument is no event', async () => {
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
    const heard = await published('tracing:redis-exp-lock:acquire:start', async () => {
      expect((await failure(withLock.promise(''))).code).to.equal('ERR_LOCK_OPTION');
      expect((await failure(withLock.promise('k', { lifetime: 0 }))).code).to.equal('ERR_LOCK_OPTION');
    });
    expect(heard).to.deep.equal([]);
  });

  it('a lock object that holds already is asked in vain, and that is no event', async () => {
    const lock = new redisExpLock.Lock('k', { redis: redisExpLock.memoryStore() });
    await lock.lock();
    const told = await published('tracing:redis-exp-lock:acquire:start', async () => {
      expect(await failure(lock.lock())).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED' });
      expect(await failure(lock.tryLock())).to.include({ code: 'ERR_LOCK_ALREADY_ACQUIRED' });
    });
    expect(told).to.deep.equal([]);
    await lock.unlock();
  });

  it('H12: `name` is text of at most 256 characters', () => {
    for (const name of [1, null, 'x'.repeat(257), '\ud800']) {
      expect(thrown(() => redisExpLock({ name: name as string })).code).to.equal('ERR_LOCK_OPTION');
    }
  });
});

/** Resolves at the next extension of a lock of that name. */
function waitForRenewal(name: string): Promise<unknown> {
  return new Promise((resolve) => {
    const listener = (event: any): void => {
      if (event.name !== name) return;
      unsubscribe('redis-exp-lock:extend', listener);
      resolve(undefined);
    };
    subscribe('redis-exp-lock:extend', listener);
  });
}
