// For mocha under Stryker: a test that a mutant leaves hanging fails after a bound of its own, instead of holding up the run.
'use strict';

const maxMs = Number(process.env.MUTATION_TEST_MS);

exports.mochaHooks = {
  beforeEach() {
    const own = this.currentTest.timeout();
    this.currentTest.timeout(own > 0 ? Math.min(own, maxMs) : maxMs);
  },
};
