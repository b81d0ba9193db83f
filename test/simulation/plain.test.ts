// The plain batch under lost, late and repeated requests, in a hundred worlds of one seed each: no two holders, fences in the order
// of grants. Variants without one of its checks break a promise in some world.
import { expect } from 'chai';
import { type BrokenPlain, BrokenPromise, simulatePlain } from './plain';

describe('the plain batch in simulated worlds', () => {
  it('H3, H4, H22: requests that are lost, late and repeated, and a client that knows nothing of ours', () => {
    let [grants, batches] = [0, 0];
    for (let seed = 0; seed < 100; seed++) {
      const world = simulatePlain(seed);
      grants += world.grants;
      batches += world.batches;
    }
    expect(grants).to.be.above(100 * 10);
    expect(batches).to.be.above(grants / 4);
  });

  const variants: readonly BrokenPlain[] = [
    'a busy lock is taken',
    'a lock is deleted that is no longer ours',
    'a late acquire is not refused',
    'a token is released first that may still be acquired',
  ];
  for (const broken of variants) {
    it(`a variant is caught: ${broken}`, () => {
      expect(() => {
        for (let seed = 0; seed < 300; seed++) simulatePlain(seed, broken);
      }).to.throw(BrokenPromise);
    });
  }
});
