// H12: what may be asked for. Whatever is impossible is refused by name, before any I/O: thrown in the callback form and by
// the factory, rejected by the promise forms. Whatever is odd but possible works.
import { inspect } from 'node:util';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { uniqueKey } from '../support/redis';
import { failure, thrown } from './outcomes';
import { type Connection, describeEach } from './places';

type WithLock = redisExpLock.WithLock;

const notNumbers = ['5', '', 5n, true, null, {}, [], [5], Symbol('5'), () => 5, new Date(0), new Number(5)];
const notFinite = [Number.NaN, Number.NEGATIVE_INFINITY];
const notWhole = [0.5, 1.5, 2 ** 53, 1e300];
const notBooleans = [0, 1, 'true', '', null, {}, []];
const notStrings = [0, 5, 5n, true, null, {}, [], ['a'], Symbol('a'), () => 'a', Buffer.from('a')];
const tooLongForATimer = 2 ** 31;

/** With one of these a wait would never end. */
const halfSignals = [
  { aborted: false, addEventListener() {} },
  { aborted: false, removeEventListener() {} },
  { aborted: 'no', addEventListener() {}, removeEventListener() {} },
  new EventTarget(),
];
const refuse = (): never => {
  throw new Error('mine');
};
/** Reading one of these throws. */
const touchy: [name: string, value: unknown][] = [
  ['an inspect.custom that throws', { [inspect.custom]: refuse }],
  ['a toString that throws', { toString: refuse, valueOf: refuse, [Symbol.toPrimitive]: refuse }],
  ['a toStringTag that throws', Object.defineProperty({}, Symbol.toStringTag, { get: refuse })],
  ['a Proxy whose traps throw', new Proxy({}, { get: refuse, has: refuse, ownKeys: refuse, getPrototypeOf: refuse })],
  ['a function of this kind', Object.assign(() => {}, { [inspect.custom]: refuse })],
];

/** By option: of the wrong kind (TypeError), of the right kind and impossible (RangeError), possible. */
const values: Record<
  string,
  { wrong: readonly unknown[]; impossible: readonly unknown[]; possible: readonly unknown[] }
> = {
  lifetime: {
    wrong: notNumbers.filter((value) => value !== null),
    impossible: [...notFinite, ...notWhole, Number.POSITIVE_INFINITY, 0, -0, -1, -5],
    possible: [null, 60_000, Number.MAX_SAFE_INTEGER],
  },
  maxRetries: {
    wrong: notNumbers,
    impossible: [...notFinite, ...notWhole, -1],
    possible: [0, -0, 1, Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER],
  },
  retryTimeout: {
    wrong: notNumbers,
    impossible: [...notFinite, Number.POSITIVE_INFINITY, -1, -0.1, tooLongForATimer],
    possible: [0, 0.5, 5, tooLongForATimer - 1],
  },
  retryRatio: {
    wrong: notNumbers,
    impossible: [...notFinite, Number.POSITIVE_INFINITY, -1],
    possible: [1, 1.5, 10],
  },
  maxRetryTimeout: {
    wrong: notNumbers,
    impossible: [...notFinite, Number.POSITIVE_INFINITY, -1, tooLongForATimer],
    possible: [0, 0.5, 500],
  },
  jitter: {
    wrong: notNumbers,
    impossible: [...notFinite, -0.1, 1.1, 2, Number.POSITIVE_INFINITY],
    possible: [0, 0.5, 1],
  },
  timeout: {
    wrong: notNumbers,
    impossible: [...notFinite, -1, -0.1],
    possible: [0, 1000.5, 2 ** 40, Number.POSITIVE_INFINITY],
  },
  signal: {
    wrong: ['abort', 5, true, null, {}, [], { aborted: false }, new AbortController(), () => {}, ...halfSignals],
    impossible: [],
    possible: [new AbortController().signal, AbortSignal.any([])],
  },
  autoExtend: { wrong: notBooleans, impossible: [], possible: [true, false] },
  maxHold: { wrong: notNumbers, impossible: [...notFinite, 0, -1], possible: [0.5, 1000, Number.POSITIVE_INFINITY] },
  owner: {
    wrong: notStrings,
    impossible: ['', 'x'.repeat(257), 'lone \ud800 surrogate'],
    possible: ['a', 'billing_1', 'x'.repeat(256), 'ü😀\r\n\0'],
  },
  prefix: {
    wrong: notStrings,
    impossible: ['lone \udfff surrogate', 'x'.repeat(1024)],
    possible: ['', 'app:', '{tag}:', 'ü😀\r\n\0'],
  },
  fencing: { wrong: notBooleans, impossible: [], possible: [true, false] },
  minReplicas: {
    wrong: notNumbers,
    impossible: [...notFinite, ...notWhole, -1, Number.POSITIVE_INFINITY],
    possible: [0],
  },
  commandTimeout: {
    wrong: notNumbers,
    impossible: [...notFinite, ...notWhole, 0, -1, Number.POSITIVE_INFINITY, tooLongForATimer],
    possible: [30_000, tooLongForATimer - 1],
  },
};

