// The end of a factory: new calls are refused, waiters are rejected, holders are awaited, and nothing is left behind.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { holdReply } from '../support/fault-proxy';
import { exited, type NodeChild, startChild, waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { called, failure, pending, uncaught } from './outcomes';
import { describeEach, stranger } from './places';

const hourMs = 3_600_000;
/** A busy machine may hold up a reply for seconds. */
const patient = { lifetime: 60_000, commandTimeout: 10_000 };

describeEach('close', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...patient });
  });

  it('of a factory that was never used, or holds nothing, resolves', async () => {
    await withLock.close();
    const used = redisExpLock({ redis: here.redis, ...patient });
    await used.run(key, () => {});
    await used.close();
    await redisExpLock().close();
  });

  it('newcomers are refused by every form, from the moment it is called, before any I/O', async () => {
    const connection = await here.connection();
    const closing = redisExpLock({ redis: connection.redis });
    const closed = closing.close();
    for (let round = 0; round < 2; round++) {
      const { LockClosedError } = redisExpLock;
      expect(await failure(closing.promise(key))).to.be.instanceOf(LockClosedError);
      expect(await failure(closing.tryLock(key))).to.include({ code: 'ERR_LOCK_CLOSED', key, retryable: false });
      expect(await failure(closing.run(key, () => {}))).to.be.instanceOf(LockClosedError);
      expect((await called(closing, key)).err).to.be.instanceOf(LockClosedError);
      await closed;
    }
    expect(await connection.calls()).to.equal(0);
  });

  it('waiters are rejected at once', async () => {
    await here.seize(key);
    // `close` waits until an attempt under way can no longer execute. No reply is needed here.
    withLock = redisExpLock({ redis: here.redis, lifetime: 60_000 });
    const waits = [
      failure(withLock.promise(key, { timeout: hourMs })),
      failure(withLock.promise(key, { timeout: hourMs, retryTimeout: 60_000 })),
      failure(withLock.run(key, { maxRetries: Number.POSITIVE_INFINITY }, () => {})),
      called(withLock, key, { timeout: hourMs }).then(({ err }) => err),
    ];
    await sleep(30);
    const closed = withLock.close();
    for (const error of await Promise.all(waits)) {
      expect(error).to.be.instanceOf(redisExpLock.LockClosedError);
      expect(error).to.include({ code: 'ERR_LOCK_CLOSED', key, retryable: false });
      expect(error.message).to.contain(JSON.stringify(key));
    }
    await closed;
    expect(await here.holder(key)).to.equal(stranger);
  });

  it('a holder is awaited, and may go on: extend, release, run', async () => {
    const lease = await withLock.promise(key);
    let finish!: (value: string) => void;
    const running = withLock.run(`${key}:run`, () => new Promise<string>((resolve) => (finish = resolve)));
    await waitFor(() => finish);
    const closed = withLock.close();
    await sleep(50);
    expect(await pending(closed)).to.equal(true);
    expect(lease.signal.aborted).to.equal(false);
    expect(await lease.extend(30_000)).to.equal(true);
    expect(await lease()).to.equal(true);
    await sleep(50);
    expect(await pending(closed)).to.equal(true);
    finish('result');
    expect(await running).to.equal('result');
    await closed;
    expect(await here.holder(key)).to.equal(null);
  });

  it('`drain: true` is the default', async () => {
    const lease = await withLock.promise(key);
    const closed = withLock.close({ drain: true });
    await sleep(50);
    expect(await pending(closed)).to.equal(true);
    await lease();
    await closed;
  });

  it('a holder whose time is over is not awaited any longer', async () => {
    // Requested again if its reply took longer than the lifetime.
    await withLock.promise(key, { lifetime: 1_000, maxRetries: 50 });
    await withLock.close();
    await waitFor(async () => (await here.holder(key)) === null);
  });

  it('H35: it ends also when the time of a holder is over between two checks', async () => {
    // A connection of its own: what it has learned of the server's clock is true for this clock only.
    const { redis } = await here.connection();
    // A clock that goes on by a little each time it is looked at. Redis's answers alone make the test go on. It begins at the present
    // time: timers are shared by the times at which they are due, and those of this test at the place before may still be set.
    let nowMs = performance.now();
    const clock = sinon.useFakeTimers({ toFake: ['Date', 'performance'], now: Date.now() });
    const stepMs = 0.01;
    performance.now = () => {
      nowMs += stepMs;
      return nowMs;
    };
    try {
      for (let looks = 1; looks <= 24; looks++) {
        const closing = redisExpLock({ redis, ...patient });
        const forgotten = await closing.promise(`${key}:${looks}`, { lifetime: 60_000 });
        const other = await closing.promise(`${key}:${looks}:other`, { lifetime: 600_000 });
        const closed = closing.close();
        await sleep(0);
        nowMs += forgotten.remaining() - looks * stepMs;
        void other(); // close looks again when it is answered
        expect(await Promise.race([closed, sleep(20_000, 'hangs')]), `with ${looks} looks left`).to.equal(undefined);
      }
    } finally {
      clock.restore();
    }
  });

  it('`drain` in ms: what is left then is taken away: released, its signal says `closed`', async () => {
    const lease = await withLock.promise(key);
    const { signal } = lease;
    const closed = withLock.close({ drain: 300 });
    await sleep(20);
    expect(signal.aborted).to.equal(false);
    await closed;
    expect(signal.aborted).to.equal(true);
    expect(signal.reason).to.be.instanceOf(redisExpLock.LockLostError);
    expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'closed', key });
    expect(await here.holder(key)).to.equal(null);
    expect(lease.remaining()).to.equal(0);
    expect(await lease.extend()).to.equal(false);
  });

  it('`drain` in ms ends early when all have been released', async () => {
    const lease = await withLock.promise(key);
    const closed = withLock.close({ drain: hourMs });
    await lease();
    await closed;
    expect(lease.signal.aborted).to.equal(false);
  });

  it('`drain: false`, and 0: everything is taken away at once; run says so', async () => {
    for (const drain of [false, 0]) {
      const factory = redisExpLock({ redis: here.redis, ...patient });
      const lease = await factory.promise(key);
      let reason: any;
      let started = false;
      const running = factory.run(`${key}:run`, async ({ signal }) => {
        started = true;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason = signal.reason.reason;
        return 'stopped';
      });
      await waitFor(() => started);
      await factory.close({ drain });
      expect(lease.signal.reason).to.include({ reason: 'closed' });
      expect(await failure(running)).to.include({ code: 'ERR_LOCK_LOST', reason: 'closed', result: 'stopped' });
      expect(reason).to.equal('closed');
      expect(await here.holder(key)).to.equal(null);
      expect(await here.holder(`${key}:run`)).to.equal(null);
    }
  });

  it('many holders are all released', async () => {
    const keys = Array.from({ length: 200 }, (_, n) => `${key}:${n}`);
    await Promise.all(keys.map((each) => withLock.promise(each)));
    await withLock.close({ drain: false });
    for (const each of keys) expect(await here.holder(each)).to.equal(null);
  });

  it('a second close awaits the first', async () => {
    const lease = await withLock.promise(key);
    let first = false;
    const closed = withLock.close().then(() => {
      first = true;
    });
    const again = withLock.close();
    const atOnce = withLock.close({ drain: false });
    await sleep(50);
    expect(await pending(Promise.race([again, atOnce]))).to.equal(true);
    await lease();
    await Promise.all([again, atOnce]);
    await closed;
    expect(first).to.equal(true);
    await withLock.close();
  });

  it('the client stays open, and other factories on it go on', async () => {
    const other = redisExpLock({ redis: here.redis, ...patient });
    const lease = await other.promise(key);
    await withLock.promise(`${key}:ours`);
    await withLock.close({ drain: false });
    expect(lease.signal.aborted).to.equal(false);
    expect(await lease.extend()).to.equal(true);
    expect(await lease()).to.equal(true);
    expect(await (await other.promise(key))()).to.equal(true);
  });

  it('it is reported as no crash', async () => {
    await here.seize(`${key}:busy`);
    const { exceptions, rejections } = await uncaught(async () => {
      void withLock(`${key}:busy`, { timeout: hourMs }, () => {});
      const lease = await withLock.promise(key, { autoExtend: true });
      void lease.signal;
      await withLock.close({ drain: false });
    });
    expect(exceptions).to.deep.equal([]);
    expect(rejections).to.deep.equal([]);
  });

  describe('H35: the process ends by itself', () => {
    const children = new Map<string, NodeChild>();
    const deeds = ['close', 'hold', 'renew', 'abort', 'close while in use'];

    before('all at once', async () => {
      for (const deed of deeds) {
        const own = uniqueKey();
        const seized = deed === 'abort' || deed === 'close while in use' ? own : `${own}:other`;
        await here.seize(seized);
        const args = [here.place.name, here.address, deed, own, seized];
        children.set(deed, startChild(join(__dirname, 'child.ts'), args));
      }
    });

    for (const deed of deeds) {
      it(`after "${deed}"`, async () => {
        const child = children.get(deed)!;
        expect(await child.receive()).to.equal('done');
        expect(await exited(child), child.output()).to.deep.equal({ code: 0, signal: null });
        expect(child.output()).to.equal('');
      });
    }
  });

  if (!here.place.faults) return;

  // Both wait for a limit, which leaves a busy machine time for what must be answered before.
  describeAtOnce('without replies', {
    'H8: an attempt under way is given up, and what it is granted all the same is handed back': async (key) => {
      const connection = await here.connection();
      const held = holdReply();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const closing = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 4_000 });
      const waiting = failure(closing.promise(key));
      await held.arrived;
      const closed = closing.close();
      expect(await waiting).to.be.instanceOf(redisExpLock.LockClosedError);
      held.release();
      await closed;
      expect(await here.holder(key)).to.equal(null);
    },

    'a release that fails does not hold up close for ever, and is carried on': async (key) => {
      const connection = await here.connection();
      const commandTimeout = 2_000;
      const closing = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout });
      await closing.promise(key, { maxRetries: 50 });
      connection.proxy.blackHole();
      const closed = closing.close({ drain: false });
      await sleep(commandTimeout + 100);
      await connection.heal();
      await closed;
      expect(await here.holder(key)).to.equal(null);
    },
  });
});
