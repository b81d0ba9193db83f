// The other runtimes that the tests and the demo run on, as npm packages of their binaries (test/runtimes/package.json): no
// install script, nothing from elsewhere. They have a folder of their own, since each would put its `node` in front of the
// one that is used here. Node 26 comes with integrations/, which alone use it. As a program (`pretest`): installs what is missing; without it, tests say so and are pending.
'use strict';

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');

const { platform, arch } = process;
const folder = path.join(__dirname, '..', 'test', 'runtimes');
/** A mark that only one runtime was installed; installing all of them takes the mark away. */
const ofOne = path.join(folder, 'node_modules', '.one');
const integrations = path.join(__dirname, '..', 'integrations');

function program(...steps) {
  const files = [folder, ofOne, integrations].map((each) => path.join(each, 'node_modules', ...steps));
  return files.find((file) => fs.existsSync(file));
}

/** The program of a newer Node; undefined where there is none. */
exports.node = (/** @type {22 | 24 | 26} */ major) => program(`node-${major}-${platform}-${arch}`, 'bin', 'node');
exports.bun = () => program('@oven', `bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`, 'bin', 'bun');
exports.deno = () => program('@deno', `${platform}-${arch}-glibc`, 'deno');

/** A Node that has SQLite, for shared memory: this one where it has; undefined where there is none. */
exports.nodeWithSqlite = () => (hasSqlite() ? process.execPath : (exports.node(24) ?? exports.node(22)));

/** Installs them where there are any for this platform and one is missing. A failure is printed, and does not fail the caller. */
exports.install = () => {
  if (platform !== 'linux' || (exports.node(22) && exports.node(24) && exports.bun())) return;
  console.log('Installing Node 22 and 24, Bun and Deno for the tests (npm ci in test/runtimes) ...');
  const [command, args] = npmCi();
  const { status, stderr, error } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) sayWhy(error?.message ?? stderr);
};

/** Starts to install Node 24 alone, as the lock file has it. Resolves when it is there, or why it is not was printed. */
exports.installNode = async () => {
  const name = `node-24-${platform}-${arch}`;
  const [manifest, lock] = ['package.json', 'package-lock.json'].map((file) => require(path.join(folder, file)));
  if (manifest.optionalDependencies[name] === undefined) return;
  console.log('Installing Node 24, which has SQLite, for the demo ...');
  const optionalDependencies = { [name]: manifest.optionalDependencies[name] };
  const own = `node_modules/${name}`;
  const packages = { '': { ...lock.packages[''], optionalDependencies }, [own]: lock.packages[own] };
  fs.mkdirSync(ofOne, { recursive: true });
  fs.writeFileSync(path.join(ofOne, 'package.json'), JSON.stringify({ ...manifest, optionalDependencies }));
  fs.writeFileSync(path.join(ofOne, 'package-lock.json'), JSON.stringify({ ...lock, packages }));
  const [command, args] = npmCi();
  const child = spawn(command, args, { cwd: ofOne, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (text) => {
    said += text;
  });
  const [status] = await once(child, 'close').catch((error) => [error.message]);
  if (status !== 0) sayWhy(said || String(status));
};

function npmCi() {
  const args = ['ci', '--loglevel=error', '--no-fund', '--no-audit', '--no-update-notifier'];
  const cli = process.env.npm_execpath;
  return cli?.endsWith('.js') ? [process.execPath, [cli, ...args]] : ['npm', args];
}

function sayWhy(said) {
  console.log(`Could not be installed (${said.trim().split('\n')[0]}): what needs it is left out.`);
}

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