/** Names that other libraries use, and what the message has to say. */
/** The advice in the message about another library's option: what to use here, and in which unit. */
const elsewhere: Record<string, readonly string[]> = {
  expiry: ['`lifetime`', 'milliseconds'],
  exptime: ['`lifetime`', 'milliseconds'],
  ttl: ['`lifetime`', 'milliseconds'],
  duration: ['`lifetime`', 'milliseconds'],
  leaseTime: ['`lifetime`', 'milliseconds'],
  lockTimeout: ['`lifetime`', 'milliseconds'],
  LockTTL: ['`lifetime`', 'milliseconds'],
  waitTime: ['`timeout`', 'milliseconds'],
  acquireTimeout: ['`timeout`', 'milliseconds'],
  blocking_timeout: ['`timeout`', 'milliseconds'],
  retries: ['`maxRetries`', 'number'],
  retryCount: ['`maxRetries`', 'number'],
  RetryCount: ['`maxRetries`', 'number'],
  acquireAttemptsLimit: ['`maxRetries`', 'number', 'one less'],
  interval: ['`retryTimeout`', 'milliseconds'],
  retryDelay: ['`retryTimeout`', 'milliseconds'],
  retryInterval: ['`retryTimeout`', 'milliseconds'],
  RetryInterval: ['`retryTimeout`', 'milliseconds'],
  max_step: ['`maxRetryTimeout`', 'milliseconds'],
  retryJitter: ['`jitter`', 'from 0 to 1'],
  driftFactor: ['`lifetime`', 'thousandth'],
  automaticExtensionThreshold: ['`autoExtend`', 'true or false'],
  refreshInterval: ['`autoExtend`', 'true or false'],
  onLockLost: ['`lease.signal`', 'AbortSignal'],
  identifier: ['`owner`', 'label'],
  acquiredExternally: ['`withLock.adopt(detached)`'],
  client: ['`redis`'],
  AppID: ['`prefix`', 'label'],
  ReaderLockToken: ['`readers`'],
  Mode: ['`prefer`'],
  Context: ['`signal`', 'AbortSignal'],
};

/** Slips of the pen, and what was meant. */
const nearMisses: Record<string, string> = {
  tiemout: 'timeout',
  timeOut: 'timeout',
  liftime: 'lifetime',
  Lifetime: 'lifetime',
  lifetme: 'lifetime',
  maxRetry: 'maxRetries',
  maxretries: 'maxRetries',
  reddis: 'redis',
  autoextend: 'autoExtend',
  autoExtends: 'autoExtend',
  commandTimeOut: 'commandTimeout',
  minReplica: 'minReplicas',
  sginal: 'signal',
};

const badKeys: [what: string, key: unknown, errorClass: typeof TypeError | typeof RangeError][] = [
  ['no key', undefined, TypeError],
  ['null', null, TypeError],
  ['a number', 5, TypeError],
  ['a bigint', 5n, TypeError],
  ['a boolean', true, TypeError],
  ['an object', {}, TypeError],
  ['a String object', new String('a'), TypeError],
  ['a Buffer', Buffer.from('a'), TypeError],
  ['a symbol', Symbol('a'), TypeError],
  ['a Set', new Set(['a']), TypeError],
  ['an array-like', { length: 1, 0: 'a' }, TypeError],
  ['the empty string', '', RangeError],
  ['no keys', [], RangeError],
  ['an empty string among keys', ['a', ''], RangeError],
  ['a number among keys', ['a', 5], TypeError],
  ['a list among keys', ['a', ['b']], TypeError],
  ['undefined among keys', ['a', undefined], TypeError],
  ['a hole among keys', Object.assign(new Array(2), { 1: 'a' }), TypeError],
  ['nothing but holes', new Array(2), TypeError],
  ['a lone surrogate', 'a\ud800b', RangeError],
  ['1025 bytes', 'x'.repeat(1025), RangeError],
  ['513 letters of two bytes', 'ü'.repeat(513), RangeError],
  ['1 MiB', 'x'.repeat(2 ** 20), RangeError],
  ['a companion’s end', 'lock:fence', RangeError],
  ['a companion’s end with a dot', '{lock}:fence.', RangeError],
  ['another companion’s end', 'lock:queue', RangeError],
  ['an empty tag', '{}', RangeError],
  ['an empty tag before a good one', '{}{a}', RangeError],
  ['a closing brace alone', 'a}', RangeError],
];

