/**
 * A few seconds of `npm run torture`: real processes, real faults, every kind of lock on one Redis. SEED=123 draws the same
 * faults and calls again, though never in the same timing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { breaks } from '../../torture/breaks/list';
import { excerpt } from '../../torture/excerpt';
import { torture } from '../../torture/torture';
import { altered } from '../support/altered-tree';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));

it(`no promise is broken under torture (seed ${seed})`, async function () {
  this.timeout(120_000);
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

describe('npm run breaks', () => {
  for (const each of breaks) {
    it(`applies: ${each.name}`, () => {
      const text = readFileSync(join(__dirname, '../../src', each.file), 'utf8');
      expect(altered(each.file, text, [each])).to.not.equal(text);
    });
  }
});
