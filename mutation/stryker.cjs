// Stryker over one source file after the other, in a copy of the repository, until the time is over. The tests: the contract suite on the
// memory store, and the simulation; each mutant meets those that reach it. Resolves with the figures of each file.
'use strict';

const { spawnSync } = require('node:child_process');
const { existsSync, readdirSync, readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { makeSandbox, root } = require('./sandbox.cjs');

/** What decides who holds a lock, for how long, and who is next. */
exports.files = [
  'src/validity.ts',
  'src/stores/embedded/mutex-queue.ts',
  'src/renewal.ts',
  'src/wait/attempt.ts',
  'src/lease.ts',
  'src/upkeep.ts',
  'src/held-lock.ts',
  'src/acquire.ts',
  'src/wait/queue.ts',
  'src/stores/embedded/mutex-machine.ts',
];

/** The contract suite; without the files that are about messages of Redis. */
const contract = readdirSync(join(root, 'test', 'contract'))
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => readFileSync(join(root, 'test', 'contract', name), 'utf8').includes('describeEach('))
  .map((name) => `test/contract/${name}`);

/** The simulation runs the queue and the embedded machine, with everything else of its own. */
const testsOf = (file) => [
  ...contract,
  'test/validity.test.ts',
  ...(/queue|machine/.test(file) ? ['test/simulation/simulation.test.ts'] : []),
];

const config = (file) => ({
  inPlace: true,
  mutate: [file],
  testRunner: 'mocha',
  plugins: [join(__dirname, 'node_modules/@stryker-mutator/mocha-runner/dist/src/index.js')],
  testRunnerNodeArgs: ['--import', 'tsx', '--expose-gc'],
  mochaOptions: {
    spec: testsOf(file),
    require: ['./test/support/hooks.ts'],
  },
  coverageAnalysis: 'perTest',
  concurrency: 3,
  timeoutMS: 30_000,
  disableTypeChecks: false,
  reporters: ['json'],
  jsonReporter: { fileName: 'mutation.json' },
  checkers: [],
  allowConsoleColors: false,
});

function runOne(folder, file, timeout) {
  writeFileSync(join(folder, 'stryker.json'), JSON.stringify(config(file)));
  const stryker = join(__dirname, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const started = Date.now();
  const { status, stdout } = spawnSync(process.execPath, [stryker, 'run', 'stryker.json'], {
    cwd: folder,
    encoding: 'utf8',
    timeout,
    maxBuffer: 1 << 28,
    env: { ...process.env, REDIS_EXP_LOCK_PLACE: 'memory' },
  });
  const report = join(folder, 'mutation.json');
  if (status === null) return { file, notRun: 'the time was over' };
  if (!existsSync(report)) throw new Error(`Stryker failed on ${file}:\n${stdout.slice(-9000)}`);
  const { mutants } = Object.values(JSON.parse(readFileSync(report, 'utf8')).files)[0];
  return figures(file, mutants, Math.round((Date.now() - started) / 1000));
}

function figures(file, mutants, seconds) {
  const of = (...names) => mutants.filter(({ status }) => names.includes(status));
  const killed = of('Killed', 'Timeout').length;
  const alive = of('Survived', 'NoCoverage');
  const valid = killed + alive.length; // others could not be compiled, or not be loaded
  const survivors = alive.map(({ location, mutatorName, replacement }) => ({
    line: location.start.line,
    mutator: mutatorName,
    replacement,
  }));
  return { file, mutants: valid, killed, score: Math.round((1000 * killed) / valid) / 10, seconds, survivors };
}

exports.run = (chosen, minutes) => {
  const end = Date.now() + minutes * 60_000;
  const { folder, remove } = makeSandbox();
  try {
    return chosen.map((file) => {
      const left = end - Date.now();
      const result = left > 0 ? runOne(folder, file, left) : { file, notRun: 'the time was over' };
      console.log(
        `${file}: ${result.notRun ?? `${result.killed} of ${result.mutants} killed, ${result.score} %, ${result.seconds} s`}`,
      );
      return result;
    });
  } finally {
    remove();
  }
};
