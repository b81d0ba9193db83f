/** The values that one build leaves in Redis and the other reads: marks of jobs, stored values, leaders, process records, detached leases. */
import { once } from 'node:events';
import { expect } from 'chai';
import type redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import type { Place } from './roles';
import { rollingServers } from './servers';
import { bothVersions, directions, type Versions } from './versions';

/** No slot ends while a test runs. */
const every = 10 * 365 * 86_400_000;
const lifetime = 60_000;

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

describe('what old and new leave for each other', function () {
  this.timeout(60_000); // the build before is unpacked and loaded first
  let versions: Versions;
  let places: Record<'old' | 'new', Place>;
  let key: string;
  const locks: redisExpLock.WithLock[] = [];

  bothVersions((both) => {
    versions = both;
  });

  rollingServers(async ({ connect }) => {
    places = { old: await connect(), new: await connect() };
  });

  beforeEach(() => {
    key = uniqueKey();
  });

  afterEach(() => Promise.all(locks.splice(0).map((lock) => lock.close({ drain: false }))));

  function lockOf(who: 'old' | 'new', options: redisExpLock.Options = {}): redisExpLock.WithLock {
    const lock = versions[who].library({ redis: places[who].redis, lifetime, timeout: 30_000, ...options });
    locks.push(lock);
    return lock;
  }

  for (const [from, to] of directions) {
    for (const mode of ['at-most-once', 'until-success'] as const) {
      it(`a job that ${from} does, ${to} does not do, before its end and after, ${mode} (H97)`, async () => {
        const [theirs, ours] = [lockOf(from), lockOf(to)];
        const options = { every, mode };
        const never = (): never => expect.fail('the job ran twice');
        const { ran, slot } = await theirs.once(key, options, async () => {
          const reason = mode === 'at-most-once' ? 'done' : 'busy';
          expect(await ours.once(key, options, never)).to.include({ ran: false, reason });
        });
        expect(ran).to.equal(true);
        expect(await ours.once(key, options, never)).to.deep.equal({ ran: false, slot, reason: 'done' });
      });

      it(`a job that fails at ${from} ${mode === 'at-most-once' ? 'is done for' : 'is left to'} ${to}, ${mode} (H97)`, async () => {
        const failing = lockOf(from).once(key, { every, mode }, () => Promise.reject(new Error('it fails')));
        expect(await failing.catch(({ message }) => message)).to.equal('it fails');
        const next = await lockOf(to).once(key, { every, mode }, () => 'ran');
        expect(next).to.include(mode === 'at-most-once' ? { ran: false, reason: 'done' } : { ran: true, value: 'ran' });
      });
    }

    it(`a value that ${from} loads, ${to} has without loading (H97)`, async () => {
      const value = { text: 'ä', list: [1, null] };
      expect(await lockOf(from).cached(key, { ttl: 3_600_000 }, () => value)).to.deep.equal(value);
      const again = await lockOf(to).cached(key, { ttl: 3_600_000 }, () => expect.fail('it was loaded again'));
      expect(again).to.deep.equal(value);
    });

    it(`a lease that ${from} detaches, ${to} adopts, renews and releases (H97)`, async () => {
      const lease = await lockOf(from).promise(key);
      const adopted = await lockOf(to).adopt(JSON.parse(JSON.stringify(lease.detach())));
      expect(adopted).to.include({ token: lease.token, fence: lease.fence });
      expect(await adopted!.extend()).to.equal(true);
      expect(await lockOf(from).tryLock(key)).to.equal(null);
      expect(await adopted!.release()).to.equal(true);
    });

    it(`${to} sees ${from} lead, and what it proclaims, and follows when it resigns (H97)`, async () => {
      const of = (who: 'old' | 'new', id: string) =>
        new versions[who].library.Election(key, { redis: places[who].redis, lifetime, id, value: `at ${id}` });
      const [theirs, ours] = [of(from, 'one'), of(to, 'two')];
      const seen: string[] = [];
      const observed = (async () => {
        for await (const leader of ours.observe()) {
          if (leader) seen.push(leader.value);
          if (leader?.id === 'two') return;
        }
      })();
      let fence = 0;
      const led = theirs.lead(async (term) => {
        fence = term.fence;
        await waitFor(() => seen.includes('at one'), { what: 'the leader to be observed' });
        await term.proclaim('moved');
        await waitFor(() => seen.includes('moved'), { what: 'the new value to be observed' });
        expect(await ours.leader()).to.include({ id: 'one', value: 'moved', term: fence });
        await aborted(term.signal);
      });
      await waitFor(() => seen.includes('moved'), { what: 'the new value' });
      const follower = ours.lead(async (term) => {
        expect(term.fence).to.be.greaterThan(fence);
        expect(await waitFor(() => theirs.leader())).to.include({ id: 'two', value: 'at two', term: term.fence });
        await observed;
        return 'followed';
      });
      await theirs.resign();
      expect(await follower).to.equal('followed');
      await led.catch(() => {});
      await Promise.all([theirs.close({ drain: false }), ours.close({ drain: false })]);
    });

    it(`${to} lists, inspects and frees what ${from} holds, which finds out, and its waiter is served (H97)`, async () => {
      const theirs = lockOf(from, { register: true, owner: 'billing', prefix: `${key}:` });
      const ours = lockOf(to);
      const lease = await theirs.promise('held', { autoExtend: true });
      const { signal } = lease;
      const next = lockOf(from, { register: true, prefix: `${key}:`, owner: 'next' }).promise('held');
      next.catch(() => {}); // when the test ends before

      for (const scan of [false, true]) {
        const list = async (): Promise<redisExpLock.ListedLock[]> => {
          const all: redisExpLock.ListedLock[] = [];
          for await (const each of ours.list({ prefix: `${key}:`, scan })) all.push(each);
          return all;
        };
        const listed = await waitFor(async () => (await list()).find(({ waiters }) => waiters === 1), {
          what: 'a list',
        });
        expect(listed).to.include({ key: `${key}:held`, locked: true, mode: 'exclusive', fence: lease.fence });
        expect(listed.holders[0]!.owner).to.equal('billing');
      }
      const { holders, queue, waiters } = await ours.inspect(`${key}:held`);
      expect({ owner: holders[0]!.owner, waits: queue[0]!.owner, waiters }).to.deep.equal({
        owner: 'billing',
        waits: 'next',
        waiters: 1,
      });
      expect(await ours.free(`${key}:held`, { id: holders[0]!.id })).to.equal(true);
      await aborted(signal);
      expect(signal.reason.code).to.equal('ERR_LOCK_LOST');
      expect(await lease.release()).to.equal(false);
      const served = await next;
      expect(served.fence).to.be.greaterThan(lease.fence);
      expect(await served.release()).to.equal(true);
    });

    it(`${to} inspects and frees readers and permits of ${from} (H97)`, async () => {
      const { RWLock, Semaphore } = versions[from].library;
      const options = { redis: places[from].redis, lifetime, owner: 'billing' };
      const read = await new RWLock(`${key}:rw`, options).acquireRead();
      const two = await new Semaphore(`${key}:permits`, 3, options).acquire(2);
      const ours = lockOf(to);
      const cases = [
        [`${key}:rw`, read, { kind: 'read', permits: 1 }],
        [`${key}:permits`, two, { kind: 'permits', permits: 2 }],
      ] as const;
      for (const [each, lease, what] of cases) {
        const [holder] = (await ours.inspect(each)).holders;
        expect(holder).to.include({ owner: 'billing', ...what });
        expect(await ours.free(each, { id: holder!.id })).to.equal(true);
        expect((await ours.inspect(each)).locked).to.equal(false);
        expect(await lease.release()).to.equal(false);
      }
    });
  }
});
