// The bench's own machinery, once and tiny: what it counts is exact and what it writes has its form. No speed is asserted.
import { expect } from 'chai';
import { contenders } from '../bench/contenders';
import { type FleetSeen, fallingFences, maxAtOnce, sumUpFleet } from '../bench/fleet';
import { type MeasuredRow, measure, metrics, type Row } from '../bench/measure';
import { plot } from '../bench/plots';
import { reached, report } from '../bench/report';
import type { SteadySeen } from '../bench/round';
import { type Scenario, Seen, scenarios } from '../bench/scenarios';
import { sumUp } from '../bench/sum-up';
import { buildMs, built } from './support/built';
import { waitFor } from './support/processes';
import { type RedisServer, startRedis } from './support/redis';

const names = ['raw node-redis', 'redis-exp-lock'];
const rows: Row[] = names.map((contender) => ({ id: contender, contender, job: { kind: 'pairs', inFlight: 1 } }));
const tiny = { rounds: 1, ms: 50, warmUpMs: 20, execPath: process.execPath };

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
    // The server hears of the end of a process a moment after it.
    const isAlone = async () => /connected_clients:1\r/.test(await server.command('INFO', 'clients'));
    await waitFor(isAlone, { what: 'the clients to be gone' });
  });

  it('holders of a fleet that overlap are seen, by their number, their times and their fences', () => {
    const turn = (acquired: number, releasing: number, fence: number, shared = false) =>
      [0, 0, acquired, releasing, shared, fence] as const;
    expect(fallingFences([turn(0, 1, 5), turn(2, 3, 6)])).to.equal(0);
    expect(fallingFences([turn(0, 1, 6), turn(2, 3, 5)])).to.equal(1);
    expect(fallingFences([turn(0, 1, 5), turn(2, 3, 5)])).to.equal(1);
    // Readers may share a fence with each other, and not with a writer.
    expect(fallingFences([turn(0, 1, 5), turn(2, 9, 6, true), turn(3, 8, 6, true), turn(9, 10, 7)])).to.equal(0);
    expect(fallingFences([turn(0, 1, 5), turn(2, 9, 5, true)])).to.equal(1);
    expect(maxAtOnce([turn(0, 2, 1), turn(1, 4, 2), turn(3, 5, 3)])).to.equal(2);
    expect(maxAtOnce([turn(0, 9, 1), turn(1, 4, 2), turn(3, 5, 3)])).to.equal(3);
    const ofServer = { cpuMs: 50, executed: 9, scripts: 4, scriptMicros: 200 };
    const seen = (turns: FleetSeen['loops'][number]['turns'], disturbed = 0): FleetSeen[] => [
      { server: { window: { from: 0, to: 100 }, figures: ofServer, pingMs: 1 }, loops: [], ...nothing },
      { loops: turns.map((each) => ({ turns: [each], pending: [] })), ...nothing, disturbed },
    ];
    const nothing = { servedMs: 0, cpuMs: 1, failures: 0, disturbed: 0 };
    const job = { kind: 'fleet', processes: 2, connections: 2, holdMs: 0, lock: 'mutex' } as const;
    const apart = sumUpFleet(job, seen([turn(10, 20, 1), turn(21, 30, 2)]));
    expect(apart.violations).to.equal(0);
    expect(apart.figures).to.include({ perSecond: 20, scriptMicros: 100, scripts: 2, serverPercent: 50, handOffMs: 1 });
    expect(apart.figures).to.include({ longestMs: 21, cycles: 10.5, cpuMicros: 1000 });
    expect(sumUpFleet(job, seen([turn(10, 22, 1), turn(21, 30, 2)])).violations).to.equal(1);
    expect(sumUpFleet(job, seen([turn(10, 20, 2), turn(21, 30, 1)])).violations).to.equal(1);
    expect(sumUpFleet(job, seen([turn(10, 20, 1), turn(21, 30, 2)], 1)).violations).to.equal(1);
    const many = Array.from({ length: 9 }, (_, n) => turn(n, 30, 1, true));
    expect(sumUpFleet({ ...job, lock: 'semaphore' }, seen(many.slice(1))).violations).to.equal(0);
    expect(sumUpFleet({ ...job, lock: 'semaphore' }, seen(many)).violations).to.equal(1);
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
      [scenario.name]: ['v24.1.0', process.version].map((Node) => {
        return { at: 'today', ...tiny, machine: 'a machine', versions: { Node }, rows: measured };
      }),
    };
    const text = report([scenario], book);
    expect(text).to.match(/^\| raw node-redis \|.* 2\.000 \|$/m);
    expect(text.match(/^On Node \d+, /gm)).to.have.length(2);
    expect(text).to.match(/\| 24 \| speed, of the raw pair: node-redis \| ≥ 0\.95 \|/);
    expect(text).to.match(/^\| redis-exp-lock \|.* 2\.000 \|$/m);
    expect(await plot(scenario, measured)).to.match(/^<svg.*raw node-redis.*<\/svg>\n$/s);
    const fleets = scenarios.find(({ name }) => name === 'fleet')!;
    const figures = { perSecond: 2, scriptMicros: 3 };
    const [drawn] = fleets.rows.map((row) => ({ ...measured[0]!, ...row, rounds: [figures] }));
    expect(await plot(fleets, [drawn!])).to.match(/^<svg.*connections.*a second.*µs in scripts.*<\/svg>\n$/s);
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
