// The quorum in simulated worlds, each from its own seed: no two holders within their validity but readers together, never more
// permits than there are, fences in the order of grants that exclude each other, and everybody gets on once the faults are over. A
// world that breaks a promise is printed with its seed; `SEED=<seed> WORLD=<name> npx mocha test/simulation/quorum.test.ts` runs
// it again. `npm run prove:worlds` runs twenty thousand (`WORLDS`) in all, and writes proof/worlds.json. Variants that somebody might think good enough break a
// promise in some world.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { type NodeChild, startChild } from '../support/processes';
import { firstBroken } from './events';
import { type Broken, BrokenPromise, type Rules, simulate } from './quorum';
import type { Outcome, Worlds } from './quorum-worlds';

const calm: Rules = {
  nodes: 3,
  processes: 2,
  turnsEach: 2,
  lifetimeMs: 600,
  holdMs: 20,
  retryMs: 20,
  lose: 0,
  repeat: 0,
  restart: 0,
  freeze: 0,
  stall: 0,
  leave: 0,
  giveUp: 0,
  skewMs: 100,
  proposals: true,
};

const faults = { lose: 0.03, repeat: 0.03, freeze: 0.03, stall: 0.1, leave: 0.1, giveUp: 0.1 };

const forgetful = { restart: 0.12, leave: 0.2, holdMs: 100, lifetimeMs: 250, retryMs: 40 };
const long = { ...faults, holdMs: 500, lifetimeMs: 300, restart: 0.03, retryMs: 60 };
const readers = { lock: { readers: 0.6, upgrade: 0.4 }, processes: 3 };
/** Readers only, most of whom write for a while, also after renewals. */
const upgraders = { lock: { readers: 1, upgrade: 0.9 }, processes: 3, turnsEach: 4 };
const permits = { lock: { permits: 3 }, processes: 4 };

const worlds: Readonly<Record<string, Partial<Rules>>> = {
  'nothing goes wrong': { turnsEach: 4 },
  'every fence has to be written back': { proposals: false, turnsEach: 4, skewMs: 500 },
  'split votes': { nodes: 4, processes: 3, holdMs: 1 },
  'the network loses and repeats, nodes stand still': faults,
  'nodes restart empty': forgetful,
  'long holds, renewed': long,
  'short lifetimes': { ...faults, lifetimeMs: 100, holdMs: 30, restart: 0.02, proposals: false, skewMs: 20 },
  'everything at once': { ...faults, nodes: 5, restart: 0.03, proposals: false, retryMs: 60 },
  'a new quorum, whose nodes restart empty': { ...forgetful, isNew: true },
  'readers and writers': { ...readers, turnsEach: 4 },
  'readers and writers, every fence written back': { ...readers, proposals: false, turnsEach: 4, skewMs: 500 },
  'readers and writers, the network loses and repeats': { ...readers, ...faults },
  'readers and writers, nodes restart empty': { ...readers, ...forgetful },
  'readers and writers, long holds, renewed': { ...readers, ...long },
  'readers who upgrade, nodes restart empty': {
    ...upgraders,
    restart: 0.2,
    leave: 0.4,
    holdMs: 200,
    lifetimeMs: 250,
    retryMs: 40,
  },
  'readers and writers, everything at once': { ...readers, ...faults, nodes: 5, restart: 0.03, proposals: false },
  permits: { ...permits, turnsEach: 4 },
  'permits, nodes restart empty': { ...permits, ...forgetful },
  'permits, long holds, renewed': { ...permits, ...long },
};

/** Where what may go wrong seldom does, more worlds. */
const times: Readonly<Record<string, number>> = { 'readers who upgrade, nodes restart empty': 4 };
const timesInAll = Object.keys(worlds).reduce((sum, name) => sum + (times[name] ?? 1), 0);
const seedsEach = Math.ceil(Number(process.env.WORLDS ?? 400) / timesInAll);

describe('the quorum in simulated worlds', () => {
  const seed = Number(process.env.SEED ?? Number.NaN);
  let child: NodeChild;
  const ran: { name: string; worlds: number; grants: number; seconds: number }[] = [];

  before(() => {
    // Nobody would read the stacks of the errors, of which these worlds are full.
    child = startChild(join(__dirname, 'quorum-worlds.ts'), [], { execArgv: ['--stack-trace-limit=0'] });
  });

  after(() => {
    child.disconnect();
    if (process.env.WRITE_PROOF === undefined || ran.length < Object.keys(worlds).length) return;
    writeFileSync(join(__dirname, '../../proof/worlds.json'), `${JSON.stringify({ worlds: ran }, undefined, 2)}\n`);
  });

  for (const [name, rules] of Object.entries(worlds)) {
    it(`H62 to H66: ${name}`, async function () {
      this.timeout(3_600_000);
      if (process.env.WORLD !== undefined && process.env.WORLD !== name) this.skip();
      const seeds = Number.isNaN(seed) ? Array.from({ length: seedsEach * (times[name] ?? 1) }, (_, n) => n) : [seed];
      const startMs = performance.now();
      child.send({ rules: { ...calm, ...rules }, seeds } satisfies Worlds);
      const outcome = await child.receive<Outcome>();
      if ('broken' in outcome) {
        expect.fail(`SEED=${outcome.seed} WORLD=${JSON.stringify(name)}: ${outcome.broken}`);
      }
      expect(outcome.grants).to.be.greaterThan(seeds.length);
      const seconds = Math.round((performance.now() - startMs) / 1000);
      ran.push({ name, worlds: seeds.length, grants: outcome.grants, seconds });
    });
  }

  it('the same seed is the same world', async () => {
    const [one, two, other] = await Promise.all(
      [1, 1, 2].map(async (each) => (await simulate(each, { ...calm, ...faults }, true)).history),
    );
    expect(one).to.deep.equal(two);
    expect(one).to.not.deep.equal(other);
  });

  it('fences that are proposed spare nearly every write-back', async () => {
    let [grants, wroteBack] = [0, 0];
    for (let each = 0; each < 50; each++) {
      const world = await simulate(each, { ...calm, turnsEach: 10 });
      grants += world.grants;
      wroteBack += world.wroteBack;
    }
    expect(wroteBack / grants).to.be.lessThan(0.3);
  });

  describe('a variant that seems good enough is caught', () => {
    const variants: readonly [Broken, Partial<Rules>, RegExp, from?: number][] = [
      ['no write-back', { proposals: false, turnsEach: 4 }, /^fence/],
      ['no restart guard', { restart: 0.12, leave: 0.2, holdMs: 150, lifetimeMs: 400 }, /hold it|^fence/],
      ['no restart guard for an upgrade', worlds['readers who upgrade, nodes restart empty']!, /hold it/],
      ['validity from the reply', { ...faults, lifetimeMs: 100, stall: 0.3 }, /hold it/],
      ['one token for all attempts', { ...faults, processes: 3, restart: 0.03 }, /hold it/],
      ['no write-back', { ...readers, proposals: false, skewMs: 500 }, /^fence/],
      ['readers count for a writer', { ...readers, ...long }, /hold it/, 950],
      ['permits are counted', { ...permits, turnsEach: 4 }, /permits are held/],
    ];
    for (const [broken, rules, says, from] of variants) {
      it(`H65, H67: ${broken}${rules.lock === undefined ? '' : ', several holders'}`, async function () {
        this.timeout(120_000);
        const world = (seed: number) => simulate(seed, { ...calm, ...rules, broken });
        expect(await firstBroken(BrokenPromise, world, { from, worlds: 1000 })).to.match(says);
      });
    }
  });
});
