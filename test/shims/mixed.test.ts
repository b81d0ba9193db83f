// A rolling migration: contenders of the old library and of the shim side by side, in four processes, for the same lock. Never
// one too many inside, none evicted, all served. `npm run test:shims-mixed` makes 10,000 acquisitions in each scenario, as a
// release should see them; SHIM_ACQUISITIONS another number.
import { expect } from 'chai';
import { startChild } from '../support/processes';
import { type RedisServer, startRedis, uniqueKey } from '../support/redis';

const given = process.env.SHIM_ACQUISITIONS;
const acquisitions = Number(given ?? 400);
const processes = 4;
const contenders = 10;
const script = `${__dirname}/children/contenders.ts`;

/** How many servers, and for how many of the acquisitions there is time in the short run. */
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

describe('old and new contenders side by side', function () {
  this.timeout(Math.max(60_000, acquisitions * 360));
  let servers: RedisServer[];

  before(async () => {
    servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    // Otherwise a node has no vote until it has run for as long as a lock lasts, and old processes win alone.
    await Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
  });

  after(() => Promise.all(servers.map((server) => server.discard())));

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
      const results = await Promise.all(children.map((child) => child.receive<Record<string, unknown>>()));
      for (const result of results) {
        expect(result).to.deep.equal({ served: rounds * contenders, tooMany: 0, failures: [], lost: 0 });
      }
      const left = await servers[0]!.command<string[]>('KEYS', `*${key}*`);
      // A counter that says 0, and fences.
      expect(left.filter((name) => !/:(inside|fence)\.?$/.test(name))).to.deep.equal([]);
    });
  }
});
