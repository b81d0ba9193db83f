// Measures one scenario on one server that nobody else uses: every contender's best setting is found, what it sends is reported
// apart from what its scripts call, and then rounds go in turn, each in fresh processes, the order turned round every time,
// so that a machine that changes its speed changes it for everybody.
//
// Commands are counted by the server (INFO commandstats). That, like total_commands_processed, counts what scripts call as
// well; so in one rehearsal of each contender MONITOR, which marks those, shows which commands it sends and which its scripts
// call, and is checked against commandstats call by call. A round that this leaves uncertain is marked `atMost`.
//
// Invariant: a round in which two held the same lock ends the bench, and no process outlives its round.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import { kill9, type NodeChild, startChild, waitFor } from '../test/support/processes';
import { type RedisServer, recordCommands, startRedis } from '../test/support/redis';
import { contenders, type Setting } from './contenders';
import { far } from './far';
import { type FleetSeen, sumUpFleet } from './fleet';
import type { CachedSeen, Calls, CountSeen, Job, JobOf, MemorySeen, RoundSpec, SteadySeen } from './round';
import { sumUp } from './sum-up';
import type { TrialSeen } from './trials';

/** One line of a scenario's table. */
export interface Row {
  readonly id: string;
  readonly contender: string;
  readonly job: Job;
  /** Default true. */
  readonly fencing?: boolean;
  /** The number of servers that the contender is given at once; default 1. */
  readonly nodes?: number;
  /** The index of the server, if the contender is given one; default 0. */
  readonly node?: number;
  /** The delay of each answer. */
  readonly farMs?: number;
  /** True if the row asks for more than a process should: to break down is a figure of its own. */
  readonly mayFail?: boolean;
  /** The last of its servers is stopped as soon as everybody is connected. */
  readonly stops?: boolean;
}

export interface Plan {
  readonly rounds: number;
  readonly ms: number;
  readonly warmUpMs: number;
  /** The program of Node that processes of rounds run on. */
  readonly execPath: string;
}

export const metrics = {
  perSecond: 'a second',
  micros: 'µs each',
  cpuMicros: 'client CPU µs each',
  commands: 'commands each',
  jain: 'Jain',
  longestMs: 'longest wait, ms',
  writerMs: 'writer’s longest wait, ms',
  loads: 'loads a value',
  handOffMs: 'hand-off, ms',
  publishMs: 'PUBLISH → message, ms',
  nodeBytes: 'B in Node',
  redisBytes: 'B in Redis',
  serverMicros: 'server CPU µs each',
  executed: 'executed each',
  gcMicros: 'GC µs each',
  redisMB: 'MB in Redis',
  lagMs: 'event loop stands still, ms',
  unheardTimes: 'nobody listens, × without events',
  heardTimes: 'all channels heard, × without events',
  cpuPercent: '% of a core',
  serverPercent: 'server: % of a core',
  servedMs: 'all served, ms',
  pingMs: 'longest PING of others, ms',
  slowScripts: 'commands over 10 ms',
  handOverMs: 'hand-over, ms',
  roundTripMs: 'PUBLISH → message → PING, ms',
  aloneTimes: 'by turns: × the slowest alone',
  stoppedShare: 'by turns: speed with one stopped',
  flightShare: 'by turns: speed of three in flight, of one',
  speedTimes: 'by turns: × the peer’s speed',
  cpuTimes: 'by turns: client CPU, of the peer’s',
  scriptMicros: 'µs in scripts each',
  scripts: 'scripts each',
  failures: 'rejected',
  cycles: 'longest wait, of (connections × hand-off)',
} as const;

export type Metric = keyof typeof metrics;
export type Figures = Partial<Record<Metric, number>>;

export interface MeasuredRow {
  readonly id: string;
  readonly contender: string;
  readonly setting: Setting;
  readonly rounds: readonly Figures[];
  /** True if the row's commands were counted with some that its scripts may have called. */
  readonly atMost: boolean;
  /** Why a peer has no (more) rounds: it did not come to an end. */
  readonly failed?: string;
}

/** The best setting is the one with most of this. */
const decisive: Metric = 'perSecond';
const lookWarmUpMs = 200;
/** A peer that hangs is an error, not an endless bench. */
const roundTimeoutMs = 60_000;

