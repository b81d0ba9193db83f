// docs/proof.md and docs/compare.md are what their programs make of proof/*.json; and the model does what its results say.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { pageOf } from '../compare/page';
import { page } from '../scripts/write-proof';

const { check, has, runs } = require('../scripts/run-model.cjs');
const lua = require('../mutation/lua.cjs');
const root = join(__dirname, '..');
const proofOf = (name: string) => JSON.parse(readFileSync(join(root, 'proof', `${name}.json`), 'utf8'));

describe('proof', () => {
  it('docs/proof.md is what `npm run proof` writes: no figure in it is typed by hand', () => {
    expect(readFileSync(join(root, 'docs', 'proof.md'), 'utf8')).to.equal(page());
    expect(page(), 'a figure that is none').not.to.match(/\[object |\bNaN\b/);
  });

  it('docs/compare.md is what `npm run compare` writes, and the naive lock failed under every fault', () => {
    const comparison = proofOf('compare');
    expect(readFileSync(join(root, 'docs', 'compare.md'), 'utf8')).to.equal(pageOf(comparison));
    const faults = Object.keys(comparison.faults).filter((name) => !comparison.faults[name].figure);
    expect(faults).to.have.length.above(5);
    for (const name of faults) expect(comparison.outcomes[name].naive.holds, name).to.equal(false);
  });

  it('every mutant of the scripts can be applied, and at least 85 % were killed', () => {
    lua.checkAll();
    const { lua: mutants } = proofOf('mutation');
    expect(mutants).to.have.length.of.at.least(40);
    const killed = mutants.filter(({ killedBy }: any) => killedBy).length;
    expect(killed / mutants.length).to.be.at.least(0.85);
  });

  it('of each file that was mutated at least 85 % of the mutants were killed, and each survivor has its reason', () => {
    const { files } = proofOf('mutation');
    for (const { file, notRun, score, survivors } of files) {
      if (notRun) continue;
      expect(score, file).to.be.at.least(85);
      for (const { line, code, reason } of survivors) expect(reason, `${file}:${line} ${code}`).to.be.a('string');
    }
  });
});

describe('the model of the protocol', () => {
  it('proof/model.json has every run of `npm run model`, each with the verdict that is expected', () => {
    const expected = runs.map(({ name, fails }: any) => ({ name, verdict: fails ? 'fails' : 'holds' }));
    const found = proofOf('model').runs.map(({ name, verdict }: any) => ({ name, verdict }));
    expect(found).to.deep.equal(expected);
  });

  it('one round each: Spin finds nothing; without notAfter it finds a late request that is granted', function () {
    if (!has('spin') || !has('gcc')) return this.skip();
    expect(check({ define: ['LATE', 'ROUNDS=1'] }, true)).to.include({ verdict: 'holds' });
    const broken = runs.find(({ name }: any) => name === 'no notAfter');
    expect(check(broken, true).found).to.include('gone');
  });
});
