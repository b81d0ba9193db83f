// `npm run compare`: the same faults for other lock libraries, for a naive lock and for this one. Writes proof/compare.json and, from it,
// docs/compare.md. `--fault X --library Y` shows one cell; with `--write` it takes the place of the one that is there.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { killChildren } from '../test/support/processes';
import { closeAll, stopServers } from '../test/support/redis';
import { type Fault, faults, type Outcome } from './faults';
import { type Comparison, pageOf } from './page';
import { Stage, within } from './stage';

const root = join(__dirname, '..');
export const libraries = [
  'redlock',
  'sesamecare-redlock',
  'redis-semaphore',
  'redlock-universal',
  'simple-redis-mutex',
  'naive',
  'redis-exp-lock',
];

async function cell(fault: Fault, library: string): Promise<Outcome> {
  const stage = await Stage.set(library);
  try {
    return (await within(fault.run(stage), 60_000)) ?? { text: 'no outcome within a minute' };
  } finally {
    await stage.strike();
  }
}

const mark = ({ holds }: Outcome): string => (holds === undefined ? '     ' : holds ? 'holds' : 'fails');

async function compare(chosenFaults: readonly string[], chosen: readonly string[]): Promise<Comparison> {
  const outcomes: Record<string, Record<string, Outcome>> = {};
  for (const fault of chosenFaults) {
    outcomes[fault] = {};
    for (const library of chosen) {
      const outcome = await cell(faults[fault]!, library);
      outcomes[fault]![library] = outcome;
      console.log(`${fault.padEnd(21)} ${library.padEnd(19)} ${mark(outcome)} ${outcome.text}`);
    }
  }
  const abouts = await Promise.all(
    chosen.map(async (name) => [name, await import(join(__dirname, 'adapters', `${name}.mjs`))]),
  );
  const about = Object.fromEntries(
    abouts.map(([name, { version, source, settings, promises }]) => [name, { version, source, settings, promises }]),
  );
  const rows = Object.fromEntries(
    Object.entries(faults).map(([name, { title, how, figure = false }]) => [name, { title, how, figure }]),
  );
  return { faults: rows, libraries: about, outcomes };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { fault: { type: 'string' }, library: { type: 'string' }, write: { type: 'boolean' } },
  });
  const { fault, library } = values;
  if (fault && !faults[fault]) throw new Error(`--fault: one of ${Object.keys(faults).join(', ')}`);
  if (library && !libraries.includes(library)) throw new Error(`--library: one of ${libraries.join(', ')}`);
  if (!existsSync(join(__dirname, 'node_modules'))) {
    execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: __dirname, stdio: 'inherit' });
  }
  const comparison = await compare(fault ? [fault] : Object.keys(faults), library ? [library] : libraries);
  if (!fault && !library) write(comparison);
  else if (values.write) write(joined(JSON.parse(readFileSync(target, 'utf8')), comparison));
}

const target = join(root, 'proof', 'compare.json');

/** Replaces some cells of an earlier comparison; titles and settings are the present ones. */
function joined(old: Comparison, some: Comparison): Comparison {
  const outcomes = Object.fromEntries(
    Object.entries(old.outcomes).map(([fault, row]) => [fault, { ...row, ...some.outcomes[fault] }]),
  );
  return { faults: some.faults, libraries: { ...old.libraries, ...some.libraries }, outcomes };
}

function write(comparison: Comparison): void {
  const tame = Object.keys(faults).filter((name) => !faults[name]!.figure && comparison.outcomes[name]!.naive!.holds);
  if (tame.length > 0) throw new Error(`the naive lock did not fail, so these faults do not bite: ${tame.join(', ')}`);
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(target, `${JSON.stringify(comparison, null, 2)}\n`);
  writeFileSync(join(root, 'docs', 'compare.md'), pageOf(comparison));
}

main()
  .catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(async () => {
    closeAll();
    await stopServers();
    await killChildren();
  });
