// A copy of the repository to mutate, so that a run that is broken off leaves nothing behind in this one.
'use strict';

const { execFileSync, spawnSync } = require('node:child_process');
const { cpSync, mkdtempSync, mkdirSync, rmSync, symlinkSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { dirname, join } = require('node:path');

const root = join(__dirname, '..');

exports.root = root;

exports.makeSandbox = () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-mutants-'));
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const file of listed.split('\n').filter((each) => each !== '' && !/^(bench\/plots|mutation)\//.test(each))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file));
  }
  for (const modules of ['node_modules', 'test/runtimes/node_modules'])
    symlinkSync(join(root, modules), join(folder, modules));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
};

/** Runs mocha there until the first failure; a run that never ends counts as one. Its title, or undefined if all passed. */
exports.firstFailure = (folder, files) => {
  const args = [
    'node_modules/mocha/bin/mocha.js',
    '--no-parallel',
    '--bail',
    '--reporter',
    'json',
    '--timeout',
    '60000',
    ...files,
  ];
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: 'utf8',
    timeout: 300_000,
    maxBuffer: 1 << 28,
  });
  if (status === 0) return undefined;
  try {
    return JSON.parse(stdout.slice(stdout.indexOf('{\n  "stats"'))).failures[0].fullTitle;
  } catch {
    if (status === null) return 'no end within five minutes';
    throw new Error(`the tests could not run:\n${stdout.slice(-2000)}`);
  }
};
