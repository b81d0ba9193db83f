// A rolling migration: contenders of the old library and of the shim side by side, in four processes, for the same lock. Never
// one too many inside, none evicted, all served. `npm run test:shims-mixed` makes 10,000 acquisitions in each scenario, as a
// release should see them, and writes what it counted to proof/; SHIM_ACQUISITIONS another number.
//
// On a machine that stands still for longer than a lock lasts, the next holder comes in while the last one does not know yet that
// its lock has ended. The server then counts one too many: a stall. A fault is somebody inside while another's lock is valid.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { startChild } from '../support/processes';
import { type RedisServer, startRedis, uniqueKey } from '../support/redis';

const given = process.env.SHIM_ACQUISITIONS;
const acquisitions = Number(given ?? 400);
const processes = 4;
const contenders = 10;
const script = `${__dirname}/children/contenders.ts`;

/** The number of servers, and the share of the acquisitions for which there is time in the short run. */
const scenarios: Record<string, readonly [servers: number, share: number]> = {
  redlock: [1, 1],
  'redlock, two keys': [1, 1],
  // A failed attempt of redlock keeps its votes until they end, so that it is the old ones that are slow.
  'redlock, three servers': [3, 0.2],
  Mutex: [1, 1],
  RedlockMutex: [3, 1],
  'Semaphore(2)': [1, 1],
  'MultiSemaphore(5)': [1, 1],
};

interface Report {
  readonly served: number;
  /** The number of times that the server counted one holder too many. */
  readonly crowded: number;
  readonly lost: number;
  /** Releases that a server did not answer in time. */
  readonly silent: number;
  readonly failures: readonly string[];
  readonly limit: number;
  readonly held: readonly Held[];
}

/** The time in which a lock was held and valid, in ms of one clock. */
type Held = readonly [from: number, to: number, places: number];

/** The number of grants for which there was no place beside the locks that were valid at that moment. */
function faultsAmong(held: readonly Held[], limit: number): number {
  const moves = held
    .filter(([from, to]) => from < to)
    .flatMap(([from, to, places]) => [
      [from, places],
      [to, -places],
    ]) as [number, number][];
  moves.sort(([at, change], [thenAt, thenChange]) => at - thenAt || change - thenChange);
  let inside = 0;
  let faults = 0;
  for (const [, change] of moves) {
    inside += change;
    if (change > 0 && inside > limit) faults += 1;
  }
  return faults;
}

const sum = (reports: readonly Report[], of: (report: Report) => number): number =>
  reports.reduce((total, report) => total + of(report), 0);

describe('old and new contenders side by side', function () {
  this.timeout(Math.max(60_000, acquisitions * 360)); // as many acquisitions as are asked for
  const proof: Record<string, object> = {};
  let servers: RedisServer[];

  before(async () => {
    servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    // Otherwise a node has no vote until it has run for as long as a lock lasts, and old processes win alone.
    await Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
  });

  after(async () => {
    await Promise.all(servers.map((server) => server.discard()));
    if (given === undefined || Object.keys(proof).length < Object.keys(scenarios).length) return;
    const all = { acquisitions, processes, contenders: processes * contenders, scenarios: proof };
    writeFileSync(join(__dirname, '../../proof/shims-mixed.json'), `${JSON.stringify(all, null, 2)}\n`);
  });

  it('what counts as a fault is seen: two holders at once, and one place too many', () => {
    expect(
      faultsAmong(
        [
          [0, 5, 1],
          [5, 7, 1],
          [8, 6, 1],
        ],
        1,
      ),
    ).to.equal(0);
    expect(
      faultsAmong(
        [
          [0, 5, 1],
          [4, 7, 1],
        ],
        1,
      ),
    ).to.equal(1);
    expect(
      faultsAmong(
        [
          [0, 5, 2],
          [4, 7, 3],
        ],
        5,
      ),
    ).to.equal(0);
    expect(
      faultsAmong(
        [
          [0, 5, 2],
          [4, 7, 3],
          [4.5, 4.6, 1],
        ],
        5,
      ),
    ).to.equal(1);
  });

  for (const [scenario, [count, share]] of Object.entries(scenarios)) {
    const rounds = Math.ceil((acquisitions * (given ? 1 : share)) / processes / contenders);
    it(`${scenario}: ${processes * contenders} contenders, ${rounds} acquisitions each`, async () => {
      const key = uniqueKey('mixed');
      const ports = servers.slice(0, count).map(({ port }) => String(port));
      const children = ['old', 'new', 'old', 'new'].map((library) =>
        startChild(script, [library, scenario, String(contenders), String(rounds), key, ...ports]),
      );
      for (const child of children) expect(await child.receive()).to.equal('ready');
      for (const child of children) child.send('go');
      const beganAt = performance.now();
      const reports = await Promise.all(children.map((child) => child.receive<Report>()));
      const seconds = Math.round((performance.now() - beganAt) / 1000);
      const { limit } = reports[0]!;
      const faults = faultsAmong(
        reports.flatMap(({ held }) => held),
        limit,
      );
      const served = sum(reports, (report) => report.served);
      const [crowded, lost] = [sum(reports, (report) => report.crowded), sum(reports, (report) => report.lost)];
      const failures = reports.flatMap((report) => report.failures);
      expect({ served, faults, failures, lost }).to.deep.equal({
        served: rounds * processes * contenders,
        faults: 0,
        failures: [],
        lost: 0,
      });
      const left = await servers[0]!.command<string[]>('KEYS', `*${key}*`);
      // A counter that says 0, and fences.
      expect(left.filter((name) => !/:(inside|fence)\.?$/.test(name))).to.deep.equal([]);
      proof[scenario] = {
        servers: count,
        served,
        faults,
        stalls: crowded,
        silent: sum(reports, (report) => report.silent),
        lost,
        seconds,
      };
    });
  }
});
