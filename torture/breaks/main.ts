/**
 * `npm run breaks [-- --only <part of a name>] [--seed 1]`: applies one deliberate break after the other to a copy of the sources,
 * and runs torture or the simulation on it. Fails (exit code 1) when a break does not apply, is not caught within its minute, or
 * is caught for another reason than its own; and when the unbroken copy does not pass. The figures go to proof/breaks.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { AlteredTree, type Ran } from '../../test/support/altered-tree';
import { versions } from '../versions';
import { type Break, breaks } from './list';

const root = join(__dirname, '../..');
/** A minute, and the end of the round that it ends in. */
const maxMs = 100_000;

interface Result {
  readonly name: string;
  readonly file: string;
  readonly caughtBy: string;
  readonly seconds: number;
  readonly said: string;
}

void main();

async function main(): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ options: { only: text, seed: { ...text, default: '1' } } });
  const only = values.only ?? '';
  const started = new Date();
  const tree = new AlteredTree();
  try {
    await expectUnbroken(tree, values.seed);
    const some = breaks.filter(({ name }) => name.includes(only));
    const results: Result[] = [];
    for (const each of some) results.push(...(await caught(tree, each, values.seed).catch(missed)));
    console.log(`${results.length} of ${some.length} breaks were caught.`);
    if (results.length < some.length) process.exitCode = 1;
    else if (only === '') await write(results, started, Number(values.seed));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  } finally {
    tree.remove();
  }
}

async function expectUnbroken(tree: AlteredTree, seed: string): Promise<void> {
  await tree.alter([]);
  for (const store of ['redis', 'quorum']) {
    const { code, output } = await torture(tree, store, seed, 0.2);
    if (code !== 0) throw new Error(`the unbroken copy does not pass at ${store}:\n${output}`);
  }
  const { code, output } = await simulation(tree, 'everything goes wrong');
  if (code !== 0) throw new Error(`the unbroken copy does not pass in the simulation:\n${output}`);
  console.log('ok  the unbroken copy passes');
}

function missed(error: Error): [] {
  console.error(error.message);
  return [];
}

async function caught(tree: AlteredTree, each: Break, seed: string): Promise<[Result]> {
  const { name, change, caughtAt, says } = each;
  const startMs = performance.now();
  const [file] = await tree.alter([change]);
  const isTorture = 'store' in caughtAt;
  const by = isTorture ? `torture at ${caughtAt.store}` : `simulation, "${caughtAt.world}"`;
  const run = isTorture ? torture(tree, caughtAt.store, seed, 1) : simulation(tree, caughtAt.world);
  const { code, output } = await run;
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const said = output.split('\n').find((line) => /BROKEN \(|SEED=\d+ WORLD/.test(line) && says.test(line));
  if (code !== 1 || said === undefined) throw new Error(`"${name}" was not caught by ${by}:\n${output}`);
  console.log(`ok  ${name}: ${by}, ${seconds} s`);
  return [{ name, file: file!, caughtBy: by, seconds, said: said.trim() }];
}

function torture(tree: AlteredTree, store: string, seed: string, minutes: number): Promise<Ran> {
  const terms = ['--store', store, '--seed', seed, '--minutes', String(minutes), '--no-write'];
  const args = ['--import', 'tsx', 'torture/main.ts', ...terms, '--fault-seconds', '6', '--calm-seconds', '1'];
  return tree.run(args, { maxMs });
}

async function simulation(tree: AlteredTree, world: string): Promise<Ran> {
  const file = 'test/simulation/simulation.test.ts';
  return tree.run(['node_modules/mocha/bin/mocha.js', '--no-parallel', file, '--grep', `: ${world}$`], { maxMs });
}

async function write(results: readonly Result[], started: Date, seed: number): Promise<void> {
  const minutes = Number(((Date.now() - started.getTime()) / 60_000).toFixed(1));
  const proof = {
    command: `npm run breaks -- --seed ${seed}`,
    seed,
    started: started.toISOString(),
    minutes,
    versions: await versions(),
    caught: results.length,
    breaks: results,
  };
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(join(root, 'proof/breaks.json'), `${JSON.stringify(proof, undefined, 2)}\n`);
}
