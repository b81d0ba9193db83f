// `RWLock`: many readers or one writer. The faults of the Go original that this takes in (H37 to H46) are tests here, each of
// which fails on its scripts: a counter without an end, one token for all readers, intents that outlive who had them.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, pending, thrown } from './outcomes';
import { describeEach, renewed, shortLifetime, slowly } from './places';

const { RWLock } = redisExpLock;
type Options = Omit<redisExpLock.RWLockOptions, 'redis'>;

describeEach('RWLock', (here) => {
  let key: string;
  const open: redisExpLock.RWLock[] = [];

  /** Another process, as far as the place can tell, or the same one. */
  function make(options: Options = {}, redis = here.redis): redisExpLock.RWLock {
    const lock = new RWLock(key, { redis, lifetime: 10_000, commandTimeout: 10_000, ...options });
    open.push(lock);
    return lock;
  }
  const elsewhere = (options: Options = {}): redisExpLock.RWLock => make(options, here.elsewhere);
  const byPlace = { timeout: 15_000 };
  const once = { maxRetries: 0 };
  const busy = (promise: Promise<unknown>) =>
    failure(promise).then((error) => expect(error.code).to.equal('ERR_LOCK_ATTEMPTS'));
  /** Resolves when the request was answered and is queued. */
  async function stands(waiting: Promise<unknown>, waiters = 1): Promise<void> {
    waiting.catch(() => {});
    const look = redisExpLock({ redis: here.redis, commandTimeout: 10_000 });
    // Once: on a quorum, a waiter is in no queue between two of its rounds.
    await waitFor(async () => (await look.inspect(key)).waiters >= waiters, {
      what: `${waiters} waiters in the queue`,
    });
  }

  /** A caller that gives up leaves the queue by itself, and nobody waits for that. */
  const nobodyWaits = (): Promise<unknown> =>
    waitFor(async () => (await redisExpLock({ redis: here.redis, commandTimeout: 10_000 }).inspect(key)).waiters === 0);

  /** True if a new reader is held back. A waiter on a quorum is in no queue between two of its rounds: there, true if a reader is ever held back. */
  async function isHeldBack(lock: redisExpLock.RWLock, expected: boolean): Promise<boolean> {
    for (let left = here.place.isQuorum ? 100 : 1; left > 0; left--) {
      const got = await lock.acquireRead(once).catch((error) => error);
      const isBusy = got.code === 'ERR_LOCK_ATTEMPTS';
      if (!isBusy) await got.release();
      if (isBusy === expected) return expected;
    }
    return !expected;
  }

  beforeEach(() => {
    key = uniqueKey('rw');
  });

  afterEach(() => Promise.all(open.splice(0).map((lock) => lock.close({ drain: false }))));

  describe('which holders exclude each other', () => {
    it('readers share, also those of other processes; a writer excludes all', async () => {
      const leases = await Promise.all([make().acquireRead(), make().acquireRead(), elsewhere().acquireRead()]);
      expect(leases.map(({ mode }) => mode)).to.deep.equal(['read', 'read', 'read']);
      await busy(elsewhere().acquireWrite(once));
      await Promise.all(leases.map((lease) => lease.release()));
      const writer = await elsewhere().acquireWrite(once);
      expect(writer.mode).to.equal('write');
      await busy(make().acquireRead(once));
      await busy(make().acquireWrite(once));
      expect(await writer.release()).to.equal(true);
      expect(await here.leftMs(key)).to.equal(0);
    });

    it('readers of one phase share a fence; a writer’s is larger, and the next phase’s larger still', async () => {
      const [a, b] = [await make().acquireRead(), await elsewhere().acquireRead()];
      // On a quorum, nodes whose clocks are not known yet may each mint one.
      if (!here.place.isQuorum) expect(a.fence).to.equal(b.fence).and.greaterThan(0);
      await a.release();
      await b.release();
      const writer = await make().acquireWrite();
      expect(writer.fence).to.be.greaterThan(Math.max(a.fence, b.fence));
      await writer.release();
      const later = await make().acquireRead();
      expect(later.fence).to.be.greaterThan(writer.fence);
    });

    it('H42: readers of different groups exclude one another; of one group they share', async () => {
      const first = await make({ readers: 'one' }).acquireRead();
      await busy(elsewhere({ readers: 'two' }).acquireRead(once));
      await busy(elsewhere().acquireRead(once));
      const second = await elsewhere({ readers: 'one' }).acquireRead(once);
      await first.release();
      await busy(make({ readers: 'two' }).acquireRead(once));
      await second.release();
      await (await make({ readers: 'two' }).acquireRead(once)).release();
    });

    it('`inspect` names the mode', async () => {
      const look = redisExpLock({ redis: here.redis, commandTimeout: 10_000 });
      const reader = await make({ owner: 'web_1' }).acquireRead();
      expect(await look.inspect(key)).to.deep.include({ locked: true, mode: 'read', owner: 'web_1', waiters: 0 });
      await reader.release();
      const writer = await make().acquireWrite();
      expect(await look.inspect(key)).to.deep.include({ mode: 'write', fence: writer.fence });
      await writer.release();
      expect(await look.inspect(key)).to.deep.include({ locked: false, mode: null, remaining: 0 });
    });

    it('a mutex of the same name: an error by name, not "busy" for ever', async () => {
      await here.seize(key);
      expect(await failure(make().acquireRead())).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'WRONGTYPE' });
    });
  });

  describe('H38, H39, H40: each reader has an end of its own', () => {
    const shortMs = (): number => shortLifetime(here);
    /** A grant whose reply takes longer than the lifetime is given back, and asked for again. */
    const brief = () => ({ lifetime: shortMs(), timeout: 20_000 });

    it('H38: a reader that died blocks nobody beyond its lifetime, and lets no writer in beside a later reader', async () => {
      const dead = await make({ autoExtend: false }).acquireRead(brief());
      await sleep(shortMs() + 100);
      const reader = await elsewhere().acquireRead(once);
      await busy(make().acquireWrite(once)); // the original took the reader for none, and let the writer in
      expect(await dead.release()).to.equal(false);
      await reader.release();
      await (await make().acquireWrite(once)).release();
    });

    it('H39: a stale reader’s release changes nothing for the writer that came after it', async () => {
      const stale = await make({ autoExtend: false }).acquireRead(brief());
      await sleep(shortMs() + 100);
      const writer = await elsewhere().acquireWrite(once);
      expect(await stale.release()).to.equal(false);
      await busy(make().acquireRead(once)); // the original’s counter stood at -1, and let it in
      expect(await writer.release()).to.equal(true);
    });

    it('H40, H47: a reader that joins neither prolongs another’s life nor cuts it short', async () => {
      const long = await make({ autoExtend: false }).acquireRead({ lifetime: 30_000 });
      const short = await elsewhere({ autoExtend: false }).acquireRead(brief());
      await sleep(shortMs() + 100);
      expect(short.remaining()).to.equal(0);
      expect(await short.release()).to.equal(false);
      await busy(make().acquireWrite(once));
      expect(await long.extend(5_000)).to.equal(true);
      expect(await long.release()).to.equal(true);
      await (await make().acquireWrite(once)).release();
    });

    it('`lifetime: null`: until it is released, beside one that ends; and then nothing stays', async () => {
      if (here.place.isQuorum) return; // refused there: a node may forget
      const forever = await make().acquireRead({ lifetime: null });
      const other = await elsewhere({ autoExtend: false }).acquireRead({ lifetime: 30_000 });
      expect([forever.remaining(), await here.leftMs(key)]).to.deep.equal([
        Number.POSITIVE_INFINITY,
        Number.POSITIVE_INFINITY,
      ]);
      await busy(make().acquireWrite(once));
      expect(await forever.release()).to.equal(true);
      expect(await here.leftMs(key)).to.be.within(1, 30_000);
      expect(await other.release()).to.equal(true);
      const writer = await make().acquireWrite({ lifetime: null });
      expect((await redisExpLock({ redis: here.redis, commandTimeout: 10_000 }).inspect(key)).remaining).to.equal(
        Number.POSITIVE_INFINITY,
      );
      await writer.downgrade();
      expect(writer.remaining()).to.equal(Number.POSITIVE_INFINITY);
      expect(await writer.release()).to.equal(true);
      expect(await here.leftMs(key)).to.equal(0);
    });

    it('a reader is renewed for as long as it is kept', async () => {
      const reader = await make().acquireRead({ lifetime: 9_000 });
      await renewed(reader);
      expect(await here.leftMs(key)).to.be.above(6_000);
      expect(reader.signal.aborted).to.equal(false);
      await busy(elsewhere().acquireWrite(once));
      expect(await reader.release()).to.equal(true);
    });
  });

  describe('H41, H44: an identity for each call', () => {
    it('H41: a release twice frees nobody else’s lock', async () => {
      const lock = make();
      const [first, second] = [await lock.acquireRead(), await lock.acquireRead()];
      expect(first.token).not.to.equal(second.token);
      expect([await first.release(), await first.release(), await first()]).to.deep.equal([true, true, true]);
      await busy(elsewhere().acquireWrite(once));
      expect(await first.extend(10_000)).to.equal(false);
      expect(await second.release()).to.equal(true);
    });

    it('H44: two writes of one object never share a lock', async () => {
      const lock = make();
      let inside = 0;
      const fences = await Promise.all(
        Array.from({ length: 4 }, () =>
          lock.write(byPlace, async ({ fence }) => {
            expect(++inside).to.equal(1);
            await sleep(5);
            inside -= 1;
            return fence;
          }),
        ),
      );
      expect(new Set(fences).size).to.equal(4);
    });
  });

  describe('the order of admission', () => {
    /** A reader holds; a writer waits: a newcomer that reads is held back, or gets in. */
    async function newcomer(options: Options, wait: object, isHeld: boolean): Promise<void> {
      const reader = await make(options).acquireRead();
      const writing = elsewhere(options).acquireWrite(wait);
      await stands(writing);
      expect(await isHeldBack(make(options), isHeld)).to.equal(isHeld);
      expect(await pending(writing)).to.equal(true);
      await reader.release();
      await (await writing).release();
    }

    for (const [what, wait] of [
      ['a writer that waits by place', byPlace],
      ['a writer that counts', { maxRetries: 1000, retryTimeout: 500 }], // its place expires after two pauses
    ] as const) {
      it(`'writer': behind ${what}`, () => newcomer({}, wait, true));
      it(`'fair': behind ${what}`, () => newcomer({ prefer: 'fair' }, wait, true));
      it(`H37: 'reader': past ${what}`, () => newcomer({ prefer: 'reader' }, wait, false));
    }

    /** The waiters behind a writer, in the order in which they are admitted. */
    async function order(prefer: Options['prefer'], waiters: readonly ('r' | 'w')[]): Promise<string> {
      const holder = await make({ prefer }).acquireWrite();
      let seen = '';
      const all: Promise<void>[] = [];
      for (const [n, kind] of waiters.entries()) {
        const lock = n % 2 === 0 ? make({ prefer }) : elsewhere({ prefer });
        const work = async (): Promise<void> => {
          seen += kind + n;
          await sleep(30);
        };
        all.push(kind === 'r' ? lock.read(byPlace, work) : lock.write(byPlace, work));
        await stands(all[n]!, n + 1);
      }
      await holder.release();
      await Promise.all(all);
      return seen;
    }
    // The nodes of a quorum have queues of their own, and a vote that was in vain costs the place at that node.
    const hears = (): boolean => !here.place.polls && !here.place.isQuorum;

    it("'fair': in order of arrival", async () => {
      if (hears()) expect(await order('fair', ['r', 'w', 'r', 'w'])).to.equal('r0w1r2w3');
    });

    it("'writer': a writer passes the reader who came after the last grant to a writer, once", async () => {
      if (hears()) expect(await order('writer', ['r', 'w', 'w', 'r'])).to.equal('w1r0w2r3');
    });

    it("'reader': readers first, together", async () => {
      if (!hears()) return;
      const expected = /^(r1r3|r3r1)w0w2$/;
      for (;;) {
        const startMs = performance.now();
        const seen = await order('reader', ['w', 'r', 'w', 'r']);
        // No reader passes a writer that has waited for half a second, as on a machine that stood still.
        if (!expected.test(seen) && performance.now() - startMs > 500) continue;
        expect(seen).to.match(expected);
        return;
      }
    });
  });

  describe('H43: a caller that no longer waits is in nobody’s way', () => {
    it('a writer that gave up: a reader gets in at once', async () => {
      const reader = await make().acquireRead();
      for (const wait of [{ timeout: 100 }, { maxRetries: 3, retryTimeout: 10 }]) {
        await failure(elsewhere().acquireWrite(wait));
        await nobodyWaits();
        await (await make().acquireRead(once)).release();
      }
      const aborter = new AbortController();
      const writing = elsewhere().acquireWrite({ ...byPlace, signal: aborter.signal });
      await stands(writing);
      aborter.abort(new Error('enough'));
      expect((await failure(writing)).message).to.equal('enough');
      await nobodyWaits();
      await (await make().acquireRead(once)).release();
      await reader.release();
    });

    it('a writer that is granted takes nobody else’s place: the other writer is next', async () => {
      const wait = slowly();
      const [first, second] = [await make().acquireRead(), elsewhere().acquireWrite(wait)];
      await stands(second);
      const third = make().acquireWrite(wait);
      await stands(third, 2);
      await first.release();
      const lease = await second;
      await busy(make().acquireRead(once));
      expect(await pending(third)).to.equal(true);
      await lease.release();
      await (await third).release();
    });

    it('a writer that is granted leaves the other writer in the queue', async function () {
      if (here.place.isQuorum) this.skip(); // there, a waiter is in no queue between two of its rounds
      const look = redisExpLock({ redis: here.redis, commandTimeout: 10_000 });
      for (let left = 3, waiters = 0; waiters === 0; left--) {
        expect(left, 'tries in which it was still queued').to.be.above(0); // an entry expires when its process stands still for a second
        const [first, second] = [await make().acquireRead(), elsewhere().acquireWrite(byPlace)];
        await stands(second);
        const third = make().acquireWrite(byPlace);
        await stands(third, 2);
        await first.release();
        const lease = await second;
        ({ waiters } = await look.inspect(key));
        await lease.release();
        await (await third).release();
      }
    });

    it('H45: an aborted wait and a lost lock block no release', async () => {
      const lock = make();
      const writer = await lock.acquireWrite();
      await failure(lock.acquireWrite({ signal: AbortSignal.abort(new Error('gone')) }));
      await here.remove(key);
      expect(await writer.extend()).to.equal(false);
      expect(writer.signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing' });
      expect(await writer.release()).to.equal(false);
    });
  });

  describe('upgrade and downgrade, in place', () => {
    it('upgrade: waits for the other readers, lets no new one in, keeps its token, gets a larger fence', async () => {
      const [mine, other] = [await make().acquireRead(), await elsewhere().acquireRead()];
      const { token, fence } = mine;
      const upgrading = mine.upgrade(byPlace);
      await stands(upgrading);
      expect(await isHeldBack(elsewhere(), true)).to.equal(true);
      expect(mine.mode).to.equal('read');
      await other.release();
      await upgrading;
      expect(mine).to.include({ mode: 'write', token });
      expect(mine.fence).to.be.greaterThan(fence);
      await busy(elsewhere().acquireRead(once));
      expect(await mine.extend(10_000)).to.equal(true);
      await mine.upgrade();
      expect(await mine.release()).to.equal(true);
      await (await elsewhere().acquireWrite(once)).release();
    });

    it('downgrade: readers get in at once, writers do not', async () => {
      const mine = await make().acquireWrite();
      const { fence } = mine;
      const reading = elsewhere().acquireRead(byPlace);
      await stands(reading);
      await mine.downgrade();
      expect(mine).to.include({ mode: 'read', fence });
      const other = await reading;
      // On a quorum readers of one phase may have different ones, none below the last writer's.
      if (here.place.isQuorum) expect(other.fence).to.be.at.least(fence);
      else expect(other.fence).to.equal(fence);
      await busy(elsewhere().acquireWrite(once));
      await mine.downgrade();
      await other.release();
      await mine.upgrade();
      expect(mine.mode).to.equal('write');
      expect(await mine.release()).to.equal(true);
    });

    it('H46: of two readers that both ask to write, the second gets a LockDeadlockError and goes on reading', async () => {
      const [first, second] = [await make().acquireRead(), await elsewhere().acquireRead()];
      const upgrading = first.upgrade(slowly());
      await stands(upgrading);
      const error = await failure(second.upgrade({ timeout: 20_000 }));
      expect(error).to.be.instanceOf(redisExpLock.LockDeadlockError);
      expect(error.code).to.equal('ERR_LOCK_DEADLOCK');
      expect(second.mode).to.equal('read');
      expect(await second.extend(10_000)).to.equal(true);
      expect(await pending(upgrading)).to.equal(true);
      expect(await second.release()).to.equal(true);
      await upgrading;
      expect(await first.release()).to.equal(true);
    });

    describe('H76: of a held lock that is lost meanwhile: LockLostError, and nothing is left', () => {
      let clock: sinon.SinonFakeTimers | undefined;
      /** The wall clock says that its lifetime is over; by the place's own clock it has nearly all of it left. */
      const lose = () => {
        clock = sinon.useFakeTimers({ now: Date.now() + 3_600_000, toFake: ['Date'] });
      };
      /** Resolves when a request can no longer be taken back, and no answer can have come. */
      const tick = () => new Promise<void>((resolve) => process.nextTick(resolve));
      const gone = { timeoutMs: 8_000, what: 'nothing to be left' }; // long before its lifetime of 10 s is over
      const isGone = async (): Promise<boolean> => {
        const { locked, waiters } = await redisExpLock({ redis: here.redis, commandTimeout: 10_000 }).inspect(key);
        return !locked && waiters === 0;
      };

      afterEach(() => clock?.restore());

      for (const change of ['upgrade', 'downgrade'] as const) {
        it(`${change}, its answer on the way`, async function () {
          if (!here.place.faults) this.skip(); // there it is answered at once
          const lock = make({ autoExtend: false });
          const lease = change === 'upgrade' ? await lock.acquireRead() : await lock.acquireWrite();
          const changing = lease[change]();
          await tick();
          lose();
          expect(await failure(changing))
            .to.be.instanceOf(redisExpLock.LockLostError)
            .and.include({ key });
          await waitFor(isGone, gone);
          expect(await lease.release()).to.equal(false);
        });
      }

      it('upgrade, in the queue', async () => {
        const [reader, lease] = [await elsewhere().acquireRead(), await make({ autoExtend: false }).acquireRead()];
        const changing = lease.upgrade(byPlace);
        await stands(changing);
        lose();
        await reader.release();
        expect(await failure(changing)).to.be.instanceOf(redisExpLock.LockLostError);
        await waitFor(isGone, gone);
      });

      it('upgrade, given up while its answer was on the way', async function () {
        if (!here.place.faults) this.skip(); // there it is answered at once
        // Once it is given up, `close` waits for the end of its command timeout.
        const lease = await make({ autoExtend: false, commandTimeout: 1_000 }).acquireRead();
        const giveUp = new AbortController();
        const changing = lease.upgrade({ signal: giveUp.signal });
        await tick();
        giveUp.abort(new Error('mine'));
        lose();
        expect(lease.remaining()).to.equal(0);
        await failure(changing);
        await waitFor(isGone, gone);
      });
    });

    it('H12: upgrade takes what says how to wait; all else is refused, and it reads on', async () => {
      const lease = await make().acquireRead();
      for (const options of [{ lifetime: 60_000 }, { fencing: false }, { prefix: 'a' }, { minReplicas: 1 }]) {
        const error = await failure(lease.upgrade(options as redisExpLock.WaitOptions));
        expect(error).to.be.instanceOf(TypeError).and.to.include({ code: 'ERR_LOCK_OPTION' });
      }
      expect(lease.mode).to.equal('read');
      expect(await lease()).to.equal(true);
    });

    it('an upgrade that was given up leaves the reader as it was, and others may read', async () => {
      const [mine, other] = [await make().acquireRead(), await elsewhere().acquireRead()];
      const { fence } = mine;
      expect(await failure(mine.upgrade({ timeout: 60 }))).to.be.instanceOf(redisExpLock.LockTimeoutError);
      expect(await failure(mine.upgrade({ maxRetries: 1 }))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
      expect(mine).to.include({ mode: 'read', fence });
      await sleep(50);
      await (await elsewhere().acquireRead(once)).release();
      expect(await mine.extend(10_000)).to.equal(true);
      await other.release();
      await mine.upgrade(byPlace);
      expect(mine.mode).to.equal('write');
      expect(await mine.release()).to.equal(true);
    });

    it('of what was lost, or released: an error, and nothing is taken', async () => {
      const mine = await make().acquireRead();
      await here.remove(key);
      expect(await failure(mine.upgrade())).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing' });
      const back = await make().acquireRead();
      await back.release();
      expect(await failure(back.upgrade())).to.include({ code: 'ERR_LOCK_NOT_ACQUIRED' });
      expect(await here.leftMs(key)).to.equal(0);
    });
  });

  it('read and write: renewed, released, with the function’s own result or error', async () => {
    const lock = make();
    expect(await lock.read((lease) => lease.mode)).to.equal('read');
    const mode = await lock.write({ lifetime: 6_000 }, async (lease) => {
      await renewed(lease);
      return lease.mode;
    });
    expect(mode).to.equal('write');
    const error = new Error('mine');
    expect(await failure(lock.write(() => Promise.reject(error)))).to.equal(error);
    expect(await here.leftMs(key)).to.equal(0);
  });

  it('H12: what it refuses, by name', async () => {
    const wrong: Record<string, unknown>[] = [
      { prefer: 'nobody' },
      { prefer: 5 },
      { readers: 5 },
      { readers: '\ud800' },
      { lifetime: 99 },
      { retryTimeout: 0 },
      { Mode: 'x' },
    ];
    for (const options of wrong) {
      expect(thrown(() => make(options as Options))).to.include({ code: 'ERR_LOCK_OPTION' });
    }
    expect(thrown(() => new RWLock([key] as unknown as string, { redis: here.redis }))).to.be.instanceOf(TypeError);
    expect(await failure(make().acquireRead({ lifetime: 50 }))).to.be.instanceOf(RangeError);
  });
});
