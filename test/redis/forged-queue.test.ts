/**
 * The members of `{k}:queue` are written by scripts, but anybody with the right to ZADD may write there too, and a restart may bring
 * back old ones. A damaged or forged member costs those behind it a bounded delay; it is granted nothing and breaks no later call.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { ownServer } from '../support/own-server';
import { type Client, type RedisServer, uniqueKey } from '../support/redis';

/** A provisional grant (2 s), a request (1 s), and the rest for the machine. */
const boundedMs = 10_000;
/** No lock may end before its holder has looked at it. */
const patient = { lifetime: 30_000, commandTimeout: 10_000 };

describe('a forged or damaged queue of a mutex (H82)', () => {
  let server: RedisServer;
  let client: Client;
  let key: string;
  let queue: string;
  let withLock: redisExpLock.WithLock;

  ownServer((own) => {
    ({ server, client } = own);
  });

  beforeEach(() => {
    key = uniqueKey('forged');
    queue = companionOf(key, 'queue');
    withLock = redisExpLock({ redis: client, ...patient, timeout: boundedMs + 4_000 });
  });

  afterEach(() => withLock.close({ drain: false }));

  /** A whole entry but for what is given. */
  const entry = (parts: Partial<Record<'deadline' | 'id' | 'lifetime' | 'fences' | 'channel' | 'token', string>>) => {
    const whole = {
      deadline: String(Date.now() + 3_000),
      id: '7',
      lifetime: '1000',
      fences: '1',
      channel: 'c',
      token: 't',
    };
    return `1 ${Object.values({ ...whole, ...parts }).join(' ')}`;
  };
  const early = 1_000;
  const members: [what: string, member: () => string, score: number | string][] = [
    ['absurd fences', () => entry({ fences: '9007199254740991' }), early],
    ['more fences than a number holds', () => entry({ fences: '9'.repeat(400) }), early],
    ['a deadline in a thousand years', () => entry({ deadline: '33000000000000' }), early],
    ['a deadline that is no number', () => entry({ deadline: 'soon' }), early],
    ['no lifetime', () => entry({ lifetime: '0' }), early],
    ['a lifetime that no PEXPIRE takes', () => entry({ lifetime: '9'.repeat(30) }), early],
    ['no token', () => entry({ token: '' }), early],
    ['no text at all', () => '', early],
    ['binary text', () => '\u0000\u0001 %d %s', early],
    ['a whole entry of nobody', () => entry({}), early],
    ['a whole entry of nobody, at the end', () => entry({}), 9e17],
    ['a ticket beyond all others', () => entry({ deadline: '1' }), '+inf'],
    ['a ticket of zero', () => 'x', 0],
    ['a count without end', () => 'passes', '-inf'],
    ['a yield without end', () => 'passes', -9e15],
    ['a count that is none', () => 'passes', -63.5],
    ['an unknown mark', () => 'y', -5],
    ['a mark of a poll without end', () => 'poll 0 9000000000000000', -1_000],
  ];

  for (const [what, member, score] of members) {
    it(`${what}: a bounded delay for the queue, and nothing of it is left`, async () => {
      const held = await withLock.promise(key, { maxRetries: 0 });
      await server.command('ZADD', queue, score, member());
      const waiting = [
        withLock.promise(key),
        redisExpLock({ redis: client, ...patient }).promise(key, { timeout: boundedMs + 4_000 }),
      ];
      await sleep(20);
      expect(await held.release()).to.equal(true);
      const startMs = performance.now();
      if (!what.startsWith('a whole entry')) expect(await client.get(key), 'it is granted nothing').to.not.equal('t');
      const first = await Promise.race(waiting);
      expect(performance.now() - startMs, 'ms until it went on').to.be.below(boundedMs); // one without end never does
      expect(await client.get(key)).to.equal(first.token);
      const fences = [held.fence];
      // Each when it has the lock, whoever is first.
      const released = waiting.map(async (each) => {
        const lease = await each;
        fences.push(lease.fence);
        return lease.release();
      });
      expect(await Promise.all(released)).to.deep.equal([true, true]);
      expect(Math.max(...fences) / 1000 - Date.now(), 'ms that fences are ahead').to.be.below(1_000);
      expect(await (await withLock.promise(key, { timeout: 0 })).release()).to.equal(true);
      expect(await client.exists([key, queue])).to.equal(0);
    });
  }

  it('a queue of another version without an end: an error by name, for ten seconds at most', async () => {
    await server.command('ZADD', queue, early, '2 what nobody knows yet');
    const error = await withLock.promise(key, { timeout: 5_000 }).catch((reason) => reason);
    expect(error).to.include({ redisCode: 'VERSION' });
    expect(await client.pTTL(queue)).to.be.within(1, 10_000);
  });

  it('a cached value that is no JSON counts as nothing cached: it is loaded, and replaced', async () => {
    const value = companionOf(key, 'value');
    await client.set(value, '{"half":');
    let loads = 0;
    const load = () => ++loads;
    expect(await withLock.cached(key, { ttl: 60_000 }, load)).to.equal(1);
    expect(await client.get(value)).to.equal('1');
    expect(await withLock.cached(key, { ttl: 60_000 }, load)).to.equal(1);
  });

  it('a queue of which only the count is left ends after ten seconds', async () => {
    const [holder, waiter] = [await server.connect(), await server.connect()];
    const lease = await redisExpLock({ redis: holder, ...patient }).promise(key);
    const waits = redisExpLock({ redis: waiter, ...patient, timeout: 30_000 }).promise(key);
    while ((await client.zCard(queue)) === 0) await sleep(5);
    await lease();
    await waits;
    holder.destroy();
    waiter.destroy();
    expect(await client.zRange(queue, 0, -1)).to.deep.equal(['passes']);
    expect(await client.pTTL(queue)).to.be.within(1, 10_000);
  });
});

