// The plain batch says and does what its calls would one by one, in the order renewals, releases, acquires.
import { expect } from 'chai';
import * as fc from 'fast-check';
import redisExpLock from '../../src/index';
import type { Store } from '../../src/store/contract';
import { storeOf } from '../../src/store/open';
import { failure } from '../contract/outcomes';
import { waitFor } from '../support/processes';
import { randomFactor, randomRuns } from '../support/random-runs';
import { backendError, useStage } from './faults';

const LONG_MS = 60_000;
const terms = { lifetime: LONG_MS, commandTimeout: 10_000 };

/** The state of a key before the tick, and what is asked for it in the tick. */
interface Scene {
  readonly state: 'free' | 'ours' | 'lost' | 'taken' | 'queued' | 'handed' | 'foreign kind';
  readonly acquires: number;
}

describe('the plain batch', function () {
  this.timeout(60_000 * randomFactor); // as many random runs as are asked for
  const stage = useStage();

  const scenes = fc.array(
    fc.record<Scene>({
      state: fc.constantFrom('free', 'free', 'ours', 'ours', 'lost', 'taken', 'queued', 'handed', 'foreign kind'),
      acquires: fc.constantFrom(0, 1, 1, 2),
    }),
    { minLength: 2, maxLength: 12 },
  );

  /** Entries as other processes leave them; nobody listens to their channel. */
  const enqueue = async (key: string): Promise<void> => {
    const [seconds] = await stage.server.command<[string]>('TIME');
    const nowMs = Number(seconds) * 1000;
    const entry = `1 ${nowMs + 8_000} 7 5000 1 nobody waiting-${key}`;
    await stage.server.command('ZADD', `{${key}}:queue`, nowMs * 1000, entry);
  };

  async function play(prefix: string, some: readonly Scene[], isTogether: boolean): Promise<unknown[]> {
    const { server } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), ...terms, prefix });
    const leases = new Map<number, redisExpLock.Lease>();
    for (const [n, { state }] of some.entries()) {
      const key = `${prefix}${n}`;
      if (state !== 'free' && state !== 'foreign kind' && state !== 'queued')
        leases.set(n, await withLock.promise(`${n}`));
      if (state === 'lost') await server.command('DEL', key);
      if (state === 'taken') await server.command('SET', key, 'somebody else');
      if (state === 'foreign kind') await server.command('RPUSH', key, 'a');
      if (state === 'queued' || state === 'handed') await enqueue(key);
    }
    const fences: number[] = [];
    const told = (work: Promise<any>): Promise<unknown> =>
      work.then(
        (lease) => (lease?.fence ? fences.push(lease.fence) && 'granted' : lease),
        (error) => error.redisCode,
      );
    const calls = [
      ...[...leases.values()].map((lease) => () => told(lease.release())),
      ...some.flatMap(({ acquires }, n) =>
        Array.from({ length: acquires }, () => () => told(withLock.tryLock(`${n}`))),
      ),
    ];
    const outcomes: unknown[] = [];
    if (isTogether) outcomes.push(...(await Promise.all(calls.map((call) => call()))));
    else for (const call of calls) outcomes.push(await call());
    expect(
      [...fences].sort((a, b) => a - b),
      'each fence is given once',
    ).to.deep.equal([...new Set(fences)].sort((a, b) => a - b));
    for (const n of some.keys()) {
      const type = await server.command<string>('TYPE', `${prefix}${n}`);
      const holder = type === 'string' ? await stage.holder(`${prefix}${n}`) : type;
      const isWaiter = holder === `waiting-${prefix}${n}`;
      outcomes.push(
        isWaiter ? 'the waiter' : /^(none|list|somebody else)$/.test(`${holder}`) ? holder : holder && 'ours',
      );
      outcomes.push((await stage.leftMs(`${prefix}${n}`)) > 0, await server.command('ZCARD', `{${prefix}${n}}:queue`));
    }
    return outcomes;
  }

  it('random ticks: the same answers, holders, ends and queues as one call after the other', async () => {
    let tick = 0;
    await fc.assert(
      fc.asyncProperty(scenes, async (some) => {
        tick += 1;
        const id = `${stage.key}-${tick}`;
        const [together, apart] = [await play(`${id}-together:`, some, true), await play(`${id}-apart:`, some, false)];
        expect(together).to.deep.equal(apart);
      }),
      { numRuns: randomRuns(60) },
    );
  });

  it('least fences, as those of a quorum: each gets the next, or its least; a busy one takes none from the others', async () => {
    const store = storeOf(await stage.direct());
    const { server, key } = stage;
    const acquire = (n: number, minFence: number | undefined) =>
      store.acquire({
        ...{ keys: `${key}-${n}`, token: `${n}`, lifetimeMs: LONG_MS, fences: 1, minReplicas: 0, minFence },
        ...{ commandTimeoutMs: 5000, begin: () => true },
      });
    await server.command('SET', `${key}-2`, 'somebody else');
    await Promise.all([acquire(100, undefined), acquire(101, undefined)]);
    const last = Number(await stage.fence());
    const ahead = last + 3_600_000_000;
    const leasts = [ahead, ahead + 1, ahead + 2, ahead, undefined, ahead + 50, last];
    const replies = await Promise.all(leasts.map((least, n) => acquire(n, least)));
    const fences = replies.map((reply) => (reply.granted ? reply.fence - ahead : 'busy'));
    expect(fences).to.deep.equal([0, 1, 'busy', 3, 4, 50, 51]);
    expect(Number(await stage.fence())).to.equal(ahead + 51);
    const far = last + 2 * 86_400_000_000;
    const [refused, busy] = await Promise.all([failure(acquire(7, far)), acquire(2, ahead)]);
    expect([refused.redisCode, busy.granted]).to.deep.equal(['FENCE', false]);
    expect(await server.command('EXISTS', `${key}-7`)).to.equal(0);
    const later = await Promise.all([acquire(8, undefined), acquire(9, undefined)]);
    expect(later.map((reply) => reply.granted && reply.fence - ahead)).to.deep.equal([52, 53]);
  });

  it('60 acquires and 60 releases: about one command each, and the counter is written once', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), ...terms });
    const keys = Array.from({ length: 60 }, (_, n) => `${key}-${n}`);
    const first = await Promise.all(keys.map((each) => withLock.promise(`${each}-a`)));
    await server.command('CONFIG', 'RESETSTAT');
    const leases = await Promise.all([
      ...first.map((lease) => lease.release()),
      ...keys.map((each) => withLock.promise(`${each}-b`)),
    ]);
    expect(leases.slice(0, 60)).to.deep.equal(keys.map(() => true));
    const stats = await server.command<string>('INFO', 'commandstats');
    const calls = (name: string): number => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    expect([calls('set'), calls('mget'), calls('del'), calls('time')]).to.deep.equal([61, 1, 1, 1]);
    const fences = (leases.slice(60) as redisExpLock.Lease[]).map(({ fence }) => fence);
    expect(fences).to.deep.equal(keys.map((_, n) => fences[0]! + n));
    expect(await stage.fence()).to.equal(fences[59]);
  });

  it('H25: released in one tick while others hold the keys: false, and those keys are left alone', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), ...terms });
    const keys = Array.from({ length: 5 }, (_, n) => `${key}-${n}`);
    const leases = await Promise.all(keys.map((each) => withLock.promise(each)));
    for (const each of keys.slice(1)) await server.command('SET', each, 'somebody else', 'PX', LONG_MS);
    const released = await Promise.all(leases.map((lease) => lease.release()));
    expect(await server.command('MGET', ...keys)).to.deep.equal([null, ...keys.slice(1).map(() => 'somebody else')]);
    expect(released).to.deep.equal([true, ...keys.slice(1).map(() => false)]);
  });

  describe('renewals', () => {
    const fates = ['ours', 'lost', 'taken', 'longer', 'endless', 'foreign kind', 'too late'] as const;

    /** The store's own verb: an automatic renewal is one that is not exact. */
    const renew = (
      store: Store,
      keys: readonly string[],
      tokens: readonly string[],
      lateness: (n: number) => number,
    ) => {
      const answers = keys.map((each, n) => {
        const validUntilMs = performance.now() + lateness(n);
        const terms = { lifetimeMs: LONG_MS, exact: false, commandTimeoutMs: 5000, validUntilMs, begin: () => true };
        return store.extend({ keys: each, token: tokens[n]!, ...terms });
      });
      return Promise.all(answers);
    };

    it('H13: each is owner-checked, none makes a key or shortens an end, and one that is too late changes nothing', async () => {
      const { server, key } = stage;
      const keys = [...fates, 'ours too'].map((fate) => `${key} ${fate}`);
      for (const each of keys) await server.command('SET', each, `token of ${each}`, 'PX', 10_000);
      const [, lost, taken, longer, endless, foreign] = keys as [string, ...string[]];
      await server.command('DEL', lost!, foreign!);
      await server.command('SET', taken!, 'somebody else', 'PX', 10_000);
      await server.command('PEXPIRE', longer!, 3 * LONG_MS);
      await server.command('PERSIST', endless!);
      await server.command('RPUSH', foreign!, 'a');
      const tokens = keys.map((each) => `token of ${each}`);
      const late = keys.findIndex((each) => each.endsWith('too late'));
      const answers = await renew(storeOf(await stage.direct()), keys, tokens, (n) => (n === late ? -1000 : 5000));
      expect(answers.map(({ outcome }) => outcome)).to.deep.equal([
        ...['extended', 'missing', 'taken', 'extended', 'extended', 'taken', 'late', 'extended'],
      ]);
      const left = await Promise.all(keys.map((each) => stage.leftMs(each)));
      const ends = left.map((ms) => (ms < 0 ? ms : Math.round(ms / 10_000)));
      expect(ends).to.deep.equal([6, -2, 1, 18, -1, -1, 1, 6]);
      expect(await stage.holder(taken!)).to.equal('somebody else');
    });

    it('100 renewals: one command each, one MGET and one TIME for all', async () => {
      const { server, key } = stage;
      const keys = Array.from({ length: 100 }, (_, n) => `${key}-${n}`);
      for (const each of keys) await server.command('SET', each, 'ours', 'PX', 10_000);
      const tokens = keys.map(() => 'ours');
      const store = storeOf(await stage.direct());
      await renew(store, keys.slice(0, 2), tokens, () => 5000); // the server knows the script from now on
      await server.command('CONFIG', 'RESETSTAT');
      await renew(store, keys, tokens, () => 5000);
      const stats = await server.command<string>('INFO', 'commandstats');
      const calls = [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name, count]) => `${name} ${count}`);
      const expected = ['evalsha 1', 'mget 1', 'time 1', 'pexpire 100'];
      expect(calls.filter((each) => !each.startsWith('config'))).to.have.members(expected);
      for (const each of keys) expect(await stage.leftMs(each)).to.be.above(10_000);
    });

    it('renewed and released in one tick: released, and never made again', async () => {
      const { server, key } = stage;
      const store = storeOf(await stage.direct());
      const held = { keys: key, token: 'ours', commandTimeoutMs: 5000 };
      await server.command('SET', key, 'ours', 'PX', 10_000);
      const validUntilMs = performance.now() + 5000;
      const [renewed, released] = await Promise.all([
        store.extend({ ...held, lifetimeMs: LONG_MS, exact: false, validUntilMs, begin: () => true }),
        store.release({ ...held, isConfirmed: true, yieldMs: 5 }),
      ]);
      expect([renewed.outcome, released]).to.deep.equal(['extended', 'released']);
      expect(await server.command('EXISTS', key)).to.equal(0);
    });

    it('a thousand leases that are due together are renewed a batch a turn, and none is lost', async () => {
      const { server, key } = stage;
      const withLock = redisExpLock({
        redis: await stage.direct(),
        lifetime: 9_000,
        commandTimeout: 10_000,
        autoExtend: true,
      });
      const keys = Array.from({ length: 1000 }, (_, n) => `${key}-${n}`);
      const leases = await Promise.all(keys.map((each) => withLock.promise(each)));
      const renewals = async (): Promise<number> => {
        const stats = await server.command<string>('INFO', 'commandstats');
        return Number(/cmdstat_pexpire:calls=(\d+)/.exec(stats)?.[1] ?? 0);
      };
      const before = await renewals();
      await waitFor(async () => (await renewals()) - before >= 1000);
      const evals = await server.command<string>('INFO', 'commandstats');
      expect(Number(/cmdstat_evalsha:calls=(\d+)/.exec(evals)![1])).to.be.below(200);
      expect(leases.filter((lease) => lease.remaining() === 0)).to.have.length(0);
      await Promise.all(leases.map((lease) => lease()));
    });
  });

  it('a damaged counter: every acquire is refused by name, every release is done', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), ...terms });
    const held = await Promise.all(['a', 'b'].map((each) => withLock.promise(`${key}-${each}`)));
    await server.command('SET', 'redis-exp-lock:fence', 'abc');
    const [errors, released] = await Promise.all([
      Promise.all(['c', 'd'].map((each) => backendError(withLock.promise(`${key}-${each}`)))),
      Promise.all(held.map((lease) => lease.release())),
    ]);
    expect(errors.map(({ redisCode }) => redisCode)).to.deep.equal(['FENCE', 'FENCE']);
    expect(released).to.deep.equal([true, true]);
    expect(await server.command('EXISTS', `${key}-c`, `${key}-d`)).to.equal(0);
  });

  for (const missing of ['mget', 'exists']) {
    it(`H58: a user without +${missing} is served all the same`, async () => {
      const { server, key } = stage;
      await server.command('ACL', 'SETUSER', 'plain', 'reset', 'on', '>pw', '~*', '+@all', `-${missing}`);
      const redis = await stage.through({ username: 'plain', password: 'pw' });
      const withLock = redisExpLock({ redis, ...terms });
      for (let round = 0; round < 2; round++) {
        const leases = await Promise.all(['a', 'b', 'c'].map((each) => withLock.promise(`${key}-${each}`)));
        expect(await Promise.all(leases.map((lease) => lease.release()))).to.deep.equal([true, true, true]);
      }
      expect(await server.command('EXISTS', ...['a', 'b', 'c'].map((each) => `${key}-${each}`))).to.equal(0);
    });
  }
});
