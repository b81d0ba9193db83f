// Arguments, keys and servers that are not as they should be: nothing is taken, and nothing foreign is touched.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import * as scripts from '../../src/store/redis/scripts/generated';
import { failure, published } from '../contract/outcomes';
import { type Client, type RedisServer, startRedis } from '../support/redis';
import { useWire } from './wire';

describe('foreign keys and operators', () => {
  const stage = useWire();
  const { holder, ttl, freed, recorded, connected, proxied } = stage;
  let server: RedisServer;
  let client: Client;
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    ({ server, client, key, withLock } = stage);
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
    const run = ({ script, keys, args }: ReturnType<typeof scripts.acquire>): Promise<any> =>
      client.eval(script.lua, { keys: [...keys], arguments: [...args] });

    for (const lifetime of lifetimes) {
      it(`acquire with a lifetime of ${JSON.stringify(lifetime)}: an error, and no key at all`, async () => {
        const fence = 'redis-exp-lock:fence';
        const call = scripts.acquire(
          [key],
          [`{${key}}:queue`],
          fence,
          'token',
          lifetime,
          Number.MAX_SAFE_INTEGER,
          1,
          [],
        );
        const reply = await run(call).catch((error) => error);
        expect(await server.command('EXISTS', key, fence), 'keys that stay').to.equal(0);
        expect(reply).to.be.instanceOf(Error);
        expect(reply.message).to.contain('lifetime');
      });
    }

    it('acquire without a token, or with a deadline or a count that is no number: an error, and no key at all', async () => {
      const fence = 'redis-exp-lock:fence';
      for (const [token, notAfter, fences] of [
        ['', Number.MAX_SAFE_INTEGER, 1],
        ['token', '', 1],
        ['token', 'abc', 1],
        ['token', Number.MAX_SAFE_INTEGER, ''],
        ['token', Number.MAX_SAFE_INTEGER, 'abc'],
        ['token', Number.MAX_SAFE_INTEGER, -1],
        ['token', Number.MAX_SAFE_INTEGER, 1.5],
      ] as const) {
        await failure(run(scripts.acquire([key], [`{${key}}:queue`], fence, token, 1_000, notAfter, fences, [])));
        expect(await server.command('EXISTS', key, fence)).to.equal(0);
      }
    });

    it('acquire that runs too late takes nothing, and says so', async () => {
      const reply = await run(
        scripts.acquire([key], [`{${key}}:queue`], 'redis-exp-lock:fence', 'token', 1_000, 5, 1, []),
      );
      expect(reply).to.have.length(4).and.include.members([-1]);
      expect(await server.command('EXISTS', key, 'redis-exp-lock:fence')).to.equal(0);
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

    it('a caller with an impossible lifetime: an error before anything is sent', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through });
      for (const lifetime of [Number.NaN, 1.5, 0, -5, Number.POSITIVE_INFINITY, 2 ** 53, '', '1000']) {
        const error = await failure(lock.promise(key, { lifetime: lifetime as number }));
        expect(error, String(lifetime)).to.include({ code: 'ERR_LOCK_OPTION' });
      }
      expect(proxy.count('script')).to.equal(0);
    });

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
        const redisCode = kind === 'sorted set' ? 'FOREIGN' : 'WRONGTYPE';
        expect(await failure(withLock.inspect(key))).to.include({ redisCode });
        expect(await server.command('EXISTS', key)).to.equal(1);
        expect(await ttl()).to.equal(-1);
        expect(await server.command('EXISTS', 'redis-exp-lock:fence')).to.equal(0);
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
        await server.command('DEL', 'redis-exp-lock:fence');
        await server.command(command[0]!, 'redis-exp-lock:fence', command[1]!);
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

    it('PERSIST: still ours; an extension gives it an end again, and a release frees it', async () => {
      const lease = await withLock.promise(key);
      await server.command('PERSIST', key);
      expect(await lease.extend(30_000)).to.equal(true);
      expect(await ttl()).to.be.within(1, 30_000);
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
          const lock = redisExpLock({ redis: through, commandTimeout: 10_000 });
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
      const lock = redisExpLock({ redis: through, commandTimeout: 10_000 });
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
      const lock = redisExpLock({ redis: through, commandTimeout: 10_000 });
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
      const lock = redisExpLock({ redis: through, commandTimeout: 10_000 });
      const warnings = await published('redis-exp-lock:warning', async () => {
        expect(await lock.run(key, () => 'done')).to.equal('done');
        await through.ping();
      });
      expect(warnings).to.deep.equal([]);
    });
  });
});