export async function measure(rows: readonly Row[], server: RedisServer, plan: Plan, log: (line: string) => void) {
  const runs: Run[] = [];
  const servers = [server, ...(await startOthers(rows))];
  try {
    for (const row of rows) {
      log(`${row.id}: settings`);
      const run = new Run(row, servers);
      await run.attempt(() => run.prepare(plan));
      runs.push(run);
    }
    for (let round = 0; round < plan.rounds; round++) {
      for (const run of round % 2 === 0 ? runs : [...runs].reverse()) {
        log(`round ${round + 1} of ${plan.rounds}: ${run.id}`);
        await run.attempt(() => run.round(plan));
      }
    }
  } finally {
    await Promise.all(servers.slice(1).map((each) => each.discard()));
  }
  return runs.map((run) => run.measured());
}

/** A node of a quorum that was started less than a lifetime ago has no vote. */
const comeOfAgeMs = 12_000;

async function startOthers(rows: readonly Row[]): Promise<RedisServer[]> {
  const count = Math.max(...rows.map(({ nodes = 1, node = 0 }) => Math.max(nodes, node + 1))) - 1;
  const others = await Promise.all(Array.from({ length: count }, () => startRedis()));
  if (count > 0) await sleep(comeOfAgeMs);
  return others;
}

async function bestSetting(row: Row, servers: Servers, plan: Plan): Promise<Setting> {
  const settings = contenders[row.contender]!.settings(isContended(row.job));
  if (settings.length === 1 || row.job.kind === 'memory' || row.job.kind === 'trial') return settings[0]!;
  let best: { setting: Setting; speed: number } | undefined;
  let failure: unknown;
  for (const setting of settings) {
    try {
      // A rehearsal, not a measurement: the load of a client need not be steady for that.
      const { figures } = await runRound(row, setting, servers, {
        ...plan,
        ms: plan.ms / 2,
        warmUpMs: lookWarmUpMs,
      });
      const speed = figures[decisive]!;
      if (!best || speed > best.speed) best = { setting, speed };
    } catch (error) {
      if (error instanceof NotExclusive) throw error;
      failure = error;
    }
  }
  if (!best) throw failure;
  return best.setting;
}

class Run {
  readonly #row: Row;
  readonly #rounds: Figures[] = [];
  #setting: Setting;
  #roles: Roles = noRoles;
  #atMost = false;
  #failed: string | undefined;
  readonly #servers: Servers;

  constructor(row: Row, all: readonly RedisServer[]) {
    this.#row = row;
    const { nodes = 1, node = 0 } = row;
    this.#servers = (nodes > 1 ? all.slice(0, nodes) : [all[node]!]) as [RedisServer, ...RedisServer[]];
    this.#setting = contenders[row.contender]!.settings(isContended(row.job))[0]!;
  }

  get id(): string {
    return this.#row.id;
  }

