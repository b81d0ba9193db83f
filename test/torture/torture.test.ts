/**
 * A few seconds of `npm run torture`: real processes, real faults, every kind of lock on one Redis. SEED=123 draws the same
 * faults and calls again, though never in the same timing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { breaks } from '../../torture/breaks/list';
import { excerpt } from '../../torture/excerpt';
import { open } from '../../torture/places';
import { torture } from '../../torture/torture';
import { altered, fileOf, filesByMarker } from '../support/alteration';
import { waitFor } from '../support/processes';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));

it(`no promise is broken under torture (seed ${seed})`, async function () {
  this.timeout(120_000); // a round of torture, and one that must fail
  const options = { processes: 2, callers: 5, faultsMs: 5000, calmMs: 500, stores: ['redis'] as const };
  const { failed, stores } = await torture({ ...options, seed, ms: 0 });
  const told = failed?.report.violations.map(
    (violation) => `${violation.message}\n${excerpt(failed.report.events, violation)}`,
  );
  expect(told?.slice(0, 3).join('\n\n')).to.equal(undefined);
  const { grants, faults } = stores.redis!;
  expect(Object.keys(grants)).to.include.members(['queued', 'read', 'write', 'permits', 'Lock']);
  expect(Object.values(faults).reduce((sum, count) => sum + count, 0)).to.be.greaterThan(3);
});

for (const store of ['sentinel', 'cluster'] as const) {
  it(`a failover of torture takes place: ${store}`, async () => {
    const place = await open(store);
    try {
      const before = await place.masters();
      await place.faults.find(({ name }) => name === 'failover')!.run(() => 0);
      expect(place.failovers).to.have.length(1);
      expect(place.failovers[0]!.toMs).to.be.finite;
      await waitFor(async () => (await place.masters()).some((server) => !before.includes(server)));
    } finally {
      await place.close();
    }
  });
}

describe('npm run breaks', () => {
  const src = join(__dirname, '../../src');

  for (const { name, change } of breaks) {
    it(`applies: ${name}`, () => {
      const file = fileOf(change, filesByMarker(src));
      const text = readFileSync(join(src, file), 'utf8');
      expect(altered(file, text, [change])).to.not.equal(text);
    });
  }
});
