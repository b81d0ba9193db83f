// The verbs of the shims, which make one attempt at a time: a call leaves at once, with the same answers as by the store's own verbs.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { newToken } from '../../src/core/token';
import redisExpLock from '../../src/index';
import type { AcquireRequest, ReleaseRequest } from '../../src/store/contract';
import { storeOf } from '../../src/store/open';
import { directStore } from '../support/direct-store';
import { waitFor } from '../support/processes';
import { randomRuns } from '../support/random-runs';
import { type Client, connect, type RedisServer, recordCommands, startRedis, uniqueKey } from '../support/redis';

const commandTimeoutMs = 10_000;
const fenceKey = 'redis-exp-lock:fence';

function acquiring(keys: string | string[], token: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  const terms = { lifetimeMs: 60_000, fences: 1, minReplicas: 0, commandTimeoutMs, begin: () => true };
  return { keys, token, ...terms, ...more };
}

function releasing(keys: string | string[], token: string): ReleaseRequest {
  return { keys, token, commandTimeoutMs, isConfirmed: true };
}

describe('the verbs of the shims', () => {
  let server: RedisServer;
  let client: Client;
  let key: string;
  let token: string;

  before(async () => {
    server = await startRedis();
    client = await connect(server.port);
  });

  beforeEach(() => {
    key = uniqueKey('direct');
    token = newToken(undefined);
  });

  after(() => server.discard());

  /** The number of scripts that the server runs. */
  async function callsOf(work: () => Promise<unknown>): Promise<number> {
    const count = async (): Promise<number> => {
      const stats = await server.command<string>('INFO', 'commandstats');
      return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
        (sum, [, calls]) => sum + Number(calls),
        0,
      );
    };
    const before = await count();
    await work();
    return (await count()) - before;
  }

  for (const [what, name] of [
    ['one lock', (): string => key],
    ['two locks', (): string[] => [`{${key}}1`, `{${key}}2`]],
  ] as const) {
    it(`${what}: held for the lifetime under a larger fence each time, and gone after the release, in a call each`, async () => {
      const keys = name();
      const list = [keys].flat();
      let last = 0;
      for (const holder of [newToken(undefined), newToken(undefined)]) {
        const calls = await callsOf(async () => {
          const reply = await directStore(client).acquire(acquiring(keys, holder));
          if (!reply.granted) throw new Error('busy');
          expect(reply.fence).to.be.above(last);
          last = reply.fence;
        });
        expect(calls).to.equal(1);
        expect(await server.command('MGET', ...list)).to.deep.equal(list.map(() => holder));
        for (const each of list) expect(await server.command<number>('PTTL', each)).to.be.within(1, 60_000);
        expect(Number(await server.command('GET', fenceKey))).to.equal(last);
        expect(await callsOf(() => directStore(client).release(releasing(keys, holder)))).to.equal(1);
        expect(await server.command('EXISTS', ...list)).to.equal(0);
      }
    });
  }

  it('busy: nothing is changed, and of several locks none is taken', async () => {
    const list = [`{${key}}1`, `{${key}}2`];
    await server.command('SET', list[1]!, 'stranger', 'PX', 60_000);
    const before = await server.command('GET', fenceKey);
    const calls = await callsOf(async () => {
      expect((await directStore(client).acquire(acquiring(list, token))).granted).to.equal(false);
    });
    expect(calls).to.equal(1);
    expect(await server.command('MGET', ...list)).to.deep.equal([null, 'stranger']);
    expect(await server.command('GET', fenceKey)).to.equal(before);
  });

  it('what is ours already is granted again under its fence, as by the store (H2) (H4)', async () => {
    const first = await directStore(client).acquire(acquiring(key, token));
    const again = await directStore(client).acquire(acquiring(key, token));
    expect(again).to.include({ granted: true });
    expect(again.granted && again.fence).to.equal(first.granted && first.fence);
  });

  it('passes nobody who is queued, and hands the lock off to them', async () => {
    const queueing = redisExpLock({
      redis: await connect(server.port),
      lifetime: 60_000,
      commandTimeout: commandTimeoutMs,
    });
    expect((await directStore(client).acquire(acquiring(key, token))).granted).to.equal(true);
    const waiting = queueing.promise(key, { timeout: 60_000 });
    await waitFor(async () => (await server.command('ZCARD', `{${key}}:queue`)) === 1);
    expect(await directStore(client).release(releasing(key, token))).to.equal('released');
    expect(await server.command('GET', key), 'handed off by the release').to.be.a('string');
    const lease = await waiting;
    expect(await server.command('GET', key)).to.equal(lease.token);
    expect((await directStore(client).acquire(acquiring(key, newToken(undefined)))).granted).to.equal(false);
    await lease();
  });

  it('a lock that ended by itself goes to those who are queued for it', async () => {
    const queueing = redisExpLock({
      redis: await connect(server.port),
      lifetime: 60_000,
      commandTimeout: commandTimeoutMs,
    });
    await server.command('SET', key, newToken(undefined), 'PX', 60_000);
    const waiting = queueing.promise(key, { timeout: 60_000 });
    await waitFor(async () => (await server.command('ZCARD', `{${key}}:queue`)) === 1);
    await server.command('DEL', key);
    expect((await directStore(client).acquire(acquiring(key, token))).granted).to.equal(false);
    await (await waiting)();
  });

  it('a release of what somebody else holds, or nobody, says so and changes nothing', async () => {
    await server.command('SET', key, 'stranger', 'PX', 60_000);
    expect(await directStore(client).release(releasing(key, token))).to.equal('taken');
    expect(await server.command('GET', key)).to.equal('stranger');
    expect(await directStore(client).release(releasing(uniqueKey('gone'), token))).to.equal('missing');
  });

  it('a release of several, of which somebody else holds the last: that one stays', async () => {
    const list = [`{${key}}1`, `{${key}}2`];
    expect((await directStore(client).acquire(acquiring(list, token))).granted).to.equal(true);
    await server.command('SET', list[1]!, 'stranger', 'PX', 60_000);
    expect(await directStore(client).release(releasing(list, token))).to.equal('taken');
    expect(await server.command('MGET', ...list)).to.deep.equal([null, 'stranger']);
  });

  it('a damaged fence counter is refused and stays what it is; one ahead of the clock is exceeded', async () => {
    const good = await server.command<string>('GET', fenceKey);
    const ahead = String((Date.now() + 60_000) * 1000);
    try {
      for (const bad of ['garbage', `${good.slice(0, -1)}x`]) {
        await server.command('SET', fenceKey, good);
        await server.command('SET', fenceKey, bad);
        const failure = await directStore(client)
          .acquire(acquiring(key, token))
          .catch((error) => error);
        expect(failure).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'FENCE' });
        expect(await server.command('MGET', fenceKey, key)).to.deep.equal([bad, null]);
      }
      await server.command('SET', fenceKey, good);
      await server.command('SET', fenceKey, ahead);
      const reply = await directStore(client).acquire(acquiring(key, token));
      expect(reply.granted && reply.fence).to.equal(Number(ahead) + 1);
    } finally {
      await server.command('SET', fenceKey, good);
    }
  });

  it('a server that is silent for longer than the time-out: unknown; what it runs later changes nothing (H3)', async () => {
    await server.pause();
    const request = acquiring(key, token, { commandTimeoutMs: 100 });
    const failure = await directStore(client)
      .acquire(request)
      .catch((error) => error)
      .finally(async () => {
        await sleep(500); // far beyond its time-out
        await server.resume();
      });
    expect(failure).to.include({ code: 'ERR_LOCK_BACKEND', unknown: true });
    // Behind it, on the same connection.
    expect(await client.ping()).to.equal('PONG');
    expect(await server.command('GET', key)).to.equal(null);
  });

  it('a full memory refuses, and no lock and no fence is written (H55)', async () => {
    const before = await server.command('GET', fenceKey);
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      const failure = await directStore(client)
        .acquire(acquiring(key, token))
        .catch((error) => error);
      expect(failure).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'OOM' });
      expect(await server.command('MGET', fenceKey, key)).to.deep.equal([before, null]);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', '0');
    }
  });

  it('many at once leave together, as the store sends them', async () => {
    const recording = await recordCommands(server);
    const all = Array.from({ length: 64 }, () => acquiring(uniqueKey('crowd'), newToken(undefined)));
    const replies = await Promise.all(all.map((request) => directStore(client).acquire(request)));
    expect(replies.every(({ granted }) => granted)).to.equal(true);
    const sent = (await recording.stop()).filter(({ args }) => /^eval/i.test(args[0]!));
    expect(sent.length).to.be.within(1, 16);
  });

  it('any mix of these verbs and the store’s: one holder at a time, and fences that rise', async () => {
    const ways = [directStore(client), storeOf(client)];
    const command = fc.record({
      way: fc.constantFrom(0, 1),
      who: fc.nat({ max: 2 }),
      keys: fc.constantFrom([0], [1], [0, 1]),
      releases: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 40 }), async (commands) => {
        const names = [`{${uniqueKey()}}`, ''].map((tag, n, [first]) => `${tag || first}:${n}`);
        const tokens = [0, 1, 2].map(() => newToken(undefined));
        const holders: (number | undefined)[] = [undefined, undefined];
        let last = 0;
        for (const { way, who, keys: which, releases } of commands) {
          const held = which.map((n) => holders[n]);
          if (new Set(held).size > 1 && held.includes(who)) continue; // some are ours: no caller asks for that
          const keys = which.length === 1 ? names[which[0]!]! : which.map((n) => names[n]!);
          const isFree = held.every((holder) => holder === undefined);
          const isOurs = held.every((holder) => holder === who);
          const direct = ways[way]!;
          if (releases) {
            const reply = await direct.release(releasing(keys, tokens[who]!));
            expect(reply === 'released').to.equal(isOurs);
            if (isOurs) for (const n of which) holders[n] = undefined;
            continue;
          }
          const reply = await direct.acquire(acquiring(keys, tokens[who]!));
          expect(reply.granted).to.equal(isFree || isOurs);
          if (!reply.granted) continue;
          if (isFree) expect(reply.fence).to.be.above(last);
          last = Math.max(last, reply.fence);
          for (const n of which) holders[n] = who;
        }
        for (const [n, holder] of holders.entries())
          expect(await server.command('GET', names[n]!)).to.equal(holder === undefined ? null : tokens[holder]);
        await server.command('DEL', ...names);
      }),
      { numRuns: randomRuns(40) },
    );
  });
});