  /** A peer, or a row that may fail, is out when it breaks down, and the bench goes on; anything else ends it. */
  async attempt(work: () => Promise<void>): Promise<void> {
    if (this.#failed !== undefined) return;
    try {
      await work();
    } catch (error) {
      const mayFail = contenders[this.#row.contender]!.peer || this.#row.mayFail === true;
      if (!mayFail || error instanceof NotExclusive) throw error;
      // The stack that a child left says more than that it ended.
      this.#failed =
        /\b\w*Error\b[^\n]*$/m.exec((error as Error).message)?.[0] ?? (error as Error).message.split('\n')[0]!;
    }
  }

  async prepare(plan: Plan): Promise<void> {
    this.#setting = await bestSetting(this.#row, this.#servers, plan);
    this.#roles = await rehearse(this.#row, this.#setting, this.#servers, plan);
  }

  async round(plan: Plan): Promise<void> {
    // Only node-redis needs a long warm-up: it keeps a deadline of five seconds for each command.
    const warmUpMs = this.#setting.client === 'node-redis' ? plan.warmUpMs : Math.min(plan.warmUpMs, plan.ms);
    const warmed = { ...plan, warmUpMs };
    const { figures, calls, times } = await runRound(this.#row, this.#setting, this.#servers, warmed);
    const { sent, exact } = countSent(calls, this.#roles);
    if (!exact) this.#atMost = true;
    this.#rounds.push(times > 0 ? { ...figures, commands: sent / times } : figures);
  }

  measured(): MeasuredRow {
    const { id, contender } = this.#row;
    const failed = this.#failed === undefined ? {} : { failed: this.#failed };
    return { id, contender, setting: this.#setting, rounds: this.#rounds, atMost: this.#atMost, ...failed };
  }
}

/** Two held the same lock. */
class NotExclusive extends Error {}

const isContended = ({ kind }: Job): boolean => kind !== 'pairs' && kind !== 'memory' && kind !== 'trial';

/** Kinds of job that show what they ask for by themselves. */
const unrehearsed: ReadonlySet<Job['kind']> = new Set(['memory', 'trial', 'fleet']);

/** The servers of a contender. Commands are counted at the first server. */
type Servers = readonly [RedisServer, ...RedisServer[]];

// One round.

interface Round {
  readonly figures: Figures;
  readonly calls: Calls;
  /** The number by which the count of calls is divided. */
  readonly times: number;
}

type Times = Pick<Plan, 'ms' | 'warmUpMs' | 'execPath'>;

async function runRound(row: Row, setting: Setting, servers: Servers, times: Times): Promise<Round> {
  const [server] = servers;
  const stopped = row.stops ? servers.at(-1) : undefined;
  const networks = await Promise.all(row.farMs === undefined ? [] : servers.map(({ port }) => far(port, row.farMs!)));
  const urls = networks.length > 0 ? networks.map(({ url }) => url) : servers.map(({ url }) => url);
  const clientsBefore = await connectedClients(server);
  const children: NodeChild[] = [];
  const timeoutMs = row.job.kind === 'trial' ? 3 * roundTimeoutMs : roundTimeoutMs;
  const timer = setTimeout(() => children.forEach(kill9), timeoutMs + times.ms);
  try {
    const processes = 'processes' in row.job ? row.job.processes : 1;
    for (let index = 0; index < processes; index++) children.push(start(row, setting, server, urls, times, index));
    await Promise.all(children.map((child) => child.receive()));
    await stopped?.pause();
    for (const child of children) child.send('go');
    return roundOf(row, await Promise.all(children.map((child) => child.receive())));
  } finally {
    clearTimeout(timer);
    await stopped?.resume();
    await Promise.all(children.map(kill9));
    for (const network of networks) network.close();
    await waitFor(async () => (await connectedClients(server)) <= clientsBefore, { what: 'a round’s clients to go' });
    await Promise.all(servers.map((each) => each.command('FLUSHALL')));
  }
}

function start(
  row: Row,
  setting: Setting,
  server: RedisServer,
  urls: readonly string[],
  { ms, warmUpMs, execPath: ofPlan }: Times,
  index: number,
): NodeChild {
  const { contender, fencing = true, job } = row;
  const spec: RoundSpec = { url: server.url, urls, contender, setting, fencing, job, index, ms, warmUpMs };
  // A Node without SQLite leaves shared memory to a newer one that came with the tests.
  const execPath = contender.includes('shared memory') ? nodeWithSqlite()! : ofPlan;
  return startChild(join(__dirname, 'round.ts'), [JSON.stringify(spec)], { execArgv: ['--expose-gc'], execPath });
}

async function connectedClients(server: RedisServer): Promise<number> {
  return Number(/connected_clients:(\d+)/.exec(await server.command('INFO', 'clients'))![1]);
}

function roundOf(row: Row, seen: readonly unknown[]): Round {
  const round = {
    pairs: () => countRound(seen[0] as CountSeen),
    burst: () => countRound(seen[0] as CountSeen),
    steady: () => steadyRound(seen as readonly SteadySeen[]),
    cached: () => cachedRound(seen as readonly CachedSeen[]),
    memory: () => memoryRound(seen[0] as MemorySeen),
    fleet: () => ({ ...sumUpFleet(row.job as JobOf<'fleet'>, seen as readonly FleetSeen[]), calls: {}, times: 0 }),
    trial: () => trialRound(seen[0] as TrialSeen),
  }[row.job.kind]();
  if (round.violations > 0)
    throw new NotExclusive(`${row.id}: ${round.violations} times somebody else held the lock too`);
  return round;
}

type Checked = Round & { readonly violations: number };

function countRound({ elapsedMs, acquisitions, cpuMs, calls, violations, ...seen }: CountSeen): Checked {
  const figures = {
    gcMicros: (seen.gcMs * 1000) / acquisitions,
    serverMicros: (seen.serverMs * 1000) / acquisitions,
    executed: seen.executed / acquisitions,
    perSecond: (acquisitions / elapsedMs) * 1000,
    micros: (elapsedMs * 1000) / acquisitions,
    cpuMicros: (cpuMs * 1000) / acquisitions,
  };
  return { figures, calls, times: acquisitions, violations };
}

function steadyRound(seen: readonly SteadySeen[]): Checked {
  const { acquisitions, elapsedMs, jain, longestMs, writerMs, handOffMs, publishMs, calls, violations } = sumUp(seen);
  const figures = {
    perSecond: (acquisitions / elapsedMs) * 1000,
    jain,
    longestMs,
    ...(writerMs !== null && { writerMs }),
    ...(handOffMs !== null && { handOffMs }),
    ...(publishMs !== null && { publishMs }),
  };
  return { figures, calls, times: acquisitions, violations };
}

/** The first process read the server's figures; loads that were too many are what is measured. */
function cachedRound(seen: readonly CachedSeen[]): Checked {
  const sum = (of: (each: CachedSeen) => number): number => seen.reduce((total, each) => total + of(each), 0);
  const { values, calls } = seen[0]!;
  const times = values * sum(({ callers }) => callers);
  const figures = {
    longestMs: Math.max(...seen.map((each) => each.longestMs)),
    loads: sum(({ loads }) => loads) / values,
    cpuMicros: (sum(({ cpuMs }) => cpuMs) * 1000) / times,
  };
  return { figures, calls, times, violations: 0 };
}

function trialRound({ violations = 0, ...figures }: TrialSeen): Checked {
  return { figures, calls: {}, times: 0, violations };
}

function memoryRound({ nodeBytes, redisBytes, violations }: MemorySeen): Checked {
  return { figures: { nodeBytes, redisBytes }, calls: {}, times: 0, violations };
}

// Counting.

/** Names of commands, without subcommands. */
interface Roles {
  readonly sent: ReadonlySet<string>;
  readonly byScripts: ReadonlySet<string>;
}

const noRoles: Roles = { sent: new Set(), byScripts: new Set() };
const ours = new Set(['info', 'monitor', 'echo', 'flushall']);
const rehearsal = { ms: 100, warmUpMs: 50 };

async function rehearse(row: Row, setting: Setting, servers: Servers, plan: Plan): Promise<Roles> {
  const [server] = servers;
  if (setting.client === 'none' || unrehearsed.has(row.job.kind)) return noRoles;
  const before = await serverCalls(server);
  const recording = await recordCommands(server);
  await sleep(10);
  await runRound({ ...row, job: smaller(row.job) }, setting, servers, { ...plan, ...rehearsal });
  const recorded = await recording.stop();
  const after = await serverCalls(server);

  const commands = recorded.map(({ args, lua }) => ({ name: args[0]!.toLowerCase(), lua }));
  const seen = tally(commands.map(({ name }) => name));
  for (const name of new Set([...after.keys(), ...seen.keys()])) {
    if (ours.has(name)) continue;
    const counted = (after.get(name) ?? 0) - (before.get(name) ?? 0);
    if (counted === (seen.get(name) ?? 0)) continue;
    throw new Error(`${row.id}: the server counted ${counted} × ${name}, and MONITOR saw ${seen.get(name) ?? 0}`);
  }
  const names = (lua: boolean) => new Set(commands.filter((each) => each.lua === lua).map(({ name }) => name));
  return { sent: names(false), byScripts: names(true) };
}

/** A thousand pollers would send more than MONITOR needs to show. */
function smaller(job: Job): Job {
  if (job.kind === 'cached') return { ...job, callers: 10 };
  // A semaphore gets enough waiters for a long queue, because its scripts call more commands then.
  return job.kind === 'burst' ? { ...job, waiters: Math.min(job.waiters, job.most === undefined ? 10 : 40) } : job;
}

function countSent(calls: Calls, { sent, byScripts }: Roles): { sent: number; exact: boolean } {
  let count = 0;
  let exact = true;
  for (const [name, times] of Object.entries(calls)) {
    const word = name.split('|')[0]!;
    if (byScripts.has(word) && !sent.has(word)) continue;
    if (byScripts.has(word) || !sent.has(word)) exact = false;
    count += times;
  }
  return { sent: count, exact };
}

async function serverCalls(server: RedisServer): Promise<Map<string, number>> {
  const lines: string[] = (await server.command<string>('INFO', 'commandstats')).split('\r\n');
  const calls = new Map<string, number>();
  for (const line of lines) {
    const [, name, count] = /^cmdstat_([^:|]+)[^:]*:calls=(\d+)/.exec(line) ?? [];
    if (name) calls.set(name, (calls.get(name) ?? 0) + Number(count));
  }
  return calls;
}

function tally(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
