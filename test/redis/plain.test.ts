// The plain batch says and does what its calls would one by one, in the order releases, then acquires.
import { expect } from 'chai';
import * as fc from 'fast-check';
import redisExpLock from '../../src/index';
import { backendError, useStage } from './faults';

const LONG_MS = 60_000;

/** What a key is before the tick, and what is asked for it in the tick. */
interface Scene {
  readonly state: 'free' | 'ours' | 'lost' | 'taken' | 'queued' | 'handed' | 'foreign kind';
  readonly acquires: number;
}

describe('the plain batch', function () {
  this.timeout(60_000);
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
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS, prefix });
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
      { numRuns: 150 },
    );
  });

  it('60 acquires and 60 releases: about one command each, and the counter is written once', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS });
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

  it('a damaged counter: every acquire is refused by name, every release is done', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), lifetime: LONG_MS });
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
      const withLock = redisExpLock({ redis, lifetime: LONG_MS });
      for (let round = 0; round < 2; round++) {
        const leases = await Promise.all(['a', 'b', 'c'].map((each) => withLock.promise(`${key}-${each}`)));
        expect(await Promise.all(leases.map((lease) => lease.release()))).to.deep.equal([true, true, true]);
      }
      expect(await server.command('EXISTS', ...['a', 'b', 'c'].map((each) => `${key}-${each}`))).to.equal(0);
    });
  }
});