describe('a forged or damaged queue of readers, writers and permits (H82)', () => {
  const { RWLock, Semaphore } = redisExpLock;
  let server: RedisServer;
  let client: Client;

  ownServer((own) => {
    ({ server, client } = own);
  });

  const entry = (kind: string, parts: Partial<Record<'deadline' | 'permits' | 'length' | 'token', string>> = {}) => {
    const { deadline, permits, length, token } = {
      ...{ deadline: String(Date.now() + 3_000), permits: '1', length: '1', token: 't' },
      ...parts,
    };
    return `2 ${deadline} 7 ${kind} ${permits} w c ${length} ${token}`;
  };
  const micros = () => Date.now() * 1_000 - 5_000_000;
  const members: [what: string, member: (kind: string) => string, score: () => number | string][] = [
    ['a deadline in a thousand years', (kind) => entry(kind, { deadline: '33000000000000' }), micros],
    ['a token that is longer than it is', (kind) => entry(kind, { length: '9'.repeat(30) }), micros],
    ['no token', (kind) => entry(kind, { length: '0' }), micros],
    ['permits without end', (kind) => entry(kind, { permits: '9'.repeat(400) }), micros],
    ['no text at all', () => '', micros],
    ['a whole entry of nobody', (kind) => entry(kind), micros],
    ['a whole entry of nobody, before all bands', (kind) => entry(kind), () => 5],
    ['a ticket beyond all others', (kind) => entry(kind), () => '+inf'],
    ['a ticket far ahead', (kind) => entry(kind), () => 8e15],
    ['a phase that lies ahead', () => 'phase', () => -9e15],
    ['a phase without end', () => 'phase', () => '-inf'],
    ['a mark of nobody', () => 'told', () => -1],
  ];
  const kinds: [what: string, kind: string, make: (key: string) => { one(): Promise<redisExpLock.Lease> }][] = [
    [
      'a writer',
      'w',
      (key) => ({
        one: () => new RWLock(key, { redis: client, ...patient, timeout: boundedMs + 2_000 }).acquireWrite(),
      }),
    ],
    [
      'permits',
      'p',
      (key) => ({
        one: () => new Semaphore(key, 1, { redis: client, ...patient, timeout: boundedMs + 2_000 }).acquire(),
      }),
    ],
  ];

  for (const [who, kind, make] of kinds) {
    for (const [what, member, score] of members) {
      it(`${who}, ${what}: a bounded delay, and nothing of it is left`, async () => {
        const key = uniqueKey('forged');
        const queue = companionOf(key, 'queue');
        const { one } = make(key);
        const held = await one();
        await server.command('ZADD', queue, score(), member(kind));
        const waiting = [one(), one()];
        await sleep(20);
        expect(await held.release()).to.equal(true);
        const startMs = performance.now();
        const released = waiting.map(async (each) => (await each).release());
        expect(await Promise.all(released)).to.deep.equal([true, true]);
        expect(performance.now() - startMs, 'ms until both had it').to.be.below(boundedMs); // one without end never does
        expect(await (await one()).release()).to.equal(true);
        expect(await client.exists([key, queue])).to.equal(0);
      });
    }
  }
});
