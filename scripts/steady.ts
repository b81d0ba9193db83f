/**
 * `npm run test:steady -- --runs 10 --load 2 [files]`: the whole suite again and again, beside busy loops, each of which wants a core
 * for itself. Ends with a table of the tests that ever failed and of those that were slow. Exit code 1 when one failed.
 * Runs of the whole suite go to proof/steady.json; with files named, nothing is written.
 *
 * Invariant: it ends each process that it started, and a busy loop ends with this process however that ends.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { exited, killChildren, track } from '../test/support/processes';
import { versions } from '../torture/versions';

const root = join(__dirname, '..');
/** A run that takes longer did not end by itself, which is a failure of its own. */
const maxRunMs = 60 * 60_000;
const slowMs = 10_000;

interface Test {
  readonly fullTitle: string;
  /** None of a root hook. */
  readonly file?: string;
  readonly duration?: number;
  readonly err: { readonly message?: string; readonly stack?: string };
}

interface Run {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly seconds: number;
}

interface Row {
  readonly test: string;
  readonly file: string;
  /** The number of runs in which the test failed. */
  failed: number;
  maxMs: number;
  said?: string;
}

const rows = new Map<string, Row>();

process.once('SIGINT', () => process.exit(130));
void main().finally(killChildren);

async function main(): Promise<void> {
  const { values, positionals: files } = parseArgs({
    allowPositionals: true,
    options: { runs: { type: 'string', default: '10' }, load: { type: 'string', default: '2' } },
  });
  const [wanted, load] = [Number(values.runs), Number(values.load)];
  const started = new Date();
  for (let n = 0; n < load; n += 1) startBusyLoop();
  const runs: Run[] = [];
  while (runs.length < wanted) {
    const run = await runOnce(files);
    runs.push(run);
    console.log(
      `run ${runs.length}: ${run.passed} passed, ${run.failed} failed, ${run.skipped} skipped, ${run.seconds} s`,
    );
  }
  const proof = {
    command: `npm run test:steady -- --runs ${wanted} --load ${load}`,
    started: started.toISOString(),
    minutes: Number(((Date.now() - started.getTime()) / 60_000).toFixed(1)),
    versions: await versions(),
    load,
    runs,
    failed: [...rows.values()].filter(({ failed }) => failed > 0),
    slow: [...rows.values()].filter(({ maxMs }) => maxMs > slowMs).sort((one, other) => other.maxMs - one.maxMs),
  };
  for (const { test, file, failed, said } of proof.failed)
    console.log(`failed in ${failed} of ${wanted}: ${file}: ${test}: ${said}`);
  for (const { test, file, maxMs } of proof.slow) console.log(`slow, ${maxMs} ms: ${file}: ${test}`);
  if (runs.some(({ failed }) => failed > 0)) process.exitCode = 1;
  if (files.length === 0) writeFileSync(join(root, 'proof/steady.json'), `${JSON.stringify(proof, undefined, 2)}\n`);
}

/** Ends when this process does, even by kill -9: then its channel closes. */
function startBusyLoop(): void {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-busy-'));
  const script = join(folder, 'busy.cjs');
  writeFileSync(
    script,
    `process.on('disconnect', process.exit);
     setImmediate(function spin() { for (const end = Date.now() + 100; Date.now() < end; ); setImmediate(spin); });`,
  );
  const child: ChildProcess = fork(script, { execArgv: [] });
  track(child);
  child.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}

/** The suite as `npm test` runs it, or the files named. */
async function runOnce(files: readonly string[]): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-steady-'));
  const report = join(folder, 'report.json');
  const startMs = performance.now();
  const args = [...mochaArgs(files), '--reporter', 'json', '--reporter-option', `output=${report}`];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], detached: true });
  // With the processes that it started: mocha starts a Node of its own.
  const end = (): boolean => process.kill(-child.pid!, 'SIGTERM');
  process.once('exit', end);
  const late = setTimeout(end, maxRunMs);
  try {
    await exited(child);
    const { stats, tests, failures } = JSON.parse(readFileSync(report, 'utf8'));
    if (child.signalCode !== null) throw new Error(`a run did not end within ${maxRunMs} ms`);
    for (const test of tests) note(test).maxMs = Math.max(note(test).maxMs, test.duration ?? 0);
    for (const test of failures) {
      noteFailure(test);
      console.log(`failed: ${test.fullTitle}\n${test.err.stack ?? test.err.message}`);
    }
    const seconds = Math.round((performance.now() - startMs) / 1000);
    return { passed: stats.passes, failed: stats.failures, skipped: stats.pending, seconds };
  } finally {
    process.off('exit', end);
    clearTimeout(late);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The words behind `mocha` in package.json; with files named, without those that name files there. */
function mochaArgs(files: readonly string[]): string[] {
  const { test } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts;
  const words = /mocha (.*)$/
    .exec(test)![1]!
    .split(' ')
    .map((word) => word.replaceAll('"', ''));
  const terms = files.length === 0 ? words : [...words.filter((word) => !word.startsWith('test/')), ...files];
  return [join(root, 'node_modules/mocha/bin/mocha.js'), ...terms];
}

function note({ fullTitle: test, file: path = root }: Test): Row {
  const file = relative(root, path);
  const row = rows.get(`${file}: ${test}`) ?? { test, file, failed: 0, maxMs: 0 };
  rows.set(`${file}: ${test}`, row);
  return row;
}

/** Hooks among them, which are no tests. */
function noteFailure(test: Test): void {
  const row = note(test);
  row.failed += 1;
  row.said = (test.err.message ?? '').split('\n')[0]!.slice(0, 300);
}
