// Mocha's spec reporter, with the counts once more in a last line of their own, which a program can read.
// A hook that fails counts as failed: its tests did not run. The line before says which server the tests ran on.
//
// If FAILED_TESTS names a file, each failure adds a line to it: the title of the test, the first line of its error, and the line of the
// test that threw it. Runs of mocha that a test starts do not see the variable.
const { appendFileSync } = require('node:fs');
const { reporters } = require('mocha'); // ESM, by require(esm)
const { serverVersion } = require('../../scripts/redis-binary.cjs');

const failedTests = process.env.FAILED_TESTS;
delete process.env.FAILED_TESTS;

class CountsLast extends reporters.Spec {
  epilogue() {
    super.epilogue();
    const { passes, failures, pending } = this.stats;
    const skipped = pending > 0 ? `, ${pending} skipped` : '';
    reporters.Base.consoleLog(`Server: ${serverVersion() ?? 'none'}; Node ${process.version}`);
    reporters.Base.consoleLog(`${passes} passed, ${failures} failed${skipped}`);
    if (failedTests) appendFileSync(failedTests, this.failures.map(line).join(''));
  }
}

function line(test) {
  const { message = '', stack = '' } = test.err ?? {};
  const at = /\btest\/[\w/.-]+:\d+/.exec(stack)?.[0] ?? 'no line of a test';
  return `FAILED: ${test.fullTitle().replace(/\s+/g, ' ')}: ${message.split('\n')[0]} (${at})\n`;
}

module.exports = CountsLast;
