// Readers of one lock object that share a member in the store, and permits that are handed off within one: each lease is a lock of its
// own all the same. On clients of each kind, one that only polls among them, and on the stores without a server.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import type { EmbeddedStore } from '../../src/core/redis-like';
import redisExpLock from '../../src/index';
import { tableOf } from '../support/embedded-table';
import { waitFor } from '../support/processes';
import { type Client, commandStats, connect, diffCommandStats, uniqueKey } from '../support/redis';
import { failure, pending } from './outcomes';
import { describeEach } from './places';

const { RWLock, Semaphore } = redisExpLock;
type RWLease = redisExpLock.RWLease;
type Options = Omit<redisExpLock.RWLockOptions, 'redis'>;

const kinds = ['node-redis 6, one Redis', 'ioredis 6, one Redis', 'Valkey GLIDE, one Redis', 'memory', 'shared memory'];

describeEach(
  'shared members',
  (here) => {
    let key: string;
    let look: redisExpLock.WithLock;
    /** A connection past the library, if the place has a server. */
    let direct: Client | undefined;
    const open: { close(options: object): Promise<void> }[] = [];

    before(async () => {
      look = redisExpLock({ redis: here.elsewhere, commandTimeout: 10_000 });
      if (here.place.name.endsWith('Redis')) direct = await connect(here.address);
    });

    beforeEach(() => {
      key = uniqueKey('members');
    });

    afterEach(() => Promise.all(open.splice(0).map((lock) => lock.close({ drain: false }))));

    function make(options: Options = {}, redis = here.redis): redisExpLock.RWLock {
      const lock = new RWLock(key, { redis, lifetime: 10_000, timeout: 15_000, commandTimeout: 10_000, ...options });
      open.push(lock);
      return lock;
    }

    const members = async (): Promise<number> => (await look.inspect(key)).holders.length;
    /** That many readers, which ask in one tick. */
    const readers = (lock: redisExpLock.RWLock, count: number, options: Options = {}): Promise<RWLease[]> =>
      Promise.all(Array.from({ length: count }, () => lock.acquireRead(options)));

    /** The number of extensions that the store executes meanwhile. Each looks up its member once; not each one moves the end. */
    async function extensionsIn(work: () => Promise<void>): Promise<number | undefined> {
      if (direct === undefined) {
        const run = sinon.spy(tableOf(here.redis as EmbeddedStore), 'run');
        await work().finally(() => run.restore());
        return run.callCount;
      }
      const before = await commandStats(direct);
      await work();
      return diffCommandStats(before, await commandStats(direct)).zscore;
    }

    /** True if the store has no holder and no waiter of the key, and Redis no key of it. */
    async function isGone(): Promise<boolean> {
      const { locked, waiters } = await look.inspect(key);
      return !locked && waiters === 0 && (direct === undefined || (await direct.keys(`*${key}*`)).length === 0);
    }

    async function stands(waiting: Promise<unknown>): Promise<void> {
      let isOver = false;
      const over = (): void => {
        isOver = true;
      };
      waiting.then(over, over);
      const isQueued = async (): Promise<boolean> => {
        expect(isOver, 'it waits no longer').to.equal(false);
        return (await look.inspect(key)).waiters > 0;
      };
      await waitFor(isQueued, { what: 'a waiter' });
    }

    describe('readers', () => {
      it('H84: one member for all, a token for each, one fence; the last that leaves releases it', async () => {
        const leases = await readers(make(), 40);
        expect(await members()).to.equal(1);
        expect(new Set(leases.map(({ token }) => token)).size).to.equal(40);
        expect(new Set(leases.map(({ fence }) => fence)).size).to.equal(1);
        const writing = make({}, here.elsewhere).acquireWrite();
        await stands(writing);
        const last = leases.pop()!;
        for (const lease of leases) {
          expect(await lease.release()).to.equal(true);
          expect([lease.remaining(), await lease.release(), await lease.extend(10_000)]).to.deep.equal([
            0,
            true,
            false,
          ]);
        }
        expect(await pending(writing)).to.equal(true);
        expect(last.remaining()).to.be.greaterThan(0);
        expect(await last.release()).to.equal(true);
        const writer = await writing;
        expect(writer.fence).to.be.greaterThan(last.fence);
        await writer.release();
        expect(await members()).to.equal(0);
      });

      it('H84: 64 at most join the first; those on other terms, or of another lock object, do not', async () => {
        const lock = make();
        const many = await readers(lock, 70);
        expect(await members()).to.equal(2);
        const others = [
          await Promise.all([lock.acquireRead(), lock.acquireRead({ lifetime: 9_999 })]),
          await Promise.all([lock.acquireRead({ owner: 'other' }), make().acquireRead()]),
        ].flat();
        expect(await members()).to.be.at.least(2 + 3);
        for (const lease of [...many, ...others]) expect(await lease.release()).to.equal(true);
        expect(await members()).to.equal(0);
      });

      it('H84: readers of different groups share nothing', async () => {
        const [one, two] = [make({ readers: 'one' }), make({ readers: 'two' })];
        const leases = await readers(one, 3);
        const waiting = readers(two, 3);
        await stands(waiting);
        for (const lease of leases) expect(await lease.release()).to.equal(true);
        for (const lease of await waiting) expect(await lease.release()).to.equal(true);
      });

      it('H84: another lifetime takes a member of its own first, also beside a writer that waits', async () => {
        const [one, two, three] = (await readers(make({ autoExtend: false, lifetime: 60_000 }), 3)) as [
          RWLease,
          RWLease,
          RWLease,
        ];
        const writing = make({}, here.elsewhere).acquireWrite();
        await stands(writing);
        for (const [lease, lifetime] of [
          [two, 24_000],
          [one, 360_000],
        ] as const) {
          expect(await lease.extend(lifetime)).to.equal(true);
          expect(lease.remaining()).to.be.within(lifetime - 23_000, lifetime);
        }
        expect(three.remaining()).to.be.within(24_001, 60_000);
        const { holders } = await look.inspect(key);
        const ends = holders.map(({ remaining }) => remaining).sort((one, other) => one - other);
        expect(ends).to.have.length(3);
        expect(ends[0]).to.be.at.most(24_000);
        expect(ends[1]).to.be.within(24_001, 60_000);
        expect(ends[2]).to.be.within(300_000, 360_000);
        expect(await pending(writing)).to.equal(true);
        for (const lease of [three, one, two]) expect(await lease.release()).to.equal(true);
        await (await writing).release();
        expect(await members()).to.equal(0);
      });

      it('H84: an extension by the own lifetime is one for all that ask in a turn', async () => {
        const leases = await readers(make({ autoExtend: false }), 20);
        const count = await extensionsIn(async () => {
          const extended = await Promise.all(leases.map((lease) => lease.extend()));
          expect(new Set(extended)).to.deep.equal(new Set([true]));
        });
        expect([count, await members()]).to.deep.equal([1, 1]);
        await Promise.all(leases.map((lease) => lease.release()));
      });

      it('H84: an upgrade waits for those that share with it, lets no other in, and keeps its token', async () => {
        const lock = make();
        const [one, two, three] = (await readers(lock, 3)) as [RWLease, RWLease, RWLease];
        const { token, fence } = two;
        const upgrading = two.upgrade({ timeout: 15_000 });
        await stands(upgrading);
        expect((await failure(three.upgrade())).code).to.equal('ERR_LOCK_DEADLOCK');
        expect((await failure(lock.acquireRead({ timeout: 0 }))).code).to.equal('ERR_LOCK_TIMEOUT');
        expect(await one.release()).to.equal(true);
        expect(await pending(upgrading)).to.equal(true);
        expect(await three.extend()).to.equal(true);
        expect(await three.release()).to.equal(true);
        await upgrading;
        expect(two).to.include({ mode: 'write', token });
        expect(two.fence).to.be.greaterThan(fence);
        expect([await two.release(), await members()]).to.deep.equal([true, 0]);
      });

      it('H84: the first of them may upgrade too; the others keep the member', async () => {
        const [one, two] = (await readers(make(), 2)) as [RWLease, RWLease];
        const upgrading = one.upgrade({ timeout: 15_000 });
        await stands(upgrading);
        expect([await two.extend(), await members()]).to.deep.equal([true, 2]);
        expect(await two.release()).to.equal(true);
        await upgrading;
        expect([one.mode, await one.release(), await members()]).to.deep.equal(['write', true, 0]);
      });

      it('H84: the loss of the member is a loss for all', async () => {
        const leases = await readers(make({ autoExtend: false }), 5);
        const signals = leases.map(({ signal }) => signal);
        await here.remove(key);
        expect(await leases[0]!.extend()).to.equal(false);
        expect(signals.map(({ reason }) => reason?.reason)).to.deep.equal(Array(5).fill('missing'));
        expect(await Promise.all(leases.map((lease) => lease.release()))).to.deep.equal(Array(5).fill(false));
      });

      it('H84: each has its own `maxHold`: the end of one is not the end of others', async () => {
        const lock = make({ lifetime: 3_000 }); // renewed after a second, it outlives a stall of two
        const [brief, long] = await Promise.all([lock.acquireRead({ maxHold: 1 }), lock.acquireRead()]);
        expect(await members()).to.equal(1);
        await new Promise((resolve) => brief.signal.addEventListener('abort', resolve));
        expect(brief.signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired' });
        expect(long.remaining()).to.be.greaterThan(0);
        expect([await brief.release(), await members()]).to.deep.equal([false, 1]);
        expect([await long.release(), await members()]).to.deep.equal([true, 0]);
      });

      it('H84: those that give up are in nobody’s way, and the others go on waiting', async () => {
        const writer = await make().acquireWrite();
        const lock = make({}, here.elsewhere);
        const giveUp = new AbortController();
        const waiting = [giveUp.signal, undefined, giveUp.signal].map((signal) => lock.acquireRead({ signal }));
        await stands(Promise.allSettled(waiting));
        giveUp.abort(new Error('enough'));
        for (const n of [0, 2]) expect((await failure(waiting[n]!)).message).to.equal('enough');
        await writer.release();
        const lease = (await waiting[1])!;
        const queued = [1, 2].map(() => make({}, here.elsewhere).acquireWrite({ timeout: 100 }));
        expect(await Promise.all(queued.map((each) => failure(each).then(({ code }) => code)))).to.deep.equal(
          Array(2).fill('ERR_LOCK_TIMEOUT'),
        );
        expect(await lease.release()).to.equal(true);
        await waitFor(isGone, { what: 'nothing to be left' });
      });

      it('closing one ends its wait and its leases, as ever', async () => {
        const lock = make();
        const leases = await readers(lock, 3);
        await lock.close({ drain: false });
        expect(leases.map(({ signal }) => signal.reason.reason)).to.deep.equal(Array(3).fill('closed'));
        expect(await members()).to.equal(0);
      });
    });

    describe('permits', () => {
      function semaphore(permits: number, redis = here.redis): redisExpLock.Semaphore {
        const made = new Semaphore(key, permits, { redis, lifetime: 10_000, timeout: 15_000, commandTimeout: 10_000 });
        open.push(made);
        return made;
      }

      it('H84: a permit is handed off: a fence for each holder, and no holder can touch the next', async () => {
        const all = semaphore(2);
        const waiting = Array.from({ length: 6 }, () => all.acquire());
        const first = (await Promise.all(waiting.slice(0, 2))) as redisExpLock.Lease[];
        const seen = [...first];
        for (let n = 2; n < 6; n++) {
          expect(await seen[n - 2]!.release()).to.equal(true);
          const next = (await waiting[n])!;
          expect(next.token).to.equal(seen[n - 2]!.token);
          expect([await seen[n - 2]!.extend(1), await seen[n - 2]!.release()]).to.deep.equal([false, true]);
          expect(await members()).to.equal(2);
          expect([await next.extend(), next.remaining() > 0]).to.deep.equal([true, true]);
          seen.push(next);
        }
        expect(new Set(seen.map(({ fence }) => fence)).size).to.equal(6);
        for (const lease of seen.slice(-2)) expect(await lease.release()).to.equal(true);
        expect(await all.available()).to.equal(2);
      });

      it('one that was extended to another lifetime is not handed off', async () => {
        const all = semaphore(1);
        const first = await all.acquire();
        const second = all.acquire();
        expect(await first.extend(60_000)).to.equal(true);
        expect(await first.release()).to.equal(true);
        expect((await second).token).to.not.equal(first.token);
        expect((await second).remaining()).to.be.at.most(10_000);
        await (await second).release();
      });

      it('nobody that wants more is passed: then none is handed off, and the order is that of arrival', async () => {
        const all = semaphore(3);
        const held = await Promise.all([all.acquire(), all.acquire(), all.acquire()]);
        const order: string[] = [];
        const take = async (permits: number, name: string): Promise<void> => {
          const lease = await all.acquire(permits);
          order.push(name);
          await sleep(1);
          await lease.release();
        };
        const done = [take(1, 'a'), take(3, 'all'), take(1, 'b'), take(1, 'b')];
        await waitFor(async () => (await look.inspect(key)).waiters >= 4, { what: 'four in the queue' });
        for (const lease of held) await lease.release();
        await Promise.all(done);
        expect(order).to.deep.equal(['a', 'all', 'b', 'b']);
      });

      it('H84: handed off or not, no permit is held twice, and all have their turn', async () => {
        const sides = [semaphore(2), semaphore(2, here.elsewhere)];
        let inside = 0;
        let most = 0;
        const use = (n: number): Promise<void> =>
          sides[n % 20 === 0 ? 1 : 0]!.run(async () => {
            most = Math.max(most, ++inside);
            await Promise.resolve();
            inside -= 1;
          });
        await Promise.all(Array.from({ length: 200 }, (_, n) => use(n)));
        expect(most).to.be.within(1, 2);
        await waitFor(async () => (await members()) === 0, { what: 'nothing to be held' });
      });
    });
  },
  ({ name }) => kinds.includes(name),
);
