/**
 * Replicas: what a failover that loses the newest writes does to a lock, and how far `minReplicas` narrows that window. The
 * double grant cannot be prevented here; it is seen by the fences, and the old holder is notified at its next extension.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { FaultProxy, reset, startProxy } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis, startReplica, uniqueKey } from '../support/redis';
import { backendError, LONG_MS, REDIAL } from './faults';
import { isAcquire, isExtension, lossOf, rejectionOf } from './holding';

describe('a failover to a replica that lags (H59)', () => {
  let master: RedisServer;
  let replica: RedisServer;
  let proxy: FaultProxy;
  let key: string;
  const clients: Client[] = [];
  /** Survives the outage by far. */
  const lifetime = 30_000;
  /** No reply comes too late. */
  const commandTimeout = 10_000;

  beforeEach(async () => {
    master = await startRedis();
    replica = await startReplica(master);
    proxy = await startProxy(master.port);
    key = uniqueKey();
  });

  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy();
    await proxy.stop();
    await Promise.all([master.discard(), replica.discard()]);
  });

  async function client(url: string): Promise<Client> {
    const made = await connect(url, REDIAL);
    clients.push(made);
    return made;
  }

  /** Stops the replica: from now on nothing reaches it, not even what lies in its socket. */
  async function stopReplica(): Promise<void> {
    await replica.pause();
    await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
  }

  async function replicated(name: string, value: string): Promise<void> {
    await waitFor(async () => (await replica.command('GET', name)) === value, { what: `${name} at the replica` });
  }

  /** The master dies, the replica takes its place; who was connected to the master is still on his way. */
  async function failOver(): Promise<void> {
    await master.kill();
    await replica.resume();
    await replica.command('REPLICAOF', 'NO', 'ONE');
  }

  /** Puts the new master in the place of the old one, for all that were connected to it. */
  async function redirect(): Promise<void> {
    await proxy.stop();
    proxy = new FaultProxy(proxy.port, replica.port);
    await proxy.start();
  }

  /** The loss that a lease hears of at its next extension, which is asked for until the client has found the new master. */
  async function lossAtExtension(lease: redisExpLock.Lease): Promise<redisExpLock.LockLostError> {
    const isLost = async (): Promise<boolean> => {
      await lease.extend().catch((error) => expect(error).to.be.instanceOf(redisExpLock.LockBackendError));
      return lease.signal.aborted;
    };
    await waitFor(isLost, { what: 'the loss' });
    return lossOf(lease);
  }

  it('grants twice; the old holder is notified at its next extension (taken), and its fence is the lower one (H59)', async () => {
    const withLock = redisExpLock({ redis: await client(proxy.url), lifetime, commandTimeout });
    await stopReplica();
    const old = await withLock.promise(key, { autoExtend: true });
    await failOver();
    const next = await redisExpLock({ redis: await client(replica.url), lifetime: LONG_MS, commandTimeout }).promise(
      key,
    );
    expect(old.remaining(), 'both valid by their own clocks').to.be.greaterThan(0);
    expect(next.remaining(), 'both valid by their own clocks').to.be.greaterThan(0);
    expect(next.fence).to.be.greaterThan(old.fence);

    await redirect();
    const error = await lossAtExtension(old);
    expect([error.code, error.reason]).to.deep.equal(['ERR_LOCK_LOST', 'taken']);
    expect(await old.release()).to.equal(false);
    expect(await replica.command('GET', key)).to.equal(next.token);
    expect(await next.release()).to.equal(true);
  });

  it('loses a lock that nobody has taken since; the holder is notified at its next extension (missing) (H59)', async () => {
    const withLock = redisExpLock({ redis: await client(proxy.url), lifetime, commandTimeout });
    const { fence } = await withLock.run(key, (lease) => lease);
    await replicated('redis-exp-lock:fence', String(fence));
    await stopReplica();
    const error = await rejectionOf(
      withLock.run(key, async (old) => {
        await failOver();
        await redirect();
        expect((await lossAtExtension(old)).reason).to.equal('missing');
        return old.fence;
      }),
    );
    expect(error).to.be.instanceOf(redisExpLock.LockLostError);
    expect(error.reason).to.equal('missing');
    const next = await withLock.promise(key, { maxRetries: 50 });
    expect(next.fence).to.be.greaterThan(error.result);
  });

  it('keeps a lock that had reached the replica: its holder renews it there (H59)', async () => {
    const withLock = redisExpLock({ redis: await client(proxy.url), lifetime, commandTimeout });
    // Renewed after three seconds, and again and again while the master is gone.
    const lease = await withLock.promise(key, { autoExtend: true, lifetime: 9_000 });
    await replicated(key, lease.token);
    await failOver();
    await redirect();
    const next = redisExpLock({ redis: await client(replica.url), commandTimeout });
    expect(await next.tryLock(key)).to.equal(null);
    let { reply } = await proxy.seen({ match: isExtension });
    // One that a slow machine sent before the failover made the script known by its name, there and not here.
    if (String(reply).startsWith('-NOSCRIPT')) ({ reply } = await proxy.seen({ match: isExtension }));
    expect(String(reply)).to.match(/^\*2\r\n:1\r\n/);
    expect(lease.signal.aborted).to.equal(false);
    expect(await next.tryLock(key)).to.equal(null);
    expect(await lease.release()).to.equal(true);
  });

  it('with minReplicas, what did not reach the replica was not granted: nobody holds it but the next (H59)', async () => {
    const options = { lifetime: LONG_MS, minReplicas: 1, commandTimeout: 3_000 };
    const withLock = redisExpLock({ redis: await client(proxy.url), ...options });
    await stopReplica();
    const error = await backendError(withLock.promise(key));
    expect([error.redisCode, error.retryable]).to.deep.equal(['NOREPLICAS', true]);
    await failOver();
    const next = await redisExpLock({ redis: await client(replica.url), lifetime: LONG_MS, commandTimeout }).promise(
      key,
    );
    await redirect();
    await withLock.close();
    expect(await replica.command('GET', key)).to.equal(next.token);
  });
});

