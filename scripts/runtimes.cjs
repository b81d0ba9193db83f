// The other runtimes that came with `npm install` (test/runtimes/package.json): the path of each one's program, or undefined
// where this platform has none.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const { platform, arch } = process;
const modules = path.join(__dirname, '..', 'node_modules');

function program(...steps) {
  const file = path.join(modules, ...steps);
  return fs.existsSync(file) ? file : undefined;
}

/** @param {22 | 24} major */
exports.node = (major) => program(`node-${major}-${platform}-${arch}`, 'bin', 'node');
exports.bun = () => program('@oven', `bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`, 'bin', 'bun');
exports.deno = () => program('@deno', `${platform}-${arch}-glibc`, 'deno');

/** A Node that has SQLite, for shared memory: this one where it has; undefined where there is none. */
exports.nodeWithSqlite = () => (hasSqlite() ? process.execPath : (exports.node(24) ?? exports.node(22)));

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
