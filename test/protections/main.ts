/**
 * `npm run protections [-- H12 H13 --jobs 2]`: takes what protects from a hazard out of a copy of the sources, one after the other, and
 * runs the tests that name the hazard: one must fail. First, all of these tests must pass on the copy as it is. Exit code 1: one did not fail, or
 * a change does not apply. The whole list goes to proof/protections.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { nodeWithSqlite } from '../../scripts/runtimes.cjs';
import { versions } from '../../torture/versions';
import { AlteredTree } from '../support/altered-tree';
import { protections, without } from './list';
import type { Protection } from './protection';

const root = join(__dirname, '../..');
/** The longest run of the tests that name one hazard. */
const maxMs = 180_000;

interface Test {
  readonly fullTitle: string;
}

interface Failure extends Test {
  readonly err: { readonly message?: string };
}

/** A run of one test file; a test that was skipped is in neither list. */
interface Run {
  readonly passes: readonly Test[];
  readonly failures: readonly Failure[];
}

interface Result {
  readonly hazard: string;
  readonly without: string;
  readonly test: string;
  /** The title of the test that failed, and what it said. */
  readonly failed: string;
  readonly said: string;
}

void main();

async function main(): Promise<void> {
  const { values, positionals: wanted } = parseArgs({
    allowPositionals: true,
    options: { jobs: { type: 'string', default: '2' } },
  });
  const some = protections.filter(({ hazard }) => wanted.length === 0 || wanted.includes(hazard));
  const trees = Array.from({ length: Number(values.jobs) }, () => new AlteredTree());
  const started = new Date();
  try {
    await inTurn(trees, filesOf(some), expectPassing);
    const results = (await inTurn(trees, some, taken)).filter((result) => result !== undefined);
    console.log(`${results.length} of ${some.length} protections are seen to be missing by a test.`);
    if (results.length < some.length) process.exitCode = 1;
    else if (wanted.length === 0) await write(results, started);
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  } finally {
    for (const tree of trees) tree.remove();
  }
}

/** Gives each tree the next item when it is done with its last. @returns the results in the order of the items. */
async function inTurn<T, R>(
  trees: readonly AlteredTree[],
  items: readonly T[],
  work: (tree: AlteredTree, item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  await Promise.all(
    trees.map(async (tree) => {
      for (const [n, item] of left) results[n] = await work(tree, item);
    }),
  );
  return results;
}

/** The tests to run of one file, by one Node: those that name any of its hazards. */
interface File extends Pick<Protection, 'test' | 'node'> {
  readonly hazards: readonly string[];
}

function filesOf(some: readonly Protection[]): File[] {
  const files = new Map<string, Protection[]>();
  for (const each of some) {
    const name = `${each.test} ${each.node}`;
    files.set(name, [...(files.get(name) ?? []), each]);
  }
  return [...files.values()].map((all) => ({ ...all[0]!, hazards: all.map(({ hazard }) => hazard) }));
}

async function expectPassing(tree: AlteredTree, file: File): Promise<void> {
  await tree.alter([]);
  const { test, hazards } = file;
  const { passes, failures } = await runOf(tree, file);
  if (failures.length > 0) throw new Error(`fails as it is: ${failures[0]!.fullTitle}: ${failures[0]!.err.message}`);
  const skipped = hazards.find((hazard) => !passes.some(({ fullTitle }) => namesOf([hazard]).test(fullTitle)));
  if (skipped !== undefined) throw new Error(`no test of ${test} that names ${skipped} was run: all are skipped`);
  console.log(`ok  as it is: ${test}`);
}

async function taken(tree: AlteredTree, protection: Protection): Promise<Result | undefined> {
  const { hazard, without: name, changes, test } = protection;
  const startMs = performance.now();
  try {
    await tree.alter(changes);
    const { failures } = await runOf(tree, { ...protection, hazards: [hazard] });
    const [failure] = failures;
    if (failure === undefined) throw new Error(`${test} passes`);
    if (/"before (each|all)" hook/.test(failure.fullTitle)) throw new Error(`no test began: ${failure.err.message}`);
    const said = (failure.err.message ?? '').split('\n')[0]!.slice(0, 200);
    const seconds = Math.round((performance.now() - startMs) / 1000);
    console.log(`ok  ${hazard}, ${name}: ${seconds} s, "${failure.fullTitle}": ${said}`);
    return { hazard, without: name, test, failed: failure.fullTitle, said };
  } catch (error) {
    console.error(`NOT SEEN  ${hazard}, ${name}: ${(error as Error).message}`);
    return undefined;
  }
}

/** The tests of a file that name one of the hazards; up to the first failure. */
async function runOf(tree: AlteredTree, { test: file, node: wanted, hazards }: File): Promise<Run> {
  const terms = ['--no-parallel', '--bail', '--reporter', 'json', '--grep', namesOf(hazards).source];
  const node = wanted === 'sqlite' ? nodeWithSqlite() : process.execPath;
  if (node === undefined) throw new Error(`${file} needs a Node with SQLite: node scripts/runtimes.cjs installs one`);
  const isOver = (said: string): boolean => said.includes('{\n  "stats"') && said.trimEnd().endsWith('\n}');
  const args = ['node_modules/mocha/bin/mocha.js', ...terms, `test/${file}`];
  const { output } = await tree.run(args, { maxMs, node, isOver });
  const start = output.indexOf('{\n  "stats"');
  if (start < 0) throw new Error(`${file} did not run to its end:\n${output.slice(-2000)}`);
  // Only the last brace of the report begins a line. What the tests leave behind may print more after it.
  return JSON.parse(output.slice(start, output.indexOf('\n}', start) + 2));
}

function namesOf(hazards: readonly string[]): RegExp {
  return new RegExp(`\\b(${[...new Set(hazards)].join('|')})\\b`);
}

async function write(results: readonly Result[], started: Date): Promise<void> {
  const proof = {
    command: 'npm run protections',
    started: started.toISOString(),
    minutes: Number(((Date.now() - started.getTime()) / 60_000).toFixed(1)),
    versions: await versions(),
    protections: results,
    without,
  };
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(join(root, 'proof/protections.json'), `${JSON.stringify(proof, undefined, 2)}\n`);
}
