// `detach` and `adopt`: a lock is taken here and released there. In between nobody else has it, and nobody renews it.
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { holdRequest } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, pending, thrown } from './outcomes';
import { describeEach, shortLifetime, stranger } from './places';

type Detached = redisExpLock.DetachedLease;

describeEach('detach and adopt', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  /** Another process, as far as the place can tell. */
  let worker: redisExpLock.WithLock;
  /** A busy machine may hold up a reply for seconds. A node of a quorum has an eighth of the lifetime for it. */
  const patient = { lifetime: 60_000, commandTimeout: 10_000 };
  const lockHere = (): redisExpLock.WithLock => redisExpLock({ redis: here.redis, ...patient });
  const workerThere = (): redisExpLock.WithLock => redisExpLock({ redis: here.elsewhere, ...patient });

  beforeEach(() => {
    key = uniqueKey();
    withLock = lockHere();
    worker = workerThere();
  });

  /** As it comes out of a queue between two processes. */
  function sent(detached: Detached): Detached {
    return JSON.parse(JSON.stringify(detached));
  }

  describe('a lease that was detached', () => {
    it('is plain JSON: the key as it was given, its token and fence, and when it ends at the latest', async () => {
      const lease = await redisExpLock({ redis: here.redis, prefix: 'app:', ...patient }).promise(key);
      const { token, fence } = lease;
      const detached = lease.detach();
      expect(sent(detached)).to.deep.equal(detached);
      expect(Object.keys(detached)).to.deep.equal(['key', 'token', 'fence', 'until']);
      expect(detached).to.include({ key, token, fence });
      expect(detached.until).to.be.within(Date.now() + 1_000, Date.now() + patient.lifetime);
      expect(await here.holder(`app:${key}`)).to.equal(token);
    });

    it('is done: release and extend say false and send nothing, nothing remains, its signal stays quiet', async () => {
      const connection = await here.connection();
      const lease = await redisExpLock({ redis: connection.redis, ...patient }).promise(key);
      const { signal } = lease;
      lease.detach();
      const before = await connection.calls();
      expect(await lease.release()).to.equal(false);
      expect(await lease()).to.equal(false);
      expect(await new Promise((resolve) => lease((err, released) => resolve([err, released])))).to.deep.equal([
        null,
        false,
      ]);
      expect(await lease.extend()).to.equal(false);
      expect(await lease.extend(60_000)).to.equal(false);
      await lease[Symbol.asyncDispose]();
      expect(lease.remaining()).to.equal(0);
      expect(await connection.calls()).to.equal(before);
      await here.remove(key);
      await sleep(20);
      expect(signal.aborted).to.equal(false);
      expect(lease.signal.aborted).to.equal(false);
    });

    it('cannot be detached again; nor can one that was released', async () => {
      const lease = await withLock.promise(key);
      lease.detach();
      const released = await withLock.promise(`${key}:2`);
      await released();
      for (const done of [lease, released]) {
        expect(thrown(() => done.detach())).to.be.instanceOf(redisExpLock.NotAcquiredLockError);
      }
    });

    it('inside `run`: that resolves, and the key is kept; the same by tryRun', async () => {
      let detached: Detached | undefined;
      const value = await withLock.run(key, (lease) => {
        detached = lease.detach();
        return 'handed over';
      });
      expect(value).to.equal('handed over');
      expect(await here.holder(key)).to.equal(detached!.token);
      const tried = await withLock.tryRun(`${key}:2`, (lease) => lease.detach());
      expect(await here.holder(`${key}:2`)).to.equal(tried.ran && tried.value.token);
    });

    it('is not waited for by close, nor released by it', async () => {
      const lease = await withLock.promise(key);
      const { token } = lease.detach();
      await withLock.close();
      expect(await here.holder(key)).to.equal(token);
    });

    it('leaves those that wait here waiting, and they get it once it is released there', async () => {
      const first = await withLock.promise(key, { timeout: 40_000 });
      const second = withLock.promise(key, { timeout: 40_000 });
      const third = withLock.promise(key, { timeout: 40_000 });
      await sleep(50);
      const adopted = await worker.adopt(first.detach());
      await sleep(50);
      expect(await pending(second)).to.equal(true);
      expect(await adopted!.release()).to.equal(true);
      const fences = [adopted!.fence];
      const use = async (lease: redisExpLock.Lease): Promise<void> => {
        fences.push(lease.fence);
        await lease();
      };
      await Promise.all([second.then(use), third.then(use)]);
      expect(fences).to.deep.equal([...new Set(fences)].sort((a, b) => a - b));
    });

    if (!here.place.isQuorum) {
      it('without an end: `until` is a number all the same', async () => {
        const lease = await withLock.promise(key, { lifetime: null });
        const detached = lease.detach();
        expect(sent(detached).until).to.equal(Number.MAX_SAFE_INTEGER);
        const adopted = await worker.adopt(sent(detached), { lifetime: null });
        expect(await here.leftMs(key)).to.equal(Number.POSITIVE_INFINITY);
        expect(adopted!.remaining()).to.equal(Number.POSITIVE_INFINITY);
        expect(await adopted!.release()).to.equal(true);
      });

      it('a lease of readers, a writer or permits stays where it was taken: refused by name, and still held', async () => {
        const rw = new redisExpLock.RWLock(key, { redis: here.redis, ...patient });
        const semaphore = new redisExpLock.Semaphore(`${key}:permits`, 3, { redis: here.redis, ...patient });
        for (const lease of [await rw.acquireRead(), await semaphore.acquire(2)]) {
          const error = thrown(() => lease.detach());
          expect(error).to.be.instanceOf(TypeError);
          expect(error.code).to.equal('ERR_LOCK_OPTION');
          expect(error.message).to.match(/detach.*mutex/);
          expect(await lease.release()).to.equal(true);
        }
      });
    }
  });

  describe('adopt', () => {
    it('is the same held lock: its token and fence, the lifetime from now; released by it', async () => {
      const lease = await withLock.promise(key, { lifetime: 30_000 });
      const detached = sent(lease.detach());
      const adopted = (await worker.adopt(detached))!;
      expect(adopted.token).to.equal(lease.token);
      expect(adopted).to.include({ key, fence: lease.fence, retries: 0 });
      expect(adopted.keys).to.deep.equal([key]);
      expect(adopted.remaining()).to.be.within(30_001, 60_000);
      expect(await here.leftMs(key)).to.be.within(30_001, 60_000);
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await adopted.extend(20_000)).to.equal(true);
      expect(await adopted.release()).to.equal(true);
      expect(await here.holder(key)).to.equal(null);
      const next = await withLock.promise(key);
      expect(next.fence).to.be.greaterThan(lease.fence);
    });

    it('never shortens what Redis has: it counts on its own lifetime, and the later end stays', async () => {
      const detached = (await withLock.promise(key, { lifetime: 120_000 })).detach();
      const lifetime = 30_000;
      const adopted = (await worker.adopt(detached, { lifetime }))!;
      expect(adopted.remaining()).to.be.within(1, lifetime);
      expect(await here.leftMs(key)).to.be.greaterThan(60_000);
    });

    it('several keys, all or nothing, in the order that they were given in', async () => {
      const keys = [`{${key}}:b`, `{${key}}:a`];
      const lease = await withLock.promise(keys);
      const adopted = (await worker.adopt(sent(lease.detach())))!;
      expect(adopted.keys).to.deep.equal(keys);
      expect(adopted.token).to.equal(lease.token);
      const again = adopted.detach();
      await here.seize(keys[0]!);
      expect(await worker.adopt(again)).to.equal(null);
      expect(await here.holder(keys[0]!)).to.equal(stranger);
    });

    it('the prefix is the adopter’s own', async () => {
      const ours = redisExpLock({ redis: here.redis, prefix: 'app:', ...patient });
      const detached = (await ours.promise(key)).detach();
      expect(await worker.adopt(detached)).to.equal(null);
      const adopted = await worker.adopt(detached, { prefix: 'app:' });
      expect(await adopted!.release()).to.equal(true);
      expect(await here.holder(`app:${key}`)).to.equal(null);
    });

    it('asks Redis whether it is held, not the clock of this host', async () => {
      const detached = (await withLock.promise(key)).detach();
      expect(await worker.adopt({ ...detached, until: Date.now() - 60_000 })).to.not.equal(null);
    });

    it('twice: both have it by one token, the first release ends it for both, and then it is null', async () => {
      const detached = (await withLock.promise(key)).detach();
      const [one, two] = [await worker.adopt(detached), await withLock.adopt(detached)];
      expect(await one!.release()).to.equal(true);
      expect(await two!.extend()).to.equal(false);
      expect(two!.signal.aborted).to.equal(true);
      expect(await two!.release()).to.equal(false);
      expect(await worker.adopt(detached)).to.equal(null);
    });

    it('may be detached again, and adopted by the one that had it first', async () => {
      const lease = await withLock.promise(key);
      const there = (await worker.adopt(lease.detach()))!;
      const back = (await withLock.adopt(sent(there.detach())))!;
      expect(back.token).to.equal(lease.token);
      expect(await lease.release()).to.equal(false);
      expect(await back.release()).to.equal(true);
    });

    it('is awaited by close, and taken away by it: closed', async () => {
      const adopted = (await worker.adopt((await withLock.promise(key)).detach()))!;
      const { signal } = adopted;
      const closing = worker.close({ drain: 30 });
      await sleep(10); // this timer is set before that of `close`, and rings before it on any machine
      expect(signal.aborted).to.equal(false);
      await closing;
      expect(adopted.signal.reason.reason).to.equal('closed');
      expect(await here.holder(key)).to.equal(null);
      const other = workerThere();
      const released = (await other.adopt((await withLock.promise(`${key}:2`)).detach()))!;
      const closed = other.close();
      expect(await pending(closed)).to.equal(true);
      expect(await released.release()).to.equal(true);
      await closed;
      expect(released.signal.aborted).to.equal(false);
    });

    it('closed: LockClosedError; a signal that has aborted: its reason; the lock stays for another adopter', async () => {
      const detached = (await withLock.promise(key)).detach();
      const reason = new Error('enough');
      expect(await failure(worker.adopt(detached, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
      await worker.close();
      expect(await failure(worker.adopt(detached))).to.be.instanceOf(redisExpLock.LockClosedError);
      expect(await here.holder(key)).to.equal(detached.token);
    });

    it('H12: anything else than a detached lease: ERR_LOCK_OPTION before any I/O, and no word of a token', async () => {
      const connection = await here.connection();
      const far = redisExpLock({ redis: connection.redis });
      const good = { key, token: 'the-secret-token', fence: 5, until: Date.now() };
      const without = (name: string): object =>
        Object.fromEntries(Object.entries(good).filter(([each]) => each !== name));
      const bad: unknown[] = [undefined, null, 5, [], [good], JSON.stringify(good), good.token, () => good, {}];
      for (const name of Object.keys(good)) bad.push(without(name));
      for (const value of [5, '', null, {}, ['the-secret-token'], 'x'.repeat(2_000)])
        bad.push({ ...good, token: value });
      for (const value of [-1, 1.5, '5', null, Number.NaN, 2 ** 53]) bad.push({ ...good, fence: value });
      for (const value of ['5', null, Number.NaN, Number.POSITIVE_INFINITY]) bad.push({ ...good, until: value });
      for (const value of [5, '', [], null, [5], `${key}:queue`]) bad.push({ ...good, key: value });
      for (const each of bad) {
        const error = await failure(far.adopt(each as Detached));
        expect(error.code, inspect(each)).to.equal('ERR_LOCK_OPTION');
        expect(error.message).to.not.contain('secret');
      }
      expect((await failure(far.adopt(good, { lifetime: 0 }))).code).to.equal('ERR_LOCK_OPTION');
      expect((await failure(redisExpLock().adopt(good))).message).to.contain('redis');
      expect(await connection.calls()).to.equal(0);
    });
  });

  /** A busy machine may stop for half of it between two renewals. */
  const renewable = { lifetime: here.place.isQuorum ? 8_000 : 4_000, commandTimeout: 10_000 };

  describeAtOnce('the end of a lifetime', {
    'stays held and is no longer renewed: its lifetime ends it': async (key) => {
      const renewed = redisExpLock({ redis: here.redis, ...renewable, autoExtend: true });
      const lease = await renewed.promise(key);
      let minMs = Number.POSITIVE_INFINITY;
      const isRenewed = async (): Promise<boolean> => {
        const leftMs = await here.leftMs(key);
        minMs = Math.min(minMs, leftMs);
        return leftMs > minMs + 500;
      };
      await waitFor(isRenewed, { what: 'a renewal' });
      expect(await here.holder(key)).to.equal(lease.token);
      lease.detach();
      expect(await workerThere().tryLock(key)).to.equal(null);
      await waitFor(async () => (await here.holder(key)) === null, { what: 'the end of its lifetime' });
      expect(lease.signal.aborted).to.equal(false);
    },

    'one that was lost cannot be detached: NotAcquiredLockError, with the loss as its cause': async (key) => {
      const lifetime = shortLifetime(here);
      // Requested again if its reply took longer than the lifetime.
      const short = await redisExpLock({ redis: here.redis, lifetime }).promise(key, { maxRetries: 50 });
      const taken = await lockHere().promise(`${key}:2`);
      await here.seize(`${key}:2`);
      expect(await taken.extend()).to.equal(false);
      await sleep(lifetime + 10);
      for (const lost of [short, taken]) {
        const error = thrown(() => lost.detach());
        expect(error).to.be.instanceOf(redisExpLock.NotAcquiredLockError);
        expect(error.cause).to.be.instanceOf(redisExpLock.LockLostError);
      }
    },

    'renews with `autoExtend` only, of the call or of the factory': async (key) => {
      const { lifetime } = renewable;
      const once = await workerThere().adopt((await lockHere().promise(key)).detach(), { lifetime });
      const renewed = await workerThere().adopt((await lockHere().promise(`${key}:2`)).detach(), {
        lifetime,
        autoExtend: true,
      });
      const always = redisExpLock({ redis: here.elsewhere, ...renewable, autoExtend: true });
      const byFactory = await always.adopt((await lockHere().promise(`${key}:3`)).detach());
      await waitFor(() => once!.signal.aborted, { what: 'the end of the one that is not renewed' });
      await sleep(lifetime / 3);
      for (const lease of [renewed, byFactory]) {
        expect(lease!.signal.aborted).to.equal(false);
        expect(await lease!.release()).to.equal(true);
      }
    },

    'no longer held: null, and the present holder is left alone': async (key) => {
      const lease = await lockHere().promise(key, { lifetime: shortLifetime(here), maxRetries: 50 });
      const detached = lease.detach();
      await waitFor(async () => (await here.holder(key)) === null, { what: 'the end of its lifetime' });
      expect(await workerThere().adopt(detached)).to.equal(null);
      await here.seize(key);
      expect(await workerThere().adopt(detached)).to.equal(null);
      expect(await here.holder(key)).to.equal(stranger);
      const removed = (await lockHere().promise(`${key}:2`)).detach();
      await here.remove(`${key}:2`);
      expect(await workerThere().adopt(removed)).to.equal(null);
      expect(await here.holder(`${key}:2`)).to.equal(null);
    },
  });

  if (here.place.faults) {
    describe('on a connection that can be cut', () => {
      it('a renewal that is on its way at detach harms nothing, and changes nothing that the adopter sees', async () => {
        const connection = await here.connection();
        // What is left at a renewal must last until it is adopted.
        const far = redisExpLock({ redis: connection.redis, lifetime: 4_500, autoExtend: true });
        const lease = await far.promise(key);
        const renewal = holdRequest();
        connection.proxy.rule({ match: 'script', nth: 1 }, renewal);
        await renewal.arrived;
        const adopted = (await worker.adopt(lease.detach(), { lifetime: 60_000 }))!;
        const before = connection.proxy.count('script');
        renewal.release();
        await sleep(500);
        expect(connection.proxy.count('script')).to.equal(before);
        expect(lease.signal.aborted).to.equal(false);
        expect(lease.remaining()).to.equal(0);
        expect(adopted.remaining()).to.be.greaterThan(1_000);
        expect(await here.leftMs(key)).to.be.greaterThan(1_000);
        expect(await adopted.release()).to.equal(true);
      });

      it('an `extend` without an answer might shorten what the adopter counts on: refused until it is known', async () => {
        const connection = await here.connection();
        const far = redisExpLock({ redis: connection.redis, lifetime: 30_000, commandTimeout: 2_000 });
        const lease = await far.promise(key, { maxRetries: 50 });
        connection.proxy.blackHole();
        const extending = lease.extend(20_000);
        expect(thrown(() => lease.detach()).code).to.equal('ERR_LOCK_BACKEND');
        expect((await failure(extending)).code).to.equal('ERR_LOCK_BACKEND');
        expect(lease.remaining()).to.be.greaterThan(1_000);
        await connection.heal();
        await waitFor(() => !failsToDetach(lease), { what: 'the extension to be over' });
        expect(await lease.release()).to.equal(false);
      });

      it('Redis that cannot be asked: LockBackendError, and the lock can be adopted later', async () => {
        const detached = (await withLock.promise(key)).detach();
        const connection = await here.connection();
        const far = redisExpLock({ redis: connection.redis, ...patient });
        connection.proxy.blackHole();
        const error = await failure(far.adopt(detached, { commandTimeout: unansweredMs }));
        expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
        expect(error.key).to.equal(key);
        expect(await here.holder(key)).to.equal(detached.token);
        await connection.heal();
        expect(await (await far.adopt(detached))!.release()).to.equal(true);
      });
    });
  }
});

function failsToDetach(lease: redisExpLock.Lease): boolean {
  try {
    lease.detach();
    return false;
  } catch {
    return true;
  }
}
