// `npm run bench`: side by side on one server in one run. Writes RESULTS.md and plots/. Absolute figures are this machine's;
// ratios travel. `npm run bench -- sequential flight` measures these scenarios anew and keeps what was seen of the others.
// Rounds run on Node 24, which came with the tests; scenarios that ask for it, on the Node that runs this as well.
// All of it takes a quarter of an hour on two cores that do nothing else. BENCH_ROUNDS (default 5; the heavy scenarios take 3 at
// most, unless they ask for one) and BENCH_MS (default 700) make it longer or shorter; a round of fewer ms says less.
// BENCH_ROWS='mutex, 200' measures only the rows whose name contains it, prints what it saw, and writes nothing.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { node } from '../scripts/runtimes.cjs';
import { freePort, killChildren } from '../test/support/processes';
import { RedisServer } from '../test/support/redis';
import { contenders } from './contenders';
import { measure } from './measure';
import { plot } from './plots';
import { type Book, type MeasuredScenario, report, section } from './report';
import { type Scenario, scenarios } from './scenarios';

const { findBinary } = require('../scripts/redis-binary.cjs') as { findBinary(): string | undefined };

const rounds = Number(process.env.BENCH_ROUNDS ?? 5);
const roundMs = Number(process.env.BENCH_MS ?? 700);
const heavyRounds = 3;
const someRows = process.env.BENCH_ROWS;
/** The programs of Node that rounds run on, the one whose figures come first in front. */
const nodes = [...new Set([node(24) ?? process.execPath, process.execPath])];
const root = join(__dirname, '..');
const plots = join(__dirname, 'plots');
const figures = join(plots, 'figures.json');

async function main(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !scenarios.some((scenario) => scenario.name === name));
  if (unknown) throw new Error(`no scenario ${unknown}; there are ${scenarios.map(({ name }) => name).join(', ')}`);
  const binary = findBinary();
  if (!binary) throw new Error('no redis-server or valkey-server on PATH: run `npm test` once, or install one');

  const server = new RedisServer(binary, await freePort(), {});
  try {
    await server.start();
    for (const scenario of scenarios) {
      if (names.length > 0 && !names.includes(scenario.name)) continue;
      const measured: MeasuredScenario[] = [];
      for (const execPath of scenario.onEachNode ? nodes : nodes.slice(0, 1)) {
        measured.push(await run(scenario, server, execPath));
      }
      if (someRows === undefined) await keep(scenario, measured);
      else console.log(section(scenario, measured).join('\n'));
    }
  } finally {
    await killChildren(); // the server too
    await server.discard();
  }
}

async function run(scenario: Scenario, server: RedisServer, execPath: string): Promise<MeasuredScenario> {
  const plan = {
    execPath,
    rounds: Math.min(rounds, scenario.rounds ?? (scenario.heavy ? heavyRounds : rounds)),
    ms: roundMs * (scenario.heavy ?? 1),
    warmUpMs: Math.max(roundMs / 2, scenario.warmUpMs ?? 0),
  };
  const log = (line: string) => process.stderr.write(`${scenario.name}: ${line}\n`);
  return {
    at: new Date().toISOString().slice(0, 10),
    rounds: plan.rounds,
    ms: plan.ms,
    load: loadavg()[0]!,
    machine: `${cpus().length} × ${cpus()[0]!.model.trim()}, ${process.platform}`,
    versions: await versions(server, execPath),
    rows: await measure(
      scenario.rows.filter(({ id }) => id.includes(someRows ?? '')),
      server,
      plan,
      log,
    ),
  };
}

/** Writes the figures after each scenario, so that a run that is cut short keeps those that it has. */
async function keep(scenario: Scenario, measured: readonly MeasuredScenario[]): Promise<void> {
  const old: Book = existsSync(figures) ? JSON.parse(readFileSync(figures, 'utf8')) : {};
  const book = { ...old, [scenario.name]: measured };
  mkdirSync(plots, { recursive: true });
  writeFileSync(figures, `${JSON.stringify(book)}\n`);
  writeFileSync(join(__dirname, 'RESULTS.md'), report(scenarios, book));
  writeFileSync(join(plots, `${scenario.name}.svg`), await plot(scenario, measured[0]!.rows));
}

async function versions(server: RedisServer, execPath: string): Promise<Record<string, string>> {
  const redis = /(?:redis|valkey)_version:(\S+)/.exec(await server.command('INFO', 'server'))![1]!;
  const packages = new Set(Object.values(contenders).map((contender) => contender.package));
  return {
    Node: execFileSync(execPath, ['--version'], { encoding: 'utf8' }).trim(),
    Redis: redis,
    ...Object.fromEntries([...packages].map((name) => [name === '..' ? 'redis-exp-lock' : name, versionOf(name)])),
  };
}

function versionOf(name: string): string {
  const folder = name === '..' ? root : join(root, 'node_modules', name);
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version.replace(/^v/, '');
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
