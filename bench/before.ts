// `npm run bench:before`: the build that a rolling upgrade replaces (test/rolling/before.tgz) beside the present one, by turns in one
// process on one server, so that a machine that changes its speed changes it for both. Writes BEFORE.md. `npm run bench:before -- mutex`
// measures only the scenarios whose name contains a word, and writes nothing. BENCH_TURNS (default 100) makes it longer or shorter.
//
// Invariant: both builds get equal clients of their own, and neither sees the other's keys.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { killChildren } from '../test/support/processes';
import { startRedis } from '../test/support/redis';
import { buildBefore } from './build-before';

const turns = Number(process.env.BENCH_TURNS ?? 100);
const warmUpTurns = 5;
const freshTurns = Math.min(turns, 40);
const root = join(__dirname, '..');

/** A turn of one build: resolves when `count` operations are done. */
type Turn = (name: string, count: number) => Promise<unknown>;
type Factory = any;

interface Scenario {
  readonly name: string;
  readonly client: 'node-redis' | 'ioredis' | 'memory';
  readonly count: number;
  readonly prepare: (modules: Modules, client: any) => Turn;
}

interface Modules {
  readonly library: Factory;
  readonly redlock: any;
  readonly redisSemaphore: any;
}

/** Client CPU and time; of one turn, or of the present build divided by those of the build before. */
interface Figures {
  readonly cpu: number;
  readonly time: number;
}

const sequential = ({ library }: Modules, redis: any): Turn => {
  const withLock = library({ redis });
  return async (name, count) => {
    for (let n = 0; n < count; n++) await (await withLock.promise(name)).release();
  };
};

const inFlight =
  (keys: number) =>
  (modules: Modules, redis: any): Turn => {
    const loop = sequential(modules, redis);
    return (name, count) => Promise.all(Array.from({ length: keys }, (_, n) => loop(`${name}:${n}`, count / keys)));
  };

const waiting =
  (holdMs: number) =>
  ({ library }: Modules, redis: any): Turn => {
    const withLock = library({ redis, timeout: 60_000 });
    return (name, count) => Promise.all(Array.from({ length: count }, () => withLock.run(name, () => sleep(holdMs))));
  };

const readersAndWriter =
  ({ library }: Modules, redis: any): Turn =>
  (name, count) => {
    const lock = new library.RWLock(name, { redis, timeout: 60_000 });
    return Promise.all(
      Array.from({ length: count }, (_, n) => (n % 16 ? lock.read(async () => {}) : lock.write(async () => {}))),
    );
  };

const permits =
  ({ library }: Modules, redis: any): Turn =>
  (name, count) => {
    const semaphore = new library.Semaphore(name, 8, { redis, timeout: 60_000 });
    return Promise.all(Array.from({ length: count }, () => semaphore.run(async () => {})));
  };

const redlockAlone = ({ redlock: { default: Redlock } }: Modules, client: any): Turn => {
  const instance = new Redlock([client], { retryCount: 0 });
  return async (name, count) => {
    for (let n = 0; n < count; n++) await (await instance.acquire([name], 10_000)).release();
  };
};

const mutexAlone =
  ({ redisSemaphore: { Mutex } }: Modules, client: any): Turn =>
  async (name, count) => {
    for (let n = 0; n < count; n++) {
      const mutex = new Mutex(client, name);
      await mutex.acquire();
      await mutex.release();
    }
  };

const scenarios: readonly Scenario[] = [
  { name: 'one after the other', client: 'node-redis', count: 300, prepare: sequential },
  { name: 'one after the other', client: 'ioredis', count: 300, prepare: sequential },
  { name: '256 in flight', client: 'node-redis', count: 2048, prepare: inFlight(256) },
  { name: '256 in flight', client: 'ioredis', count: 2048, prepare: inFlight(256) },
  { name: '100 waiters, hold 0', client: 'node-redis', count: 100, prepare: waiting(0) },
  { name: '100 waiters, hold 1 ms', client: 'node-redis', count: 100, prepare: waiting(1) },
  { name: '240 readers, 16 writers', client: 'node-redis', count: 256, prepare: readersAndWriter },
  { name: 'semaphore of 8, 256 callers', client: 'node-redis', count: 256, prepare: permits },
  { name: 'memory store', client: 'memory', count: 5000, prepare: sequential },
  { name: 'redlock shim, one key', client: 'ioredis', count: 300, prepare: redlockAlone },
  { name: 'redis-semaphore shim, Mutex', client: 'ioredis', count: 300, prepare: mutexAlone },
];

