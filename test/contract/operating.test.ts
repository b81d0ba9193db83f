// The operator's view and actions: who holds, what waits, all locks, and taking one away. The same on every store.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, thrown } from './outcomes';
import { describeEach } from './places';

type Options = redisExpLock.Options;

const stateNames = ['key', 'locked', 'owner', 'remaining', 'waiters', 'fence', 'mode', 'holders', 'queue'];

describeEach('operating', (here) => {
  let key: string;
  const locks: redisExpLock.WithLock[] = [];

  const lockAt = (redis: Options['redis'], options: Options = {}): redisExpLock.WithLock => {
    const lock = redisExpLock({ redis, lifetime: 20_000, commandTimeout: 20_000, ...options });
    locks.push(lock);
    return lock;
  };
  const listed = async (lock: redisExpLock.WithLock, options?: redisExpLock.ListOptions) => {
    const all: redisExpLock.ListedLock[] = [];
    for await (const each of lock.list(options)) all.push(each);
    return all.sort((a, b) => (a.key < b.key ? -1 : 1));
  };
  const isAbort = async (signal: AbortSignal): Promise<redisExpLock.LockLostError> => {
    if (!signal.aborted) await once(signal, 'abort');
    return signal.reason;
  };
  /** The state in which so many are queued. The same answer: an entry expires when its process stands still. */
  const queuedAt = (lock: redisExpLock.WithLock, key: string, count: number): Promise<redisExpLock.LockState> =>
    waitFor(
      async () => {
        const state = await lock.inspect(key);
        return state.queue.length === count && state;
      },
      { what: `${count} queued` },
    );
  /** Waiters are queued there, and holders hear at once what was taken away. */
  const hasMessages = !here.place.isQuorum && !here.place.polls;

  beforeEach(() => {
    key = uniqueKey();
  });
  afterEach(() => Promise.all(locks.splice(0).map((lock) => lock.close({ drain: false }))));

  describe('free', () => {
    it('H88: a holder named by its id loses the lock; a stale id changes nothing, and no token is shown', async () => {
      const [one, other] = [lockAt(here.redis), lockAt(here.elsewhere)];
      const lease = await one.promise(key, { owner: 'billing' });
      const [{ id }] = (await other.inspect(key)).holders as [redisExpLock.HolderState];
      expect(await other.free(key, { id: id === '00000000' ? '11111111' : '00000000' })).to.equal(false);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await other.free(key, { id })).to.equal(true);
      expect(await here.holder(key)).to.equal(null);
      const successor = await other.promise(key);
      expect(await one.free(key, { id }), 'a stale id').to.equal(false);
      expect(await here.holder(key)).to.equal(successor.token);
      expect(await lease.release()).to.equal(false);
      expect(JSON.stringify(await other.inspect(key))).not.to.contain(successor.token);
    });

    it('force takes it from any holder; a free key: false', async () => {
      const [one, other] = [lockAt(here.redis), lockAt(here.elsewhere)];
      await one.promise(key);
      expect(await other.free(key, { force: true })).to.equal(true);
      expect(await here.holder(key)).to.equal(null);
      expect(await other.free(key, { force: true })).to.equal(false);
    });

    it('H12: neither id nor force, or no id at all: an option error before any I/O', async () => {
      const connection = await here.connection();
      const lock = lockAt(connection.redis);
      for (const bad of [undefined, {}, { force: false }, { id: 'xyz' }, { id: 5 }, { id: '0123456G' }, { ids: '' }]) {
        expect((await failure(lock.free(key, bad as object))).code).to.equal('ERR_LOCK_OPTION');
      }
      expect((await failure(lock.free('', { force: true }))).code).to.equal('ERR_LOCK_OPTION');
      expect(await connection.calls()).to.equal(0);
    });
  });

  describe('list', () => {
    it('a scan needs a prefix, or an empty one said aloud', async () => {
      const lock = lockAt(here.redis);
      expect(thrown(() => lock.list({ scan: true })).code).to.equal('ERR_LOCK_OPTION');
      expect(thrown(() => lock.list({ prefx: 'a' } as object)).code).to.equal('ERR_LOCK_OPTION');
      lock.list({ scan: true, prefix: '' });
      lockAt(here.redis, { prefix: 'app:' }).list({ scan: true });
    });

    it('a scan finds every lock under its prefix, and says what it has covered', async () => {
      const [one, other] = [lockAt(here.redis, { prefix: `${key}*[a]?\\` }), lockAt(here.elsewhere)];
      await Promise.all([one.promise('1', { owner: 'me' }), one.promise('2'), other.promise(`${key}xay`)]);
      const list = other.list({ prefix: `${key}*[a]?\\`, scan: true });
      const all: redisExpLock.ListedLock[] = [];
      for await (const each of list) all.push(each);
      expect(all.map((each) => each.key).sort()).to.deep.equal([`${key}*[a]?\\1`, `${key}*[a]?\\2`]);
      expect(all.find((each) => each.key.endsWith('1'))).to.include({ locked: true, owner: 'me', mode: 'exclusive' });
      expect(list.coverage()).to.include({ scanned: true });
      for (const each of all) expect(JSON.stringify(all)).not.to.contain((await here.holder(each.key))!.slice(-36));
      expect(Object.keys(all[0]!)).to.have.members(stateNames);
    });

    it('its signal ends it', async () => {
      const reason = new Error('enough');
      const lock = lockAt(here.redis);
      expect(await failure(listed(lock, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
    });

    it('what a process with `register` holds is listed; nothing of it stays once it holds nothing', async () => {
      const one = lockAt(here.redis, { register: true, prefix: key });
      const other = lockAt(here.elsewhere, { prefix: key });
      const registered = async () => (await here.keys()).filter((each) => each.startsWith('redis-exp-lock:1:process:'));
      expect(await registered()).to.deep.equal([]);
      const lease = await one.promise(':a', { owner: 'me' });
      // An acquire that takes long is registered as a wait at first.
      const state = await waitFor(async () => (await listed(other)).find(({ waiters }) => waiters === 0), {
        what: 'the lock to be registered as held',
      });
      expect(state).to.include({ key: `${key}:a`, locked: true, owner: 'me', mode: 'exclusive', waiters: 0 });
      expect(state.remaining).to.be.within(1, 20_000);
      expect(await other.free(':a', { id: state.holders[0]!.id })).to.equal(true);
      // Where there is a channel to hear it on, at once.
      if (hasMessages) expect(await isAbort(lease.signal)).to.include({ code: 'ERR_LOCK_LOST', reason: 'taken' });
      await lease.release();
      await waitFor(async () => (await registered()).length === 0, { what: 'nothing to be registered' });
      expect(await listed(other)).to.deep.equal([]);
    });

    it('a short lease is listed although it was renewed since it was written down', async () => {
      const one = lockAt(here.redis, { register: true, prefix: key, lifetime: 3_000 });
      const other = lockAt(here.elsewhere, { prefix: key });
      await one.run(':short', async () => {
        await sleep(3_400);
        expect(await listed(other)).to.have.length(1);
      });
    });
  });

  it('what is waited for is listed with those that wait, whatever its holder', async () => {
    const one = lockAt(here.redis);
    const waiter = lockAt(here.elsewhere, { register: true, timeout: 20_000 });
    const lease = await one.promise(key, { owner: 'holder' });
    const waiting = waiter.promise(key, { owner: 'waiter' });
    const isListed = async (): Promise<redisExpLock.ListedLock | false> => {
      const [state] = await listed(one, { prefix: key });
      return state?.waiters === 1 && state;
    };
    const state = await waitFor(isListed, { what: 'one that waits to be listed' });
    expect(state).to.include({ key, locked: true, owner: 'holder', waiters: 1 });
    expect(state.queue[0]).to.include({ owner: 'waiter', kind: 'exclusive' });
    await lease.release();
    await (await waiting).release();
  });

  if (!hasMessages) return;

  it('inspect shows the queue in its order: owners, since when, no tokens', async () => {
    const one = lockAt(here.redis, { timeout: 20_000 });
    const other = lockAt(here.elsewhere, { timeout: 20_000 });
    const lease = await one.promise(key);
    const first = one.promise(key, { owner: 'first' });
    await queuedAt(other, key, 1);
    await sleep(20);
    const second = other.promise(key, { owner: 'second' });
    const { queue, waiters } = await queuedAt(one, key, 2);
    expect(waiters).to.equal(2);
    expect(queue.map(({ owner, kind }) => [owner, kind])).to.deep.equal([
      ['first', 'exclusive'],
      ['second', 'exclusive'],
    ]);
    expect(queue[0]!.waitingMs).to.be.greaterThan(queue[1]!.waitingMs);
    expect(Object.keys(queue[0]!)).to.have.members(['owner', 'kind', 'waitingMs']);
    await lease.release();
    await (await first).release();
    await (await second).release();
  });

  it('H88: free hands the lock off to the next in the queue, and it is never free in between', async () => {
    const [one, other] = [lockAt(here.redis, { timeout: 20_000 }), lockAt(here.elsewhere, { timeout: 20_000 })];
    const lease = await one.promise(key);
    const next = other.promise(key);
    const [{ id }] = (await queuedAt(one, key, 1)).holders as [redisExpLock.HolderState];
    expect(await one.free(key, { id })).to.equal(true);
    expect(await here.holder(key), 'in the same step').not.to.equal(null);
    const granted = await next;
    expect(granted.fence).to.be.greaterThan(lease.fence);
    expect(await here.holder(key)).to.equal(granted.token);
    expect(await lease.release()).to.equal(false);
    expect(await granted.release()).to.equal(true);
  });

  it('H88: the holder of a process that waits for anything hears of it at once', async () => {
    const [one, other] = [lockAt(here.redis, { timeout: 20_000 }), lockAt(here.elsewhere)];
    const lease = await one.promise(key);
    const waiting = one.promise(key);
    await queuedAt(other, key, 1);
    expect(await other.free(key, { force: true })).to.equal(true);
    expect(await isAbort(lease.signal)).to.include({ reason: 'taken' });
    await (await waiting).release();
  });

  it('H88: readers that share a holder all hear that it was taken away, also if the first one has left', async () => {
    const rw = new redisExpLock.RWLock(key, { redis: here.redis, lifetime: 20_000, timeout: 20_000 });
    const other = lockAt(here.elsewhere);
    // A renewal would find out as well, a third of the lifetime later.
    const read = () => rw.acquireRead({ autoExtend: false });
    const [first, ...rest] = await Promise.all([read(), read(), read()]);
    const writing = rw.acquireWrite();
    const { holders } = await queuedAt(other, key, 1);
    expect(holders.length).to.equal(1);
    expect(await first.release()).to.equal(true);
    expect(await other.free(key, { id: holders[0]!.id })).to.equal(true);
    for (const { signal } of rest) expect(await isAbort(signal)).to.include({ reason: 'taken' });
    expect(await Promise.all(rest.map((lease) => lease.release()))).to.deep.equal([false, false]);
    await (await writing).release();
    await rw.close();
  });

  it('readers that share a holder are listed as one, with the id that frees it', async () => {
    const options = { redis: here.redis, lifetime: 20_000, timeout: 20_000, register: true };
    const rw = new redisExpLock.RWLock(key, options);
    const other = lockAt(here.elsewhere);
    const [first, last] = await Promise.all([rw.acquireRead(), rw.acquireRead()]);
    await first.release();
    const { holders } = await waitFor(async () => (await listed(other, { prefix: key }))[0], { what: 'the readers' });
    expect(holders.map(({ id }) => id)).to.deep.equal((await other.inspect(key)).holders.map(({ id }) => id));
    expect(await other.free(key, { id: holders[0]!.id })).to.equal(true);
    expect(await last.release()).to.equal(false);
    await rw.close();
  });

  it('readers, writers, permits: each holder and waiter by its kind; of several just one is freed', async () => {
    const rw = new redisExpLock.RWLock(key, { redis: here.redis, lifetime: 20_000, timeout: 20_000 });
    const other = lockAt(here.elsewhere);
    const readers = [await rw.acquireRead({ owner: 'r1' }), await rw.acquireRead({ owner: 'r2' })];
    const writing = rw.acquireWrite({ owner: 'w' });
    const state = await queuedAt(other, key, 1);
    expect(state.holders.map(({ owner, kind, permits }) => [owner, kind, permits]).sort()).to.deep.equal([
      ['r1', 'read', 1],
      ['r2', 'read', 1],
    ]);
    expect(state.queue[0]).to.include({ owner: 'w', kind: 'write' });
    expect(state.queue[0]!.waitingMs).to.be.within(0, 20_000);
    const { id } = state.holders.find(({ owner }) => owner === 'r1')!;
    expect(await other.free(key, { id })).to.equal(true);
    expect(await isAbort(readers[0]!.signal)).to.include({ reason: 'taken' });
    expect((await other.inspect(key)).holders.map(({ owner }) => owner)).to.deep.equal(['r2']);
    expect(await other.free(key, { force: true })).to.equal(true);
    expect(await isAbort(readers[1]!.signal)).to.include({ reason: 'taken' });
    const lease = await writing;
    expect((await other.inspect(key)).holders[0]).to.include({ owner: 'w', kind: 'write' });
    await lease.release();
    await rw.close();
    const semaphore = new redisExpLock.Semaphore(`${key}-s`, 3, { redis: here.redis, lifetime: 20_000 });
    const permits = await semaphore.acquire(2, { owner: 'p' });
    expect((await other.inspect(`${key}-s`)).holders[0]).to.include({ owner: 'p', kind: 'permits', permits: 2 });
    await permits.release();
    await semaphore.close();
  });
});
