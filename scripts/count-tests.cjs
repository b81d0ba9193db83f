// `npm run proof:count`: lists every test of `npm test` without running one, and writes proof/tests.json.
'use strict';

const { spawnSync } = require('node:child_process');
const { mkdirSync, writeFileSync } = require('node:fs');
const { join, relative, sep } = require('node:path');

const root = join(__dirname, '..');
const abouts = {
  '': 'parts of the lock by themselves, and this package as a whole: docs, structure, errors, environment',
  contract: 'what every client and store promises',
  redis: 'scripts, wire format, queues, clients and servers in every state',
  embedded: 'memory and shared memory, with processes that are killed',
  process: 'one process: timers, memory, signals, exit',
  simulation: 'the protocols in simulated worlds, and variants that must fail',
  torture: 'the checkers of torture, and a short run',
  'slow-paths': 'the short cuts that `npm run test:slow-paths` takes out',
  protections: 'the changes that `npm run protections` makes',
  page: 'the live page, in a browser',
  rolling: 'processes of the build before and of this one, on the same keys',
  shims: 'the shims beside the packages that they replace',
  observation: 'events, traces and metrics',
  package: 'the packed tarball: types, bundlers, module systems',
};

const args = [
  'node_modules/mocha/bin/mocha.js',
  '--dry-run',
  '--no-parallel',
  '--reporter',
  'json',
  'test/**/*.test.ts',
];
const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 });
const start = stdout.indexOf('{\n  "stats"');
if (start < 0) throw new Error(`mocha counted nothing:\n${stdout.slice(-500)}${stderr.slice(-2000)}`);
const { tests } = JSON.parse(stdout.slice(start));

const byFolder = new Map();
for (const { file } of tests) {
  const parts = relative(join(root, 'test'), file).split(sep);
  const folder = parts.length > 1 ? parts[0] : '';
  if (!byFolder.has(folder)) byFolder.set(folder, { files: new Set(), tests: 0 });
  const entry = byFolder.get(folder);
  entry.files.add(file);
  entry.tests += 1;
}
const folders = [...byFolder]
  .sort(([, a], [, b]) => b.tests - a.tests)
  .map(([folder, entry]) => ({ folder, files: entry.files.size, tests: entry.tests, about: abouts[folder] ?? '' }));
const files = folders.reduce((sum, each) => sum + each.files, 0);
mkdirSync(join(root, 'proof'), { recursive: true });
writeFileSync(
  join(root, 'proof', 'tests.json'),
  `${JSON.stringify({ tests: tests.length, files, folders }, null, 2)}\n`,
);
console.log(`${tests.length} tests in ${files} files`);
