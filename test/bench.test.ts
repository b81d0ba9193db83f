// The bench's own machinery, once and tiny: what it counts is exact and what it writes has its form. No speed is asserted.
import { expect } from 'chai';
import { contenders } from '../bench/contenders';
import { type MeasuredRow, measure, metrics, type Row } from '../bench/measure';
import { plot } from '../bench/plots';
import { reached, report } from '../bench/report';
import type { SteadySeen } from '../bench/round';
import { type Scenario, Seen, scenarios } from '../bench/scenarios';
import { sumUp } from '../bench/sum-up';
import { buildMs, built } from './support/built';
import { type RedisServer, startRedis } from './support/redis';

const names = ['raw node-redis', 'redis-exp-lock'];
const rows: Row[] = names.map((contender) => ({ id: contender, contender, job: { kind: 'pairs', inFlight: 1 } }));
const tiny = { rounds: 1, ms: 50, warmUpMs: 20 };

describe('bench', () => {
  let server: RedisServer;
  let measured: readonly MeasuredRow[];

  before(async function () {
    this.timeout(buildMs); // a build, where lib is missing or older
    await built();
    server = await startRedis(); // its own: commands are counted, and everything is flushed
    measured = await measure(rows, server, tiny, () => {});
  });

  after(() => server.stop());

  it('a pair of each contender is two commands, counted exactly, what their scripts call left out', () => {
    expect(measured.map(({ id }) => id)).to.deep.equal(names);
    for (const { rounds, atMost } of measured) {
      expect(rounds).to.have.length(1);
      expect(rounds[0]!.commands!.toFixed(3)).to.equal('2.000');
      expect(atMost).to.equal(false);
    }
  });

  it('nothing stays behind on the server, and nobody', async () => {
    expect(await server.command('DBSIZE')).to.equal(0);
    expect(await server.command('INFO', 'clients')).to.match(/connected_clients:1\r/);
  });

  it('steady waiters in several processes and a burst in one are measured and exclude each other', async function () {
    this.timeout(buildMs); // more than thirty processes, one after the other
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
    ].map((trial) => ({ id: trial.kind, contender: 'redis-exp-lock', job: { kind: 'trial', trial } }));
    const seen = await measure(few, server, tiny, () => {});
    for (const { id, rounds } of seen) {
      const { rows, columns } = scenarios.find(({ name }) => name === id)!;
      expect(rows.map(({ contender }) => contender)).to.include('redis-exp-lock');
      expect(rounds[0], id).to.include.keys(...columns);
      for (const value of Object.values(rounds[0]!)) expect(value, id).to.be.a('number').that.is.finite;
    }
  });

  it('holders in two processes that overlap are seen', () => {
    const seen = (turns: SteadySeen['turns']): SteadySeen => ({
      window: { from: 0, to: 100 },
      waiters: 1,
      turns,
      pending: [],
      pendingWriters: [],
      probes: [],
      calls: {},
    });
    const apart = sumUp([seen([[0, 0, 10, 20]]), seen([[1, 0, 21, 30]])]);
    expect(apart).to.include({ violations: 0, acquisitions: 2, jain: 1, longestMs: 21, handOffMs: 1 });
    expect(sumUp([seen([[0, 0, 10, 20]]), seen([[1, 0, 19, 30]])]).violations).to.equal(1);
    // The one in the middle is over long before the first.
    const long = seen([[0, 0, 10, 90]]);
    expect(sumUp([long, seen([[1, 0, 20, 30] as const, [1, 0, 40, 50] as const])]).violations).to.equal(2);
    // Those who share may overlap one another, and nobody else.
    const readers = [seen([[0, 0, 10, 20, true]]), seen([[1, 0, 15, 30, true]])];
    expect(sumUp(readers)).to.include({ violations: 0, writerMs: 0 });
    expect(sumUp([...readers, seen([[2, 5, 29, 31]])])).to.include({ violations: 1, writerMs: 24 });
    expect(sumUp([...readers, seen([[2, 0, 5, 11]])]).violations).to.equal(1);
  });

  it('the report and the plot are made of the figures, and a goal without figures is not reached', async () => {
    const scenario: Scenario = { ...scenarios[0]!, rows };
    const book = {
      [scenario.name]: { at: 'today', ...tiny, machine: 'a machine', versions: { Node: '1' }, rows: measured },
    };
    const text = report([scenario], book);
    expect(text).to.match(/^\| raw node-redis \|.* 2\.000 \|$/m);
    expect(text).to.match(/^\| redis-exp-lock \|.* 2\.000 \|$/m);
    expect(await plot(scenario, measured)).to.match(/^<svg.*raw node-redis.*<\/svg>\n$/s);
    expect(reached({ text: '', value: Number.NaN, atLeast: 1 })).to.equal(false);
    expect(reached({ text: '', value: 1, atMost: 1 })).to.equal(true);
  });

  it('every scenario asks for contenders that there are, and every goal for figures that there are', () => {
    for (const scenario of scenarios) {
      for (const { contender } of scenario.rows) expect(contenders).to.have.property(contender);
      expect(new Set(scenario.rows.map(({ id }) => id)).size).to.equal(scenario.rows.length);
      const figures = Object.fromEntries(Object.keys(metrics).map((metric) => [metric, 2]));
      const all = scenario.rows.map(({ id, contender }): MeasuredRow => {
        return { id, contender, setting: { client: 'none' }, rounds: [figures], atMost: false };
      });
      for (const { text, value } of scenario.goals(new Seen(all))) expect(value, text).to.be.a('number').that.is.finite;
    }
  });
});
