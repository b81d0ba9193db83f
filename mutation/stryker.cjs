// Stryker over one source file after the other, in a copy of the repository. The tests: those of the file by itself, the
// contract suite on the memory store, and the simulation with few worlds; each mutant meets those that reach it. First the quick tests, then,
// for what survives, all of them. Nothing is counted of a file whose unmutated copy does not pass.
'use strict';

const { spawnSync } = require('node:child_process');
const { closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { root } = require('./sandbox.cjs');

/** The files that decide which caller holds a lock, for how long, and which is next. */
exports.files = [
  'src/hold/validity.ts',
  'src/store/embedded/machine/mutex-queue.ts',
  'src/hold/extension.ts',
  'src/acquire/attempts.ts',
  'src/hold/lease.ts',
  'src/hold/keeper.ts',
  'src/hold/held-lock.ts',
  'src/acquire/acquisition.ts',
  'src/acquire/polling.ts',
  'src/acquire/queued.ts',
  'src/acquire/entry.ts',
  'src/queue/queue.ts',
  'src/store/embedded/machine/mutex-machine.ts',
];

/** A test that takes longer is left to the second pass. */
const quickMs = 300;
const maxMs = { quick: 4000, slow: 20_000 };

/** The contract suite; without the files that are about messages of Redis. */
const contract = readdirSync(join(root, 'test', 'contract'))
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => readFileSync(join(root, 'test', 'contract', name), 'utf8').includes('describeEach('))
  .map((name) => `test/contract/${name}`);
const simulation = 'test/simulation/simulation.test.ts';
const all = [
  'test/validity.test.ts',
  'test/renewal.test.ts',
  'test/attempts.test.ts',
  'test/held-lock.test.ts',
  'test/lease.test.ts',
  'test/queue.test.ts',
  'test/acquire.test.ts',
  'test/acquire-shared.test.ts',
  'test/embedded/mutex-queue.test.ts',
  'test/embedded/mutex-machine.test.ts',
  ...contract,
  simulation,
];

/** The tests of the first pass: those of the lock itself. Tests of what is made of locks run in the second pass. */
const core =
  /contract\/(acquire|callback|close|extend|lock|queue-order|release|run|rw-lock|self-wait|semaphore|waiting)\.|validity|test\/(renewal|attempts|held-lock|lease|queue|acquire(-shared)?)\.|mutex-(queue|machine)|simulation/;

/** The simulation runs the queue and the embedded machine, with everything else of its own. */
const testsOf = (file) => all.filter((each) => each !== simulation || /queue|machine/.test(file));

const env = (pass) => ({
  ...process.env,
  REDIS_EXP_LOCK_PLACE: 'memory',
  SEEDS: '25',
  MUTATION_TEST_MS: String(maxMs[pass]),
});

/** The title of a test that starts a process of its own, which runs without mutants. */
const ofProcesses = /the process ends by itself/;

/**
 * The tests as they are, when they run a second time in a process, as they do for every mutant: the files in the order of their durations,
 * the slow tests, and those that cannot show anything here.
 */
exports.baseline = (folder) => {
  const args = ['--import', 'tsx', '--expose-gc', join(__dirname, 'twice.cjs'), ...all];
  const { stdout } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: env('slow'),
  });
  const tests = JSON.parse(stdout.slice(stdout.lastIndexOf('\n[') + 1));
  const failures = tests.filter(({ failed }) => failed);
  for (const { title, failed } of failures) console.log(`left out, it fails without mutants: ${title}: ${failed}`);
  const files = new Map(all.map((file) => [file, 0]));
  for (const { file, ms } of tests) {
    const name = all.find((each) => file.endsWith(each));
    files.set(name, files.get(name) + ms);
  }
  // Tests that do not wait for real time go first.
  const weight = ([file, ms]) => (contract.includes(file) ? 1e6 : 0) + ms;
  const quickest = [...files].sort((one, other) => weight(one) - weight(other)).map(([file]) => file);
  const titles = (some) => some.map(({ title }) => title);
  const leftOut = titles([...failures, ...tests.filter(({ title }) => ofProcesses.test(title))]);
  return { quickest, leftOut, slow: titles(tests.filter(({ ms }) => ms > quickMs)) };
};

const escaped = (title) => title.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
const without = (titles) => `^(?!(?:${titles.map(escaped).join('|')})$)`;

