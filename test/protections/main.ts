/**
 * `npm run protections [-- H12 H13]`: takes what protects from a hazard out of a copy of the sources, one after the other, and runs
 * the tests that name the hazard: one must fail. First, all of these tests must pass on the copy as it is. Exit code 1: one did not fail, or
 * a change does not apply. The whole list goes to proof/protections.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodeWithSqlite } from '../../scripts/runtimes.cjs';
import { versions } from '../../torture/versions';
import { AlteredTree } from '../support/altered-tree';
import { protections, without } from './list';
import type { Protection } from './protection';

const root = join(__dirname, '../..');
/** For the tests that name one hazard. */
const mostMs = 180_000;

interface Test {
  readonly fullTitle: string;
}

interface Failure extends Test {
  readonly err: { readonly message?: string };
}

/** Of a file; a test that was skipped is in neither. */
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
  const wanted = process.argv.slice(2);
  const some = protections.filter(({ hazard }) => wanted.length === 0 || wanted.includes(hazard));
  const started = new Date();
  const tree = new AlteredTree();
  try {
    await expectPassing(tree, some);
    const results: Result[] = [];
    for (const each of some) results.push(...(await taken(tree, each)));
    console.log(`${results.length} of ${some.length} protections are seen to be missing by a test.`);
    if (results.length < some.length) process.exitCode = 1;
    else if (wanted.length === 0) await write(results, started);
  } finally {
    tree.remove();
  }
}

async function expectPassing(tree: AlteredTree, some: readonly Protection[]): Promise<void> {
  await tree.alter([]);
  const files = new Map(some.map((each) => [`${each.test} ${each.node}`, each]));
  for (const file of files.values()) {
    const { test, node } = file;
    const hazards = some.filter((each) => each.test === test && each.node === node).map(({ hazard }) => hazard);
    const { passes, failures } = await runOf(tree, file, hazards);
    if (failures.length > 0) throw new Error(`fails as it is: ${failures[0]!.fullTitle}: ${failures[0]!.err.message}`);
    const skipped = hazards.find((hazard) => !passes.some(({ fullTitle }) => namesOf([hazard]).test(fullTitle)));
    if (skipped !== undefined) throw new Error(`no test of ${test} that names ${skipped} was run: all are skipped`);
  }
  console.log(`ok  ${files.size} files pass as they are`);
}

async function taken(tree: AlteredTree, each: Protection): Promise<Result[]> {
  const { hazard, without: name, changes, test } = each;
  const startMs = performance.now();
  await tree.alter(changes);
  const run = await runOf(tree, each, [hazard]).catch((error: Error) => error);
  if (run instanceof Error) {
    console.error(`NOT SEEN  ${hazard}, ${name}: ${run.message}`);
    return [];
  }
  const [failure] = run.failures;
  const seconds = Math.round((performance.now() - startMs) / 1000);
  if (failure === undefined) {
    console.error(`NOT SEEN  ${hazard}, ${name}: ${test} passes`);
    return [];
  }
  const said = (failure.err.message ?? '').split('\n')[0]!.slice(0, 200);
  console.log(`ok  ${hazard}, ${name}: ${seconds} s, "${failure.fullTitle}": ${said}`);
  return [{ hazard, without: name, test, failed: failure.fullTitle, said }];
}

/** The tests of a file that name one of the hazards; up to the first failure. */
async function runOf(tree: AlteredTree, { test: file, node: wanted }: Protection, hazards: string[]): Promise<Run> {
  const terms = ['--no-parallel', '--exit', '--bail', '--reporter', 'json', '--grep', namesOf(hazards).source];
  const node = wanted === 'sqlite' ? nodeWithSqlite() : process.execPath;
  if (node === undefined) throw new Error(`${file} needs a Node with SQLite: node scripts/runtimes.cjs installs one`);
  const { output } = await tree.run(['node_modules/mocha/bin/mocha.js', ...terms, `test/${file}`], { mostMs, node });
  const start = output.indexOf('{\n  "stats"');
  if (start < 0) throw new Error(`${file} did not run to its end:\n${output.slice(-2000)}`);
  return JSON.parse(output.slice(start, output.lastIndexOf('\n}') + 2));
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
