// `npm run bench`: side by side on one server in one run, in interleaved rounds of fresh processes, so that a machine that
// changes its speed changes it for everybody. Writes bench/RESULTS.md. Absolute figures are this machine's; ratios travel.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from 'redis';
import type { Round } from './round';

const { findBinary } = require('../scripts/redis-binary.cjs') as { findBinary(): string | undefined };

const rounds = Number(process.env.BENCH_ROUNDS ?? 15);
const roundMs = 1000;
const names = ['raw node-redis', 'redis-exp-lock'];
const floor = names[0]!;

async function main(): Promise<void> {
  const server = await startServer();
  try {
    const seen: Record<string, Round[]> = Object.fromEntries(names.map((name) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      const order = round % 2 === 0 ? names : [...names].reverse();
      for (const name of order) seen[name]!.push(await runRound(server.url, name));
      process.stderr.write(`round ${round + 1} of ${rounds}\r`);
    }
    writeFileSync(join(__dirname, 'RESULTS.md'), report(seen, await server.version()));
  } finally {
    await server.stop();
  }
}

async function runRound(url: string, name: string): Promise<Round> {
  const args = ['--import', 'tsx', join(__dirname, 'round.ts'), url, name, String(roundMs)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as Round;
}

function report(seen: Record<string, Round[]>, version: string): string {
  const wall = (name: string): number => median(seen[name]!.map((round) => round.wallMicros / round.pairs));
  const rows = names.map((name) => {
    const all = seen[name]!;
    const cpu = median(all.map((round) => round.cpuMicros / round.pairs));
    const commands =
      all.reduce((sum, round) => sum + round.commands, 0) / all.reduce((sum, round) => sum + round.pairs, 0);
    const micros = all.map((round) => round.wallMicros / round.pairs);
    const spread = `${Math.min(...micros).toFixed(1)} to ${Math.max(...micros).toFixed(1)}`;
    const ratio = (wall(floor) / wall(name)).toFixed(3);
    return `| ${name} | ${wall(name).toFixed(1)} | ${spread} | ${ratio} | ${cpu.toFixed(1)} | ${commands.toFixed(3)} |`;
  });
  return [
    '# Results',
    '',
    'Made by `npm run bench`. Do not edit: measure again.',
    '',
    `- Machine: ${cpus().length} × ${cpus()[0]!.model.trim()}, ${process.platform}, Redis on loopback`,
    `- Versions: Node ${process.version}, Redis ${version}, node-redis ${require('redis/package.json').version}`,
    `- ${rounds} rounds of ${roundMs} ms for each contender, interleaved, the order turned round every time, each in a fresh process after 2,000 pairs of warm-up`,
    '',
    '## One lock taken and given back, one after the other',
    '',
    '| contender | µs a pair (median) | from, to | speed against the raw pair | client CPU µs a pair | commands a pair |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    'The raw pair is `SET NX PX` and an `EVALSHA` of compare-and-delete, written by hand on the same client: no fence, no',
    'validity, no deadline of its own, no answer for a lost reply. Speed is the ratio of the medians.',
    '',
  ].join('\n');
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

interface Server {
  url: string;
  version(): Promise<string>;
  stop(): Promise<void>;
}

async function startServer(): Promise<Server> {
  const binary = findBinary();
  if (binary === undefined)
    throw new Error('no redis-server or valkey-server on PATH: run `npm test` once, or install one');
  const dir = mkdtempSync(join(tmpdir(), 'redis-exp-lock-bench-'));
  const port = await freePort();
  const child = spawn(binary, ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', dir], {
    stdio: 'ignore',
  });
  const url = `redis://127.0.0.1:${port}`;
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  return {
    url,
    async version() {
      return /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown';
    },
    async stop() {
      await client.close();
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill();
      await gone;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
