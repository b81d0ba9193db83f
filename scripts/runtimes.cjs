// The other runtimes that the tests and the demo run on, as npm packages of their binaries (test/runtimes/package.json): no
// install script, nothing from elsewhere. They have a folder of their own, since each would put its `node` in front of the
// one that is used here. As a program (`pretest`): installs what is missing; without it, tests say so and are pending.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const { platform, arch } = process;
const folder = path.join(__dirname, '..', 'test', 'runtimes');

function program(...steps) {
  const file = path.join(folder, 'node_modules', ...steps);
  return fs.existsSync(file) ? file : undefined;
}

/** The program of a newer Node; undefined where there is none. */
exports.node = (/** @type {22 | 24} */ major) => program(`node-${major}-${platform}-${arch}`, 'bin', 'node');
exports.bun = () => program('@oven', `bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`, 'bin', 'bun');
exports.deno = () => program('@deno', `${platform}-${arch}-glibc`, 'deno');

/** A Node that has SQLite, for shared memory: this one where it has; undefined where there is none. */
exports.nodeWithSqlite = () => (hasSqlite() ? process.execPath : (exports.node(24) ?? exports.node(22)));

/** Installs them where there are any for this platform and one is missing. A failure is printed, and does not fail the caller. */
exports.install = () => {
  if (platform !== 'linux' || (exports.node(22) && exports.node(24) && exports.bun())) return;
  console.log('Installing Node 22 and 24, Bun and Deno for the tests (npm ci in test/runtimes) ...');
  const args = ['ci', '--loglevel=error', '--no-fund', '--no-audit', '--no-update-notifier'];
  const cli = process.env.npm_execpath;
  const [command, before] = cli?.endsWith('.js') ? [process.execPath, [cli]] : ['npm', []];
  const { status, stderr, error } = spawnSync(command, [...before, ...args], { cwd: folder, encoding: 'utf8' });
  if (status === 0) return;
  const reason = (error?.message ?? stderr).trim().split('\n')[0];
  console.log(`They could not be installed (${reason}): their tests are pending.`);
};

function hasSqlite() {
  const { emitWarning } = process;
  process.emitWarning = () => {}; // that it is experimental
  try {
    return process.getBuiltinModule?.('node:sqlite') !== undefined || require.resolve('better-sqlite3') !== '';
  } catch {
    return false;
  } finally {
    process.emitWarning = emitWarning;
  }
}

if (require.main === module) exports.install();
