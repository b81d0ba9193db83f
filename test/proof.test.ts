// What docs/proof.md rests on: the model and its results.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const { check, has, runs } = require('../scripts/run-model.cjs');
const root = join(__dirname, '..');
const proofOf = (name: string) => JSON.parse(readFileSync(join(root, 'proof', `${name}.json`), 'utf8'));

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
