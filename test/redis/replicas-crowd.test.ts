/**
 * Many callers with `minReplicas` at once. A WAIT blocks its connection, so each caller needs it answered within its own time, whatever the
 * others want. What the server was asked is counted, by itself or by a proxy in front of it.
 */
import { expect } from 'chai';
import { Redis } from 'ioredis';
import redisExpLock from '../../src/index';
import { dropReply, type FaultProxy, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { connect, type RedisServer, startRedis, startReplica, uniqueKey } from '../support/redis';
import { backendError, LONG_MS, REDIAL } from './faults';
import { callsIn, rejectionOf } from './holding';

describe('many callers with minReplicas (H99, H59)', () => {
  let master: RedisServer;
  let replicas: RedisServer[];
  let proxy: FaultProxy;
  let key: string;
  const commandTimeout = 9_000;
  const ends: (() => unknown)[] = [];

  before(async () => {
    master = await startRedis();
    replicas = [await startReplica(master), await startReplica(master)];
    // Counted is not yet fed: the stream begins with the replica's first acknowledgement, up to a second later.
    await master.command('SET', 'first', 'x');
    for (const replica of replicas)
      await waitFor(() => replica.command('GET', 'first'), { what: 'the stream to begin' });
  });

  after(() => Promise.all([master, ...replicas].map((server) => server.discard())));

  beforeEach(async () => {
    proxy = await startProxy(master.port);
    key = uniqueKey();
  });

  afterEach(async () => {
    for (const replica of replicas) await replica.resume();
    proxy.heal();
    for (const end of ends.splice(0).reverse()) await end();
    await proxy.stop();
  });

  const dials: Record<string, () => Promise<any>> = {
    'node-redis': async () => {
      const client = await connect(proxy.url, REDIAL);
      ends.push(() => client.destroy());
      return client;
    },
    ioredis: async () => {
      const client = new Redis(proxy.port, '127.0.0.1');
      client.on('error', () => {});
      ends.push(() => client.disconnect());
      return client;
    },
  };

  async function factory(name = 'node-redis', options: object = {}): Promise<redisExpLock.WithLock> {
    const redis = await dials[name]!();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, minReplicas: 1, commandTimeout, ...options });
    ends.push(() => withLock.close({ drain: false }));
    await waitFor(() => withLock.promise(uniqueKey(), { timeout: 20_000 }).then((lease) => lease()), {
      what: `${name} to be connected`,
    });
    return withLock;
  }

  const scriptsSeen = (): number => proxy.count('EVAL');
  const acquiresOf = (name: string): number =>
    proxy.commands.filter(({ args }) => callsIn(args).some((call) => call.name === 'acquire' && call.keys[0] === name))
      .length;
  /** Everything that is held was held for a caller that has got an error. */
  const nothingLeft = (): Promise<unknown> =>
    waitFor(async () => (await master.command('KEYS', `${key}*`)).length === 0, { what: 'everything to be released' });

  for (const name of Object.keys(dials)) {
    for (const minReplicas of [1, 2]) {
      it(`${name}: a thousand at once share a WAIT for ${minReplicas} (H99)`, async () => {
        const withLock = await factory(name, { minReplicas });
        const [waits, scripts] = [proxy.count('WAIT'), scriptsSeen()];
        const keys = Array.from({ length: 1_000 }, (_, n) => `${key}-${n}`);
        const leases = await Promise.all(keys.map((each) => withLock.promise(each, { commandTimeout: 100_000 })));
        expect(proxy.count('WAIT') - waits).to.equal(1);
        expect(scriptsSeen() - scripts, 'batches of 128').to.equal(8);
        for (const replica of replicas.slice(0, minReplicas === 2 ? 2 : 0))
          expect(await replica.command('MGET', ...keys)).to.deep.equal(leases.map(({ token }) => token));
        expect(new Set(leases.map(({ fence }) => fence)).size).to.equal(1_000);
      });
    }

    it(`${name}: those that ask while a WAIT is under way share the next (H99)`, async () => {
      const withLock = await factory(name, { minReplicas: 2 });
      await replicas[0]!.pause();
      const before = proxy.count('WAIT');
      const first = withLock.promise(`${key}-first`, { timeout: LONG_MS });
      await waitFor(() => proxy.count('WAIT') > before);
      const others = Array.from({ length: 300 }, (_, n) => withLock.promise(`${key}-${n}`, { timeout: LONG_MS }));
      await replicas[0]!.resume();
      await Promise.all([first, ...others]);
      const [last] = proxy.commands.filter(({ args }) => callsIn(args).length > 0).slice(-1);
      expect(callsIn(last!.args).length, 'the last of three batches').to.equal(300 - 2 * 128);
      // A machine that is busy for longer than a WAIT sees it repeated.
      expect(proxy.count('WAIT') - before).to.be.within(2, 20);
    });

    it(`${name}: a replica stands still: NOREPLICAS for each caller, and nothing is left (H99)`, async () => {
      const withLock = await factory(name, { minReplicas: 2, commandTimeout: 6_000 });
      await replicas[0]!.pause();
      const asked: Promise<{ redisCode?: string }>[] = [];
      for (const n of Array(100).keys()) {
        asked.push(backendError(withLock.promise(`${key}-${n}`)));
        await new Promise(setImmediate);
        if (n % 25 === 0) await waitFor(async () => (await master.command('EXISTS', `${key}-${n}`)) === 1);
      }
      const codes = (await Promise.all(asked)).map(({ redisCode }) => redisCode);
      expect([...new Set(codes)]).to.deep.equal(['NOREPLICAS']);
      await nothingLeft();
    });
  }

  it('callers that want too many replicas do not hold up those that want fewer (H99)', async () => {
    const withLock = await factory();
    const stop = new AbortController();
    const inVain = [1, 2, 3].map((n) =>
      rejectionOf(
        withLock.promise(`${key}-vain-${n}`, {
          minReplicas: 3,
          maxRetries: Number.POSITIVE_INFINITY,
          signal: stop.signal,
        }),
      ),
    );
    await waitFor(() => proxy.commands.some(({ name, args }) => name === 'WAIT' && args[1] === '3'));
    const keys = Array.from({ length: 20 }, (_, n) => `${key}-${n}`);
    await Promise.all(keys.map((each) => withLock.promise(each)));
    stop.abort();
    await Promise.all(inVain);
  });

  it('a caller with much time does not hold up one with little (H99)', async () => {
    const withLock = await factory('node-redis', { commandTimeout: 200_000 });
    for (const replica of replicas) await replica.pause();
    const patient = withLock.promise(`${key}-patient`);
    await waitFor(async () => (await master.command('EXISTS', `${key}-patient`)) === 1);
    const error = await backendError(withLock.promise(key, { commandTimeout: 6_000 }));
    expect(error.redisCode).to.equal('NOREPLICAS');
    for (const replica of replicas) await replica.resume();
    expect(await (await patient)()).to.equal(true);
    await nothingLeft();
  });

  it('a caller that gives up while a WAIT is under way is never sent (H99, H3)', async () => {
    const withLock = await factory();
    for (const replica of replicas) await replica.pause();
    const before = proxy.count('WAIT');
    const first = withLock.promise(`${key}-first`, { timeout: LONG_MS });
    await waitFor(() => proxy.count('WAIT') > before);
    const stop = new AbortController();
    const gone = rejectionOf(withLock.promise(`${key}-gone`, { timeout: LONG_MS, signal: stop.signal }));
    const stays = withLock.promise(`${key}-stays`, { timeout: LONG_MS });
    stop.abort();
    await gone;
    for (const replica of replicas) await replica.resume();
    await Promise.all([first, stays]);
    expect(acquiresOf(`${key}-stays`)).to.be.greaterThan(0);
    expect(acquiresOf(`${key}-gone`)).to.equal(0);
  });

  it('the calls of a refused batch leave before the next WAIT, not behind one that is under way (H59)', async () => {
    const rights = ['on', '>pw', `~${key}-mine*`, '~{*', '~redis-exp-lock:fence', '+@all'];
    await master.command('ACL', 'SETUSER', 'some', 'reset', ...rights);
    const user = await connect(proxy.url, { ...REDIAL, username: 'some', password: 'pw' });
    ends.push(() => user.destroy());
    const withLock = redisExpLock({ redis: user, lifetime: LONG_MS, minReplicas: 1, commandTimeout });
    await (await withLock.promise(`${key}-mine`))();
    for (const replica of replicas) await replica.pause();
    const before = scriptsSeen();
    const sent: number[] = [];
    const hook = proxy.afterAnswer({ match: 'WAIT' }, () => void sent.push(scriptsSeen() - before));
    const refused = backendError(withLock.promise(`${key}-other`));
    const granted = withLock.promise(`${key}-mine`, { timeout: LONG_MS });
    expect((await refused).redisCode).to.equal('NOPERM');
    for (const replica of replicas) await replica.resume();
    await granted;
    hook.remove();
    // The plain batch; the other batch; one by one.
    expect(sent.slice(0, 3)).to.deep.equal([1, 2, 4]);
  });

  it('a WAIT that is never answered: the connection is given up, and the caller gets its lock over another (H59)', async () => {
    const withLock = await factory('node-redis', { commandTimeout: 1_000 });
    const lost = proxy.seen({ match: 'WAIT' });
    proxy.rule({ match: 'WAIT', nth: 1 }, dropReply());
    const lease = await withLock.promise(key, { timeout: LONG_MS });
    const { command } = await lost;
    const last = proxy.commands.filter(({ name }) => name === 'WAIT').at(-1)!;
    expect(last.connection).to.be.greaterThan(command.connection);
    expect(await master.command('GET', key)).to.equal(lease.token);
  });
});
