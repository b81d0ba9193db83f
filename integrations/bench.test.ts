// The bench's scenarios with many processes, each once and tiny: their figures are there, and their holders exclude each other. No
// speed is asserted. What the bench counts is in test/bench.test.ts.
import { expect } from 'chai';
import { measure, type Row } from '../bench/measure';
import { scenarios } from '../bench/scenarios';
import { buildMs, built } from '../test/support/built';
import { type RedisServer, startRedis } from '../test/support/redis';

const tiny = { rounds: 1, ms: 50, warmUpMs: 20, execPath: process.execPath };

describe('bench, in many processes', function () {
  this.timeout(buildMs); // more than thirty processes, one after the other
  let server: RedisServer;

  before(async () => {
    await built();
    server = await startRedis(); // its own: commands are counted, and everything is flushed
  });

  after(() => server.stop());

  it('steady waiters in several processes and a burst in one are measured and exclude each other', async () => {
    const crowd: Row[] = [
      {
        id: 'steady',
        contender: 'redis-exp-lock',
        job: { kind: 'steady', processes: 2, waiters: 2, holdMs: 1, probed: true },
      },
      { id: 'burst', contender: 'redis-exp-lock', job: { kind: 'burst', waiters: 3, holdMs: 0 } },
      {
        id: 'readers',
        contender: 'RWLock, fair',
        job: { kind: 'steady', processes: 2, waiters: 2, holdMs: 1, readers: true },
      },
      { id: 'permits', contender: 'Semaphore of 8', job: { kind: 'burst', waiters: 20, holdMs: 1, most: 8 } },
      { id: 'cached', contender: 'redis-exp-lock', job: { kind: 'cached', processes: 2, callers: 5, loadMs: 20 } },
    ];
    // Long enough for a busy machine to grant the lock meanwhile: figures of nobody are missing.
    const window = { ...tiny, ms: 1_500 };
    const [steady, burst, readers, semaphore, cached] = await measure(crowd, server, window, () => {});
    expect(steady!.rounds[0]).to.include.keys('perSecond', 'commands', 'jain', 'longestMs');
    expect(burst!.rounds[0]).to.include.keys('perSecond', 'commands', 'cpuMicros');
    expect(readers!.rounds[0]).to.include.keys('perSecond', 'commands', 'writerMs', 'longestMs');
    expect(semaphore!.rounds[0]).to.include.keys('perSecond', 'commands', 'cpuMicros');
    expect(cached!.rounds[0]).to.include({ loads: 1 }).and.to.include.keys('longestMs', 'commands');
  });

  it('trials give the figures that their goals ask for', async () => {
    const few: Row[] = [
      { kind: 'first', pairs: 10 } as const,
      { kind: 'used-once', keys: 20 } as const,
      { kind: 'crowd', waiters: 6 } as const,
      { kind: 'waits', callers: 6 } as const,
      { kind: 'keys', locks: 6, lifetimeMs: 3000 } as const,
    ].map((trial) => ({ id: trial.kind, contender: 'redis-exp-lock', job: { kind: 'trial', trial } }));
    const seen = await measure(few, server, tiny, () => {});
    for (const { id, rounds } of seen) {
      const { rows, columns } = scenarios.find(({ name }) => name === id)!;
      expect(rows.map(({ contender }) => contender)).to.include('redis-exp-lock');
      expect(rounds[0], id).to.include.keys(...columns);
      for (const value of Object.values(rounds[0]!)) expect(value, id).to.be.a('number').that.is.finite;
    }
  });

  it('a fleet is measured in several processes, and its holders exclude each other', async () => {
    const fleets = (['mutex', 'readers and writers', 'semaphore'] as const).map((lock): Row => {
      const contender = { mutex: 'redis-exp-lock', semaphore: 'Semaphore of 8', 'readers and writers': 'RWLock, fair' };
      const job = { kind: 'fleet', processes: 3, connections: 12, holdMs: 1, lock } as const;
      return { id: lock, contender: contender[lock], job };
    });
    const before: Row = { ...fleets[0]!, id: 'before', contender: 'the build before' };
    const { columns } = scenarios.find(({ name }) => name === 'fleet')!;
    const ofMutexes = ['handOffMs', 'cycles'];
    for (const { id, contender, rounds } of await measure(
      [...fleets, before],
      server,
      { ...tiny, ms: 500 },
      () => {},
    )) {
      const isMutex = !/RWLock|Semaphore/.test(contender);
      const expected = isMutex ? columns : columns.filter((metric) => !ofMutexes.includes(metric));
      expect(rounds[0], id).to.have.all.keys(...expected);
      expect(rounds[0]!.failures, id).to.equal(0);
    }
  });
});
