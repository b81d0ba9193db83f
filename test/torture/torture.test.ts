/**
 * A few seconds of `npm run torture`: real processes, real faults, every kind of lock on one Redis. SEED=123 draws the same
 * faults and calls again, though never in the same timing.
 */
import { expect } from 'chai';
import { excerpt } from '../../torture/excerpt';
import { torture } from '../../torture/torture';

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
