// Looking at every key of a server that has other work: how many commands that takes, and how much of its time, by its own figures.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { type Client, commandStats, connect, diffCommandStats, type RedisServer, startRedis } from '../support/redis';

const keys = 4000;

describe('a scan', () => {
  let server: RedisServer;
  let client: Client;
  let observer: Client;
  let withLock: redisExpLock.WithLock;

  before(async () => {
    server = await startRedis();
    [client, observer] = await Promise.all([connect(server.url), connect(server.url)]);
    withLock = redisExpLock({ redis: client, lifetime: 600_000, commandTimeout: 30_000 });
  });
  beforeEach(() => observer.flushAll());
  after(async () => {
    await withLock.close({ drain: false });
    await server.discard();
  });

  const scan = async (prefix: string): Promise<redisExpLock.ListedLock[]> => {
    const found: redisExpLock.ListedLock[] = [];
    for await (const lock of withLock.list({ prefix, scan: true })) found.push(lock);
    return found;
  };
  const spentMicros = async (): Promise<number> => {
    const stats = await observer.info('commandstats');
    const all = stats.matchAll(/^cmdstat_(?:scan|evalsha|eval):calls=\d+,usec=(\d+)/gm);
    return [...all].reduce((sum, [, micros]) => sum + Number(micros), 0);
  };

  it('takes at most 2 % of the time of the server, and one command for 500 keys and one for 100 locks', async () => {
    await observer.mSet(Object.fromEntries(Array.from({ length: keys }, (_, n) => [`other:${n}`, 'x'])));
    await Promise.all(Array.from({ length: 100 }, (_, n) => withLock.promise(`lock:${n}`)));
    await scan('none');
    const shares: number[] = [];
    // The server counts the time that it stands still in a command, and no rest follows the last one: the best of ten, if need be.
    for (let n = 0; n < 10 && Math.min(...shares) >= 0.02; n += 1) {
      const [before, micros, startMs] = [await commandStats(observer), await spentMicros(), performance.now()];
      expect(await scan('lock:')).to.have.length(100);
      const tookMs = performance.now() - startMs;
      shares.push(((await spentMicros()) - micros) / 1000 / tookMs);
      const calls = diffCommandStats(before, await commandStats(observer));
      // A SCAN gives a few more than it was asked for. The processes are asked for once; each step inspects what it found.
      expect(calls.scan).to.be.within(7, 9);
      expect(calls.evalsha! + (calls.eval ?? 0)).to.be.within(2, 1 + calls.scan!);
    }
    expect(Math.min(...shares), `${shares}`).to.be.lessThan(0.02);
  });

  it('asks for no more than the beginning of a long string, and divides locks with very many holders', async () => {
    await observer.set('long:a', 'x'.repeat(2 ** 20));
    await observer.set('long:b', 'y'.repeat(100));
    const ends = Date.now() + 600_000;
    const members = Array.from({ length: 256 }, (_, n) => ({
      score: ends,
      value: `1 p 1 0 ${n} 36 ${`${n}`.padEnd(36)}`,
    }));
    for (let n = 0; n < 40; n += 1) await observer.zAdd(`many:${n}`, members);
    const bytes = async () => Number(/total_net_output_bytes:(\d+)/.exec(await observer.info('stats'))![1]);
    const before = await bytes();
    const long = await scan('long:');
    expect(long.map(({ key, locked }) => [key, locked]).sort()).to.deep.equal([
      ['long:a', true],
      ['long:b', true],
    ]);
    expect((await bytes()) - before).to.be.lessThan(64 * 1024);
    await scan('none');
    const stats = await commandStats(observer);
    const many = await scan('many:');
    const calls = diffCommandStats(stats, await commandStats(observer));
    expect(many.map(({ holders }) => holders.length)).to.deep.equal(Array.from({ length: 40 }, () => 256));
    // 9 locks with 512 texts each are one command.
    expect(calls.evalsha).to.equal(1 + Math.ceil(40 / 9));
  });
});
