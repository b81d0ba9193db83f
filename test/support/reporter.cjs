// Mocha's spec reporter, with the counts once more in a last line of their own, which a program can read.
// A hook that fails counts as failed: its tests did not run.
const { reporters } = require('mocha'); // ESM, by require(esm)

class CountsLast extends reporters.Spec {
  epilogue() {
    super.epilogue();
    const { passes, failures, pending } = this.stats;
    const skipped = pending > 0 ? `, ${pending} skipped` : '';
    reporters.Base.consoleLog(`${passes} passed, ${failures} failed${skipped}`);
  }
}

module.exports = CountsLast;