const config = (mutate, tests, grep, isFresh) => ({
  inPlace: true,
  mutate,
  testRunner: 'mocha',
  plugins: [join(__dirname, 'node_modules/@stryker-mutator/mocha-runner/dist/src/index.js')],
  testRunnerNodeArgs: ['--import', 'tsx', '--expose-gc'],
  mochaOptions: {
    spec: tests,
    require: ['./test/support/hooks.ts', join(__dirname, 'hooks.cjs')],
    grep,
  },
  coverageAnalysis: 'perTest',
  concurrency: 1,
  maxTestRunnerReuse: isFresh ? 1 : 0,
  timeoutMS: 30_000,
  timeoutFactor: 4,
  disableTypeChecks: false,
  reporters: ['json', 'progress-append-only'],
  jsonReporter: { fileName: 'mutation.json' },
  checkers: [],
  allowConsoleColors: false,
});

/** Runs Stryker. @returns The outcome of each mutant, or why there is none. */
function runStryker(folder, pass, settings) {
  writeFileSync(join(folder, 'stryker.json'), JSON.stringify(settings));
  const report = join(folder, 'mutation.json');
  rmSync(report, { force: true });
  const stryker = join(__dirname, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const log = join(folder, 'stryker.log'); // grows as it goes on
  const out = openSync(log, 'w');
  spawnSync(process.execPath, [stryker, 'run', 'stryker.json'], {
    cwd: folder,
    stdio: ['ignore', out, out],
    env: env(pass),
  });
  closeSync(out);
  if (existsSync(report)) return Object.values(JSON.parse(readFileSync(report, 'utf8')).files)[0].mutants;
  const said = readFileSync(log, 'utf8').slice(-5000);
  if (!/failed tests in the initial test run/.test(said)) throw new Error(`Stryker failed:\n${said}`);
  console.error(said);
  return 'the unmutated copy fails';
}

const isAlive = ({ status }) => status === 'Survived' || status === 'NoCoverage';
const place = ({ location: { start, end } }) => `${start.line}:${start.column}-${end.line}:${end.column}`;
const nameOf = (mutant) => `${place(mutant)} ${mutant.mutatorName} ${mutant.replacement}`;

/** Columns count from 1 in a report, and from 0 in the settings. */
const rangeOf = (file, { location: { start, end } }) =>
  `${file}:${start.line}:${start.column - 1}-${end.line}:${end.column - 1}`;

/**
 * @param quick Without the second pass.
 * @param fresh Each mutant in a process of its own: nothing that an earlier one left behind can kill it.
 */
exports.runOne = (folder, file, tests, { quick: isQuick = false, fresh: isFresh = false }) => {
  const started = Date.now();
  const first = firstPass(folder, file, tests, isFresh);
  const mutants = isQuick || !Array.isArray(first) ? first : secondPass(folder, file, tests, first, isFresh);
  if (!Array.isArray(mutants)) return { file, notRun: mutants };
  return figures(file, mutants, Math.round((Date.now() - started) / 1000));
};

function firstPass(folder, file, { quickest, leftOut, slow }, isFresh) {
  const quick = quickest.filter((each) => testsOf(file).includes(each) && core.test(each));
  return runStryker(folder, 'quick', config([file], quick, without([...leftOut, ...slow]), isFresh));
}

/** Runs all tests against the mutants that survived the first pass. */
function secondPass(folder, file, { quickest, leftOut }, first, isFresh) {
  const ranges = [...new Set(first.filter(isAlive).map((each) => rangeOf(file, each)))];
  if (ranges.length === 0) return first;
  const tests = quickest.filter((each) => testsOf(file).includes(each));
  const second = runStryker(folder, 'slow', config(ranges, tests, without(leftOut), isFresh));
  if (!Array.isArray(second)) return second;
  const later = new Map(second.map((each) => [nameOf(each), each]));
  return first.map((each) => (isAlive(each) ? (later.get(nameOf(each)) ?? each) : each));
}
exports.secondPass = secondPass;

exports.figures = figures;
function figures(file, mutants, seconds) {
  const of = (...names) => mutants.filter(({ status }) => names.includes(status));
  const killed = of('Killed', 'Timeout').length;
  const hung = mutants.filter(({ status, statusReason }) => status === 'Timeout' || /^Timeout of/.test(statusReason));
  const alive = mutants.filter(isAlive);
  const valid = killed + alive.length; // others could not be compiled, or not be loaded
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  const survivors = alive.map(({ status, location, mutatorName, replacement }) => ({
    line: location.start.line,
    code: lines[location.start.line - 1].trim(),
    mutator: mutatorName,
    replacement,
    ...(status === 'NoCoverage' && { isUnreached: true }),
  }));
  const score = Math.round((1000 * killed) / valid) / 10;
  return { file, mutants: valid, killed, hung: hung.length, score, seconds, survivors };
}
