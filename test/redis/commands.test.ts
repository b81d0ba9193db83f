// How few commands it takes, one call or many in one tick, and when the server has forgotten the scripts.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { failure } from '../contract/outcomes';
import { replaceReply } from '../support/fault-proxy';
import { type RedisServer, startRedis } from '../support/redis';
import { useWire } from './wire';

describe('commands sent', () => {
  const stage = useWire();
  const { holder, ttl, freed, recorded, connected, proxied } = stage;
  let server: RedisServer;
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    ({ server, key, withLock } = stage);
  });

  describe('how few commands it takes', () => {
    it('one for an attempt and one for a release, from the very first on a fresh server', async () => {
      const fresh = await startRedis();
      const lock = redisExpLock({ redis: await connected(fresh), lifetime: 10_000, commandTimeout: 10_000 });
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
      await server.command(
        'ACL',
        'SETUSER',
        'some',
        'on',
        '>pw',
        `~*${key}:allowed*`,
        '~redis-exp-lock:fence*',
        '+@all',
      );
      const limited = await connected(server, { username: 'some', password: 'pw' });
      const lock = redisExpLock({ redis: limited, commandTimeout: 10_000 });
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

    it('H36: a caller that is aborted in the same tick does not disturb the others, and holds nothing in the end', async () => {
      const aborts = many(6).map(() => new AbortController());
      const waits = many(6).map((each, n) => withLock.promise(each, { signal: aborts[n]!.signal }));
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
      const lock = redisExpLock({ redis: await connected(own), lifetime: 30_000, commandTimeout: 5_000 });
      const before = await lock.promise(key);
      await own.kill();
      await own.restart();
      const after = await lock.promise(key, { timeout: 30_000, retryTimeout: 20 });
      expect(after.fence).to.be.greaterThan(before.fence);
      expect(await before()).to.equal(false);
      expect(await after()).to.equal(true);
      await own.discard();
    });
  });
});
