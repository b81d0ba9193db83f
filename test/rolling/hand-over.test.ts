/**
 * A rolling upgrade: processes of the build before and of this one use the same keys, in every role. Neither is inside beside the
 * other, and each hands over to the other.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { type Held, type Place, pairs, type Role, roles } from './roles';
import { rollingServers, type Servers } from './servers';
import { bothVersions, directions, type Versions } from './versions';

const lifetime = 60_000;

describe('old and new beside each other', function () {
  this.timeout(120_000); // the build before is unpacked and loaded first
  let versions: Versions;
  let servers: Servers;
  let places: Record<'old' | 'new', Place>;
  let key: string;

  bothVersions((both) => {
    versions = both;
  });

  rollingServers(async (all) => {
    servers = all;
    places = { old: await all.connect(), new: await all.connect() };
  });

  beforeEach(() => {
    key = uniqueKey();
  });

  const enter = (who: 'old' | 'new', role: Role): Promise<Held> =>
    roles[role](versions[who], places[who], { key, lifetime });
  const queued = (count: number): Promise<unknown> =>
    waitFor(async () => (await places.old.redis.zCard(companionOf(key, 'queue'))) === count, {
      what: `${count} in the queue`,
    });

  for (const [from, to] of directions) {
    for (const [holder, waiter] of pairs) {
      it(`${from} holds (${holder}), ${to} stays out (${waiter}) until it leaves (H97)`, async () => {
        const first = await enter(from, holder);
        let isIn = false;
        const entered = enter(to, waiter).finally(() => {
          isIn = true;
        });
        await sleep(50);
        expect(isIn).to.equal(false);
        expect(await first.leave()).to.equal(true);
        const second = await entered;
        if (first.fence !== undefined) expect(second.fence).to.be.greaterThan(first.fence);
        expect(first.signal?.aborted ?? false).to.equal(false);
        expect(await second.leave()).to.equal(true);
      });
    }

    it(`${from} grants by its release, and the message alone makes ${to} the holder (H97)`, async () => {
      const withLock = versions[to].library({ redis: places[to].redis, lifetime, timeout: 60_000 });
      let byMessage = 0;
      // A process that stood still for a second asks Redis instead.
      for (let n = 0; n < 50 && byMessage === 0; n += 1) {
        const first = await enter(from, 'queued');
        const waiting = withLock.promise(key).then(async (lease) => [lease, lease.remaining()] as const);
        await queued(1);
        await first.leave();
        const [lease, remaining] = await waiting;
        if (remaining <= 2_000) byMessage += 1;
        await waitFor(() => lease.remaining() > 2_000, { what: 'the confirmation' });
        await lease.release();
      }
      expect(byMessage).to.equal(1);
      await withLock.close();
    });

    it(`readers of both are in together, and ${to} upgrades when ${from} has left (H97)`, async () => {
      const lockOf = (who: 'old' | 'new') =>
        new versions[who].library.RWLock(key, { redis: places[who].redis, lifetime, timeout: 60_000 });
      const [theirs, ours] = [await lockOf(from).acquireRead(), await lockOf(to).acquireRead()];
      const upgraded = ours.upgrade();
      await queued(1);
      expect(ours.mode).to.equal('read');
      await theirs.release();
      await upgraded;
      expect(ours.mode).to.equal('write');
      const reading = lockOf(from).acquireRead();
      await queued(1);
      await ours.downgrade();
      const again = await reading;
      expect(again.fence).to.be.at.least(theirs.fence);
      expect([await ours.release(), await again.release()]).to.deep.equal([true, true]);
    });

    it(`one queue, first come first served: ${from} holds; ${to}, ${from} and ${to} wait (H97)`, async () => {
      const order: string[] = [];
      const first = await enter(from, 'queued');
      const waits: Promise<unknown>[] = [];
      let fence = first.fence!;
      for (const [n, who] of ([to, from, to] as const).entries()) {
        const place = await servers.connect();
        const wait = async (): Promise<void> => {
          const held = await roles.queued(versions[who], place, { key, lifetime });
          order.push(`${n} ${who}`);
          expect(held.fence).to.be.greaterThan(fence);
          fence = held.fence!;
          expect(await held.leave()).to.equal(true);
        };
        waits.push(wait());
        await queued(n + 1);
      }
      await first.leave();
      await Promise.all(waits);
      expect(order).to.deep.equal([`0 ${to}`, `1 ${from}`, `2 ${to}`]);
    });

    it(`permits are counted together: ${from} has two of three, ${to} one, and both say so (H97)`, async () => {
      const of = (who: 'old' | 'new') =>
        new versions[who].library.Semaphore(key, 3, { redis: places[who].redis, lifetime, timeout: 60_000 });
      const [theirs, ours] = [of(from), of(to)];
      const two = await theirs.acquire(2);
      expect([await theirs.available(), await ours.available()]).to.deep.equal([1, 1]);
      const one = await ours.acquire();
      expect([await theirs.available(), await ours.available()]).to.deep.equal([0, 0]);
      const waiting = ours.acquire(2);
      await queued(1);
      await two.release();
      const next = await waiting;
      expect(next.fence).to.be.greaterThan(two.fence);
      expect([await one.release(), await next.release(), await theirs.available()]).to.deep.equal([true, true, 3]);
    });
  }

  /** Tells if a group may hold together: writers alone, readers with readers, permits while there are some. */
  const crowds: Record<string, (inside: readonly Role[]) => boolean> = {
    'queued, polling': (inside) => inside.length <= 1,
    'several keys': (inside) => inside.length <= 1,
    'reader, writer': (inside) => inside.length <= 1 || !inside.includes('writer'),
    permits: (inside) => inside.length <= 1,
    leader: (inside) => inside.length <= 1,
    quorum: (inside) => inside.length <= 1,
    redlock: (inside) => inside.length <= 1,
    'Mutex, Mutex': (inside) => inside.length <= 1,
    MultiSemaphore: (inside) => inside.length <= 1,
  };

  for (const [names, isRight] of Object.entries(crowds)) {
    it(`a crowd of both, each time one comes or goes nobody is in who must not be: ${names} (H97)`, async () => {
      const inside: Role[] = [];
      let fence = 0;
      const work = async (who: 'old' | 'new', role: Role): Promise<void> => {
        for (let n = 0; n < 8; n += 1) {
          const held = await enter(who, role);
          inside.push(role);
          expect(isRight(inside), inside.join()).to.equal(true);
          if (held.fence !== undefined && role !== 'reader') {
            expect(held.fence).to.be.greaterThan(fence);
            fence = held.fence;
          }
          await sleep(1);
          inside.splice(inside.indexOf(role), 1);
          expect(await held.leave()).to.equal(true);
        }
      };
      const some = names.split(', ') as Role[];
      await Promise.all((['old', 'new'] as const).flatMap((who) => some.map((role) => work(who, role))));
    });
  }
});