const oddKeys = [
  ' ',
  '\0',
  'a\0b',
  'a\r\nb',
  '*3\r\n$3\r\nSET\r\n',
  '"quoted" and \'quoted\' and \\',
  "'); redis.call('FLUSHALL') --",
  'KEYS[1]',
  '%s%n%1$s',
  '*',
  'h[ae]llo?',
  '{tag}:x',
  '{tag}',
  'x{tag}y{other}',
  '{open',
  '{{nested}',
  'ключ',
  '鍵😀',
  'fence',
  ':',
  '__proto__',
  'constructor',
  'x'.repeat(1024),
  'ü'.repeat(512),
];

/** Whatever is not the subject lasts: a busy machine takes seconds between two lines. */
const lasting = { lifetime: 60_000, commandTimeout: 30_000 };

describeEach('options and keys', (here) => {
  let key: string;
  let connection: Connection;
  let withLock: WithLock;

  before(async () => {
    connection = await here.connection();
  });

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: connection.redis, ...lasting });
  });

  /** Every form refuses; nothing was sent, no callback was called, no key was made. */
  async function everyFormRefuses(form: WithLock, lockKey: unknown, options: unknown, check: (error: any) => void) {
    const before = { calls: await connection.calls(), keys: await here.keys() };
    const any = form as any;
    let called = false;
    const never = (): void => {
      called = true;
    };
    check(thrown(() => any(lockKey, options, never)));
    check(await failure(any.promise(lockKey, options)));
    check(await failure(any.tryLock(lockKey, options)));
    check(await failure(any.run(lockKey, options, never)));
    expect({ calls: await connection.calls(), keys: await here.keys() }).to.deep.equal(before);
    expect(called).to.equal(false);
  }

  function expectRefusal(error: any, errorClass: typeof TypeError | typeof RangeError, ...words: string[]): void {
    expect(error).to.be.instanceOf(errorClass);
    expect(error.code).to.equal('ERR_LOCK_OPTION');
    for (const word of words) expect(error.message).to.contain(word);
  }

  describe('options', () => {
    for (const [title, value] of touchy) {
      it(`${title} is refused like any other, as an option and as a key`, async () => {
        for (const name of Object.keys(values)) {
          expectRefusal(await failure(withLock.promise(key, { [name]: value })), TypeError, name, 'expected');
        }
        expectRefusal(await failure(withLock.promise(value as string)), TypeError, 'key');
        expectRefusal(await failure(withLock.promise([value as string])), TypeError, 'key');
        expectRefusal(await failure(withLock.promise(key, { redis: value as any })), TypeError, 'redis');
      });
    }

    for (const [name, { wrong, impossible, possible }] of Object.entries(values)) {
      it(`H12: \`${name}\`: another kind of value is a TypeError, an impossible one a RangeError, by every form`, async () => {
        const bad = [
          ...wrong.map((value) => [value, TypeError] as const),
          ...impossible.map((value) => [value, RangeError] as const),
        ];
        for (const [value, errorClass] of bad) {
          const check = (error: unknown): void => expectRefusal(error, errorClass, 'expected', 'got');
          await everyFormRefuses(withLock, key, { [name]: value }, check);
          // A prefix is too long only together with a key.
          if (name !== 'prefix') check(thrown(() => redisExpLock({ redis: connection.redis, [name]: value })));
        }
      });

      it(`\`${name}\`: every possible value works, and so does undefined`, async () => {
        const base = redisExpLock({ redis: connection.redis, ...lasting });
        for (const value of [...possible, undefined]) {
          for (const form of [redisExpLock({ redis: connection.redis, ...lasting, [name]: value }), base]) {
            const options = form === base ? { [name]: value } : undefined;
            const lease = await form.promise(key, options);
            expect(lease.remaining()).to.be.greaterThan(0);
            expect(await lease()).to.equal(true);
          }
        }
      });
    }

    it('H12: the message names the option, what was expected, and what came', async () => {
      const error = await failure(withLock.promise(key, { lifetime: 1.5 }));
      expect(error.message).to.match(/^lifetime: expected .*milliseconds.*; got 1\.5$/);
      expect((await failure(withLock.promise(key, { jitter: '1' as unknown as number }))).message).to.contain(
        "got '1'",
      );
    });

    it('H12: what came is not shown at length', async () => {
      const error = await failure(withLock.promise(key, { owner: 'x'.repeat(100_000) }));
      expect(error.message.length).to.be.lessThan(400);
    });

    it('H12: an unknown name is refused by every form', async () => {
      for (const name of ['liftime', 'Lifetime', 'ttl', '', 'constructor', 'toString', 'hasOwnProperty', 'then', '0']) {
        const check = (error: unknown): void => expectRefusal(error, TypeError, `${name || '""'}: `);
        await everyFormRefuses(withLock, key, { [name]: undefined }, check);
        check(thrown(() => redisExpLock({ redis: connection.redis, [name]: 1 } as redisExpLock.Options)));
      }
    });

    it('H12: `__proto__` that came through JSON is refused, and pollutes nothing', async () => {
      const options = JSON.parse('{"__proto__": {"lifetime": 5, "polluted": true}}');
      await everyFormRefuses(withLock, key, options, (error) => expectRefusal(error, TypeError, '__proto__'));
      expect(({} as any).polluted).to.equal(undefined);
    });

    it('H12: an option that is inherited is checked like any other', async () => {
      for (const options of [
        Object.create({ lifetime: 1.5 }),
        new (class {
          get lifetime() {
            return 1.5;
          }
        })(),
      ]) {
        await everyFormRefuses(withLock, key, options, (error) => expectRefusal(error, RangeError, 'lifetime'));
      }
    });

    it('H12: an option that is not enumerable is checked like any other', async () => {
      const options = Object.defineProperty({}, 'lifetime', { value: Number.NaN });
      await everyFormRefuses(withLock, key, options, (error) => expectRefusal(error, RangeError, 'lifetime'));
    });

    for (const [name, advice] of Object.entries(elsewhere)) {
      it(`H12: another library’s \`${name}\` is refused, and the message knows ${advice.join(', ')}`, async () => {
        const check = (error: any): void => {
          expectRefusal(error, TypeError, ...advice);
          expect(error.message.startsWith(`${name}: `)).to.equal(true);
        };
        await everyFormRefuses(withLock, key, { [name]: 5 }, check);
        check(thrown(() => redisExpLock({ redis: connection.redis, [name]: 5 } as redisExpLock.Options)));
      });
    }

    it('H12: the message for `expiry` is to the letter; a name that is no word is quoted', () => {
      const of = (name: string): string => thrown(() => redisExpLock({ [name]: 5 } as redisExpLock.Options)).message;
      expect(of('expiry')).to.equal('expiry: use `lifetime`, in milliseconds');
      expect(of('a\nb: c')).to.equal('"a\\nb: c": no such option');
    });

    it('H12: a near miss is refused, and the message knows what was probably meant', () => {
      for (const [name, meant] of Object.entries(nearMisses)) {
        const error = thrown(() => redisExpLock({ [name]: 5 } as redisExpLock.Options));
        expectRefusal(error, TypeError, `${name}: `, `did you mean \`${meant}\`?`);
      }
      for (const name of ['', 'x', 'constructor', '__proto', 'then', 'me', 'on', 'tim', 'x'.repeat(100_000)]) {
        const error = thrown(() => redisExpLock({ [name]: 5 } as redisExpLock.Options));
        expectRefusal(error, TypeError, 'no such option');
        expect(error.message).to.not.contain('did you mean');
      }
    });

    it('H12: a near miss of an option that one face alone has is known there', async () => {
      const options = { redis: connection.redis } as any;
      const of = (work: () => unknown): Promise<any> => failure(Promise.resolve().then(work));
      const rw = (own: object) => of(() => new redisExpLock.RWLock(key, { ...options, ...own }));
      expect((await rw({ perfer: 'fair' })).message).to.contain('did you mean `prefer`?');
      expect((await rw({ reader: 'a' })).message).to.contain('did you mean `readers`?');
      const semaphore = new redisExpLock.Semaphore(key, 2, options);
      const permits = await of(() => semaphore.run({ permit: 1 } as any, () => {}));
      expect(permits.message).to.contain('did you mean `permits`?');
      const cached = await of(() => withLock.cached(key, { ttl: 5, emptyTTLs: 1 } as any, () => 1));
      expect(cached.message).to.contain('did you mean `emptyTtl`?');
      const host = await of(() => new redisExpLock.HostLock('name', { steps: 5 } as any));
      expect(host.message).to.contain('did you mean `step`?');
      const close = await of(() => withLock.close({ drian: true } as any));
      expect(close.message).to.contain('did you mean `drain`?');
      for (const error of [permits, cached, host, close]) expect(error.code).to.equal('ERR_LOCK_OPTION');
    });

    it('H12: a client, or a list of clients, in the place of the options: the message says where it goes', async () => {
      const check = (error: unknown): void => expectRefusal(error, TypeError, 'redisExpLock({ redis: client })');
      const client = here.redis as any;
      check(thrown(() => redisExpLock(client)));
      check(await failure(withLock.promise(key, client)));
      check(thrown(() => new redisExpLock.Lock(key, client)));
      check(thrown(() => new redisExpLock.RWLock(key, client)));
      check(thrown(() => new redisExpLock.Semaphore(key, 1, client)));
      if (!Array.isArray(client)) check(thrown(() => redisExpLock([client, client] as any)));
    });

    it('H12: anything but an object is refused', async () => {
      for (const options of [null, 5, 'lifetime', true, [], [{ lifetime: 5 }], 5n, Symbol('options')]) {
        await everyFormRefuses(withLock, key, options, (error) => expectRefusal(error, TypeError, 'options'));
        expectRefusal(
          thrown(() => redisExpLock(options as redisExpLock.Options)),
          TypeError,
          'options',
        );
      }
    });

    it('options without a prototype are fine', async () => {
      const options = Object.assign(Object.create(null), { lifetime: 50_000 });
      expect(await (await withLock.promise(key, options))()).to.equal(true);
    });

    it('options may be frozen, are not changed, and may be changed after the call', async () => {
      const options: redisExpLock.Options = { ...lasting, redis: connection.redis };
      const frozen = Object.freeze({ ...options });
      const lease = await redisExpLock(frozen).promise(key, frozen);
      expect(await lease()).to.equal(true);
      const mutable = redisExpLock(options);
      options.lifetime = -1;
      options.redis = undefined;
      expect(await (await mutable.promise(key))()).to.equal(true);
    });
  });

  describe('`redis`', () => {
    it('H12: missing from factory and call: refused by every form', async () => {
      await everyFormRefuses(redisExpLock(), key, {}, (error) => expectRefusal(error, TypeError, 'redis'));
      await everyFormRefuses(redisExpLock({}), key, { redis: undefined }, (error) =>
        expectRefusal(error, TypeError, 'redis'),
      );
    });

    it('H12: nothing that we know as a client: refused', async () => {
      const none = ['redis://127.0.0.1', 6379, null, true, {}, [], () => {}, { eval: 5, evalSha: 5 }, { eval() {} }];
      for (const redis of none) {
        const check = (error: unknown): void => expectRefusal(error, TypeError, 'redis');
        await everyFormRefuses(withLock, key, { redis }, check);
        // The factory itself, and not its first call.
        check(thrown(() => redisExpLock({ redis } as any)));
      }
    });

    it('a client that nobody connected: a LockBackendError that says what to do', async () => {
      const redis = here.unconnected();
      const options = { redis, commandTimeout: 1_000 };
      const viaCallback = await new Promise<any>((resolve) => withLock(key, options, resolve));
      for (const error of [viaCallback, await failure(withLock.promise(key, options))]) {
        expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
        expect(error.message).to.contain(here.place.advice);
      }
    });
  });

  describe('callback', () => {
    it('H12: missing, or not a function: thrown before any I/O', async () => {
      const before = await connection.calls();
      const any = withLock as any;
      for (const args of [[key], [key, {}], [key, {}, {}], [key, null], [key, 'callback'], [key, () => {}, {}], []]) {
        expectRefusal(
          thrown(() => any(...args)),
          TypeError,
          'callback',
        );
      }
      expect(await connection.calls()).to.equal(before);
    });
  });

  describe('keys', () => {
    for (const [what, bad, errorClass] of badKeys) {
      it(`H12: ${what}: refused by every form, before any I/O`, () =>
        everyFormRefuses(withLock, bad, {}, (error) => {
          expectRefusal(error, errorClass, 'key');
          expect(error.message.length).to.be.lessThan(400);
        }));
    }

    it('H12: the prefix counts: its length, its braces, and what it makes of a harmless end', async () => {
      for (const [prefix, harmless] of [
        ['x'.repeat(1000), 'y'.repeat(25)],
        ['app:', 'fence'],
        ['{', '}'],
      ] as const) {
        await everyFormRefuses(withLock, harmless, { prefix }, (error) => expectRefusal(error, RangeError, 'key'));
      }
      const lease = await withLock.promise('y'.repeat(24), { prefix: 'x'.repeat(1000) });
      expect(await lease()).to.equal(true);
    });

    for (const odd of oddKeys) {
      const shown = JSON.stringify(odd.length > 40 ? `${odd.slice(0, 10)}… (${Buffer.byteLength(odd)} bytes)` : odd);
      it(`H12: odd but possible: ${shown}`, async () => {
        const lease = await withLock.promise(odd, { lifetime: 30_000 });
        expect(await here.holder(odd)).to.equal(lease.token);
        expect(lease.key).to.equal(odd);
        expect(lease.fence).to.be.greaterThan(0);
        const busy = await failure(redisExpLock({ redis: here.elsewhere, ...lasting }).promise(odd));
        expect(busy.code).to.equal('ERR_LOCK_ATTEMPTS');
        expect(busy.message).to.contain(JSON.stringify(odd));
        expect(await withLock.inspect(odd)).to.include({ locked: true, fence: lease.fence });
        expect(await lease.extend(60_000)).to.equal(true);
        expect(await lease()).to.equal(true);
        expect(await here.holder(odd)).to.equal(null);
        const next = await withLock.promise(odd);
        expect(next.fence).to.be.greaterThan(lease.fence);
        await next();
      });
    }

    it('H12: all odd keys together are one lock', async () => {
      if (here.place.bySlot)
        return void expect((await failure(withLock.promise(oddKeys))).redisCode).to.equal('CROSSSLOT');
      const lease = await withLock.promise(oddKeys, { lifetime: 30_000 });
      for (const odd of oddKeys) expect(await here.holder(odd)).to.equal(lease.token);
      expect(await lease()).to.equal(true);
      for (const odd of oddKeys) expect(await here.holder(odd)).to.equal(null);
    });

    it('a list of keys may be frozen, is not changed, and may be changed after the call', async () => {
      const keys = [`{${key}}:b`, `{${key}}:a`];
      const lease = await withLock.promise(Object.freeze([...keys]), { lifetime: 30_000 });
      expect(await lease()).to.equal(true);
      const mutable = [...keys];
      const acquiring = withLock.promise(mutable, { lifetime: 30_000 });
      mutable[0] = `${key}:other`;
      mutable.pop();
      const held = await acquiring;
      expect(await here.holder(`{${key}}:a`)).to.equal(held.token);
      expect(await held()).to.equal(true);
      expect(await here.holder(`{${key}}:a`)).to.equal(null);
      expect(await here.holder(`{${key}}:b`)).to.equal(null);
    });
  });

  describe('close', () => {
    it('H12: impossible options of close are refused, and nothing is closed', async () => {
      for (const [options, errorClass] of [
        [null, TypeError],
        [5, TypeError],
        [{ drian: true }, TypeError],
        [{ drain: 'yes' }, TypeError],
        [{ drain: null }, TypeError],
        [{ drain: 5n }, TypeError],
        [{ drain: Number.NaN }, RangeError],
        [{ drain: -1 }, RangeError],
        [JSON.parse('{"__proto__": {"drain": true}}'), TypeError],
      ] as const) {
        expectRefusal(await failure(withLock.close(options as redisExpLock.CloseOptions)), errorClass);
      }
      expect(await (await withLock.promise(key))()).to.equal(true);
    });
  });
});
