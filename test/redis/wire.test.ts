// What goes over the wire and what lies on the server: the format that old and new clients share, how few commands it takes,
// and what is made of answers, keys and servers that are not as they should be. The contract suite knows none of this.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import * as fc from 'fast-check';
import redisExpLock from '../../src/index';
import { companionOf, lockKey } from '../../src/keys';
import * as scripts from '../../src/scripts/generated';
import { failure, published, spin } from '../contract/outcomes';
import { type FaultProxy, holdReply, replaceReply, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import {
  type Client,
  type ClientOptions,
  connect,
  type RedisServer,
  recordCommands,
  startRedis,
  uniqueKey,
} from '../support/redis';

type WithLock = redisExpLock.WithLock;

const hourMs = 3_600_000;

/** As redis-exp-lock-js 0.0.2 sent them. */
const old = {
  acquire: `if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
      redis.call('pexpire', KEYS[1], ARGV[2])
      return 1
    else
      return 0
    end`,
  release: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
};

describe('wire', () => {
  let server: RedisServer;
  let client: Client;
  let withLock: WithLock;
  let key: string;

  before(async () => {
    server = await startRedis();
    client = await server.connect();
  });

  after(async () => {
    client.destroy();
    await server.discard();
  });

  // Clients and proxies of one test: gone after it, so that none redials while another test owns the clock.
  const clients: Client[] = [];
  const proxies: FaultProxy[] = [];

  afterEach(async () => {
    for (const each of clients.splice(0)) if (each.isOpen) each.destroy();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
  });

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: client, lifetime: 10_000 });
  });

  const holder = (name = key): Promise<string | null> => server.command('GET', name);
  const ttl = (name = key): Promise<number> => server.command('PTTL', name);
  const freed = (name = key): Promise<unknown> => waitFor(async () => (await server.command('EXISTS', name)) === 0);
  const serverMicros = async (): Promise<number> => {
    const [seconds, micros] = await server.command<[string, string]>('TIME');
    return Number(seconds) * 1_000_000 + Number(micros);
  };

  /** What was done about the key while `work` ran: sent by clients, and called by their scripts. */
  async function recorded(work: () => unknown, at = server): Promise<{ sent: string[]; called: string[][] }> {
    const recording = await recordCommands(at);
    await work();
    let ours = false;
    const sent: string[] = [];
    const called: string[][] = [];
    for (const { lua, args } of await recording.stop()) {
      if (!lua) ours = args.some((word) => word.includes(key));
      if (!ours) continue;
      if (lua) called.push([args[0]!.toUpperCase(), ...args.slice(1)]);
      else sent.push(args[0]!.toUpperCase());
    }
    return { sent, called };
  }

  async function connected(to: { url: string }, options?: ClientOptions): Promise<Client> {
    const made = await connect(to.url, options);
    clients.push(made);
    return made;
  }

  /** A way in through a proxy. */
  async function proxied(): Promise<{ proxy: FaultProxy; through: Client }> {
    const proxy = await startProxy(server.port);
    proxies.push(proxy);
    return { proxy, through: await connected(proxy) };
  }

  describe('how few commands it takes', () => {
    it('one for an attempt and one for a release, from the very first on a fresh server', async () => {
      const fresh = await startRedis();
      const lock = redisExpLock({ redis: await connected(fresh) });
      let lease!: redisExpLock.Lease;
      for (const [acquired, released] of [
        ['EVAL', 'EVAL'], // the server does not know the scripts yet
        ['EVALSHA', 'EVALSHA'],
        ['EVALSHA', 'EVALSHA'],
      ]) {
        const acquire = await recorded(async () => (lease = await lock.promise(key)), fresh);
        expect(acquire.sent).to.deep.equal([acquired]);
        const release = await recorded(() => lease(), fresh);
        expect(release.sent).to.deep.equal([released]);
      }
      await fresh.discard();
    });

    it('one for a busy attempt, an extension, an inspection, a second release: none', async () => {
      const lease = await withLock.promise(key);
      await withLock.inspect(key);
      await lease.extend();
      expect((await recorded(() => withLock.tryLock(key))).sent).to.deep.equal(['EVALSHA']);
      expect((await recorded(() => lease.extend(20_000))).sent).to.deep.equal(['EVALSHA']);
      expect((await recorded(() => withLock.inspect(key))).sent).to.deep.equal(['EVALSHA']);
      await lease();
      expect((await recorded(() => lease())).sent).to.deep.equal([]);
    });

    it('a key that is named twice goes over the wire once', async () => {
      const { called } = await recorded(async () => (await withLock.promise([key, key]))());
      for (const name of ['SETNX', 'PEXPIRE', 'DEL']) {
        expect(called.filter(([each]) => each === name)).to.have.length(1);
      }
    });

    it('several keys take no more', async () => {
      const keys = [`${key}:a`, `${key}:b`, `${key}:c`];
      const { sent } = await recorded(async () => (await withLock.promise(keys))());
      expect(sent).to.have.length(2);
    });

    it('`run` takes two, the callback form too', async () => {
      expect((await recorded(() => withLock.run(key, () => {}))).sent).to.have.length(2);
      const callback = (): Promise<void> =>
        new Promise((resolve) => withLock(key, (_err, done) => done!(() => resolve())));
      expect((await recorded(callback)).sent).to.have.length(2);
    });
  });

  describe('calls of one tick', () => {
    const many = (n: number): string[] => Array.from({ length: n }, (_, i) => `${key}:${i}`);

    it('share one command, and each has its own answer: acquires, extensions, releases', async () => {
      const keys = many(50);
      await server.command('SET', keys[7]!, 'a stranger', 'PX', 60_000);
      let leases: (redisExpLock.Lease | null)[] = [];
      const acquire = await recorded(async () => {
        leases = await Promise.all(keys.map((each) => withLock.tryLock(each)));
      });
      expect(acquire.sent).to.have.length(1);
      expect(leases.map((lease) => lease !== null)).to.deep.equal(keys.map((_, n) => n !== 7));
      const held = leases.filter((lease) => lease !== null);
      for (const lease of held) expect(await holder(lease.keys[0])).to.equal(lease.token);
      expect(new Set(held.map(({ token }) => token)).size).to.equal(49);

      await server.command('DEL', held[3]!.keys[0]!);
      await server.command('SET', held[4]!.keys[0]!, 'a stranger', 'PX', 60_000);
      const expected = held.map((_, n) => n !== 3 && n !== 4);
      let extended: boolean[] = [];
      const extension = await recorded(async () => {
        extended = await Promise.all(held.map((lease) => lease.extend(50_000)));
      });
      expect(extension.sent).to.have.length(1);
      expect(extended).to.deep.equal(expected);
      for (const [n, lease] of held.entries())
        if (expected[n]) expect(await ttl(lease.keys[0])).to.be.within(10_001, 50_000);

      let released: boolean[] = [];
      const release = await recorded(async () => {
        released = await Promise.all(held.map((lease) => lease()));
      });
      expect(release.sent).to.have.length(1);
      expect(released).to.deep.equal(expected);
      expect(await holder(held[4]!.keys[0])).to.equal('a stranger');
      for (const [n, lease] of held.entries()) if (n !== 4) expect(await holder(lease.keys[0])).to.equal(null);
    });

    it('keep their order: a release lets the acquire behind it in, and the first of two acquires wins', async () => {
      const lease = await withLock.promise(key);
      let answers: [boolean, redisExpLock.Lease | null, redisExpLock.Lease | null] | undefined;
      const { sent } = await recorded(async () => {
        answers = await Promise.all([lease(), withLock.tryLock(key), withLock.tryLock(key)]);
      });
      const [released, next, last] = answers!;
      expect(sent).to.have.length(1);
      expect(released).to.equal(true);
      expect(last).to.equal(null);
      expect(await holder()).to.equal(next!.token);
    });

    it('fences rise from grant to grant, also where a script reads no later time', async () => {
      let lease = await withLock.promise(key);
      for (let n = 0; n < 100; n++) {
        const [released, next] = await Promise.all([lease(), withLock.promise(key)]);
        expect(released).to.equal(true);
        expect(next.fence).to.be.greaterThan(lease.fence);
        lease = next;
      }
    });

    it('are cut into commands of 128', async () => {
      const keys = many(600);
      const { sent } = await recorded(() =>
        Promise.all(keys.map((each) => withLock.promise(each, { fencing: false }))),
      );
      expect(sent).to.have.length(5);
      expect(await server.command('EXISTS', ...keys)).to.equal(600);
      await withLock.close({ drain: false });
      expect(await server.command('EXISTS', ...keys)).to.equal(0);
    });

    it('H10: a key of another kind is the fault of its own caller only', async () => {
      const keys = many(5);
      await server.command('RPUSH', keys[2]!, 'a');
      const results = await Promise.allSettled(keys.map((each) => withLock.promise(each)));
      expect(results.map(({ status }) => status)).to.deep.equal(
        keys.map((_, n) => (n === 2 ? 'rejected' : 'fulfilled')),
      );
      const { reason } = results[2] as PromiseRejectedResult;
      expect(reason).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'WRONGTYPE', retryable: false, key: keys[2] });
    });

    it('a key without rights is the fault of its own caller only', async () => {
      await server.command('ACL', 'SETUSER', 'some', 'on', '>pw', `~*${key}:allowed*`, '+@all');
      const limited = await connected(server, { username: 'some', password: 'pw' });
      const lock = redisExpLock({ redis: limited });
      const keys = [`${key}:allowed:a`, `${key}:forbidden`, `${key}:allowed:b`];
      const results = await Promise.allSettled(keys.map((each) => lock.promise(each)));
      expect(results.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
      const { reason } = results[1] as PromiseRejectedResult;
      expect(reason).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM', retryable: false, key: keys[1] });
    });

    it('H53: a server that has forgotten the script gets it once more, for all', async () => {
      await Promise.all(many(3).map((each) => withLock.run(each, () => {})));
      await server.command('SCRIPT', 'FLUSH');
      const { sent } = await recorded(() => Promise.all(many(3).map((each) => withLock.promise(each))));
      expect(sent).to.deep.equal(['EVALSHA', 'EVAL']);
    });

    it('H5: a strange answer to all of them is nobody’s, and every key is freed', async () => {
      const keys = many(3);
      for (const raw of ['+OK\r\n', '_\r\n', '*0\r\n', '*1\r\n:4\r\n', '*5\r\n:4\r\n:1\r\n:5\r\n:0\r\n$1\r\n1\r\n']) {
        const { proxy, through } = await proxied();
        const lock = redisExpLock({ redis: through, lifetime: 60_000 });
        proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        for (const error of await Promise.all(keys.map((each) => failure(lock.promise(each))))) {
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND' });
        }
        for (const each of keys) await freed(each);
      }
    });

    it('H36: who is aborted in the same tick does not disturb the others, and holds nothing in the end', async () => {
      const aborts = many(6).map(() => new AbortController());
      const waits = many(6).map((each, n) =>
        withLock.promise(each, { signal: aborts[n]!.signal, commandTimeout: 500 }),
      );
      aborts[1]!.abort();
      aborts[4]!.abort();
      const results = await Promise.allSettled(waits);
      expect(results.map(({ status }) => status === 'fulfilled')).to.deep.equal(
        many(6).map((_, n) => n !== 1 && n !== 4),
      );
      await freed(`${key}:1`);
      await freed(`${key}:4`);
      expect(await holder(`${key}:0`)).not.to.equal(null);
    });
  });

  describe('H53: a server that has forgotten the scripts', () => {
    it('SCRIPT FLUSH: one EVAL more, once for each script, invisible to the caller', async () => {
      await (await withLock.promise(key))();
      await server.command('SCRIPT', 'FLUSH');
      let lease!: redisExpLock.Lease;
      const acquire = await recorded(async () => (lease = await withLock.promise(key)));
      expect(acquire.sent).to.deep.equal(['EVALSHA', 'EVAL']);
      expect(await holder()).to.equal(lease.token);
      const release = await recorded(async () => expect(await lease()).to.equal(true));
      expect(release.sent).to.deep.equal(['EVALSHA', 'EVAL']);
      expect((await recorded(() => withLock.run(key, () => {}))).sent).to.deep.equal(['EVALSHA', 'EVALSHA']);
    });

    it('SCRIPT FLUSH before an extension, an inspection and a busy attempt', async () => {
      const lease = await withLock.promise(key);
      for (const ask of [() => lease.extend(20_000), () => withLock.inspect(key), () => withLock.tryLock(key)]) {
        const expected = await ask();
        await server.command('SCRIPT', 'FLUSH');
        const again = await ask();
        if (typeof expected !== 'object' || expected === null) expect(again).to.equal(expected);
        else expect(again).to.include({ locked: true, owner: null });
      }
      expect(await lease()).to.equal(true);
    });

    it('a restart: the same factory goes on, and the fence still rises', async () => {
      const own = await startRedis();
      const lock = redisExpLock({ redis: await connected(own), lifetime: 10_000, commandTimeout: 5_000 });
      const before = await lock.promise(key);
      await own.kill();
      await own.restart();
      const after = await lock.promise(key, { timeout: 10_000, retryTimeout: 20 });
      expect(after.fence).to.be.greaterThan(before.fence);
      expect(await before()).to.equal(false);
      expect(await after()).to.equal(true);
      await own.discard();
    });
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
      const fence = `{${key}}:fence`;
      const queue = `{${key}}:queue`;
      const token = await holder();
      expect(called.map(([name]) => name)).to.deep.equal(['TIME', 'GET', 'ZCARD', 'GET', 'PSETEX', 'SETNX', 'PEXPIRE']);
      expect(called.slice(1).map(([, name]) => name)).to.deep.equal([key, queue, fence, fence, key, key]);
      expect(called[5]).to.deep.equal(['SETNX', key, token]);
      expect(called[6]).to.deep.equal(['PEXPIRE', key, '10000']);
    });

    it('a busy attempt writes nothing', async () => {
      const lease = await withLock.promise(key);
      const { called } = await recorded(() => withLock.tryLock(key));
      expect(called.map(([name]) => name)).to.have.members(['TIME', 'GET', 'PTTL']);
      expect(await server.command('GET', `{${key}}:fence`)).to.equal(String(lease.fence));
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

    it('nothing but the lock and its fence is left, and after a release only the fence', async () => {
      await server.command('FLUSHALL');
      const lease = await withLock.promise(key);
      expect(await server.command('KEYS', '*')).to.have.members([key, `{${key}}:fence`]);
      await lease();
      expect(await server.command('KEYS', '*')).to.deep.equal([`{${key}}:fence`]);
    });

    it('lifetime null: 10 s until our reply was read, permanent only then', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: null });
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

    it('lifetime null: a grant that cannot be made permanent is an error, and is given back', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: null });
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
      const lease = await withLock.promise(key, { timeout: 10_000, lifetime: 500 });
      expect(lease.fence).to.be.greaterThan(0);
      await waitFor(async () => (await oldAcquire('theirs')) === 1);
      expect(await lease()).to.equal(false);
      expect(await holder()).to.equal('theirs');
    });
  });

  describe('fences', () => {
    it('the fence lies beside the lock, in its cluster slot, under a name that nothing else has', async () => {
      const id = randomUUID();
      for (const [name, fence] of [
        [`plain-${id}`, `{plain-${id}}:fence`],
        [`{tag-${id}}:x`, `{tag-${id}}:x:fence`],
        [`x{tag-${id}}`, `x{tag-${id}}:fence`],
        [`{x-${id}}`, `{x-${id}}:fence.`],
        [`{open-${id}`, `{{open-${id}}:fence`],
      ] as const) {
        const lease = await withLock.promise(name);
        expect(await server.command('GET', fence), fence).to.equal(String(lease.fence));
        await lease();
      }
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
    /** What Redis Cluster hashes of a key, in the words of its specification. */
    const hashed = (name: string): string => {
      const open = name.indexOf('{');
      const close = open < 0 ? -1 : name.indexOf('}', open + 1);
      return close < 0 || close === open + 1 ? name : name.slice(open + 1, close);
    };

    it('for every key that is accepted: same slot, and no lock can take the name', () => {
      fc.assert(
        fc.property(accepted, (name) => {
          const fence = companionOf(name, 'fence');
          expect(hashed(fence)).to.equal(hashed(name));
          expect(() => lockKey(fence, ''))
            .to.throw()
            .with.property('code', 'ERR_LOCK_OPTION');
        }),
        { numRuns: 2_000 },
      );
    });

    it('no two locks share one', () => {
      fc.assert(
        fc.property(fc.uniqueArray(accepted, { minLength: 2, maxLength: 30 }), (names) => {
          const fences = names.map((name) => companionOf(name, 'fence'));
          expect(new Set(fences).size).to.equal(names.length);
        }),
        { numRuns: 1_000 },
      );
    });

    it('a fence is the server’s time in µs, or one more than the last, in plain digits', async () => {
      const from = await serverMicros();
      const lease = await withLock.promise(key);
      expect(lease.fence).to.be.within(from, await serverMicros());
      expect(await server.command('GET', `{${key}}:fence`)).to.match(/^\d{16}$/);
    });

    it('its key is forgotten an hour after the last grant', async () => {
      await withLock.promise(key);
      expect(await ttl(`{${key}}:fence`)).to.be.within(hourMs - 60_000, hourMs);
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
      expect(await server.command('GET', `{${key}}:fence`)).to.equal(String(last));
    });

    it('a last fence that lies in the future: each grant is one more, 1,000 times, and it is kept an hour longer still', async () => {
      const future = (await serverMicros()) + hourMs * 1_000;
      await server.command('SET', `{${key}}:fence`, future);
      for (let n = 1; n <= 1_000; n++) {
        const lease = await withLock.promise(key);
        expect(lease.fence).to.equal(future + n);
        void lease();
      }
      expect(await ttl(`{${key}}:fence`)).to.be.within(2 * hourMs - 60_000, 2 * hourMs);
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
      expect(await server.command('GET', `{${key}}:fence`)).to.equal(String(lease.fence));
    });

    it('several keys: the largest of all, written back to each', async () => {
      const names = [`${key}:a`, `${key}:b`, `${key}:c`];
      const future = (await serverMicros()) + hourMs * 1_000;
      await server.command('SET', `{${names[1]}}:fence`, future);
      const lease = await withLock.promise(names);
      expect(lease.fence).to.equal(future + 1);
      for (const name of names) {
        expect(await server.command('GET', `{${name}}:fence`)).to.equal(String(future + 1));
        expect(await holder(name)).to.equal(lease.token);
        expect(await ttl(name)).to.be.within(1, 10_000);
      }
      await lease();
      expect((await withLock.promise(names[0]!)).fence).to.equal(future + 2);
    });

    it('`fencing: false` writes no fence key, and leaves one that is there alone', async () => {
      const lease = await withLock.promise(key, { fencing: false });
      expect(lease.fence).to.equal(0);
      expect(await server.command('EXISTS', `{${key}}:fence`)).to.equal(0);
      await lease();
      const fenced = await withLock.promise(key);
      await fenced();
      const { called } = await recorded(async () => (await withLock.promise(key, { fencing: false }))());
      expect(called.flat()).not.to.include(`{${key}}:fence`);
      expect(await server.command('GET', `{${key}}:fence`)).to.equal(String(fenced.fence));
    });
  });

  describe('H1: a script does not trust its arguments', () => {
    const lifetimes = [
      'NaN',
      'nan',
      '',
      '1.5',
      '0',
      '-5',
      'abc',
      '1e400',
      'inf',
      '9007199254740992',
      'undefined',
      'null',
      '-0',
      '1e-3',
    ];
    const run = ({ script, keys, args }: ReturnType<typeof scripts.acquire>): Promise<unknown> =>
      client.eval(script.lua, { keys: [...keys], arguments: [...args] });

    for (const lifetime of lifetimes) {
      it(`acquire with a lifetime of ${JSON.stringify(lifetime)}: an error, and no key at all`, async () => {
        const fence = `{${key}}:fence`;
        const error = await failure(
          run(scripts.acquire([key], [fence], [`{${key}}:queue`], 'token', lifetime, Number.MAX_SAFE_INTEGER, 1, [])),
        );
        expect(error.message).to.contain('lifetime');
        expect(await server.command('EXISTS', key, fence)).to.equal(0);
      });
    }

    it('acquire without a token, or with a deadline or a count that is no number: an error, and no key at all', async () => {
      const fence = `{${key}}:fence`;
      for (const [token, notAfter, fences] of [
        ['', Number.MAX_SAFE_INTEGER, 1],
        ['token', '', 1],
        ['token', 'abc', 1],
        ['token', Number.MAX_SAFE_INTEGER, ''],
        ['token', Number.MAX_SAFE_INTEGER, 'abc'],
        ['token', Number.MAX_SAFE_INTEGER, -1],
        ['token', Number.MAX_SAFE_INTEGER, 1.5],
      ] as const) {
        await failure(run(scripts.acquire([key], [fence], [`{${key}}:queue`], token, 1_000, notAfter, fences, [])));
        expect(await server.command('EXISTS', key, fence)).to.equal(0);
      }
    });

    it('acquire that runs too late takes nothing, and says so', async () => {
      const reply = await run(scripts.acquire([key], [`{${key}}:fence`], [`{${key}}:queue`], 'token', 1_000, 5, 1, []));
      expect(reply).to.have.length(4).and.include.members([-1]);
      expect(await server.command('EXISTS', key, `{${key}}:fence`)).to.equal(0);
    });

    for (const lifetime of lifetimes.filter((each) => each !== '0' && each !== '-0')) {
      it(`extend with a lifetime of ${JSON.stringify(lifetime)}: an error, and nothing is changed`, async () => {
        await server.command('SET', key, 'token', 'PX', 60_000);
        const error = await failure(run(scripts.extend([key], 'token', lifetime, 1, Number.MAX_SAFE_INTEGER)));
        expect(error.message).to.contain('lifetime');
        expect(await holder()).to.equal('token');
        expect(await ttl()).to.be.within(10_000, 60_000);
      });
    }

    it('extend: one of several locks is gone: the others are not changed', async () => {
      const names = [`${key}:a`, `${key}:b`];
      await server.command('SET', names[0]!, 'token', 'PX', 60_000);
      const [result] = (await run(scripts.extend(names, 'token', 500_000, 1, Number.MAX_SAFE_INTEGER))) as number[];
      expect(result).to.equal(0);
      expect(await ttl(names[0])).to.be.within(10_000, 60_000);
    });
  });

  describe('H10: a key of another kind', () => {
    const kinds: [kind: string, make: (name: string) => Promise<unknown>][] = [
      ['list', (name) => server.command('RPUSH', name, 'a')],
      ['hash', (name) => server.command('HSET', name, 'a', 'b')],
      ['set', (name) => server.command('SADD', name, 'a')],
      ['sorted set', (name) => server.command('ZADD', name, 1, 'a')],
      ['stream', (name) => server.command('XADD', name, '*', 'a', 'b')],
    ];
    for (const [kind, make] of kinds) {
      it(`${kind}: an error by name, at once and not "busy" for ever; it is left alone`, async () => {
        await make(key);
        for (const wait of [{}, { timeout: Number.POSITIVE_INFINITY }, { maxRetries: Number.POSITIVE_INFINITY }]) {
          const error = await failure(withLock.promise(key, wait));
          expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'WRONGTYPE', retryable: false, key });
          expect(error.cause).to.be.instanceOf(Error);
        }
        expect(await failure(withLock.tryLock(key))).to.include({ redisCode: 'WRONGTYPE' });
        // Of several holders `inspect` can tell: that these are not ours.
        const redisCode = kind === 'sorted set' ? 'FOREIGN' : 'WRONGTYPE';
        expect(await failure(withLock.inspect(key))).to.include({ redisCode });
        expect(await server.command('EXISTS', key)).to.equal(1);
        expect(await ttl()).to.equal(-1);
        expect(await server.command('EXISTS', `{${key}}:fence`)).to.equal(0);
      });
    }

    it('one of several keys: none is taken', async () => {
      await server.command('RPUSH', `${key}:b`, 'a');
      const error = await failure(withLock.promise([`${key}:a`, `${key}:b`]));
      expect(error).to.include({ redisCode: 'WRONGTYPE', retryable: false });
      expect(await holder(`${key}:a`)).to.equal(null);
    });

    it('a held key that became another kind: extend and release say that it is not ours, and leave it alone', async () => {
      const lease = await withLock.promise(key);
      await server.command('DEL', key);
      await server.command('RPUSH', key, 'a');
      expect(await lease.extend()).to.equal(false);
      expect(await lease()).to.equal(false);
      expect(await server.command('TYPE', key)).to.equal('list');
    });

    it('H82: a fence of another kind, no number, or far ahead of the clock: an error by name, and no lock', async () => {
      const afterTomorrow = String((Date.now() + 2 * 86_400_000) * 1000);
      for (const [redisCode, ...command] of [
        ['WRONGTYPE', 'RPUSH', 'a'],
        ...['abc', 'inf', 'nan', '9007199254740993', '1e300', afterTomorrow].map((text) => ['FENCE', 'SET', text]),
      ] as [string, string, string][]) {
        await server.command('DEL', `{${key}}:fence`);
        await server.command(command[0]!, `{${key}}:fence`, command[1]!);
        expect(await failure(withLock.promise(key))).to.include({ redisCode, retryable: false });
        expect(await holder()).to.equal(null);
      }
    });

    it('a foreign string without an end: busy, and inspect says for ever', async () => {
      await server.command('SET', key, 'foreign');
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await withLock.inspect(key)).to.include({
        locked: true,
        owner: null,
        remaining: Number.POSITIVE_INFINITY,
      });
      expect(await holder()).to.equal('foreign');
    });

    it('an empty foreign string is a holder too', async () => {
      await server.command('SET', key, '');
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await withLock.inspect(key)).to.include({ locked: true });
    });
  });

  describe('H5: only the exact reply means held', () => {
    const array = (...items: string[]): string => `*${items.length}\r\n${items.join('')}`;
    const int = (n: number): string => `:${n}\r\n`;
    const text = (word: string): string => `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
    const replies: Record<string, string> = {
      '"0"': text('0'),
      '"1"': text('1'),
      '""': text(''),
      null: '_\r\n',
      'null of RESP2': '$-1\r\n',
      '+QUEUED': '+QUEUED\r\n',
      '+OK': '+OK\r\n',
      'a bulk string': text(randomUUID()),
      'the number 1': int(1),
      'the number 0': int(0),
      true: '#t\r\n',
      'an empty array': array(),
      'an array that is too short': array(int(1), int(5), int(0)),
      'an array that is too long': array(int(1), int(5), int(0), int(1), int(1)),
      'an array of strings': array(text('1'), text('5'), text('0'), text('1')),
      'an array with one string': array(int(1), text('5'), int(0), int(1)),
      'an array with a null': array(int(1), '_\r\n', int(0), int(1)),
      'an array with a fraction': array(int(1), ',1.5\r\n', int(0), int(1)),
      'an array in an array': array(array(int(1), int(5), int(0), int(1))),
      'a status that nobody knows': array(int(7), int(5), int(0), int(1)),
    };
    const acquires = (args: readonly string[]): boolean =>
      /^EVAL(SHA)?$/i.test(args[0]!) &&
      scripts.scripts.some(({ name, sha, lua }) => name === 'acquire' && [sha, lua].includes(args[1]!));
    for (const [what, raw] of Object.entries(replies)) {
      it(`${what}: not held, ERR_LOCK_BACKEND, and the key is freed`, async () => {
        const { proxy, through } = await proxied();
        const lock = redisExpLock({ redis: through, lifetime: 60_000 });
        proxy.rule({ match: acquires }, replaceReply(raw));
        for (const wait of [{ maxRetries: 0 }, { maxRetries: 2 }]) {
          const error = await failure(lock.promise(key, wait));
          expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key });
          await freed();
        }
        expect((await failure(lock.tryLock(key))).code).to.equal('ERR_LOCK_BACKEND');
        await freed();
      });
    }

    it('a strange reply to an extension: an error, and neither held longer nor lost', async () => {
      const { proxy, through } = await proxied();
      const lease = await redisExpLock({ redis: through, lifetime: 10_000 }).promise(key);
      for (const raw of ['+OK\r\n', '_\r\n', int(1), array(int(1)), array(text('1'), text('1'))]) {
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lease.extend(60_000))).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
        expect(lease.remaining()).to.be.within(1, 10_000);
        expect(lease.signal.aborted).to.equal(false);
      }
      expect(await lease.extend(60_000)).to.equal(true);
    });

    it('a strange reply to a release: an error and not `true`; it can be tried again', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: 10_000 });
      for (const raw of ['+OK\r\n', '_\r\n', int(1), array(int(1), int(1)), array(text('1')), array()]) {
        const lease = await lock.promise(key);
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lease())).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
        expect(await lease()).to.equal(false); // the first one had freed it
      }
    });

    it('a strange reply to an inspection: an error', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through });
      for (const raw of ['+OK\r\n', '_\r\n', int(1), array(), array(int(1), int(1))]) {
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lock.inspect(key))).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
      }
    });

    it('H11: no token in the error of a failed acquire', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, owner: 'billing', commandTimeout: 400 });
      const tokens = (): string[] =>
        proxy.commands.flatMap(({ args }) => args.filter((arg) => arg.startsWith('billing_')));
      const rule = proxy.rule({ match: acquires }, replaceReply('+QUEUED\r\n'));
      const strange = await failure(lock.promise(key));
      rule.remove();
      await server.command('RPUSH', `${key}:list`, 'a');
      const refused = await failure(lock.promise(`${key}:list`));
      proxy.blackHole();
      const silent = await failure(lock.promise(key));
      expect(new Set(tokens()).size).to.be.greaterThan(2);
      for (const error of [strange, refused, silent]) {
        const shown = inspect(error, { depth: 9 }) + JSON.stringify(error) + error.stack;
        for (const token of tokens()) expect(shown).not.to.contain(token.slice('billing_'.length));
      }
    });
  });

  describe('H6 and H7: the time between', () => {
    it('H6: a server that stands still for longer than the lifetime: not granted, and released', async () => {
      await (await withLock.promise(key))();
      for (const stall of [
        () => server.command('CLIENT', 'PAUSE', 1_000, 'ALL'),
        () => void server.command('DEBUG', 'SLEEP', 1),
      ]) {
        const { called } = await recorded(async () => {
          await stall();
          await sleep(20);
          const error = await failure(withLock.promise(key, { lifetime: 200, commandTimeout: 5_000 }));
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key });
          await freed();
          await withLock.close();
        });
        expect(called.filter(([name]) => name === 'SETNX')).to.have.length(1);
        expect(called).to.deep.include(['DEL', key]);
        withLock = redisExpLock({ redis: client, lifetime: 10_000 });
      }
    });

    it('H7: a process that stands still between reply and callback: an error, and the key is given back', async () => {
      let stalls = true;
      // A client whose reply is followed, in the same turn, by something that takes longer than the lifetime.
      const stalling = (work: Promise<unknown>): Promise<unknown> =>
        work.then((reply) => {
          if (stalls) process.nextTick(() => spin(600));
          stalls = false;
          return reply;
        });
      const slow = {
        isReady: true,
        isOpen: true,
        evalSha: (...args: Parameters<Client['evalSha']>) => stalling(client.evalSha(...args)),
        eval: (...args: Parameters<Client['eval']>) => stalling(client.eval(...args)),
      };
      const lock = redisExpLock({ redis: slow, lifetime: 500 });
      const { called } = await recorded(async () => {
        const results = await new Promise<unknown[]>((resolve) => lock(key, (...args: unknown[]) => resolve(args)));
        expect(results).to.have.length(1);
        expect(results[0]).to.be.instanceOf(redisExpLock.LockBackendError);
        await freed();
        await lock.close();
      });
      // It asked for the release itself: expiry is only the last resort.
      expect(called.filter(([name, each]) => name === 'GET' && each === key)).to.have.length(2);
    });
  });

  describe('H61: an operator interferes', () => {
    it('DEL, FLUSHALL, RENAME: extend says false, release says false, and the key is not made again', async () => {
      for (const interfere of [
        () => server.command('DEL', key),
        () => server.command('FLUSHALL'),
        () => server.command('RENAME', key, `${key}:elsewhere`),
      ]) {
        const lease = await withLock.promise(key);
        const { signal } = lease;
        await interfere();
        expect(await lease.extend()).to.equal(false);
        expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'missing' });
        expect(await lease()).to.equal(false);
        expect(await holder()).to.equal(null);

        const unextended = await withLock.promise(key);
        expect(unextended.fence).to.be.greaterThan(lease.fence);
        await interfere();
        expect(await unextended()).to.equal(false);
      }
    });

    it('SET by somebody: extend says false, release says false, and theirs stays', async () => {
      const lease = await withLock.promise(key);
      await server.command('SET', key, 'theirs');
      expect(await lease.extend()).to.equal(false);
      expect(await lease()).to.equal(false);
      expect(await holder()).to.equal('theirs');
    });

    it('PERSIST: still ours; an extension gives it an end again, and a release frees it', async () => {
      const lease = await withLock.promise(key);
      await server.command('PERSIST', key);
      expect(await lease.extend(5_000)).to.equal(true);
      expect(await ttl()).to.be.within(1, 5_000);
      await server.command('PERSIST', key);
      expect(await lease()).to.equal(true);
      expect(await holder()).to.equal(null);
    });

    it('PEXPIRE to a sooner end: lost at the next extension', async () => {
      const lease = await withLock.promise(key);
      await server.command('PEXPIRE', key, 1);
      await freed();
      expect(await lease.extend()).to.equal(false);
      expect(lease.remaining()).to.equal(0);
    });

    it('under `run`: the function’s signal says so at the next renewal', async () => {
      const running = withLock.run(key, { lifetime: 600 }, async (lease) => {
        await server.command('DEL', key);
        await waitFor(() => lease.signal.aborted);
        return lease.signal.reason.reason;
      });
      expect(await failure(running)).to.include({ reason: 'missing', result: 'missing' });
    });
  });

  describe('H60: a server that may evict held locks', () => {
    let evicting: RedisServer;

    beforeEach(async () => {
      evicting = await startRedis();
      await evicting.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
    });

    afterEach(() => evicting.discard());

    const asked = async (): Promise<number> => {
      const info = await evicting.command<string>('INFO', 'commandstats');
      return Number(/cmdstat_config\|get:calls=(\d+)/.exec(info)?.[1] ?? 0);
    };

    it('warns once, however many locks and factories use the client', async () => {
      const through = await connected(evicting);
      const warnings = await published('redis-exp-lock:warning', async () => {
        for (let n = 0; n < 3; n++) {
          const lock = redisExpLock({ redis: through });
          await lock.run(`${key}:${n}`, () => {});
          await lock.run(`${key}:${n}`, () => {});
        }
        await through.ping();
      });
      expect(warnings.map(({ code, key: of }) => [code, of])).to.deep.equal([['eviction', null]]);
      expect(warnings[0].message).to.contain('volatile-lru').and.to.contain('noeviction');
      expect(await asked()).to.equal(1);
    });

    it('asks nothing while nobody listens, and once when somebody does', async () => {
      const through = await connected(evicting);
      const lock = redisExpLock({ redis: through });
      const { sent } = await recorded(() => lock.run(key, () => {}), evicting);
      expect(sent).to.deep.equal(['EVAL', 'EVAL']);
      expect(await asked()).to.equal(0);
      const warnings = await published('redis-exp-lock:warning', async () => {
        await lock.run(key, () => {});
        await through.ping(); // its answer comes behind that of CONFIG GET
      });
      expect(await asked()).to.equal(1);
      expect(warnings).to.have.length(1);
    });

    it('says nothing where nothing is evicted', async () => {
      await evicting.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
      const through = await connected(evicting);
      const lock = redisExpLock({ redis: through });
      const warnings = await published('redis-exp-lock:warning', async () => {
        await lock.run(key, () => {});
        await through.ping();
      });
      expect(await asked()).to.equal(1);
      expect(warnings).to.deep.equal([]);
    });

    it('says nothing where CONFIG may not be read, and locks all the same', async () => {
      await evicting.command('ACL', 'SETUSER', 'lock', 'on', '>pw', '~*', '&*', '+@all', '-config');
      const through = await connected(evicting, { username: 'lock', password: 'pw' });
      const lock = redisExpLock({ redis: through });
      const warnings = await published('redis-exp-lock:warning', async () => {
        expect(await lock.run(key, () => 'done')).to.equal('done');
        await through.ping();
      });
      expect(warnings).to.deep.equal([]);
    });
  });
});
