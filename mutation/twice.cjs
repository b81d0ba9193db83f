// Runs the tests twice in one process, as Stryker does it again and again, and prints what each took, and which failed, the second time.
'use strict';

const { join } = require('node:path');
const Mocha = require('mocha');
const limits = require('./hooks.cjs').mochaHooks;

const here = process.cwd();
const files = process.argv.slice(2).map((file) => join(here, file));

async function main() {
  const { mochaHooks: ends } = require(join(here, 'test/support/hooks.ts'));
  const mocha = new Mocha({ reporter: class {}, rootHooks: { ...limits, ...ends }, timeout: 20_000 });
  mocha.cleanReferencesAfterRun(false);
  for (const file of files) mocha.addFile(file);
  await mocha.loadFilesAsync();
  let tests = [];
  for (const _ of [1, 2]) {
    tests = [];
    await new Promise((resolve) => {
      mocha
        .run(resolve)
        .on('pass', (test) => tests.push({ file: test.file, title: test.fullTitle(), ms: test.duration }))
        .on('fail', (test, error) =>
          tests.push({ file: test.file, title: test.fullTitle(), ms: test.duration ?? 0, failed: error.message }),
        );
    });
  }
  process.stdout.write(`\n${JSON.stringify(tests)}\n`, () => process.exit());
}

void main();
