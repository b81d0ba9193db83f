/**
 * Thousands that wait for a key which several may hold: what a call costs the server does not grow with them, so that they are
 * served in time and other commands on that server do not wait. Cost is the processor time of Redis for each command that its
 * scripts called: a command that reads a whole queue would cost ten times as much in one that is ten times as long.
 */
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type Client, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const { RWLock, Semaphore } = redisExpLock;

describe('many waiters (H81)', function () {
  this.timeout(120_000); // thousands of waiters
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

  /** For a lock object of each caller: those of one would share an entry. */
  const options = () => ({ redis: client, lifetime: 60_000, timeout: 100_000, commandTimeout: 30_000 });

  async function cpuMs(): Promise<number> {
    return 1_000 * Number(/used_cpu_user:([\d.]+)/.exec(await other.info('cpu'))![1]);
  }

  async function commands(): Promise<number> {
    const calls = [...(await other.info('commandstats')).matchAll(/calls=(\d+)/g)];
    return calls.reduce((sum, [, count]) => sum + Number(count), 0);
  }

  /** Lets `crowd` callers wait behind `hold`, and serves them all. @returns The cost of a command, in ms of the server's processor. */
  async function serve(crowd: number, hold: redisExpLock.Lease, use: (n: number) => Promise<unknown>): Promise<number> {
    const startMs = await cpuMs();
    const start = await commands();
    const all = Promise.all(Array.from({ length: crowd }, (_, n) => use(n)));
    const queue = companionOf(key, 'queue');
    const isQueued = async () => (await other.zCount(queue, 0, '+inf')) >= crowd;
    await waitFor(isQueued, { what: 'a crowd' });
    expect(await hold.release()).to.equal(true);
    await all;
    await waitFor(async () => (await other.exists([key, queue])) === 0, { what: 'nothing to be left' });
    return ((await cpuMs()) - startMs) / ((await commands()) - start);
  }

  async function costsNoMore(crowd: number, serveSome: (crowd: number) => Promise<number>): Promise<void> {
    const few = await serveSome(crowd / 10);
    const many = await serveSome(crowd);
    expect(many, `ms of the server for each command; with a tenth of the crowd: ${few}`).to.be.below(4 * few);
  }

  for (const [prefer, crowd] of [
    ['writer', 2_000],
    ['fair', 1_000],
    ['reader', 1_000],
  ] as const) {
    it(`${crowd} readers and writers by turns, '${prefer}': all are served, at the cost of a tenth of them`, () =>
      costsNoMore(crowd, async (crowd) => {
        const lock = () => new RWLock(key, { ...options(), prefer });
        const use = (n: number) => (n % 2 ? lock().write(() => {}) : lock().read(() => {}));
        return serve(crowd, await lock().acquireWrite(), use);
      }));
  }

  it('1,000 that want permits: all are served, at the cost of a tenth of them', () =>
    costsNoMore(1_000, async (crowd) => {
      const semaphore = new Semaphore(key, 2, options());
      const hold = await semaphore.acquire(2);
      return serve(crowd, hold, (n) => semaphore.run({ permits: 1 + (n % 2) }, () => {}));
    }));

  it('4,000 readers behind a writer: all are let in together, a few at a time', async () => {
    const lock = () => new RWLock(key, options());
    let inside = 0;
    let most = 0;
    let crowded = (): void => {};
    const isCrowded = new Promise<void>((resolve) => (crowded = resolve));
    await serve(4_000, await lock().acquireWrite(), () =>
      lock().read(async () => {
        most = Math.max(most, ++inside);
        // Nobody leaves before, however late a busy server lets the next ones in.
        if (most > 64) crowded();
        await isCrowded;
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
    const all = Array.from({ length: 4_000 }, (_, n) =>
      (n % 2 ? lock.acquireWrite : lock.acquireRead).call(lock, { signal: aborter.signal }).catch(() => {}),
    );
    const queue = companionOf(key, 'queue');
    await waitFor(async () => (await other.zCount(queue, 0, '+inf')) >= 4_000, { what: 'a crowd' });
    const startMs = await cpuMs();
    const start = await commands();
    aborter.abort();
    await Promise.all(all);
    await waitFor(async () => (await other.exists(queue)) === 0, { what: 'the queue to be gone' });
    expect(((await commands()) - start) / 4_000, 'commands for each').to.be.below(50);
    expect(((await cpuMs()) - startMs) / ((await commands()) - start), 'ms of the server for each').to.be.below(0.5);
    expect(await hold.release()).to.equal(true);
  });
});
