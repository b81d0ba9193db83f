// The waiting protocol in five thousand worlds (fifty thousand by `npm run prove:random`), each from its own seed: no two holders,
// fences in the order of grants, nobody waits for ever once faults stop, nobody is passed by more than the README says. A world that
// breaks a promise is printed with its seed; `SEED=<seed> WORLD=<name> npx mocha test/simulation/simulation.test.ts` runs it again. Variants of the
// protocol that somebody might think good enough break a promise in some world: that is what makes the others worth running.
import { join } from 'node:path';
import { expect } from 'chai';
import { bundled } from '../support/bundle';
import { randomFactor, randomRuns } from '../support/random-runs';
import { firstBroken } from './events';
import type { Broken, Rules } from './simulation';

// As one program without the names of inner functions, which alone would cost a fifth of the time.
const { BrokenPromise, simulate }: typeof import('./simulation') = require(bundled(join(__dirname, 'simulation.ts')));

const calm: Rules = {
  processes: 3,
  usersEach: 3,
  turnsEach: 6,
  lifetimeMs: 1000,
  holdMs: 5,
  commandTimeoutMs: 300,
  minPollMs: 0,
  lose: 0,
  repeat: 0,
  loseMessage: 0,
  forge: 0,
  delay: 0.01,
  die: 0,
  pause: 0,
  abandonHold: 0,
  giveUp: 0,
  nonQueueing: 0,
  counters: 0,
  pollPauseMs: 5,
};

/** Two busy processes, and callers that poll beside them: eight pauses in vain, what one process hands off, one yield; twice that. */
const busy = {
  delay: 0,
  processes: 2,
  usersEach: 4,
  turnsEach: 300,
  counters: 1,
  pollPauseMs: 100,
  pollTurnMs: 2 * (8 * 120 + 65 * 10 + 120),
};

const faults = {
  lose: 0.05,
  repeat: 0.05,
  loseMessage: 0.3,
  forge: 0.1,
  die: 0.003,
  pause: 0.02,
  abandonHold: 0.05,
  giveUp: 0.2,
};

/** Messages come late, and so do answers. */
const late = { delay: 0.1, repeat: 0.2, loseMessage: 0.1, forge: 0.3, giveUp: 0.2, lifetimeMs: 300, turnsEach: 3 };

const worlds: Readonly<Record<string, Partial<Rules>>> = {
  'nothing goes wrong': {},
  'people change their mind': { giveUp: 0.4 },
  'the network loses, delays and repeats': { lose: 0.02, repeat: 0.02, loseMessage: 0.1, giveUp: 0.1 },
  'everything goes wrong': faults,
  'five die, or stand still': { processes: 6, usersEach: 2, turnsEach: 3, die: 0.01, pause: 0.05, abandonHold: 0.1 },
  'messages are late, doubled and forged': late,
  'many queues in each process': { ...faults, minPollMs: 8000, turnsEach: 3 },
  'long holds': { ...faults, lifetimeMs: 10_000, holdMs: 200, turnsEach: 3 },
  'lifetimes as short as the network is slow': { ...faults, lifetimeMs: 20, holdMs: 3 },
  'others that poll, and an old client': { nonQueueing: 1, counters: 2, giveUp: 0.1, loseMessage: 0.1, turnsEach: 4 },
};

const seedsEach = Number(process.env.SEEDS ?? randomRuns(500));

describe('the waiting protocol in simulated worlds', () => {
  const seed = Number(process.env.SEED ?? Number.NaN);

  for (const [name, rules] of Object.entries(worlds)) {
    it(`H27 to H32, H36: ${name}`, function () {
      this.timeout(60_000 * Math.max(1, randomFactor));
      if (process.env.WORLD !== undefined && process.env.WORLD !== name) this.skip();
      const seeds = Number.isNaN(seed) ? Array.from({ length: seedsEach }, (_, n) => n) : [seed];
      let grants = 0;
      for (const each of seeds) {
        try {
          grants += simulate(each, { ...calm, ...rules }).grants;
        } catch (error) {
          throw Object.assign(error as Error, {
            message: `SEED=${each} WORLD=${JSON.stringify(name)}: ${(error as Error).message}`,
          });
        }
      }
      expect(grants).to.be.greaterThan(seeds.length);
    });
  }

  it('H80: a caller that polls beside a busy queue has a turn within the bound', () => {
    for (let each = 0; each < 20; each++) simulate(each, { ...calm, ...busy });
  });

  it('the same seed is the same world', () => {
    const [one, two, other] = [1, 1, 2].map((each) => simulate(each, { ...calm, ...faults }, true).history);
    expect(one).to.deep.equal(two);
    expect(one).to.not.deep.equal(other);
  });

  describe('a variant that seems good enough is caught', () => {
    const variants: readonly [Broken, Partial<Rules>, RegExp][] = [
      ['release without compare', faults, /hold it/],
      ['no confirmation', faults, /hold it|fence/],
      ['releases first', { giveUp: 0.4 }, /was released, and holds the lock again/],
      ['no rescue', { loseMessage: 0.1 }, /nothing will ever happen again/],
      ['no poll marks', busy, /polls in vain/],
      ['one nonce for each entry', { ...faults, ...late }, /hold it|fence/],
      ['a nonce that can be guessed', { forge: 0.3 }, /hold it|fence/],
      ['a grant counts from its message', { ...faults, ...late }, /hold it|fence/],
      ['a grant counts although little of it is left', { ...faults, ...late }, /left to confirm/],
      ['queued since its last request', { lose: 0.05 }, /queued twice/],
      ['hand-off before the confirmation', { ...faults, lifetimeMs: 10_000, holdMs: 200 }, /hold it|fence/],
    ];
    for (const [broken, rules, says] of variants) {
      it(broken, async () => {
        const world = (seed: number) => simulate(seed, { ...calm, ...rules, broken });
        expect(await firstBroken(BrokenPromise, world)).to.match(says);
      });
    }
  });
});