/** Programs of one fresh process each: `BUILD` is its folder, `URL` the server. They print their CPU time in µs. */
const fresh: Readonly<Record<string, string>> = {
  'load the library': `
    const cpu = process.cpuUsage(); require(process.env.BUILD + '/lib/index.js');
    const { user, system } = process.cpuUsage(cpu); console.log(user + system)`,
  'first 2,000 pairs': `
    (async () => {
      const { createClient } = require('redis'); const redis = createClient({ url: process.env.URL }); await redis.connect();
      const withLock = require(process.env.BUILD + '/lib/index.js')({ redis }); const cpu = process.cpuUsage();
      for (let n = 0; n < 2000; n++) await (await withLock.promise('bench:first')).release();
      const { user, system } = process.cpuUsage(cpu); console.log(user + system); redis.destroy();
    })()`,
};

async function main(words: readonly string[]): Promise<void> {
  const wanted = (name: string): boolean => words.length === 0 || words.some((word) => name.includes(word));
  const server = await startRedis();
  const rows: string[] = [];
  const keep = (name: string, { cpu, time }: Figures): void => {
    rows.push(`| ${name} | ${cpu.toFixed(3)} | ${time.toFixed(3)} |`);
    console.log(rows.at(-1));
  };
  try {
    const builds = { before: buildBefore(), now: root };
    for (const scenario of scenarios) {
      const name = `${scenario.name}, ${scenario.client}`;
      if (wanted(name)) keep(name, await byTurns(scenario, builds, server.url));
    }
    for (const [name, program] of Object.entries(fresh)) {
      if (wanted(name)) keep(name, await byProcesses(program, builds, server.url));
    }
  } finally {
    await killChildren();
    await server.discard();
  }
  if (words.length === 0) writeFileSync(join(__dirname, 'BEFORE.md'), page(rows));
}

interface Builds {
  readonly before: string;
  readonly now: string;
}

/** The modules of a build, by the names that its package.json gives them. */
function modulesOf(folder: string): Modules {
  const { exports } = require(join(folder, 'package.json'));
  const module = (name: string) => require(join(folder, exports[name].require.default ?? exports[name].require));
  return { library: module('.'), redlock: module('./redlock'), redisSemaphore: module('./redis-semaphore') };
}

async function byTurns({ client, count, prepare }: Scenario, builds: Builds, url: string): Promise<Figures> {
  const clients: any[] = [];
  const turnOf = async (folder: string): Promise<(turn: number) => Promise<Figures>> => {
    const modules = modulesOf(folder);
    const made = await connect(client, url, modules);
    clients.push(made);
    const work = prepare(modules, made);
    return (turn) => measured(() => work(`bench:${turn}:${folder}`, count));
  };
  try {
    const [before, now] = [await turnOf(builds.before), await turnOf(builds.now)];
    for (let turn = 0; turn < warmUpTurns; turn++) await Promise.all([before(turn), now(turn)]);
    return await medianRatios(turns, before, now);
  } finally {
    for (const made of clients) end(made);
  }
}

/** The figures of the present build, divided by those of the build before: medians over turns whose order alternates. */
async function medianRatios(
  count: number,
  before: (turn: number) => Figures | Promise<Figures>,
  now: (turn: number) => Figures | Promise<Figures>,
): Promise<Figures> {
  const seen: Figures[] = [];
  for (let turn = 0; turn < count; turn++) {
    const nowFirst = turn % 2 ? await now(turn) : undefined;
    const old = await before(turn);
    const present = nowFirst ?? (await now(turn));
    seen.push({ cpu: present.cpu / old.cpu, time: present.time / old.time });
  }
  return { cpu: median(seen.map(({ cpu }) => cpu)), time: median(seen.map(({ time }) => time)) };
}

async function connect(kind: Scenario['client'], url: string, { library }: Modules): Promise<any> {
  if (kind === 'memory') return library.memoryStore();
  if (kind === 'ioredis') return new Redis(url);
  return createClient({ url })
    .on('error', () => {})
    .connect();
}

function end(client: any): void {
  if (client.destroy) client.destroy();
  else client.disconnect?.();
}

async function measured(work: () => Promise<unknown>): Promise<Figures> {
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  await work();
  const { user, system } = process.cpuUsage(cpu);
  return { cpu: user + system, time: performance.now() - start };
}

function byProcesses(program: string, builds: Builds, url: string): Promise<Figures> {
  const run = (folder: string) => (): Figures => {
    const start = performance.now();
    const env = { ...process.env, BUILD: folder, URL: url };
    const cpu = Number(execFileSync(process.execPath, ['-e', program], { cwd: root, env, encoding: 'utf8' }));
    return { cpu, time: performance.now() - start };
  };
  return medianRatios(freshTurns, run(builds.before), run(builds.now));
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

function page(rows: readonly string[]): string {
  return `# The build before, and this one

\`npm run bench:before\` measures the build of a rolling upgrade's other side (test/rolling/before.tgz) and the present one by turns in
one process. The figures are the present build's, divided by those of the build before: medians of ${turns} turns, or of ${freshTurns}
fresh processes for the last two.
${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${cpus().length} × ${cpus()[0]!.model.trim()}, ${process.platform}.

| scenario | client CPU | time |
|---|---|---|
${rows.join('\n')}
`;
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
