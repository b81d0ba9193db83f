/**
 * `npm run breaks [-- --only <part of a name>] [--seed 1]`: applies one deliberate break after the other to a copy of the sources,
 * and runs torture or the simulation on it. Fails (exit code 1) when a break does not apply, is not caught within its minute, or
 * is caught for another reason than its own; and when the unbroken copy does not pass. The figures go to proof/breaks.json.
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { versions } from '../versions';
import { type Break, breaks } from './list';

const root = join(__dirname, '../..');
/** What a run of the copy needs. */
const needed = ['src', 'test', 'torture', 'scripts', 'docs', 'package.json', 'tsconfig.json', '.mocharc.json'];
/** A minute, and the end of the round that it ends in. */
const mostMs = 100_000;
const tsx = ['--import', 'tsx'];

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
  const copy = copyOfTree();
  try {
    await expectUnbroken(copy, values.seed);
    const results: Result[] = [];
    for (const each of breaks.filter(({ name }) => name.includes(only))) {
      results.push(await caught(copy, each, values.seed));
    }
    console.log(`${results.length} of ${results.length} breaks were caught.`);
    if (only === '') await write(results, started, Number(values.seed));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** With links to our packages, and a folder of its own for what is built there. */
function copyOfTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'redis-exp-lock-breaks-'));
  const isOwn = (path: string): boolean => !path.includes('node_modules');
  for (const name of needed) cpSync(join(root, name), join(copy, name), { recursive: true, filter: isOwn });
  for (const folder of ['node_modules', 'test/runtimes/node_modules']) {
    mkdirSync(join(copy, folder), { recursive: true });
    for (const name of packagesIn(join(root, folder))) {
      symlinkSync(join(root, folder, name), join(copy, folder, name));
    }
  }
  return copy;
}

function packagesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name !== '.cache');
  } catch {
    return []; // runtimes that are not installed
  }
}

async function expectUnbroken(copy: string, seed: string): Promise<void> {
  await generate(copy);
  for (const store of ['redis', 'quorum']) {
    const { code, output } = await torture(copy, store, seed, 0.2);
    if (code !== 0) throw new Error(`the unbroken copy does not pass at ${store}:\n${output}`);
  }
  const { code, output } = await simulation(copy, 'everything goes wrong');
  if (code !== 0) throw new Error(`the unbroken copy does not pass in the simulation:\n${output}`);
  console.log('ok  the unbroken copy passes');
}

async function caught(copy: string, each: Break, seed: string): Promise<Result> {
  const path = join(copy, 'src', each.file);
  const whole = readFileSync(path, 'utf8');
  if (whole.split(each.from).length !== 2) throw new Error(`"${each.name}" does not apply to src/${each.file}`);
  const startMs = performance.now();
  writeFileSync(
    path,
    whole.replace(each.from, () => each.to),
  );
  if (each.file.endsWith('.lua')) await generate(copy);
  const { caughtAt } = each;
  const by = 'store' in caughtAt ? `torture at ${caughtAt.store}` : `simulation, "${caughtAt.world}"`;
  const { code, output } =
    'store' in caughtAt ? await torture(copy, caughtAt.store, seed, 1) : await simulation(copy, caughtAt.world);
  writeFileSync(path, whole);
  if (each.file.endsWith('.lua')) await generate(copy);
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const said = output.split('\n').find((line) => /BROKEN \(|SEED=\d+ WORLD/.test(line) && each.says.test(line));
  if (code !== 1 || said === undefined) throw new Error(`"${each.name}" was not caught by ${by}:\n${output}`);
  console.log(`ok  ${each.name}: ${by}, ${seconds} s`);
  return { name: each.name, file: each.file, caughtBy: by, seconds, said: said.trim() };
}

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

function torture(copy: string, store: string, seed: string, minutes: number): Promise<Ran> {
  const terms = ['--store', store, '--seed', seed, '--minutes', String(minutes), '--no-write'];
  return node(copy, [...tsx, 'torture/main.ts', ...terms, '--fault-seconds', '6', '--calm-seconds', '1']);
}

function simulation(copy: string, world: string): Promise<Ran> {
  const file = 'test/simulation/simulation.test.ts';
  return node(copy, ['node_modules/mocha/bin/mocha.js', '--no-parallel', file, '--grep', `: ${world}$`]);
}

async function generate(copy: string): Promise<void> {
  const { code, output } = await node(copy, [...tsx, 'scripts/generate-scripts.ts']);
  if (code !== 0) throw new Error(`the scripts could not be generated:\n${output}`);
}

function node(cwd: string, args: readonly string[]): Promise<Ran> {
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const collect = (data: unknown): void => {
    output += String(data);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const late = setTimeout(() => child.kill('SIGTERM'), mostMs);
  return new Promise((resolve) => {
    child.once('close', (code) => {
      clearTimeout(late);
      resolve({ code: code !== null && code > 1 && /WORLD=/.test(output) ? 1 : code, output });
    });
  });
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
