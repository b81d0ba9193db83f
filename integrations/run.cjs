// `npm run integrations`: installs what is missing here, packs the library and unpacks it beside each program, and runs the tests, whose
// counts are the last line. Arguments go to mocha: `npm run integrations -- --grep Nest`, or the names of test files instead of all.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const runtimes = require('../scripts/runtimes.cjs');

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, {
    cwd: __dirname,
    stdio: ['ignore', 'inherit', 'inherit'],
    ...options,
  });
  if (error) throw error;
  return status ?? 1;
}

function npm(args, cwd) {
  const cli = process.env.npm_execpath;
  const [command, before] = cli?.endsWith('.js') ? [process.execPath, [cli]] : ['npm', []];
  const quiet = ['--loglevel=error', '--no-fund', '--no-audit', '--no-update-notifier'];
  if (run(command, [...before, ...args, ...quiet], { cwd, stdio: ['ignore', 'ignore', 'inherit'] }) !== 0)
    throw new Error(`npm ${args.join(' ')} failed in ${cwd}`);
}

/** Again only when the lock file is another. */
function installHere() {
  const installed = path.join(__dirname, 'node_modules/.installed-lock.json');
  const lock = fs.readFileSync(path.join(__dirname, 'package-lock.json'), 'utf8');
  if (fs.existsSync(installed) && fs.readFileSync(installed, 'utf8') === lock) return;
  console.log('Installing the packages of integrations/ (npm ci) ...');
  npm(['ci', '--ignore-scripts', '--no-bin-links'], __dirname); // no other `node` in front of the one that is used here
  fs.writeFileSync(installed, lock);
}

/** Unpacks the tarball, as users install it, into each folder that has packages of its own, so that the library finds the peers there. */
function unpack() {
  const made = fs.mkdtempSync(path.join(__dirname, 'node_modules/.packed-'));
  npm(['pack', '--ignore-scripts=false', '--pack-destination', made], root);
  const tarball = path.join(made, fs.readdirSync(made)[0]);
  const { workspaces } = JSON.parse(fs.readFileSync(path.join(__dirname, 'package.json'), 'utf8'));
  for (const folder of ['.', ...workspaces]) {
    const target = path.join(__dirname, folder, 'node_modules/redis-exp-lock');
    fs.rmSync(target, { recursive: true, force: true });
    fs.mkdirSync(target, { recursive: true });
    if (run('tar', ['-xzf', tarball, '-C', target, '--strip-components=1']) !== 0) throw new Error('tar failed');
  }
  fs.rmSync(made, { recursive: true });
}

if (!fs.existsSync(path.join(root, 'node_modules/mocha'))) npm(['ci'], root);
runtimes.install();
installHere();
unpack();
const args = process.argv.slice(2);
const files = args.some((arg) => arg.endsWith('.test.ts')) ? [] : ['*.test.ts', 'nest-*/*.test.ts'];
process.exitCode = run(process.execPath, [path.join(root, 'node_modules/mocha/bin/mocha.js'), ...args, ...files]);
