// `npm run model`: Spin checks model/mutex.pml exhaustively, and must refute each variant of it in which a rule is left out.
// Writes proof/model.json. Options: `--only NAME` for one of the runs (then nothing is written).
'use strict';

const { spawnSync } = require('node:child_process');
const { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

const root = join(__dirname, '..');
const model = join(root, 'model', 'mutex.pml');
const small = ['ROUNDS_OF_SECOND=1'];
const lively = [...small, 'LIVENESS'];

/** The checks: with which definitions, for which property of `ltl` (none: the assertions), and with which result. */
const runs = [
  { name: 'no two valid holders', bounds: '2 + 1 rounds, 2 faults, 1 crash', define: [...small, 'LATE', 'FAULTS=2'] },
  { name: 'no two valid holders, more rounds', bounds: '2 + 2 rounds, no fault', define: ['FAULTS=0', 'CRASHES=0'] },
  { name: 'fences rise', bounds: '2 + 1 rounds, 1 fault, 1 crash, 7 grants', define: [...small, 'LATE', 'FENCES=7'] },
  {
    name: 'nobody waits for ever: first',
    bounds: '2 + 1 rounds, 1 fault, 1 crash',
    define: lively,
    ltl: 'first_is_served',
  },
  {
    name: 'nobody waits for ever: second',
    bounds: '2 + 1 rounds, 1 fault, 1 crash',
    define: lively,
    ltl: 'second_is_served',
  },
  { name: 'release without compare', define: [...small, 'LATE', 'NO_COMPARE'], fails: true },
  { name: 'grant without confirm', define: [...small, 'LATE', 'NO_CONFIRM'], fails: true },
  { name: 'no rescue', define: [...lively, 'NO_RESCUE'], ltl: 'first_is_served', fails: true },
  { name: 'no notAfter', define: [...small, 'LATE', 'NO_NOT_AFTER'], fails: true },
  { name: 'one nonce for each entry', define: [...small, 'LATE', 'ONE_NONCE'], fails: true },
];

const has = (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined;

/** Makes Spin's checker for a run and runs it; a small one is made sooner, and has less room. */
function check({ define, ltl }, isSmall = false) {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-model-'));
  const call = (command, args) => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28 });
    if (status !== 0) throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`);
    return stdout;
  };
  try {
    copyFileSync(model, join(folder, 'mutex.pml'));
    call('spin', [...define.map((each) => `-D${each}`), '-a', 'mutex.pml']);
    call('gcc', [
      isSmall ? '-O0' : '-O2',
      '-w',
      '-DVECTORSZ=512',
      ltl ? '-DNFAIR=3' : '-DSAFETY',
      '-o',
      'pan',
      'pan.c',
    ]);
    const started = process.hrtime.bigint();
    const said = call('./pan', [
      ...(isSmall ? ['-m10000', '-w18'] : ['-m5000000', '-w24']),
      ...(ltl ? ['-a', '-f', '-N', ltl] : []),
    ]);
    return { ...outcomeOf(said), seconds: Number((process.hrtime.bigint() - started) / 100_000_000n) / 10 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A search that was cut off is no proof: it throws. */
function outcomeOf(said) {
  const number = (pattern) => Number(pattern.exec(said)?.[1]);
  const errors = number(/errors: (\d+)/);
  const found = /^pan:1: (.*?) \(at depth (\d+)\)$/m.exec(said);
  const cut = errors === 0 && /max search depth too small|Search not completed|out of memory/.test(said);
  if (cut || !(errors >= 0)) throw new Error(`the search was not exhaustive:\n${said}`);
  return {
    verdict: errors === 0 ? 'holds' : 'fails',
    states: number(/^\s*(\d+) states, stored/m),
    depth: found ? Number(found[2]) : number(/depth reached (\d+)/),
    ...(found && { found: found[1].replace(/\s+/g, ' ') }),
  };
}

function main(only) {
  if (!has('spin') || !has('gcc')) {
    console.error('npm run model needs Spin and gcc. Debian: sudo apt-get install spin gcc');
    return 1;
  }
  const chosen = runs.filter(({ name }) => only === undefined || name === only);
  const results = chosen.map((run) => {
    const expected = run.fails ? 'fails' : 'holds';
    const outcome = check(run);
    const { verdict, states, depth, seconds, found = '' } = outcome;
    const mark = verdict === expected ? 'ok   ' : 'WRONG';
    console.log(`${mark} ${run.name.padEnd(32)} ${verdict} ${states} states, depth ${depth}, ${seconds} s ${found}`);
    return { name: run.name, ...(run.bounds && { bounds: run.bounds }), define: run.define, expected, ...outcome };
  });
  const isRight = results.length > 0 && results.every(({ expected, verdict }) => expected === verdict);
  if (only === undefined && isRight) {
    const version = spawnSync('spin', ['-V'], { encoding: 'utf8' }).stdout.trim();
    mkdirSync(join(root, 'proof'), { recursive: true });
    writeFileSync(join(root, 'proof', 'model.json'), `${JSON.stringify({ version, runs: results }, null, 2)}\n`);
  }
  return isRight ? 0 : 1;
}

module.exports = { check, has, model, runs };
if (require.main === module) {
  const at = process.argv.indexOf('--only');
  process.exitCode = main(at < 0 ? undefined : process.argv[at + 1]);
}
