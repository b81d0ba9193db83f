// The keys on the server: the format that old and new clients share, and the fences beside it.
import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { companionOf, fenceKeyBeside, lockKey, slotOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { failure } from '../contract/outcomes';
import { holdReply } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import type { Client, RedisServer } from '../support/redis';
import { useWire } from './wire';

const hourMs = 3_600_000;

/** The commands that redis-exp-lock-js 0.0.2 sent. */
const old = {
  acquire: `if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
      redis.call('pexpire', KEYS[1], ARGV[2])
      return 1
    else
      return 0
    end`,
  release: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
};
describe('wire format', () => {
  const stage = useWire();
  const { holder, ttl, serverMicros, recorded, proxied } = stage;
  let server: RedisServer;
  let client: Client;
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    ({ server, client, key, withLock } = stage);
  });

  describe('what lies on the server', () => {
    it('the key is a plain string: the token, with its time to live', async () => {
      const lease = await withLock.promise(key, { owner: 'billing' });
      expect(await server.command('TYPE', key)).to.equal('string');
      expect(await holder()).to.equal(lease.token);
      expect(await ttl()).to.be.within(1, 10_000);
    });

    it('an acquire reads first, then writes, and ends with SETNX and PEXPIRE', async () => {
      const { called } = await recorded(() => withLock.promise(key));
      const fence = 'redis-exp-lock:fence';
      const queue = `{${key}}:queue`;
      const token = await holder();
      expect(called.map(([name]) => name)).to.deep.equal(['TIME', 'EXISTS', 'GET', 'SET', 'SETNX', 'PEXPIRE']);
      expect(called[1]).to.deep.equal(['EXISTS', key, queue]);
      expect(called.slice(2).map(([, name]) => name)).to.deep.equal([fence, fence, key, key]);
      expect(called[4]).to.deep.equal(['SETNX', key, token]);
      expect(called[5]).to.deep.equal(['PEXPIRE', key, '10000']);
    });

    it('a busy attempt writes nothing', async () => {
      const lease = await withLock.promise(key);
      const { called } = await recorded(() => withLock.tryLock(key));
      expect(called.map(([name]) => name)).to.have.members(['TIME', 'EXISTS', 'GET', 'PTTL']);
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(lease.fence));
    });

    it('a release reads, and deletes the key only if it is ours', async () => {
      const queue = `{${key}}:queue`;
      const looked = [
        ['GET', key],
        ['ZCARD', queue],
      ];
      const ours = await withLock.promise(key);
      expect((await recorded(() => ours())).called).to.deep.equal([
        ['GET', key],
        ['ZCARD', queue],
        ['DEL', key],
      ]);
      const lost = await withLock.promise(key);
      await server.command('SET', key, 'a stranger');
      expect((await recorded(() => lost())).called).to.deep.equal(looked);
      await server.command('DEL', key);
      const gone = await withLock.promise(key);
      await server.command('DEL', key);
      expect((await recorded(() => gone())).called).to.deep.equal(looked);
    });

    it('an extension sets the time to live of our own key, and makes none', async () => {
      const lease = await withLock.promise(key);
      const ours = await recorded(() => lease.extend(20_000));
      expect(ours.called.map(([name]) => name)).to.deep.equal(['TIME', 'GET', 'PTTL', 'PEXPIRE']);
      await server.command('DEL', key);
      const gone = await recorded(() => lease.extend(20_000));
      expect(gone.called.map(([name]) => name)).to.deep.equal(['TIME', 'GET']);
      expect(await holder()).to.equal(null);
    });

    it('nothing but the lock and the fence counter is left, and after a release only the counter', async () => {
      await server.command('FLUSHALL');
      const lease = await withLock.promise(key);
      expect(await server.command('KEYS', '*')).to.have.members([key, 'redis-exp-lock:fence']);
      await lease();
      expect(await server.command('KEYS', '*')).to.deep.equal(['redis-exp-lock:fence']);
    });

    it('lifetime null: 10 s until our reply was read, permanent only then', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: null, commandTimeout: 5_000 });
      const held = holdReply();
      proxy.rule({ match: 'script', nth: 1 }, held);
      const acquiring = lock.promise(key);
      await held.arrived;
      // Were we killed here, the server would free the key by itself.
      expect(await ttl()).to.be.within(1, 10_000);
      expect(proxy.commands.at(-1)!.args).to.include('10000');
      held.release();
      const lease = await acquiring;
      expect(await ttl()).to.equal(-1);
      expect(proxy.count('script')).to.equal(2);
      expect(await lease()).to.equal(true);
      expect(await holder()).to.equal(null);
    });

    it('lifetime null: a grant that cannot be made permanent is an error, and is released', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: null, commandTimeout: 5_000 });
      proxy.afterAnswer({ match: 'script', nth: 1 }, async () => {
        await server.command('SET', key, 'a stranger', 'PX', 60_000);
      });
      expect(await failure(lock.promise(key))).to.include({ code: 'ERR_LOCK_BACKEND' });
      expect(await holder()).to.equal('a stranger');
      expect(await ttl()).to.be.greaterThan(10_000);
    });
  });

  describe('old clients and ours exclude each other', () => {
    const oldAcquire = (token: string, ms = 10_000): Promise<unknown> =>
      client.eval(old.acquire, { keys: [key], arguments: [token, String(ms)] });
    const oldRelease = (token: string): Promise<unknown> =>
      client.eval(old.release, { keys: [key], arguments: [token] });

    it('theirs is held: ours is refused, and sees it', async () => {
      const token = randomUUID();
      expect(await oldAcquire(token)).to.equal(1);
      expect(await failure(withLock.promise(key))).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
      expect(await withLock.inspect(key)).to.include({ locked: true, owner: null, mode: 'exclusive' });
      expect(await holder()).to.equal(token);
      expect(await oldRelease(token)).to.equal(1);
      const lease = await withLock.promise(key);
      expect(await lease()).to.equal(true);
    });

    it('ours is held: theirs is refused, by script, SETNX and SET NX PX, and cannot release it', async () => {
      const lease = await withLock.promise(key);
      expect(await oldAcquire(randomUUID())).to.equal(0);
      expect(await client.setNX(key, 'theirs')).to.equal(0);
      expect(await client.set(key, 'theirs', { condition: 'NX', expiration: { type: 'PX', value: 10_000 } })).to.equal(
        null,
      );
      expect(await oldRelease('theirs')).to.equal(0);
      expect(await holder()).to.equal(lease.token);
      expect(await lease()).to.equal(true);
      expect(await oldAcquire('theirs')).to.equal(1);
      expect(await oldRelease('theirs')).to.equal(1);
    });

    it('a plain SETNX or SET NX PX of theirs excludes ours', async () => {
      await client.setNX(key, 'theirs');
      expect(await withLock.tryLock(key)).to.equal(null);
      await client.del(key);
      await client.set(key, 'theirs', { condition: 'NX', expiration: { type: 'PX', value: 10_000 } });
      expect(await withLock.tryLock(key)).to.equal(null);
      await client.del(key);
      expect(await withLock.tryLock(key)).not.to.equal(null);
    });

    it('either may release what has our token: it is the whole of the lock', async () => {
      const lease = await withLock.promise(key);
      expect(await oldRelease(lease.token)).to.equal(1);
      expect(await lease()).to.equal(false);
    });

    it('each waits for the other’s expiry', async () => {
      await oldAcquire('theirs', 400);
      const lease = await withLock.promise(key, { timeout: 20_000, lifetime: 1_000 });
      expect(lease.fence).to.be.greaterThan(0);
      await waitFor(async () => (await oldAcquire('theirs')) === 1);
      expect(await lease()).to.equal(false);
      expect(await holder()).to.equal('theirs');
    });
  });

  describe('fences', () => {
    it('all come from one counter, which has no end', async () => {
      const [one, other] = [await withLock.promise(key), await withLock.promise(`{${key}}:b`)];
      expect(other.fence).to.be.greaterThan(one.fence);
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(other.fence));
      expect(await ttl('redis-exp-lock:fence')).to.equal(-1);
      expect(await server.command('KEYS', `*${key}*:fence*`)).to.deep.equal([]);
    });

    it('no lock can take the name of a counter, in a cluster either', () => {
      for (const name of ['redis-exp-lock:fence', 'redis-exp-lock:fence:{5}', 'redis-exp-lock:fence:x']) {
        expect(() => lockKey(name, ''))
          .to.throw()
          .with.property('code', 'ERR_LOCK_OPTION');
      }
    });

    it('in a cluster: in the slot of the lock, one for each slot', () => {
      const counters = new Map<number, string>();
      for (let n = 0; n < 20_000; n++) {
        const fence = fenceKeyBeside(`key ${n}`);
        const slot = slotOf(`key ${n}`);
        expect(fence).to.match(/^redis-exp-lock:fence:\{[0-9a-z]+\}$/);
        expect(slotOf(fence)).to.equal(slot);
        expect(counters.get(slot) ?? fence).to.equal(fence);
        counters.set(slot, fence);
      }
      expect(new Set(counters.values()).size).to.equal(counters.size);
    });

    const keys = fc
      .array(fc.constantFrom('{', '}', 'a', 'b', ':', '.', 'fence', 'queue'), { minLength: 1, maxLength: 8 })
      .map((parts) => parts.join(''));
    const accepted = keys.filter((name) => {
      try {
        return lockKey(name, '') === name;
      } catch {
        return false;
      }
    });
    /** The part of a key that Redis Cluster hashes, in the words of its specification. */
    const hashed = (name: string): string => {
      const open = name.indexOf('{');
      const close = open < 0 ? -1 : name.indexOf('}', open + 1);
      return close < 0 || close === open + 1 ? name : name.slice(open + 1, close);
    };

    it('a queue lies in the slot of its lock, under a name that no lock can take', () => {
      fc.assert(
        fc.property(accepted, (name) => {
          const queue = companionOf(name, 'queue');
          expect(hashed(queue)).to.equal(hashed(name));
          expect(() => lockKey(queue, ''))
            .to.throw()
            .with.property('code', 'ERR_LOCK_OPTION');
        }),
        { numRuns: 2_000 },
      );
    });

    it('no two locks share a queue', () => {
      fc.assert(
        fc.property(fc.uniqueArray(accepted, { minLength: 2, maxLength: 30 }), (names) => {
          const queues = names.map((name) => companionOf(name, 'queue'));
          expect(new Set(queues).size).to.equal(names.length);
        }),
        { numRuns: 1_000 },
      );
    });

    it('a fence is the server’s time in µs, or one more than the last, in plain digits', async () => {
      const from = await serverMicros();
      const lease = await withLock.promise(key);
      expect(lease.fence).to.be.within(from, await serverMicros());
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.match(/^\d{16}$/);
    });

    it('1,000 grants: strictly rising safe integers', async () => {
      let last = 0;
      for (let n = 0; n < 1_000; n++) {
        const lease = await withLock.promise(key);
        expect(lease.fence).to.be.greaterThan(last);
        expect(Number.isSafeInteger(lease.fence)).to.equal(true);
        last = lease.fence;
        void lease();
      }
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(last));
    });

    it('a last fence that lies in the future: each grant is one more, 1,000 times', async () => {
      const future = (await serverMicros()) + hourMs * 1_000;
      await server.command('SET', 'redis-exp-lock:fence', future);
      for (let n = 1; n <= 1_000; n++) {
        const lease = await withLock.promise(key);
        expect(lease.fence).to.equal(future + n);
        void lease();
      }
    });

    it('H61: it rises over FLUSHALL too', async () => {
      const before = await withLock.promise(key);
      await server.command('FLUSHALL');
      const after = await withLock.promise(key);
      expect(after.fence).to.be.greaterThan(before.fence);
      expect(await before()).to.equal(false);
      expect(await after()).to.equal(true);
    });

    it('a busy attempt and an extension mint none', async () => {
      const lease = await withLock.promise(key);
      await withLock.tryLock(key);
      await lease.extend();
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(lease.fence));
    });

    it('several keys: one fence for all', async () => {
      const names = [`${key}:a`, `${key}:b`, `${key}:c`];
      const future = (await serverMicros()) + hourMs * 1_000;
      await server.command('SET', 'redis-exp-lock:fence', future);
      const lease = await withLock.promise(names);
      expect(lease.fence).to.equal(future + 1);
      for (const name of names) {
        expect(await holder(name)).to.equal(lease.token);
        expect(await ttl(name)).to.be.within(1, 10_000);
      }
      await lease();
      expect((await withLock.promise(names[0]!)).fence).to.equal(future + 2);
    });

    it('`fencing: false` writes no counter, and leaves one that is there alone', async () => {
      const lease = await withLock.promise(key, { fencing: false });
      expect(lease.fence).to.equal(0);
      expect(await server.command('EXISTS', 'redis-exp-lock:fence')).to.equal(0);
      await lease();
      const fenced = await withLock.promise(key);
      await fenced();
      const { called } = await recorded(async () => (await withLock.promise(key, { fencing: false }))());
      expect(called.flat()).not.to.include('redis-exp-lock:fence');
      expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(fenced.fence));
    });
  });
});
