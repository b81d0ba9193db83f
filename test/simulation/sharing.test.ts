// Shared members and handed-off permits in simulated worlds, each from its own seed: no writer beside a reader, never more permits than
// there are, fences in order, a writer that waits gets in, and all have their turns once faults end. `SEED=<seed>` runs one world again.
// Variants that leave out what makes them safe are caught.
import { join } from 'node:path';
import { expect } from 'chai';
import { bundled } from '../support/bundle';
import type { Rules } from './coordination';
import { firstBroken } from './events';
import type { Kind } from './sharing';

const { BrokenPromise, breakJoins, Readers, simulateSharing }: typeof import('./sharing') = require(
  bundled(join(__dirname, 'sharing.ts')),
);

const calm: Rules = {
  processes: 3,
  turnsEach: 5,
  lifetimeMs: 300,
  lose: 0,
  repeat: 0,
  delay: 0,
  die: 0,
  pause: 0,
  resign: 0,
};
const faults: Rules = { ...calm, lose: 0.03, repeat: 0.05, delay: 0.03, die: 0.003, pause: 0.02 };
const worlds: Readonly<Record<string, Rules>> = {
  'nothing goes wrong': calm,
  'the network loses, delays and repeats': { ...faults, die: 0, pause: 0 },
  'everything goes wrong': faults,
};
const kinds: readonly Kind[] = ['writer', 'reader', 'fair', 'permits'];
const seedsEach = Number(process.env.WORLDS ?? 12);
const seeds =
  process.env.SEED === undefined ? Array.from({ length: seedsEach }, (_, n) => n) : [Number(process.env.SEED)];

describe('shared members in simulated worlds', function () {
  this.timeout(120_000);

  for (const kind of kinds) {
    for (const [name, rules] of Object.entries(worlds)) {
      it(`H84: ${kind}: ${name}`, async () => {
        let begun = 0;
        for (const seed of seeds) {
          const world = await simulateSharing(seed, kind, rules).catch((error) => {
            throw Object.assign(error, { message: `SEED=${seed}: ${error.message}` });
          });
          begun += world.begun;
        }
        expect(begun).to.be.greaterThan(5 * seeds.length);
      });
    }
  }

  describe('a variant that seems good enough is caught', () => {
    const { accepts } = Readers.prototype;
    afterEach(() => {
      Readers.prototype.accepts = accepts;
    });

    const variants: readonly [NonNullable<Rules['broken']>, Kind, RegExp][] = [
      ['joins as long as one reads', 'fair', /starved|unfinished/],
      ['joins what was released', 'fair', /is beside/],
      ['shortens what others share', 'fair', /is beside|fence/],
      ['hands off what was shortened', 'permits', /permits are out/],
    ];
    for (const [broken, kind, says] of variants) {
      it(broken, async () => {
        Readers.prototype.accepts = breakJoins(accepts, broken);
        expect(await firstBroken(BrokenPromise, (seed) => simulateSharing(seed, kind, { ...calm, broken }))).to.match(
          says,
        );
      });
    }
  });
});
