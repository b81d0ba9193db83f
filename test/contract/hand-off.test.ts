// The lock of a holder that was handed it off, within its process or by another. It depends on no client: one is tried.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { waitFor } from '../support/processes';
import { type Connection, places } from './places';
import { type Lease, type Options, Scene, takeAndGive } from './queue-scene';

describe('queued: hand-off', () => {
  const here = places[0]!.create();
  before(() => here.open());
  after(() => here.close());
  const scene = new Scene(here);

  describe('what the holder sees', () => {
    /** Handed off only while most of it is left: a busy machine may stop for seconds. */
    const lifetime = 60_000;
    const lasting: Options = { lifetime, timeout: 40_000, commandTimeout: 10_000 };

    /** Two of one process: the first holds, by its place; the second waits behind it. */
    async function two(
      options: Options = {},
      behind = options,
      entries = 1,
    ): Promise<[Lease, Promise<Lease>, Connection]> {
      const held = await scene.lock(here.redis, lasting).promise(scene.key);
      const connection = await here.connection();
      const lock = scene.lock(connection.redis, lasting);
      const first = lock.promise(scene.key, options);
      const second = lock.promise(scene.key, behind);
      await scene.queued(entries);
      await held.release();
      const lease = await first;
      await connection.calls(); // the answer to the confirmation is before that to these
      return [lease, second, connection];
    }

    it('handed off within a process or not: fences rise, the validity is almost all of the lifetime, Redis agrees', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      let last = held.fence;
      const locks = [here.elsewhere, (await here.connection()).redis].map((redis) => scene.lock(redis, lasting));
      const waits = Array.from({ length: 100 }, (_, n) => locks[n % 2]!.promise(scene.key));
      await scene.queued(2);
      await held.release();
      await takeAndGive(waits, async (lease) => {
        expect(lease.fence).to.be.greaterThan(last);
        last = lease.fence;
        expect(lease.remaining()).to.be.at.most(lifetime);
        await waitFor(() => lease.remaining() >= (lifetime * 2) / 3 - 500, { what: 'the confirmation' });
        expect(await here.leftMs(scene.key)).to.be.at.least(Math.floor(lease.remaining()));
        expect(await here.holder(scene.key)).to.equal(lease.token);
      });
      const fence = Number(await scene.direct.get('redis-exp-lock:fence'));
      expect(fence, 'the fences that were handed out were reserved').to.be.at.least(last);
      const next = await scene.lock(here.redis).promise(scene.key);
      expect(next.fence).to.be.greaterThan(last);
    });

    it('a grant reserves few fences, and many once those were used: the counter keeps to the clock', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const connection = await here.connection();
      const waits = Array.from({ length: 12 }, () => scene.lock(connection.redis, lasting).promise(scene.key));
      await scene.queued(1);
      await held.release();
      const reserved: number[] = [];
      const leases: Lease[] = [];
      await takeAndGive(waits, async (lease) => {
        await connection.calls(); // the answer to the confirmation is before that to these
        leases.push(lease);
        reserved.push(Number(await scene.direct.get('redis-exp-lock:fence')) - lease.fence + 1);
      });
      expect(reserved.slice(0, 9)).to.deep.equal([9, 8, 7, 6, 5, 4, 3, 2, 1]);
      expect(reserved.slice(9)).to.deep.equal([65, 64, 63]);
      expect(new Set(leases.map(({ token }) => token)).size).to.equal(2);
    });

    it('H22: a lease that was handed off can neither release nor extend the lock of the next', async () => {
      const [first, waiting, connection] = await two();
      expect(await first.release()).to.equal(true);
      const second = await waiting;
      expect(second.token, 'handed off without a word to Redis').to.equal(first.token);
      expect(second.fence).to.be.greaterThan(first.fence);
      const before = connection.proxy.count('script');
      expect(await first.extend(1)).to.equal(false);
      expect(await first.release()).to.equal(true);
      await first[Symbol.asyncDispose]?.();
      expect(first.remaining()).to.equal(0);
      expect(first.signal.aborted).to.equal(false);
      expect(connection.proxy.count('script') - before).to.equal(0);
      expect(await here.holder(scene.key)).to.equal(second.token);
      expect(second.remaining()).to.be.greaterThan(lifetime / 2);
      expect(await second.extend()).to.equal(true);
      expect(await second.release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('extended to another lifetime it is not handed off: the next has its own from Redis', async () => {
      const [first, waiting] = await two();
      expect(await first.extend(120_000)).to.equal(true);
      expect(await first.release()).to.equal(true);
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(second.remaining()).to.be.at.most(lifetime);
      expect(await here.leftMs(scene.key)).to.be.at.most(lifetime);
      expect(await second.release()).to.equal(true);
    });

    it('while an extension of it is under way it is not handed off', async () => {
      const [first, waiting] = await two();
      const extending = first.extend();
      expect(await first.release()).to.equal(true);
      await extending;
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(await second.release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('lost, it is not handed off: the next has it from Redis, under a later fence', async () => {
      const [first, waiting] = await two();
      await here.remove(scene.key);
      expect(await first.extend()).to.equal(false);
      expect(await first.release()).to.equal(false);
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(second.fence).to.be.greaterThan(first.fence);
      expect(await second.release()).to.equal(true);
    });

    it('never released: the next in the same process has it when its lifetime has ended', async () => {
      // Long enough for a busy machine to release the second.
      const [first, waiting] = await two({ lifetime: 3_000 });
      const second = await waiting;
      expect(first.remaining()).to.equal(0);
      expect(second.fence).to.be.greaterThan(first.fence);
      expect(await second.release()).to.equal(true);
      expect(await first.release()).to.equal(false);
    });

    it('renewed while held, for longer than its lifetime, it is handed off whole', async () => {
      // Of a lock that is renewed, four seconds are left at least: a busy machine may stop for most of them.
      const options = { lifetime: 6_000, timeout: 40_000, commandTimeout: 10_000, autoExtend: true };
      const lock = scene.lock((await here.connection()).redis, options);
      const other = scene.lock(here.elsewhere, options);
      let holders = 0;
      let held = 0;
      const renewed = (): Promise<unknown> => {
        let minMs = Number.POSITIVE_INFINITY;
        const isRenewed = async (): Promise<boolean> => {
          const leftMs = await here.leftMs(scene.key);
          minMs = Math.min(minMs, leftMs);
          return leftMs > minMs + 500;
        };
        return waitFor(isRenewed, { what: 'a renewal' });
      };
      const hold = async (lease: Lease): Promise<void> => {
        expect(++holders).to.equal(1);
        const { signal } = lease;
        // The first holds for longer than the lifetime, and the others until the lock was renewed in their hands.
        if (++held === 1) await sleep(options.lifetime + 200);
        else await renewed();
        expect(lease.remaining()).to.be.greaterThan(0);
        expect(signal.aborted).to.equal(false);
        holders -= 1;
      };
      await Promise.all([lock, lock, other].map((each) => each.run(scene.key, hold)));
      await scene.nothingLeft();
    });

    const apart: [what: string, one: Options, other: Options][] = [
      ['lifetimes', { lifetime: 60_000 }, { lifetime: 120_000 }],
      ['fencing', {}, { fencing: false }],
      ['owners', { owner: 'a' }, { owner: 'b' }],
    ];
    for (const [what, one, other] of apart) {
      it(`different ${what} do not share a queue, and each has what it asked for`, async () => {
        const [first, waiting] = await two(one, other, 2);
        expect(await first.release()).to.equal(true);
        const second = await waiting;
        expect(second.token).to.not.equal(first.token);
        const ms = other.lifetime ?? lifetime;
        await waitFor(() => second.remaining() > ms / 2, { what: 'the confirmation' });
        expect(second.remaining()).to.be.at.most(ms);
        expect(second.fence > 0).to.equal(other.fencing !== false);
        const { owner } = await scene.lock(here.redis).inspect(scene.key);
        expect(owner).to.equal(other.owner ?? null);
        expect(await second.release()).to.equal(true);
      });
    }

    it('an owner of any text is queued like any other', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const owners = ['a b', '1 2 3 4 5 6 7', 'line\nline', 'nul\0nul', '"{}"', '🧵', ' '];
      const lock = scene.lock((await here.connection()).redis);
      const waits = owners.map((owner) => lock.promise(scene.key, { owner }));
      await scene.queued(owners.length);
      await held.release();
      const { inspect } = scene.lock(here.redis);
      const seen: unknown[] = [];
      await takeAndGive(waits, async () => seen.push((await inspect(scene.key)).owner));
      expect(seen).to.have.members(owners);
    });
  });

  it('H31: a factory that is closed releases its own lock; the next waiter, of another factory, has it', async () => {
    const [mine, yours] = [scene.lock(here.redis), scene.lock(here.redis)];
    const held = await scene.lock(here.elsewhere).promise(scene.key);
    const first = mine.promise(scene.key);
    await scene.queued(1);
    const second = yours.promise(scene.key);
    await held.release();
    const lease = await first;
    const { signal } = lease;
    await mine.close({ drain: false });
    expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'closed' });
    const next = await second;
    expect(next.fence).to.be.greaterThan(lease.fence);
    expect(next.token).to.not.equal(lease.token);
    expect(await next.release()).to.equal(true);
    await scene.nothingLeft();
  });
});
