// Makes `npm start` work on a fresh clone: installs what is missing, builds what is stale, and is silent when neither is
// needed. Runs before any dependency exists, so it may use nothing but Node itself.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { findBinary } = require('./redis-binary.cjs');
const runtimes = require('./runtimes.cjs');

const ROOT = path.join(__dirname, '..');
const NEEDED = ['@biomejs/biome', 'redis', 'redis-memory-server', 'typescript', 'uuid'];

async function main() {
  // Without a Redis the demo uses shared memory, and that needs a Node with SQLite. It arrives while the rest is done.
  const needsNode = !process.env.REDIS_URL && !hasRedis() && runtimes.nodeWithSqlite() === undefined;
  const arrived = needsNode ? runtimes.installNode() : undefined;
  if (!NEEDED.every(isInstalled)) {
    const command = fs.existsSync(path.join(ROOT, 'package-lock.json')) ? 'ci' : 'install';
    // Development packages are what the demo is made of: not even NODE_ENV=production may leave them out.
    npm(`Installing the dependencies (npm ${command}) ...`, [command, '--include=dev']);
  }
  if (isStale()) {
    npm('Building the library (npm run build) ...', ['run', 'build'], () => {
      fs.rmSync(path.join(ROOT, 'lib'), { recursive: true, force: true }); // half a build must not look like a fresh one
    });
  }
  await arrived;
}

function hasRedis() {
  try {
    return findBinary() !== undefined;
  } catch {
    return true; // the demo itself says what is wrong with it
  }
}

function isInstalled(name) {
  return fs.existsSync(path.join(ROOT, 'node_modules', name, 'package.json'));
}

/** True without a build, and when a source, or a folder of them (something was removed), is newer than the oldest built file. */
function isStale() {
  if (!fs.existsSync(path.join(ROOT, 'lib', 'index.mjs'))) return true;
  const built = timesBelow(path.join(ROOT, 'lib'), (entry) => entry.isFile());
  const written = timesBelow(path.join(ROOT, 'src'), () => true);
  return Math.max(...written) > Math.min(...built);
}

function timesBelow(folder, counts) {
  return fs
    .readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter(counts)
    .map((entry) => fs.statSync(path.join(entry.parentPath ?? entry.path, entry.name)).mtimeMs);
}

/** Runs npm without its chatter; what it said is shown only when it failed. */
function npm(announcement, args, onFailure = () => {}) {
  console.log(announcement);
  const quiet = [...args, '--loglevel=error', '--no-fund', '--no-audit', '--no-update-notifier'];
  const options = { cwd: ROOT, encoding: 'utf8' };
  const cli = process.env.npm_execpath; // set by npm itself; spares us the shell that npm.cmd needs on Windows
  const result = cli?.endsWith('.js')
    ? spawnSync(process.execPath, [cli, ...quiet], options)
    : spawnSync('npm', quiet, { ...options, shell: process.platform === 'win32' });
  if (result.status === 0) return;
  onFailure();
  const said = [result.error?.message, result.stdout, result.stderr].filter(Boolean).join('\n').trim();
  console.error(said.split('\n').slice(0, 20).join('\n')); // after the reason npm adds pages of its own help
  console.error(`npm ${args.join(' ')} failed.`);
  process.exit(1);
}

void main();
