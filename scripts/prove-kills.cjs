// `npm run test:kills`: the test of shared memory under kill -9 for a minute (or KILL_SECONDS), with its figures, by a Node that
// has SQLite.
'use strict';

const { spawnSync } = require('node:child_process');
const { install, nodeWithSqlite } = require('./runtimes.cjs');

if (nodeWithSqlite() === undefined) install();
const args = ['node_modules/mocha/bin/mocha.js', 'test/embedded/kills.test.ts', '--grep', 'H74'];
const env = { KILL_SECONDS: '60', ...process.env };
process.exitCode = spawnSync(nodeWithSqlite(), args, { cwd: `${__dirname}/..`, env, stdio: 'inherit' }).status ?? 1;
