// The suites of the contract, of embedded stores and of processes, run by another Node than this one: each of their tests is counted as one of ours.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect } from 'chai';
import { Test } from 'mocha';
import { node } from '../../scripts/runtimes.cjs';
import { exited, track } from '../support/processes';

const root = resolve(__dirname, '../..');
const suites = ['test/contract/*.test.ts', 'test/embedded/*.test.ts', 'test/process/*.test.ts'];
const some = ['acquire, on shared memory', 'RWLock, on shared memory', 'HostLock', 'shared memory under attack'];

/** True if this process is one that was started here. */
export const isInner = process.env.REDIS_EXP_LOCK_INNER !== undefined;

/** The result of one test by mocha's reporter; without a duration the test was pending. */
interface Outcome {
  readonly fullTitle: string;
  readonly file: string;
  readonly duration?: number;
  readonly err: { readonly message?: string; readonly stack?: string };
}

/** Arguments of mocha that leave out what needs a server. */
export const withoutServer = ['--grep', 'shared memory|HostLock|on memory'];

export function describeOnNode(major: 22 | 24 | 26, chosen: readonly string[] = []): void {
  if (isInner || process.versions.node.startsWith(`${major}.`)) return; // it runs them itself
  describe(`the suites${chosen === withoutServer ? ' without a server' : ''}, on Node ${major}`, function () {
    this.timeout(900_000); // whole suites, by another Node
    const program = node(major);
    if (program === undefined) {
      it(`pending: Node ${major} for ${process.platform} on ${process.arch} is no package, or not installed`);
      return;
    }

    let outcomes: Outcome[];

    before(async function () {
      outcomes = await run(program, chosen);
      for (const outcome of outcomes) this.test!.parent!.addTest(testOf(outcome));
    });

    it('runs all of its suites', function () {
      const titles = this.test!.parent!.tests.map(({ title }) => title);
      for (const suite of some)
        expect(
          titles.some((title) => title.startsWith(suite)),
          suite,
        ).to.equal(true);
      // Mocha only warns of a name that finds no file.
      const folders = new Set(outcomes.map(({ file }) => dirname(file)));
      expect([...folders].sort()).to.deep.equal(suites.map((suite) => join(root, dirname(suite))).sort());
    });
  });
}

/** A test of ours for each that another mocha reported. */
export function testOf({ fullTitle, duration, err }: Outcome): Test {
  if (duration === undefined && err.message === undefined) return new Test(fullTitle);
  return new Test(fullTitle, () => {
    if (err.message !== undefined) throw Object.assign(new Error(err.message), { stack: err.stack ?? err.message });
  });
}

function run(program: string, chosen: readonly string[]): Promise<Outcome[]> {
  const args = ['--parallel', '--jobs', '3', ...chosen, ...suites];
  return mochaOn(program, args, { REDIS_EXP_LOCK_INNER: '1', KILL_SECONDS: '' });
}

/** Runs this repository's mocha under another program. */
export async function mochaOn(program: string, own: readonly string[], added: NodeJS.ProcessEnv): Promise<Outcome[]> {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-report-'));
  const report = join(folder, 'report.json');
  const mocha = join(root, 'node_modules/mocha/bin/mocha.js');
  const args = [mocha, '--reporter', 'json', '--reporter-option', `output=${report}`, ...own];
  const child = spawn(program, args, {
    cwd: root,
    env: { ...process.env, ...added },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  track(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const isSame = (one: Outcome) => (other: Outcome) => one.file === other.file && one.fullTitle === other.fullTitle;
  try {
    const { code } = await exited(child);
    const { stats, tests, failures } = JSON.parse(readFileSync(report, 'utf8'));
    expect(code, output).to.equal(stats.failures);
    // A hook that fails is no test, but counts as one that failed.
    return [...tests, ...failures.filter((each: Outcome) => !tests.some(isSame(each)))];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
