// `npm run mutate`: every mutant of the Lua scripts, then Stryker over the ten files that carry safety, one after the other, until
// `--minutes` (default 60) are over. `--lua`: only the scripts. `--files a,b`: only these files. Figures go to proof/mutation.json; what
// was not run keeps its figures, or says that there are none. Exit 1: a score below 85 %.
'use strict';

const { execFileSync } = require('node:child_process');
const { existsSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { parseArgs } = require('node:util');
const lua = require('./lua.cjs');
const { root } = require('./sandbox.cjs');
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

/** In the order of the list, each with its last figures. */
function joined(old, fresh) {
  const ran = new Map([...old, ...fresh].filter(({ notRun }) => !notRun).map((each) => [each.file, each]));
  return stryker.files.map((file) => ran.get(file) ?? { file, notRun: 'not run yet' });
}

function main() {
  const { values } = parseArgs({
    options: { lua: { type: 'boolean' }, files: { type: 'string' }, minutes: { type: 'string', default: '60' } },
  });
  const files = values.files?.split(',') ?? stryker.files;
  const unknown = files.find((file) => !stryker.files.includes(file));
  if (unknown) throw new Error(`--files: ${unknown} is none of ${stryker.files.join(', ')}`);
  let proof = before();
  if (!values.files) {
    proof = { ...proof, lua: lua.run() };
    write(proof);
  }
  let ran = [];
  if (!values.lua) {
    if (!existsSync(join(__dirname, 'node_modules'))) {
      execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: __dirname, stdio: 'inherit' });
    }
    ran = stryker.run(files, Number(values.minutes));
    write({ ...proof, files: joined(proof.files, ran) });
  }
  const killed = proof.lua.filter(({ killedBy }) => killedBy).length;
  const isGood =
    killed * 100 >= least * proof.lua.length && ran.every(({ score }) => score === undefined || score >= least);
  process.exitCode = isGood ? 0 : 1;
}

main();
