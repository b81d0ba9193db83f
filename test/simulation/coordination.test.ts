// Leaders and jobs once a slot in simulated worlds, each from its own seed: no candidate begins while another leads, none runs two
// functions, terms have rising fences; no job runs twice in a slot or after it was done. `SEED=<seed>` runs one world again.
// Variants that leave out what makes them safe are caught.
import { expect } from 'chai';
import { BrokenPromise, type Rules, simulateSlots, simulateTerms, type World } from './coordination';
import { firstBroken } from './events';

const calm: Rules = {
  processes: 3,
  turnsEach: 6,
  lifetimeMs: 300,
  lose: 0,
  repeat: 0,
  delay: 0,
  die: 0,
  pause: 0,
  resign: 0,
};
const faults: Rules = { ...calm, lose: 0.05, repeat: 0.05, delay: 0.03, die: 0.003, pause: 0.03, resign: 0.4 };
const worlds: Readonly<Record<string, Rules>> = {
  'nothing goes wrong': calm,
  'they resign under way': { ...calm, resign: 0.8 },
  'the network loses, delays and repeats': { ...faults, die: 0, pause: 0 },
  'everything goes wrong': faults,
};
const seedsEach = Number(process.env.WORLDS ?? 60);
const seeds =
  process.env.SEED === undefined ? Array.from({ length: seedsEach }, (_, n) => n) : [Number(process.env.SEED)];

const kinds: Readonly<Record<string, (seed: number, rules: Rules) => Promise<World>>> = {
  'H86: leaders': simulateTerms,
  'H85: jobs, at most once': (seed, rules) => simulateSlots(seed, 'at-most-once', rules),
  'H85: jobs, until success': (seed, rules) => simulateSlots(seed, 'until-success', rules),
};

describe('leaders and jobs in simulated worlds', function () {
  this.timeout(120_000);

  for (const [kind, simulate] of Object.entries(kinds)) {
    for (const [name, rules] of Object.entries(worlds)) {
      it(`${kind}: ${name}`, async () => {
        let begun = 0;
        for (const seed of seeds) {
          const world = await simulate(seed, rules).catch((error) => {
            throw Object.assign(error, { message: `SEED=${seed}: ${error.message}` });
          });
          begun += world.begun;
        }
        expect(begun).to.be.greaterThan(seeds.length);
      });
    }
  }

  describe('a variant that seems good enough is caught', () => {
    it('does not wait for fn', async () => {
      expect(
        await firstBroken(BrokenPromise, (seed) => simulateTerms(seed, { ...faults, broken: 'does not wait for fn' })),
      ).to.match(/two functions at once|begins while/);
      const orderly = { ...calm, resign: 0.8, broken: 'does not wait for fn' } as const;
      expect(await firstBroken(BrokenPromise, (seed) => simulateTerms(seed, orderly))).to.match(
        /two functions at once|begins while/,
      );
    });

    it('the mark is written without a check that the lock is still held', async () => {
      const careless = { ...faults, broken: 'no compare of the mark' } as const;
      expect(await firstBroken(BrokenPromise, (seed) => simulateSlots(seed, 'until-success', careless))).to.match(
        /overtaken|although/,
      );
    });
  });
});
