/**
 * The differences between kinds of clients, which must not be seen through the library. The promises that all keep are in
 * test/contract; clusters are in cluster.test.ts.
 */

import { expect } from 'chai';
import sinon from 'sinon';
import redisExpLock from '../../src/index';
import type { ScriptClient } from '../../src/store/redis/client';
import { scriptClient } from '../../src/store/redis/clients/script-client';
import { published } from '../contract/outcomes';
import { redisPlaces } from '../contract/places';
import { delayReply, type FaultProxy, reset, startProxy } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { type RedisServer, recordCommands, startRedis, startReplica, uniqueKey } from '../support/redis';
import { startSentinels, type TestSentinels } from '../support/sentinel';
import { backendError, grantsOf, LONG_MS } from './faults';
import { isAcquire, rejectionOf } from './holding';

const nodeRedisMajors = ['redis', 'redis-5', 'redis-4'];
const poolMajors = ['redis', 'redis-5'];
const ioredisKinds = ['ioredis', 'ioredis-5', 'iovalkey'];
/** For locks whose end, and whose silence, is not the subject. */
const patient = { lifetime: LONG_MS, commandTimeout: 10_000 };

describe('a client of its kind', () => {
  let server: RedisServer;
  const closing: (() => unknown)[] = [];

  before(async () => {
    server = await startRedis();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  after(() => server.discard());

  async function nodeRedis(packageName: string, options: object = {}, port = server.port): Promise<any> {
    const client = require(packageName).createClient({ url: `redis://127.0.0.1:${port}`, ...options });
    client.on('error', () => {});
    closing.push(() => client.isOpen && (client.destroy ?? client.disconnect).call(client));
    await client.connect();
    return client;
  }

  async function pool(packageName: string, options: object = {}): Promise<any> {
    const made = require(packageName).createClientPool({ url: server.url, ...options });
    made.on('error', () => {});
    closing.push(() => made.destroy());
    await made.connect();
    return made;
  }

  async function ioredis(packageName: string, options: object = {}, port = server.port): Promise<any> {
    const IORedis = require(packageName);
    const client = new IORedis(port, '127.0.0.1', { lazyConnect: true, ...options }).on('error', () => {});
    closing.push(() => client.disconnect());
    await client.connect();
    return client;
  }

  async function glide(options: object = {}, port = server.port): Promise<any> {
    const { GlideClient, Logger } = require('@valkey/valkey-glide');
    Logger.init('off');
    const addresses = [{ host: '127.0.0.1', port }];
    // Its own default, 250 ms, is less than a busy machine takes.
    const client = await GlideClient.createClient({ addresses, requestTimeout: 10_000, ...options });
    closing.push(() => client.close());
    return client;
  }

  /** Everything that a lock does, through this client. */
  async function worksThrough(redis: any, key = uniqueKey(), inRedis = key): Promise<void> {
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 10_000, owner: 'me' });
    const lease = await withLock.promise(key);
    expect(await server.command('GET', inRedis)).to.equal(lease.token);
    expect(await server.command('GET', 'redis-exp-lock:fence')).to.equal(String(lease.fence));
    expect(await withLock.tryLock(key)).to.equal(null);
    expect(await withLock.inspect(key)).to.include({ locked: true, owner: 'me', fence: lease.fence });
    expect(await lease.extend(2 * LONG_MS)).to.equal(true);
    const together = await Promise.all([1, 2, 3].map((i) => withLock.promise(`${key}-${i}`)));
    expect(await Promise.all(together.map((each) => each()))).to.deep.equal([true, true, true]);
    expect(await lease()).to.equal(true);
    expect(await server.command('EXISTS', inRedis)).to.equal(0);
    await withLock.close();
  }

  describe('what is no client', () => {
    const supported = ['node-redis', 'ioredis', 'Valkey GLIDE', '@upstash/redis', 'RedisClient'];

    async function isRefused(redis: any): Promise<void> {
      const error = await rejectionOf(redisExpLock().promise(uniqueKey(), { redis }));
      expect(() => redisExpLock({ redis })).to.throw(TypeError, error.message);
      expect(error).to.be.instanceOf(TypeError);
      expect(error.code).to.equal('ERR_LOCK_OPTION');
      for (const name of supported) expect(error.message).to.contain(name);
    }

    it('is refused, and the message says what is supported', async () => {
      for (const redis of [
        {},
        [{}],
        new Map(),
        { eval() {}, evalSha() {} },
        { evalsha() {}, eval() {}, defineCommand() {} },
      ])
        await isRefused(redis);
    });

    it('node-redis: a legacy client, whose methods take callbacks, and a transaction are refused', async () => {
      for (const major of ['redis', 'redis-5']) await isRefused((await nodeRedis(major)).legacy());
      for (const major of nodeRedisMajors) await isRefused((await nodeRedis(major)).multi());
    });

    it('ioredis: a pipeline is refused', async () => {
      for (const kind of ioredisKinds) await isRefused((await ioredis(kind)).pipeline());
    });
  });

  it('a client that has subscribed, on a connection that takes nothing else: an error for good, at once', async () => {
    const clients = [...ioredisKinds.slice(1).map((kind) => ioredis(kind)), nodeRedis('redis-4'), nodeRedis('redis-5')];
    for (const redis of await Promise.all(clients)) {
      await redis.subscribe('news', () => {});
      const error = await backendError(redisExpLock({ redis, ...patient }).promise(uniqueKey(), { timeout: LONG_MS }));
      expect(error.message).to.match(/subscribe/i);
      expect(error.retryable).to.equal(false);
    }
  });

  it('Bun’s client, or what has its `send`: works (the contract suites run on it in integrations)', async () => {
    const client = await ioredis('ioredis-5');
    await worksThrough({ send: (command: string, args: string[]) => client.call(command, args) });
  });

  describe('NOSCRIPT (H53)', () => {
    for (const place of redisPlaces) {
      it(`${place.name}: a script that Redis has lost is sent again`, async () => {
        const { redis, leave } = await place.join(server.url);
        closing.push(leave);
        await worksThrough(redis);
        await server.command('SCRIPT', 'FLUSH');
        await worksThrough(redis);
      });
    }

    it('a client that throws, in place of a rejection, when the script is sent again: an error of the caller', async () => {
      const client = await ioredis('ioredis-5');
      let throws = false;
      const send = (command: string, args: string[]): Promise<unknown> => {
        if (throws && command === 'EVAL') throw new Error('EVAL was thrown out');
        return client.call(command, args);
      };
      const redis = { send };
      await worksThrough(redis);
      await server.command('SCRIPT', 'FLUSH');
      throws = true;
      const error = await backendError(redisExpLock({ redis, ...patient }).promise(uniqueKey()));
      expect(error.message).to.include('EVAL was thrown out');
    });
  });

  describe('somebody in between', () => {
    for (const place of redisPlaces.filter(({ name }) => name.startsWith('node-redis'))) {
      it(`${place.name}: an evalSha that was put in the place of the client’s own is called`, async () => {
        const { redis, leave } = await place.join(server.url);
        closing.push(leave);
        const withLock = redisExpLock({ redis, ...patient });
        await (await withLock.promise(uniqueKey()))();
        const spy = sinon.spy(redis as any, 'evalSha');
        await (await withLock.promise(uniqueKey()))();
        expect(spy.callCount).to.equal(2);
        spy.restore();
        await (await withLock.promise(uniqueKey()))();
        expect(spy.callCount).to.equal(2);
      });
    }
  });

  describe('errors in the client’s own words', () => {
    for (const place of redisPlaces) {
      it(`${place.name}: Redis’s own code comes through`, async () => {
        const { redis, leave } = await place.join(server.url);
        closing.push(leave);
        const key = uniqueKey();
        await server.command('LPUSH', key, 'a');
        const error = await backendError(redisExpLock({ redis, ...patient }).promise(key));
        expect(error).to.include({ redisCode: 'WRONGTYPE', retryable: false });
        const denied = await deniedScript(scriptClient(redis));
        expect(denied).to.match(/^(READONLY|NOPERM|LOADING|OOM|TRYAGAIN)+$/);
      });
    }

    async function deniedScript(client: ScriptClient): Promise<string> {
      const codes: string[] = [];
      for (const code of ['READONLY', 'NOPERM', 'LOADING', 'OOM', 'TRYAGAIN']) {
        const error = await rejectionOf(client.eval(`return redis.error_reply('${code} for a test')`, ['k'], []));
        codes.push(/^[A-Z]+/.exec(error.message)?.[0] ?? error.message);
      }
      return codes.join('');
    }
  });

  describe('the offline queue (H3)', () => {
    for (const place of redisPlaces.filter(({ name, connectionless }) => !name.includes('GLIDE') && !connectionless)) {
      it(`${place.name}: nothing is left to it while the client is disconnected; the error says so`, async () => {
        const proxy = await startProxy(server.port);
        closing.push(() => proxy.stop());
        const { redis, leave } = await place.join(proxy.url);
        closing.push(leave);
        const { readiness } = scriptClient(redis);
        proxy.refuse();
        proxy.resetAll();
        await waitFor(() => readiness() !== 'ready');
        const key = uniqueKey();
        const error = await backendError(redisExpLock({ redis, commandTimeout: unansweredMs }).promise(key));
        expect(error.retryable).to.equal(true);
        expect(error.message).to.contain('not connected');
        proxy.heal();
        await waitFor(() => readiness() === 'ready');
        expect(proxy.count('script')).to.equal(0);
      });

      it(`${place.name}: closed by its owner: named as that, at once`, async () => {
        const { redis, leave } = await place.join(server.url);
        await leave();
        await waitFor(() => scriptClient(redis).readiness() === 'closed');
        const error = await backendError(redisExpLock({ redis }).promise(uniqueKey()));
        expect(error.retryable).to.equal(false);
        expect(error.message).to.contain('closed');
      });
    }
  });

  describe('Valkey GLIDE without a connection (H3)', () => {
    it('it reports nothing: an attempt is of unknown outcome, and whatever still runs leaves nothing behind', async () => {
      const proxy = await startProxy(server.port);
      closing.push(() => proxy.stop());
      const redis = await glide({}, proxy.port);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS });
      await (await withLock.promise(uniqueKey(), { commandTimeout: 10_000 }))();
      proxy.refuse();
      proxy.resetAll();
      const keys = Array.from({ length: 5 }, () => uniqueKey());
      for (const key of keys) expect((await backendError(withLock.promise(key))).retryable).to.equal(true);
      proxy.heal();
      await redis.ping();
      await withLock.close();
      for (const key of keys) await waitFor(async () => (await server.command('EXISTS', key)) === 0);
      const lease = await redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 10_000 }).promise(keys[0]!);
      expect(await lease()).to.equal(true);
    });

    it('the owner’s own short time-out for each request is an unknown outcome too', async () => {
      const proxy = await startProxy(server.port);
      closing.push(() => proxy.stop());
      const redis = await glide({ requestTimeout: 50 }, proxy.port);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS });
      proxy.rule({ match: isAcquire, nth: 1 }, delayReply(200));
      const key = uniqueKey();
      await backendError(withLock.promise(key));
      await waitFor(async () => (await server.command('EXISTS', key)) === 0, {
        what: 'what it acquired to be released',
      });
    });
  });

  describe('keyPrefix', () => {
    const prefixing: [name: string, make: (keyPrefix: string) => Promise<any>][] = [
      ['node-redis 6', (keyPrefix) => nodeRedis('redis', { keyPrefix })],
      ['node-redis 6, pool', (keyPrefix) => pool('redis', { keyPrefix })],
      ...ioredisKinds.map((kind): [string, (keyPrefix: string) => Promise<any>] => [
        kind,
        (keyPrefix) => ioredis(kind, { keyPrefix }),
      ]),
      [
        'ioredis, with its own pipelining',
        (keyPrefix) => ioredis('ioredis', { keyPrefix, enableAutoPipelining: true }),
      ],
    ];

    for (const [name, make] of prefixing) {
      it(`${name}: counts as part of the key, before \`prefix\`; companions are those of the whole key`, async () => {
        for (const keyPrefix of ['p:', '{p}:', 'ü😀:']) {
          const redis = await make(keyPrefix);
          const key = uniqueKey();
          await worksThrough(redis, key, keyPrefix + key);
          const lease = await redisExpLock({ redis, prefix: 'app:', ...patient }).promise(key);
          expect(lease.key).to.equal(key);
          expect(await server.command('GET', `${keyPrefix}app:${key}`)).to.equal(lease.token);
          expect(await redis.get(`app:${key}`)).to.equal(lease.token); // as the owner sees it
        }
      });

      it(`${name}: a caller that names the whole key without it excludes, and is excluded`, async () => {
        const key = uniqueKey();
        const prefixed = redisExpLock({ redis: await make('p:'), ...patient });
        const bare = redisExpLock({ redis: await nodeRedis('redis'), ...patient });
        const lease = await prefixed.promise(key);
        expect(await bare.tryLock(`p:${key}`)).to.equal(null);
        await lease();
        const other = await bare.promise(`p:${key}`);
        expect(other.fence).to.be.greaterThan(lease.fence);
        expect(await prefixed.tryLock(key)).to.equal(null);
      });

      it(`${name}: what it makes of a harmless key is refused`, async () => {
        for (const [keyPrefix, key] of [
          ['app:', 'fence'],
          ['{', '}'],
          ['x'.repeat(1000), 'y'.repeat(25)],
        ] as const) {
          const withLock = redisExpLock({ redis: await make(keyPrefix) });
          for (const refused of [withLock.promise(key), withLock.inspect(key)]) {
            const error = await rejectionOf(refused);
            expect(error).to.be.instanceOf(RangeError);
            expect(error.code).to.equal('ERR_LOCK_OPTION');
          }
        }
      });
    }

    it('channels have none', async () => {
      for (const redis of [
        await nodeRedis('redis', { keyPrefix: 'p:' }),
        await ioredis('ioredis', { keyPrefix: 'p:' }),
      ]) {
        const channel = uniqueKey();
        const seen: string[] = [];
        const subscription = await scriptClient(redis).subscribe!(
          channel,
          (message) => seen.push(message),
          () => {},
        );
        await server.command('PUBLISH', channel, 'heard');
        await waitFor(() => seen.length === 1);
        subscription.close();
      }
    });
  });

  describe('replies as the owner wants them for himself (H5)', () => {
    // RESP's marks: blob strings as Buffers, integers as text.
    const commandOptions = { typeMapping: { 36: Buffer, 58: String } };

    for (const major of poolMajors) {
      it(`${major}: a mapping of types changes nothing`, async () => {
        await worksThrough(await nodeRedis(major, { commandOptions }));
        await worksThrough((await nodeRedis(major)).withTypeMapping(commandOptions.typeMapping));
        await worksThrough(await pool(major, { commandOptions }));
        const redis = await nodeRedis(major, { commandOptions });
        expect(await redis.get('not there')).to.equal(null); // his own commands are left alone
        await server.command('SET', 'there', 'x');
        expect(await redis.get('there')).to.be.instanceOf(Buffer);
      });
    }

    for (const kind of ioredisKinds) {
      it(`${kind}: numbers as text change nothing`, async () => {
        await worksThrough(await ioredis(kind, { stringNumbers: true }));
      });
    }

    it('ioredis 6: neither does the older protocol, nor the replies of the newer', async () => {
      await worksThrough(await ioredis('ioredis', { protocol: 2 }));
      await worksThrough(await ioredis('ioredis', { protocol: 3, replyMapping: 'resp3' }));
    });

    it('Valkey GLIDE: bytes change nothing', async () => {
      await worksThrough(await glide({ defaultDecoder: 0 }));
    });
  });

  describe('node-redis 4 in legacyMode', () => {
    it('is used by its own modern methods, for every part of the face', async () => {
      const redis = await nodeRedis('redis-4', { legacyMode: true });
      await worksThrough(redis);
      const face = scriptClient(redis);
      expect(await face.command('CONFIG', 'GET', 'maxmemory-policy')).to.contain('"noeviction"');
      await hears(face);
      const dedicated = face.dedicate('k');
      const script = await dedicated.opened;
      expect(await script.eval('return 5', [], [])).to.equal(5);
      dedicated.close();
    });
  });

  describe('pools of node-redis', () => {
    for (const major of poolMajors) {
      it(`${major}: work; have no messages; refuse minReplicas by name`, async () => {
        const redis = await pool(major);
        await worksThrough(redis);
        const face = scriptClient(redis);
        expect(face.subscribe).to.equal(undefined);
        expect(await face.command('CONFIG', 'GET', 'maxmemory-policy')).to.contain('"noeviction"');
        const error = await rejectionOf(redisExpLock({ redis }).promise(uniqueKey(), { minReplicas: 1 }));
        expect(error.code).to.equal('ERR_LOCK_OPTION');
        expect(error.message).to.contain('minReplicas');
      });

      it(`${major}: one that nobody connected is named as that`, async () => {
        const redis = require(major).createClientPool({ url: server.url });
        const error = await backendError(redisExpLock({ redis }).promise(uniqueKey()));
        expect(error.message).to.contain('await client.connect()');
      });
    }
  });

  describe('clients that hear no messages', () => {
    async function scriptCalls(): Promise<number> {
      const stats = await server.command<string>('INFO', 'commandstats');
      return [...stats.matchAll(/^cmdstat_evalsha:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0);
    }

    const deaf: [name: string, make: () => Promise<any>][] = [
      ...poolMajors.map((major): [string, () => Promise<any>] => [`${major}, pool`, () => pool(major)]),
      ['Valkey GLIDE', glide],
    ];
    for (const [name, make] of deaf) {
      it(`${name}: waiting counts, and a warning says so, once`, async () => {
        const key = uniqueKey();
        const held = await redisExpLock({ redis: await nodeRedis('redis'), ...patient }).promise(key);
        const withLock = redisExpLock({ redis: await make(), ...patient, timeout: LONG_MS });
        const warnings = await published('redis-exp-lock:warning', async () => {
          const recording = await recordCommands(server);
          const before = await scriptCalls();
          const waiting = [withLock.run(key, ({ retries }) => retries), withLock.run(key, ({ retries }) => retries)];
          // More than both need to be refused once, also if the server does not know the scripts.
          await waitFor(async () => (await scriptCalls()) > before + 10, { what: 'the first to poll' });
          await held();
          const [first, second] = await Promise.all(waiting);
          expect([first! > 0, second]).to.deep.equal([true, 0]); // the second requests when the first has released
          const commands = await recording.stop();
          expect(commands.some(({ args }) => /^(zadd|subscribe)$/i.test(args[0]!))).to.equal(false);
        });
        expect(warnings.filter(({ code }) => code === 'no-wake-ups')).to.have.length(1);
        expect(warnings.find(({ code }) => code === 'no-wake-ups').message).to.contain('polls');
      });
    }
  });

  describe('sentinels', () => {
    let sentinel: TestSentinels;
    before(async () => {
      sentinel = await startSentinels({ main: server }, 1);
    });
    after(() => sentinel.stop());

    for (const major of poolMajors) {
      it(`node-redis, ${major}: works, also with types mapped; messages come, also after a loss`, async () => {
        const redis = require(major).createSentinel({
          name: 'main',
          sentinelRootNodes: [{ host: '127.0.0.1', port: sentinel.ports[0] }],
          commandOptions: { typeMapping: { 36: Buffer } },
        });
        redis.on('error', () => {});
        const early = await backendError(redisExpLock({ redis }).promise(uniqueKey()));
        expect(early.message).to.contain('await client.connect()');
        closing.push(() => redis.destroy());
        await redis.connect();
        await worksThrough(redis);
        const face = scriptClient(redis);
        expect(await face.command('CONFIG', 'GET', 'maxmemory-policy')).to.contain('"noeviction"');
        await hears(face);
        // Half of it is waited for a replica; the rest is for a machine that is busy.
        const alone = redisExpLock({ redis, commandTimeout: 3_000 });
        const error = await backendError(alone.promise(uniqueKey(), { minReplicas: 1 }));
        expect(error.redisCode, 'the connection for WAIT has asked: there is no replica').to.equal('NOREPLICAS');
        await alone.close();
      });
    }

    for (const kind of ioredisKinds) {
      it(`${kind}: works; messages come, also after a loss`, async () => {
        const IORedis = require(kind);
        const options = {
          name: 'main',
          sentinels: [{ host: '127.0.0.1', port: sentinel.ports[0] }],
          lazyConnect: true,
        };
        const redis = new IORedis(options).on('error', () => {});
        closing.push(() => redis.disconnect());
        await redis.connect();
        await worksThrough(redis);
        await hears(scriptClient(redis));
      });
    }
  });

  describe('messages', () => {
    const ways: [name: string, make: () => Promise<any>][] = [
      ...nodeRedisMajors.map((major): [string, (port?: number) => Promise<any>] => [
        major,
        (port) => nodeRedis(major, {}, port),
      ]),
      ...ioredisKinds.map((kind): [string, (port?: number) => Promise<any>] => [
        kind,
        (port) => ioredis(kind, {}, port),
      ]),
    ];

    for (const [name, make] of ways) {
      it(`${name}: come, and after a loss come again once that was reported`, async () => {
        await hears(scriptClient(await make()));
      });

      it(`${name}: one connection for all; closing one ends only its own; the last one ends the connection (H31)`, async () => {
        const { subscribe } = scriptClient(await make());
        const [one, two] = [uniqueKey(), uniqueKey()];
        const seen: string[] = [];
        const listen = (channel: string, who: string) =>
          subscribe!(
            channel,
            (message) => seen.push(`${who} ${message}`),
            () => {},
          );
        const [a, b, c] = await Promise.all([listen(one, 'a'), listen(one, 'b'), listen(two, 'c')]);
        expect(await subscribers()).to.equal(1);
        a.close();
        a.close();
        await server.command('PUBLISH', one, '1');
        await server.command('PUBLISH', two, '2');
        await waitFor(() => seen.length === 2);
        expect(seen).to.deep.equal(['b 1', 'c 2']);
        b.close();
        c.close();
        await waitFor(async () => (await subscribers()) === 0);
        const again = await listen(one, 'again');
        await server.command('PUBLISH', one, '3');
        await waitFor(() => seen.at(-1) === 'again 3');
        again.close();
      });

      it(`${name}: their connection keeps no process alive`, async () => {
        const { subscribe } = scriptClient(await make());
        const sockets = (): number =>
          process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
        const before = sockets();
        const subscription = await subscribe!(
          uniqueKey(),
          () => {},
          () => {},
        );
        // One of another test may have ended meanwhile.
        expect(sockets()).to.be.at.most(before);
        subscription.close();
      });
    }

    for (const [name, make] of [
      ['redis', (port: number) => nodeRedis('redis', {}, port)],
      ['ioredis', (port: number) => ioredis('ioredis', {}, port)],
    ] as const) {
      it(`${name}: while Redis is out of reach subscribing fails, and leaves nothing behind`, async () => {
        const proxy: FaultProxy = await startProxy(server.port);
        closing.push(() => proxy.stop());
        const { subscribe } = scriptClient(await make(proxy.port));
        proxy.refuse();
        expect(
          await rejectionOf(
            subscribe!(
              uniqueKey(),
              () => {},
              () => {},
            ),
          ),
        ).to.be.instanceOf(Error);
        proxy.heal();
        const subscription = await subscribe!(
          uniqueKey(),
          () => {},
          () => {},
        );
        // Those of the test before may still be closing.
        await waitFor(async () => (await subscribers()) === 1);
        subscription.close();
      });
    }

    async function subscribers(): Promise<number> {
      const list = await server.command<string>('CLIENT', 'LIST', 'TYPE', 'pubsub');
      return list.split('\n').filter(Boolean).length;
    }
  });

  /** A message before a loss, one after it, and the loss is told in between; then nothing is left. */
  async function hears({ subscribe }: ScriptClient): Promise<void> {
    const channel = uniqueKey();
    const seen: string[] = [];
    const subscription = await subscribe!(
      channel,
      (message) => seen.push(message),
      () => seen.push('a gap'),
    );
    await server.command('PUBLISH', channel, 'one');
    await waitFor(() => seen.length === 1, { what: 'a message' });
    await server.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await waitFor(() => seen.length > 1, { what: 'the gap to be told' });
    await server.command('PUBLISH', channel, 'two');
    await waitFor(() => seen.at(-1) === 'two', { what: 'a message after the gap' });
    expect(seen).to.deep.equal(['one', 'a gap', 'two']);
    subscription.close();
    const counted = async () => (await server.command('PUBSUB', 'NUMSUB', channel))[1] === 0;
    await waitFor(counted, { what: 'the subscription to end' });
  }

  describe('minReplicas', () => {
    for (const kind of ioredisKinds) {
      it(`${kind}: counts what the connection that wrote has replicated`, async () => {
        const master = await startRedis();
        closing.push(() => master.discard());
        const replica = await startReplica(master);
        closing.push(() => replica.discard());
        const redis = await ioredis(kind, { keyPrefix: 'p:', enableAutoPipelining: true }, master.port);
        const withLock = redisExpLock({ redis, lifetime: LONG_MS, minReplicas: 1, commandTimeout: 20_000 });
        const key = uniqueKey();
        const lease = await withLock.promise(key);
        expect(await replica.command('GET', `p:${key}`)).to.equal(lease.token);
        expect(await lease()).to.equal(true);
        // Half of it is waited for a second replica; the rest is for a machine that is busy.
        const error = await backendError(withLock.promise(key, { minReplicas: 2, commandTimeout: 3_000 }));
        expect(error.redisCode).to.equal('NOREPLICAS');
        await withLock.close();
      });
    }

    const makers: [name: string, make: (port?: number) => Promise<any>][] = [
      ...nodeRedisMajors.map((major): [string, (port?: number) => Promise<any>] => [
        major,
        (port) => nodeRedis(major, {}, port),
      ]),
      ...ioredisKinds.map((kind): [string, (port?: number) => Promise<any>] => [
        kind,
        (port) => ioredis(kind, {}, port),
      ]),
    ];
    for (const [name, make] of makers) {
      it(`${name}: the connection is in the database that the client has selected meanwhile`, async () => {
        const redis = await make();
        await redis.select(3);
        const dedicated = scriptClient(redis).dedicate('k');
        const script = await dedicated.opened;
        const key = uniqueKey();
        await script.eval("return redis.call('SET', KEYS[1], 'x')", [key], []);
        expect(await script.masters!()[0]!(['WAIT', '0', '1'])).to.be.a('number');
        expect(await redis.get(key)).to.equal('x');
        dedicated.close();
      });
    }

    for (const [name, make] of makers) {
      it(`H77 ${name}: the connection does not outlive the client and its server`, async () => {
        const proxy = await startProxy(server.port);
        closing.push(() => proxy.stop());
        const redis = await make(proxy.port);
        const dedicated = scriptClient(redis).dedicate('k');
        const script = await dedicated.opened;
        (redis.destroy ?? redis.disconnect).call(redis);
        proxy.refuse();
        proxy.resetAll();
        await waitFor(() => script.readiness() === 'closed', {
          what: 'the end of the connection',
        });
      });
    }

    it('Valkey GLIDE: is refused by name', async () => {
      const error = await rejectionOf(redisExpLock({ redis: await glide() }).promise(uniqueKey(), { minReplicas: 1 }));
      expect(error.code).to.equal('ERR_LOCK_OPTION');
      expect(error.message).to.contain('minReplicas');
    });
  });

  describe('what it says of eviction', () => {
    for (const place of redisPlaces) {
      it(place.name, async () => {
        const { redis, leave } = await place.join(server.url);
        closing.push(leave);
        const policy = await scriptClient(redis).command('CONFIG', 'GET', 'maxmemory-policy');
        expect(policy).to.contain('"noeviction"');
      });
    }
  });

  describe('ioredis resends what was not answered when its connection broke (H4)', () => {
    for (const kind of ioredisKinds) {
      it(`${kind}: the script runs twice, the grant is one`, async () => {
        const proxy = await startProxy(server.port);
        closing.push(() => proxy.stop());
        const redis = await ioredis(kind, { retryStrategy: () => 5 }, proxy.port);
        const withLock = redisExpLock({ redis, ...patient });
        const recording = await recordCommands(server);
        proxy.rule({ match: isAcquire, nth: 1 }, reset());
        const key = uniqueKey();
        const lease = await withLock.promise(key);
        expect(lease.retries).to.equal(0);
        const commands = await recording.stop();
        const sent = commands.filter(({ args, lua }) => !lua && isAcquire(args));
        expect(sent).to.have.length(2);
        expect(grantsOf(key, commands)).to.equal(1);
        expect(await server.command('GET', key)).to.equal(lease.token);
        expect(await lease()).to.equal(true);
      });
    }
  });

  describe('ioredis with its own pipelining', () => {
    for (const kind of ioredisKinds) {
      it(`${kind}: our calls stay out of it`, async () => {
        const redis = await ioredis(kind, { enableAutoPipelining: true });
        await worksThrough(redis);
        const key = uniqueKey();
        const withLock = redisExpLock({ redis, ...patient });
        const [lease, value] = await Promise.all([withLock.promise(key), redis.get('not there')]);
        expect(value).to.equal(null);
        expect(await lease()).to.equal(true);
      });
    }
  });
});
