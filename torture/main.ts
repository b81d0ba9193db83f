/**
 * `npm run torture -- [--minutes 5] [--seed 1] [--store redis,quorum] [--processes 3] [--callers 6]`: takes locks of every kind in
 * several processes while everything goes wrong, and checks what they saw. Exit code 0: no promise was broken; 1: one was, and
 * the history is in a file; 2: it could not be run; 64: wrong arguments. The figures of a run without failure go to proof/torture.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { stopProxies } from '../test/support/fault-proxy';
import { killChildren } from '../test/support/processes';
import { closeAll, stopServers } from '../test/support/redis';
import { excerpt } from './excerpt';
import { missing, type StoreName, stores } from './places';
import { Progress } from './progress';
import { type Figures, torture } from './torture';
import { versions } from './versions';

const root = join(__dirname, '..');
const maxShown = 3;

interface Arguments {
  readonly seed: number;
  readonly minutes: number;
  readonly stores: readonly StoreName[];
  readonly processes: number;
  readonly callers: number;
  readonly faultSeconds: number;
  readonly calmSeconds: number;
  readonly write: boolean;
}

void main();

async function main(): Promise<void> {
  let given: Arguments;
  try {
    given = read(process.argv.slice(2));
  } catch (error) {
    console.error(`torture: ${(error as Error).message}`);
    process.exitCode = 64;
    return;
  }
  try {
    await run(given);
  } catch (error) {
    console.error('torture: it could not be run to its end:', error);
    process.exitCode = 2;
  }
  closeAll();
  await stopProxies();
  await stopServers();
  await killChildren();
}

async function run(given: Arguments): Promise<void> {
  const started = new Date();
  const progress = new Progress(given.minutes * 60_000);
  const figures = await torture({
    ...given,
    ms: given.minutes * 60_000,
    faultsMs: given.faultSeconds * 1000,
    calmMs: given.calmSeconds * 1000,
    onRound: (number, store) => progress.round(number, store, given.seed + number),
    onFault: (what) => progress.fault(what),
    onReport: (report) => progress.over(report),
    onTrouble: (error) => progress.trouble(error),
  });
  progress.end();
  if (figures.failed !== undefined) fail(figures.failed);
  else await succeed(figures, given, started);
}

function read(words: string[]): Arguments {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: words,
    options: {
      seed: text,
      minutes: { ...text, default: '5' },
      store: text,
      processes: { ...text, default: '3' },
      callers: { ...text, default: '6' },
      'fault-seconds': { ...text, default: '12' },
      'calm-seconds': { ...text, default: '9' },
      'no-write': { type: 'boolean', default: false },
    },
  });
  const number = (name: string, value: string, least: number): number => {
    if (value.trim() !== '' && Number(value) >= least && Number(value) < 2 ** 32) return Number(value);
    throw new Error(`--${name}: a number, at least ${least}, is expected, not ${value}`);
  };
  return {
    seed: values.seed === undefined ? Math.floor(Math.random() * 1e9) : number('seed', values.seed, 0),
    minutes: number('minutes', values.minutes, 0),
    stores: storesOf(values.store),
    processes: number('processes', values.processes, 1),
    callers: number('callers', values.callers, 1),
    faultSeconds: number('fault-seconds', values['fault-seconds'], 1),
    calmSeconds: number('calm-seconds', values['calm-seconds'], 0),
    write: !values['no-write'],
  };
}

/** The stores that can be had here, or those that are named. */
function storesOf(named: string | undefined): readonly StoreName[] {
  const wanted = named?.split(',') ?? stores;
  const unknown = wanted.find((name) => !stores.includes(name as StoreName));
  if (unknown !== undefined) throw new Error(`--store: ${stores.join(', ')} are known, not ${unknown}`);
  const some = wanted as readonly StoreName[];
  for (const store of some) if (missing(store) !== undefined) console.log(`${store} is left out: ${missing(store)}`);
  const had = some.filter((store) => missing(store) === undefined);
  if (had.length === 0) throw new Error('no store is left');
  return had;
}

function fail({ report, options }: NonNullable<Figures['failed']>): void {
  const { seed, store, processes, callers } = options;
  const file = `torture-${store}-${seed}.jsonl`;
  writeFileSync(file, report.events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  for (const violation of report.violations.slice(0, maxShown)) {
    console.log(`\nBROKEN (${violation.model}): ${violation.message}`);
    console.log(excerpt(report.events, violation));
  }
  const more = report.violations.length - maxShown;
  if (more > 0) console.log(`\nand ${more} more`);
  console.log(`\nThe history is in ${file}. Again, though never in the same timing:`);
  console.log(`npm run torture -- --store ${store} --seed ${seed} --processes ${processes} --callers ${callers}`);
  process.exitCode = 1;
}

async function succeed({ stores: byStore, notRun }: Figures, given: Arguments, started: Date): Promise<void> {
  const minutes = (Date.now() - started.getTime()) / 60_000;
  console.log(`No promise was broken in ${minutes.toFixed(1)} minutes (seed ${given.seed}).`);
  if (!given.write) return;
  const proof = {
    command: `npm run torture -- --minutes ${given.minutes} --seed ${given.seed} --callers ${given.callers}`,
    seed: given.seed,
    started: started.toISOString(),
    minutes: Number(minutes.toFixed(1)),
    versions: await versions(),
    processes: given.processes,
    callers: given.callers,
    stores: byStore,
    notRun,
    violations: 0,
  };
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(join(root, 'proof/torture.json'), `${JSON.stringify(proof, undefined, 2)}\n`);
}