describe('minReplicas (H59)', () => {
  /** No reply comes too late. */
  const commandTimeout = 10_000;
  let master: RedisServer;
  let replica: RedisServer;
  let proxy: FaultProxy;
  let redis: Client;
  let key: string;
  let withLock: redisExpLock.WithLock;

  before(async () => {
    master = await startRedis();
    replica = await startReplica(master);
    // Counted is not yet fed: the stream begins with the replica's first acknowledgement, up to a second later.
    await master.command('SET', 'first', 'x');
    await waitFor(() => replica.command('GET', 'first'), { what: 'the stream to begin' });
  });

  after(() => Promise.all([master.discard(), replica.discard()]));

  beforeEach(async () => {
    proxy = await startProxy(master.port);
    redis = await connect(proxy.url, REDIAL);
    key = uniqueKey();
    withLock = redisExpLock({ redis, minReplicas: 1, lifetime: LONG_MS, commandTimeout: 3_000 });
  });

  afterEach(async () => {
    await replica.resume();
    proxy.heal();
    await withLock.close({ drain: false });
    redis.destroy();
    await proxy.stop();
  });

  const holder = (): Promise<string | null> => master.command('GET', key);
  const connections = async (): Promise<number> =>
    (await master.command<string>('CLIENT', 'LIST', 'TYPE', 'normal')).trim().split('\n').length;

  /** The number of connections once those of earlier tests are gone: the client of this test and ours to the master are left. */
  async function settledConnections(): Promise<number> {
    await waitFor(async () => (await connections()) === 2, { what: 'earlier connections to be gone' });
    return 2;
  }

  /** True once the replica has acknowledged all, which it says once a second. */
  async function replicaHasSaidAll(): Promise<boolean> {
    const info = await master.command<string>('INFO', 'replication');
    return /,offset=(\d+)/.exec(info)?.[1] === /master_repl_offset:(\d+)/.exec(info)?.[1];
  }

  async function freed(): Promise<void> {
    await waitFor(async () => (await holder()) === null, { what: `${key} to be free` });
  }

  it('of a healthy replica: it has the key when the grant returns (H59)', async () => {
    for (let round = 0; round < 20; round += 1) {
      const lease = await withLock.promise(key, { commandTimeout });
      expect(await replica.command('GET', key)).to.equal(lease.token);
      expect(await replica.command('GET', 'redis-exp-lock:fence')).to.equal(String(lease.fence));
      expect(await lease.release()).to.equal(true);
    }
  });

  it('more than there are: an error, and nothing is held (H59)', async () => {
    const error = await backendError(withLock.promise(key, { minReplicas: 2 }));
    expect([error.redisCode, error.retryable]).to.deep.equal(['NOREPLICAS', true]);
    expect(error.message).to.contain('1 of 2');
    await freed();
  });

  it('of a replica that is paused: an error, and nothing is held (H59)', async () => {
    await (await withLock.promise(key, { timeout: 20_000 })).release();
    // By its SHA, the script would come behind WAIT, and that has its answer where the replica is known to have all.
    await master.command('SCRIPT', 'FLUSH');
    await waitFor(replicaHasSaidAll, { what: 'the replica to say that it has all' });
    await replica.pause();
    const before = proxy.commands.length;
    const error = await backendError(withLock.promise(key));
    expect([error.redisCode, error.retryable]).to.deep.equal(['NOREPLICAS', true]);
    expect(proxy.commands.slice(before, before + 2).map(({ name }) => name)).to.deep.equal(['EVAL', 'WAIT']);
    await freed();
  });

  it('of a replica that goes on within the wait: one grant, one fence (H59)', async () => {
    await replica.pause();
    const inVain = proxy.seen({ match: 'WAIT' });
    const acquired = withLock.promise(key, { timeout: 30_000 });
    await inVain;
    const fence = await master.command('GET', 'redis-exp-lock:fence');
    await replica.resume();
    const lease = await acquired;
    expect(String(lease.fence)).to.equal(fence);
    expect(await replica.command('GET', key)).to.equal(lease.token);
  });

  it('busy is busy, whatever the replicas say (H59)', async () => {
    await master.command('SET', key, 'somebody else', 'PX', LONG_MS);
    await replica.pause();
    expect(await withLock.tryLock(key)).to.equal(null);
  });

  it('the reply is lost with the connection: the retry is the same grant (H2, H59)', async () => {
    await (await withLock.promise(key, { commandTimeout })).release();
    const lost = proxy.seen({ match: isAcquire });
    proxy.rule({ match: isAcquire, nth: 1 }, reset());
    const lease = await withLock.promise(key, { maxRetries: 50, retryTimeout: 10, commandTimeout });
    expect(String((await lost).reply)).to.contain(`:${lease.fence}\r\n`);
    expect(await holder()).to.equal(lease.token);
    expect(await replica.command('GET', key)).to.equal(lease.token);
  });

  for (const standsStill of [true, false]) {
    const title = standsStill ? 'not counted for a replica that never got the key' : 'both are done again';
    it(`the connection is another one between the write and WAIT: ${title} (H59)`, async () => {
      const sly = clientWhoseFirstWaitComesOnTheNextConnection();
      const limit = standsStill ? 3_000 : commandTimeout;
      withLock = redisExpLock({ redis: sly, minReplicas: 1, lifetime: LONG_MS, commandTimeout: limit });
      if (standsStill) await replica.pause();
      const acquired = withLock.promise(key);
      if (standsStill) {
        const error = await backendError(acquired);
        expect(error.redisCode).to.equal('NOREPLICAS');
        await freed();
      } else {
        const lease = await acquired;
        expect(await replica.command('GET', key)).to.equal(lease.token);
        expect(proxy.count('WAIT')).to.equal(2);
      }
    });
  }

  /** WAIT on a connection that wrote nothing is answered at once, for every replica, also for one that stands still. */
  function clientWhoseFirstWaitComesOnTheNextConnection(): redisExpLock.NodeRedisLike {
    return {
      eval: redis.eval.bind(redis),
      evalSha: redis.evalSha.bind(redis),
      get isReady() {
        return redis.isReady;
      },
      duplicate() {
        const connection = redis.duplicate();
        const send = connection.sendCommand.bind(connection);
        let first = true;
        return Object.assign(connection, {
          async sendCommand(words: string[], options?: object) {
            if (words[0] === 'WAIT' && first) {
              first = false;
              const id = await connection.clientId(); // behind the write
              const ready = new Promise((resolve) => connection.once('ready', resolve));
              await master.command('CLIENT', 'KILL', 'ID', id);
              await ready;
            }
            return send(words, options);
          },
        });
      },
    } as redisExpLock.NodeRedisLike;
  }

  it('its connection is one, made when first needed, shared by all users of the client, and gone with the last (H59)', async () => {
    const before = await settledConnections();
    const other = redisExpLock({ redis, minReplicas: 1, lifetime: LONG_MS, commandTimeout });
    const mine = ['a', 'b'].map((each) => withLock.promise(`${key}-${each}`, { commandTimeout }));
    await Promise.all([...mine, other.promise(`${key}-c`)]);
    expect(await connections()).to.equal(before + 1);
    await withLock.close({ drain: false });
    expect(await (await other.promise(`${key}-d`)).release()).to.equal(true);
    expect(await connections()).to.equal(before + 1);
    await other.close({ drain: false });
    await waitFor(async () => (await connections()) === before, { what: 'the connection to be gone' });
    expect(await redis.ping()).to.equal('PONG');
  });

  it('without it there is no further connection (H59)', async () => {
    const before = await settledConnections();
    const plain = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout });
    await (await plain.promise(key)).release();
    expect(await connections()).to.equal(before);
    await plain.close();
  });

  it('its connection breaks while nobody uses it: the next acquire works, and nothing crashes (H59)', async () => {
    await (await withLock.promise(key, { commandTimeout })).release();
    proxy.resetAll();
    const lease = await withLock.promise(key, { timeout: 20_000, commandTimeout });
    expect(await holder()).to.equal(lease.token);
  });

  it('no right to WAIT: an error at once, by name, and what was written is released (H54, H59)', async () => {
    await master.command('ACL', 'SETUSER', 'nowait', 'reset', 'on', '>pw', '~*', '+@all', '-wait');
    const user = await connect(master.url, { ...REDIAL, username: 'nowait', password: 'pw' });
    const limited = redisExpLock({ redis: user, minReplicas: 1, lifetime: LONG_MS, commandTimeout: 3_000 });
    try {
      const error = await backendError(limited.promise(key, { timeout: LONG_MS }));
      expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
      await freed();
    } finally {
      await limited.close();
      user.destroy();
    }
  });

  it('close() ends although its connection was never made (H35, H59)', async () => {
    await redis.ping();
    proxy.refuse(); // the client itself stays connected
    await backendError(withLock.promise(key, { commandTimeout: unansweredMs }));
    await withLock.close();
    proxy.heal();
    await sleep(300);
    expect(proxy.open, 'a connection left open').to.equal(1);
  });

  it('its connection is made while its only caller has given up: nothing is written for nobody (H3, H59)', async () => {
    proxy.refuse();
    const lost = rejectionOf(withLock.promise(key, { timeout: 100 }));
    expect(await lost).to.be.instanceOf(redisExpLock.LockError);
    proxy.heal();
    await waitFor(() => proxy.open === 2, { what: 'the connection for WAIT' });
    await sleep(300);
    expect(proxy.count(isAcquire)).to.equal(0);
    expect(await holder()).to.equal(null);
  });
});
