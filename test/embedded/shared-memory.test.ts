// Locks that the processes of one host share, with real processes and a real kill -9.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import { failure, thrown } from '../contract/outcomes';
import { exited, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { describeWithEngine } from './engine';
import { ownRuntimeFolder } from './folder';

const { sharedMemoryStore } = redisExpLock;
const worker = (deed: string, ...args: string[]): NodeChild =>
  startChild(join(__dirname, 'children/worker.ts'), [deed, ...args]);

describeWithEngine('shared memory', () => {
  const runtime = ownRuntimeFolder();
  const folder = () => join(runtime(), 'redis-exp-lock');
  const opened: redisExpLock.Store[] = [];

  function open(name: string): redisExpLock.Store {
    const store = sharedMemoryStore(name);
    opened.push(store);
    return store;
  }

  after(() => Promise.all(opened.map((store) => store.close())));

  describe('several processes', () => {
    for (const deed of ['count', 'countByHostLock']) {
      it(`four that add to a number in a file lose nothing (${deed})`, async () => {
        const file = join(runtime(), `${deed}.txt`);
        writeFileSync(file, '0');
        const workers = Array.from({ length: 4 }, () => worker(deed, deed, file, '200'));
        for (const each of workers) expect(await each.receive(), each.output()).to.equal('done');
        for (const each of workers) expect(await exited(each)).to.deep.equal({ code: 0, signal: null });
        expect(readFileSync(file, 'utf8')).to.equal('800');
      });
    }

    it('a holder that is killed frees the key within its lifetime, and not before', async () => {
      const holder = worker('hold', 'killed', 'key', '4000');
      const { held } = await holder.receive();
      const withLock = redisExpLock({ redis: open('killed') });
      await kill9(holder);
      const { locked, remaining } = await withLock.inspect('key');
      expect(locked).to.equal(true);
      expect(await withLock.tryLock('key')).to.equal(null);
      await sleep(remaining + 2);
      const lease = await withLock.tryLock('key');
      expect(lease!.fence).to.be.greaterThan(held);
      await lease!();
    });

    it('a waiter in another process is woken by the release, and not by a timer of its own', async () => {
      const withLock = redisExpLock({ redis: open('woken'), lifetime: 60_000 });
      const waits: number[] = [];
      // A timer of its own would look again after 800 to 1,000 ms. A busy machine may take as long, but not each time.
      while (waits.length < 5 && !(Math.min(...waits) < 600)) {
        const waiter = worker('wait', 'woken', 'key');
        const lease = await withLock.promise('key');
        expect(await waiter.receive()).to.equal('waiting');
        await waitFor(async () => (await withLock.inspect('key')).waiters === 1, { what: 'the waiter to be queued' });
        const releasedAt = Date.now();
        await lease();
        const { held, at } = await waiter.receive();
        expect(held).to.be.greaterThan(lease.fence);
        waits.push(at - releasedAt);
        await kill9(waiter);
        await withLock.free('key', { force: true });
      }
      expect(Math.min(...waits), `${waits}`).to.be.lessThan(600);
    });

    it('H29: a killed first waiter costs those behind one bounded delay', async () => {
      const withLock = redisExpLock({ redis: open('dead head'), lifetime: 60_000 });
      const lease = await withLock.promise('key');
      const dead = worker('wait', 'dead head', 'key');
      await dead.receive();
      await waitFor(async () => (await withLock.inspect('key')).waiters === 1);
      const waiting = withLock.promise('key', { timeout: 30_000 });
      await waitFor(async () => (await withLock.inspect('key')).waiters === 2);
      await kill9(dead);
      await lease();
      await (await waiting)();
    });
  });

  describe('ownership', () => {
    it('H47: one lifetime is nobody else’s: a short one neither ends nor prolongs a long one', async () => {
      const store = open('lifetimes');
      const long = await redisExpLock({ redis: store }).promise('long', { lifetime: 60_000 });
      // A grant of 50 ms would be refused where a busy machine takes as long for it.
      const short = await redisExpLock({ redis: store }).promise('short', { lifetime: 60_000, commandTimeout: 10_000 });
      await short.extend(50);
      await waitFor(() => short.remaining() === 0);
      await waitFor(async () => !(await redisExpLock({ redis: store }).inspect('short')).locked);
      expect((await redisExpLock({ redis: store }).inspect('long')).remaining).to.be.within(50_000, 60_000);
      expect(await long()).to.equal(true);
      expect(await short()).to.equal(false);
    });

    it('H48: an entry has its owner and its generation; what is stale neither releases nor extends a successor', async () => {
      const withLock = redisExpLock({ redis: open('owners') });
      const stale = await withLock.promise('key', { lifetime: 60_000, commandTimeout: 10_000 });
      await stale.extend(30); // a grant of 30 ms would be refused where a busy machine takes as long for it
      await waitFor(async () => !(await withLock.inspect('key')).locked);
      const next = await withLock.promise('key', { lifetime: 60_000, owner: 'next' });
      expect(next.fence).to.be.greaterThan(stale.fence);
      expect(await stale.extend(60_000)).to.equal(false);
      expect(await stale()).to.equal(false);
      expect(await withLock.inspect('key')).to.include({ owner: 'next', fence: next.fence });
      expect(await next()).to.equal(true);
    });

    it('H51: names and keys that look alike are different', async () => {
      const stores = ['a', 'a ', 'A', 'a_b', 'a b', 'a-b', 'ä'].map(open);
      const leases = await Promise.all(stores.map((redis) => redisExpLock({ redis }).promise('key')));
      for (const lease of leases) expect(await lease()).to.equal(true);
      const withLock = redisExpLock({ redis: stores[0]! });
      expect(await failure(withLock.promise(1 as any))).to.include({ code: 'ERR_LOCK_OPTION' });
      const keys = ['1', '01', ' 1', '1 ', '1\0', 'about', 'k'];
      const held = await Promise.all(keys.map((key) => withLock.promise(key)));
      for (const lease of held) expect(await lease()).to.equal(true);
    });
  });

  describe('a full table', () => {
    it('H50: refuses by name, evicts nothing, still releases and extends, and goes on when there is room', async () => {
      const withLock = redisExpLock({ redis: open('full'), lifetime: 600_000 });
      const leases: redisExpLock.Lease[] = [];
      const key = (n: number) => `${'x'.repeat(1000)}:${n}`;
      let full: any;
      while (full === undefined) {
        expect(leases.length, 'locks of 2 kB in 32 MiB').to.be.below(20_000);
        await withLock.promise(key(leases.length)).then(
          (lease) => leases.push(lease),
          (error) => {
            full = error;
          },
        );
      }
      expect(full).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(full).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'FULL', key: key(leases.length) });
      expect(full.message).to.contain('32 MiB');
      expect(leases.length).to.be.greaterThan(3000);
      for (const lease of leases.slice(0, 100)) expect(await lease.extend()).to.equal(true);
      // One that is refused leaves nothing behind.
      expect(await withLock.inspect(key(leases.length))).to.include({ locked: false });
      for (const lease of leases) expect(await lease(), 'still ours').to.equal(true);
      await sleep(150); // it looks for what may be dropped ten times a second
      expect(await (await withLock.promise('once more'))()).to.equal(true);
    });

    it('does not fill up with locks that were released', async () => {
      const withLock = redisExpLock({ redis: open('often'), lifetime: 60_000 });
      const kept = await withLock.promise('kept');
      for (let n = 0; n < 6000; n++) await (await withLock.promise(`${'y'.repeat(1000)}:${n}`))();
      const file = readdirSync(folder()).find((each) => each.startsWith('often-') && each.endsWith('.sqlite'))!;
      expect(statSync(join(folder(), file)).size).to.be.lessThan(8 * 2 ** 20);
      expect(await kept()).to.equal(true);
    });
  });

  it('H52: a table recovers from processes that are killed while they write', async () => {
    const withLock = redisExpLock({ redis: open('crash'), lifetime: 60_000 });
    const kept = await withLock.promise('kept');
    for (let round = 0; round < 12; round++) {
      const writers = [worker('write', 'crash'), worker('write', 'crash')];
      await Promise.all(writers.map((each) => each.receive()));
      await sleep(Math.random() * 30);
      await Promise.all(writers.map(kill9));
      const lease = await withLock.promise('after', { timeout: 30_000 });
      expect(await lease.extend()).to.equal(true);
      expect(await lease()).to.equal(true);
    }
    expect(await kept.extend()).to.equal(true);
    // The locks of a killed process are free once their lifetime is over.
    const keys = Array.from({ length: 100 }, (_, n) => `key ${n} ${'x'.repeat(n)}`);
    for (const key of keys) await (await withLock.promise(key, { timeout: 30_000 }))();
    expect(await kept()).to.equal(true);
  });

  describe('time', () => {
    it('a wall clock that jumps frees nothing', async () => {
      const withLock = redisExpLock({ redis: open('clocks'), lifetime: 60_000 });
      const lease = await withLock.promise('key');
      for (const jump of [3_600_000, -3_600_000]) {
        const clock = sinon.useFakeTimers({ toFake: ['Date'], now: Date.now() + jump });
        try {
          const { locked, remaining } = await withLock.inspect('key');
          expect(locked).to.equal(true);
          expect(remaining).to.be.within(50_000, 60_000);
          expect(await withLock.tryLock('key')).to.equal(null);
        } finally {
          clock.restore();
        }
      }
      await lease.release();
    });

    it('a table of another boot is never read, and is removed', () => {
      const old = join(folder(), 'old-0123456789abcdef.fedcba9876543210.sqlite');
      writeFileSync(old, 'half a page');
      writeFileSync(`${old}-wal`, '');
      open('after the boot');
      expect([existsSync(old), existsSync(`${old}-wal`)]).to.deep.equal([false, false]);
    });
  });

  describe('names and the folder', () => {
    for (const name of ['', '.', '..', '../x', 'a/b', 'a\\b', '/etc/x', 'a\0b', 'a\nb', 'x'.repeat(129), 'a\ud800']) {
      it(`refuses ${JSON.stringify(name).slice(0, 30)}`, () => {
        const error = thrown(() => sharedMemoryStore(name));
        expect(error).to.be.instanceOf(RangeError);
        expect(error.code).to.equal('ERR_LOCK_OPTION');
      });
    }

    it('refuses what is no text', () => {
      for (const name of [undefined, null, 1, {}, ['a']]) {
        const error = thrown(() => sharedMemoryStore(name as any));
        expect(error).to.be.instanceOf(TypeError);
        expect(error.code).to.equal('ERR_LOCK_OPTION');
      }
    });

    it('the folder is this user’s alone, and nothing is written beside it', () => {
      open('private');
      expect(statSync(folder()).mode & 0o777).to.equal(0o700);
      expect(readdirSync(runtime()).filter((each) => !each.endsWith('.txt'))).to.deep.equal(['redis-exp-lock']);
    });

    it('a folder that others can enter, a link and a missing parent are refused by name', () => {
      const given = process.env.XDG_RUNTIME_DIR;
      const bad = (prepare: (parent: string) => void): any => {
        const parent = join(runtime(), `bad${Math.random()}`);
        mkdirSync(parent);
        prepare(parent);
        process.env.XDG_RUNTIME_DIR = parent;
        return thrown(() => sharedMemoryStore('any'));
      };
      try {
        const open = bad((parent) => {
          mkdirSync(join(parent, 'redis-exp-lock'));
          chmodSync(join(parent, 'redis-exp-lock'), 0o755);
        });
        expect(open).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM' });
        expect(open.message).to.contain('mode 0755');
        const link = bad((parent) => symlinkSync(tmpdir(), join(parent, 'redis-exp-lock')));
        expect(link).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM' });
        const file = bad((parent) => writeFileSync(join(parent, 'redis-exp-lock'), ''));
        expect(file).to.include({ code: 'ERR_LOCK_BACKEND' });
        process.env.XDG_RUNTIME_DIR = join(runtime(), 'is not there');
        expect(thrown(() => sharedMemoryStore('any'))).to.include({ code: 'ERR_LOCK_BACKEND' });
      } finally {
        process.env.XDG_RUNTIME_DIR = given;
      }
    });

    it('a closed store refuses; the table, and other ways in, go on', async () => {
      const [one, two] = [open('twice'), open('twice')];
      const lease = await redisExpLock({ redis: one }).promise('key', { lifetime: 60_000 });
      await one.close();
      await one.close();
      expect(await failure(redisExpLock({ redis: one }).promise('other'))).to.include({
        code: 'ERR_LOCK_BACKEND',
        retryable: false,
      });
      expect(await redisExpLock({ redis: two }).inspect('key')).to.include({ locked: true, fence: lease.fence });
      await two.close();
      expect(await redisExpLock({ redis: open('twice') }).inspect('key')).to.include({ locked: true });
    });
  });

  it('a process that stands still outside of a write holds nobody up', async () => {
    const holder = worker('hold', 'stopped', 'key', '60000');
    await holder.receive();
    await stop(holder);
    const withLock = redisExpLock({ redis: open('stopped') });
    expect(await withLock.tryLock('key')).to.equal(null);
    await (await withLock.promise('other'))();
    await kill9(holder);
  });
});
