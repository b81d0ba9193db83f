// `npm run mutate`: every mutant of the Lua scripts, then Stryker over the ten files that carry safety, one after the other; a file that
// would begin after `--minutes` (default: no end) is left out. `--lua`: only the scripts. `--files a,b`: only these files. `--quick`: without the
// slow tests, so that more survive. `--fresh`: each mutant in a process of its own, which takes longer. Figures go to
// proof/mutation.json after each file; what was not run keeps its figures, or says that there are none. `--reasons`: runs nothing, and writes the
// reasons of survivors anew. Exit 1: a score below 85 %.
'use strict';

const { execFileSync } = require('node:child_process');
const { existsSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { parseArgs } = require('node:util');
const lua = require('./lua.cjs');
const { reasonOf } = require('./reasons.cjs');
const { makeSandbox, root } = require('./sandbox.cjs');
const stryker = require('./stryker.cjs');

const least = 85;
const target = join(root, 'proof', 'mutation.json');

function before() {
  return existsSync(target) ? JSON.parse(readFileSync(target, 'utf8')) : { lua: [], files: [] };
}

function write(proof) {
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(target, `${JSON.stringify(proof, null, 2)}\n`);
}

/** The files in the order of the list, each with its last figures, and its survivors with their reasons. */
function joined(old, fresh) {
  const ran = new Map([...old, ...fresh].filter(({ notRun }) => !notRun).map((each) => [each.file, each]));
  return stryker.files.map((file) => {
    const found = ran.get(file);
    if (found === undefined) return { file, notRun: fresh.find((each) => each.file === file)?.notRun ?? 'not run yet' };
    const survivors = found.survivors.map((each) => ({ ...each, reason: reasonOf(file, each) }));
    return { ...found, survivors };
  });
}

function runLua() {
  const results = lua.run();
  write({ ...before(), lua: results });
  const killed = results.filter(({ killedBy }) => killedBy).length;
  return killed * 100 >= least * results.length;
}

function install() {
  if (existsSync(join(__dirname, 'node_modules'))) return;
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: __dirname, stdio: 'inherit' });
}

function runFiles(files, minutes, how) {
  install();
  const end = Date.now() + minutes * 60_000;
  const { folder, remove } = makeSandbox();
  let isGood = true;
  try {
    let tests;
    for (const file of files) {
      let result = { file, notRun: 'not run yet' };
      if (Date.now() < end) {
        tests ??= stryker.baseline(folder);
        result = stryker.runOne(folder, file, tests, how);
      }
      const { notRun, killed, mutants, score, seconds } = result;
      console.log(`${file}: ${notRun ?? `${killed} of ${mutants} killed, ${score} %, ${seconds} s`}`);
      const proof = before();
      write({ ...proof, files: joined(proof.files, [result]) });
      isGood &&= score === undefined || score >= least;
    }
  } finally {
    remove();
  }
  return isGood;
}

function main() {
  const { values } = parseArgs({
    options: {
      lua: { type: 'boolean' },
      files: { type: 'string' },
      minutes: { type: 'string', default: 'Infinity' },
      quick: { type: 'boolean' },
      fresh: { type: 'boolean' },
      reasons: { type: 'boolean' },
    },
  });
  const minutes = Number(values.minutes);
  if (Number.isNaN(minutes)) throw new Error(`--minutes: expected a number; got ${values.minutes}`);
  const files = values.files?.split(',') ?? stryker.files;
  const unknown = files.find((file) => !stryker.files.includes(file));
  if (unknown) throw new Error(`--files: ${unknown} is none of ${stryker.files.join(', ')}`);
  if (values.reasons) return write({ ...before(), files: joined(before().files, []) });
  const isLuaGood = (values.files !== undefined && !values.lua) || runLua();
  const isGood = (values.lua && values.files === undefined) || runFiles(files, minutes, values);
  process.exitCode = isLuaGood && isGood ? 0 : 1;
}

main();
