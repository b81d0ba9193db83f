// The process records, as they are on the server: none of them is long enough for reading or writing it to block
// the server, and an unchanged record is not written again.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis } from '../support/redis';

const longest = 2 ** 18;

describe('the registry', () => {
  let server: RedisServer;
  let client: Client;
  let observer: Client;

  before(async () => {
    server = await startRedis();
    [client, observer] = await Promise.all([connect(server.url), connect(server.url)]);
  });
  after(() => server.discard());

  const lockWith = (options: redisExpLock.Options): redisExpLock.WithLock =>
    redisExpLock({ redis: client, lifetime: 3_600_000, commandTimeout: 30_000, register: true, ...options });
  /** The records on the server, by key. */
  const written = async (): Promise<Map<string, string>> => {
    const keys = await observer.keys('redis-exp-lock:1:process:*');
    const texts = await Promise.all(keys.map((key) => observer.get(key)));
    return new Map(keys.map((key, n) => [key, texts[n] ?? '']));
  };
  const listed = async (lock: redisExpLock.WithLock): Promise<{ count: number; keys: number; processes: number }> => {
    const list = lock.list();
    const all: string[] = [];
    for await (const { key, locked } of list) if (locked) all.push(key);
    return { count: all.length, keys: new Set(all).size, processes: list.coverage().processes };
  };

  it('a few locks are one key with all of it, and a TTL', async () => {
    const withLock = lockWith({ owner: 'me' });
    const lease = await withLock.promise('one');
    // On a busy machine the record is written while the caller waits, and again once it holds the lock.
    const isHeld = async () => [...(await written())].find(([, each]) => JSON.parse(each).held.length > 0);
    const [key, text] = await waitFor(isHeld, { what: 'the held lock to be written' });
    expect((await written()).size).to.equal(1);
    const { host, pid, held, waiting, ...rest } = JSON.parse(text);
    expect({ host: typeof host, pid, waiting, rest }).to.deep.equal({
      host: 'string',
      pid: process.pid,
      waiting: [],
      rest: { id: key.slice('redis-exp-lock:1:process:'.length) },
    });
    expect(held).to.have.length(1);
    expect(held[0]).to.include({ key: 'one', kind: 'exclusive', fence: lease.fence, owner: 'me' });
    expect(await observer.pTTL(key)).to.be.within(1, 6000);
    await withLock.close({ drain: false });
    expect(await written()).to.deep.equal(new Map());
  });

  it('a lock that is lost, and released after that, is registered as lost once', async () => {
    const withLock = lockWith({});
    const lease = await withLock.promise('lost');
    await observer.del('lost');
    expect(await lease.extend()).to.equal(false);
    expect(await lease()).to.equal(false);
    await withLock.promise('held after that');
    const records = async () => [...(await written()).values()].map((text) => JSON.parse(text));
    const isHeld = ({ held }: { held: { key: string }[] }) => held.some(({ key }) => key === 'held after that');
    const record = await waitFor(async () => (await records()).find(isHeld), { what: 'the later lock to be written' });
    expect(record.lost.map(({ key }: { key: string }) => key)).to.deep.equal(['lost']);
    await withLock.close({ drain: false });
  });

  it('very many are written in parts; each lock is listed once, a change writes one part, and the end leaves none', async () => {
    const withLock = lockWith({ prefix: 'x'.repeat(900) });
    const reader = lockWith({ register: false });
    await Promise.all(Array.from({ length: 1000 }, (_, n) => withLock.promise(`${n}`)));
    await waitFor(async () => (await listed(reader)).count === 1000);
    expect(await listed(reader)).to.deep.equal({ count: 1000, keys: 1000, processes: 1 });
    const parts = await written();
    expect(parts.size).to.be.within(4, 16);
    for (const text of parts.values()) expect(text.length).to.be.lessThan(2 * longest);

    let before = parts;
    let extra = 0;
    // The knowledge of the server's time may get better meanwhile: then all times are written anew.
    const isOnePart = async (): Promise<boolean> => {
      extra += 1;
      const leaseKey = `extra ${extra}`;
      await withLock.promise(leaseKey);
      const changed = (after: Map<string, string>) => [...after].filter(([key, text]) => before.get(key) !== text);
      const isThere = async () => changed(await written()).some(([, text]) => text.includes(leaseKey));
      await waitFor(isThere, { what: `${leaseKey} to be written` });
      const after = await written();
      const count = changed(after).length;
      before = after;
      return count === 1;
    };
    await waitFor(isOnePart, { what: 'a change to be one part' });
    await withLock.close({ drain: false });
    expect(await written()).to.deep.equal(new Map());
    expect((await listed(reader)).count).to.equal(0);
    await reader.close();
  });
});
