/**
 * Thousands that wait for a key which several may hold: what a call costs the server does not grow with them, so that they are
 * served in time and nobody else on that server notices. Cost is what Redis itself measured (SLOWLOG), not what we saw.
 */
import { setMaxListeners } from 'node:events';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { companionOf } from '../../src/keys';
import { waitFor } from '../support/processes';
import { type Client, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const { RWLock, Semaphore } = redisExpLock;

describe('a crowd that waits (H81)', function () {
  this.timeout(120_000);
  let server: RedisServer;
  let client: Client;
  let other: Client;
  let key: string;

  before(async () => {
    server = await startRedis();
    client = await server.connect();
    other = await server.connect();
  });

  after(async () => {
    client.destroy();
    other.destroy();
    await server.discard();
  });

  beforeEach(() => {
    key = uniqueKey('crowd');
  });

  const options = () => ({ redis: client, lifetime: 60_000, timeout: 100_000 });

  async function cpuMs(): Promise<number> {
    return 1_000 * Number(/used_cpu_user:([\d.]+)/.exec(await other.info('cpu'))![1]);
  }

  /** So many wait behind `hold`; then all are served. What each costs the server, in ms of its processor. */
  async function serve(crowd: number, hold: redisExpLock.Lease, use: (n: number) => Promise<unknown>): Promise<number> {
    const startMs = await cpuMs();
    const all = Promise.all(Array.from({ length: crowd }, (_, n) => use(n)));
    const queue = companionOf(key, 'queue');
    const isQueued = async () => (await other.zCount(queue, 0, '+inf')) >= crowd;
    await waitFor(isQueued, { what: 'a crowd', timeoutMs: 30_000 });
    expect(await hold.release()).to.equal(true);
    await all;
    expect(await other.exists([key, queue]), 'nothing is left').to.equal(0);
    return ((await cpuMs()) - startMs) / crowd;
  }

  /** Each asks again every two seconds, so a slow machine costs more; with a cost that grows it would be ten times as much. */
  async function costsNoMore(serveSome: (crowd: number) => Promise<number>): Promise<void> {
    const few = await serveSome(400);
    const many = await serveSome(4_000);
    expect(many, `ms of the server for each of 4,000; of 400: ${few}`).to.be.below(4 * few);
  }

  for (const prefer of ['writer', 'fair', 'reader'] as const) {
    it(`4,000 readers and writers by turns, '${prefer}': all are served, at the cost of 400`, () =>
      costsNoMore(async (crowd) => {
        const lock = new RWLock(key, { ...options(), prefer });
        return serve(crowd, await lock.acquireWrite(), (n) => (n % 2 ? lock.write(() => {}) : lock.read(() => {})));
      }));
  }

  it('4,000 that want permits: all are served, at the cost of 400', () =>
    costsNoMore(async (crowd) => {
      const semaphore = new Semaphore(key, 2, options());
      const hold = await semaphore.acquire(2);
      return serve(crowd, hold, (n) => semaphore.run({ permits: 1 + (n % 2) }, () => {}));
    }));

  it('4,000 readers behind a writer: all are let in together, a few at a time', async () => {
    const lock = new RWLock(key, options());
    let inside = 0;
    let most = 0;
    await serve(4_000, await lock.acquireWrite(), () =>
      lock.read(async () => {
        most = Math.max(most, ++inside);
        await new Promise((resolve) => setTimeout(resolve, 20));
        inside -= 1;
      }),
    );
    expect(most).to.be.greaterThan(64);
  });

  it('4,000 that give up cost no more than that, and leave nothing', async () => {
    const lock = new RWLock(key, options());
    const hold = await lock.acquireWrite();
    const aborter = new AbortController();
    setMaxListeners(0, aborter.signal);
    const all = Array.from({ length: 4_000 }, (_, n) =>
      (n % 2 ? lock.acquireWrite : lock.acquireRead).call(lock, { signal: aborter.signal }).catch(() => {}),
    );
    const queue = companionOf(key, 'queue');
    await waitFor(async () => (await other.zCount(queue, 0, '+inf')) >= 4_000, { what: 'a crowd', timeoutMs: 30_000 });
    const startMs = await cpuMs();
    aborter.abort();
    await Promise.all(all);
    await waitFor(async () => (await other.exists(queue)) === 0, { what: 'the queue to be gone', timeoutMs: 30_000 });
    expect(((await cpuMs()) - startMs) / 4_000, 'ms of the server for each').to.be.below(0.5);
    expect(await hold.release()).to.equal(true);
  });
});
