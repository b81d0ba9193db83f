// One process of one round, in a fresh Node: sets its contender up, warms up, says that it is ready, does its job when it is
// ordered to, and sends back what it saw. Talks over IPC; measure.ts is the other end, and ends it.
//
// Stamps are milliseconds of the clock that all processes of a machine share, so that those of different processes may be
// compared: holders that overlapped are found afterwards, without a command and without a pause.

import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createClient, type RedisClientType } from 'redis';
import { contenders, type Locks, lib, type Release, type Setting, type Terms } from './contenders';
import { type FleetLock, fleet } from './fleet';
import { type Trial, type TrialSeen, tried } from './trials';

export type Job =
  /** `inFlight` loops, each with a key of its own. */
  | { readonly kind: 'pairs'; readonly inFlight: number }
  /** `waiters` callers want one key at once, and each takes it once; then the next burst. `most` may hold it together; default 1. */
  | { readonly kind: 'burst'; readonly waiters: number; readonly holdMs: number; readonly most?: number }
  /**
   * `waiters` loops in each process, all on one key. `probed`: measures PUBLISH → message beside it. `readers`: those loops
   * read, and one more in the first process writes.
   */
  | {
      readonly kind: 'steady';
      readonly processes: number;
      readonly waiters: number;
      readonly holdMs: number;
      readonly probed?: boolean;
      readonly readers?: boolean;
    }
  /** `callers` callers in each process want one cached value at once; then the next value. */
  | { readonly kind: 'cached'; readonly processes: number; readonly callers: number; readonly loadMs: number }
  /** `connections` loops on one key, each with a connection and a factory of its own; the first process only observes. */
  | {
      readonly kind: 'fleet';
      readonly processes: number;
      readonly connections: number;
      readonly holdMs: number;
      readonly lock: FleetLock;
    }
  /** `locks` locks are taken and held. */
  | { readonly kind: 'memory'; readonly locks: number }
  | { readonly kind: 'trial'; readonly trial: Trial };

export type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;
type Admin = RedisClientType;

export interface RoundSpec {
  /** The server at which commands are counted. */
  readonly url: string;
  /** The servers that the contender uses. */
  readonly urls: readonly string[];
  readonly contender: string;
  readonly setting: Setting;
  readonly fencing: boolean;
  readonly job: Job;
  /** The number of this process among those of the job. */
  readonly index: number;
  readonly ms: number;
  readonly warmUpMs: number;
}

/** Calls that the server counted, by name of the command. */
export type Calls = Readonly<Record<string, number>>;

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Figures of a round of pairs or bursts. */
export interface CountSeen {
  readonly elapsedMs: number;
  readonly acquisitions: number;
  readonly cpuMs: number;
  readonly calls: Calls;
  readonly violations: number;
  /** Time that this process spent in the garbage collector. */
  readonly gcMs: number;
  /** CPU time of the server. */
  readonly serverMs: number;
  /** All commands that the server executed, those that scripts call included. */
  readonly executed: number;
}

/** [waiter, asked, acquired, about to release, beside others] */
export type Turn = readonly [waiter: number, asked: number, acquired: number, releasing: number, shared?: boolean];

export interface SteadySeen {
  readonly window: Window;
  readonly waiters: number;
  readonly turns: readonly Turn[];
  /** When the callers that still wait asked. */
  readonly pending: readonly number[];
  /** The pending callers that want to write, if others read. */
  readonly pendingWriters: readonly number[];
  /** [when, ms] of PUBLISH → message from the process before this one. */
  readonly probes: readonly (readonly [at: number, ms: number])[];
  readonly calls: Calls;
}

export interface CachedSeen {
  readonly loads: number;
  readonly values: number;
  readonly callers: number;
  /** The longest time from a caller's call to its answer. */
  readonly longestMs: number;
  readonly cpuMs: number;
  readonly calls: Calls;
}

export interface MemorySeen {
  readonly nodeBytes: number;
  readonly redisBytes: number;
  readonly violations: number;
}

const chunk = 1000;
const probeEveryMs = 20;
const warmBurst = 20;

/** The machine's monotonic clock, the same in all its processes; `performance.now()` begins anew in each. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

async function main(spec: RoundSpec): Promise<void> {
  const { job, url, setting, fencing } = spec;
  const terms = {
    lifetimeMs: job.kind === 'memory' ? 600_000 : 10_000,
    contended: job.kind !== 'pairs' && job.kind !== 'memory' && job.kind !== 'trial',
    fencing,
  };
  if (job.kind === 'trial') return trial(spec, job.trial, terms);
  if (job.kind === 'fleet') {
    const work = await fleet(spec, job, {
      locks: async () => contenders[spec.contender]!.make(await connect(url, setting), setting, terms),
      connect: () => connectNodeRedis(url),
    });
    await ordered();
    process.send!(await work());
    return;
  }
  const clients = await Promise.all(spec.urls.map((each) => connect(each, setting)));
  const locks = contenders[spec.contender]!.make(clients.length > 1 ? clients : clients[0], setting, terms);
  const admin = await connectNodeRedis(url);

  await ordered();
  const seen = await {
    pairs: () => pairs(spec, job as any, locks, admin),
    burst: () => burst(spec, job as any, locks, admin),
    steady: () => steady(spec, job as any, locks, admin),
    cached: () => cached(spec, job as any, locks, admin),
    memory: () => memory(job as any, locks, admin),
  }[job.kind]();
  process.send!(seen);
}

/** Says that this process is ready, and waits until all are. */
async function ordered(): Promise<void> {
  const order = new Promise((resolve) => process.once('message', resolve));
  process.send!('ready');
  await order;
}

async function trial(spec: RoundSpec, which: Trial, terms: Terms): Promise<void> {
  // Only where it works with several: to others a first connection is part of what is measured.
  const nodes = spec.urls.length > 1 ? await Promise.all(spec.urls.map((each) => connectNodeRedis(each))) : [];
  await ordered();
  const { url, setting, contender } = spec;
  const seen = await tried(which, {
    url,
    ms: spec.ms,
    lib: require(lib),
    locks: async (name = contender) => contenders[name]!.make(await connect(url, setting), setting, terms),
    connect: () => connectNodeRedis(url),
    nodes,
  });
  process.send!(seen satisfies TrialSeen);
}

async function pairs(spec: RoundSpec, { inFlight }: JobOf<'pairs'>, locks: Locks, admin: Admin): Promise<CountSeen> {
  const door = new Door(inFlight);
  const loop = async (index: number, endMs: number): Promise<void> => {
    const key = `bench:pairs:${index}`;
    while (performance.now() < endMs) {
      const release = locks.pair === undefined ? await locks.acquire(key) : undefined;
      door.enter(index);
      door.leave(index);
      await (release?.() ?? locks.pair!(key));
    }
  };
  return counted(spec, admin, door, async (ms) => {
    const start = performance.now();
    await Promise.all(Array.from({ length: inFlight }, (_, index) => loop(index, start + ms)));
    return performance.now() - start;
  });
}

async function burst(
  spec: RoundSpec,
  { waiters, holdMs, most = 1 }: JobOf<'burst'>,
  locks: Locks,
  admin: Admin,
): Promise<CountSeen> {
  const door = new Door(1, most);
  const once = async (): Promise<void> => {
    const release = await locks.acquire('bench:burst');
    door.enter(0);
    if (holdMs > 0) await sleep(holdMs);
    door.leave(0);
    await release();
  };
  return counted(spec, admin, door, async (ms, warm) => {
    const length = warm ? Math.min(waiters, warmBurst) : waiters;
    let elapsedMs = 0;
    do {
      const start = performance.now();
      await Promise.all(Array.from({ length }, once));
      elapsedMs += performance.now() - start;
      await turn(); // timers and sockets have their turn, off the clock
    } while (elapsedMs < ms);
    return elapsedMs;
  });
}

/** Counts the holders of each key: more than `most` are a violation. */
class Door {
  entered = 0;
  violations = 0;
  readonly #inside: Uint8Array;

  readonly #most: number;

  constructor(keys: number, most = 1) {
    this.#inside = new Uint8Array(keys);
    this.#most = most;
  }

  enter(key: number): void {
    this.entered++;
    if (++this.#inside[key]! > this.#most) this.violations++;
  }

  leave(key: number): void {
    this.#inside[key]!--;
  }
}

/** Everything is paused while the server's figures are read, before and after: what it counts belongs to these acquisitions alone. */
async function counted(
  spec: RoundSpec,
  admin: Admin,
  door: Door,
  run: (ms: number, warm: boolean) => Promise<number>,
): Promise<CountSeen> {
  await run(spec.warmUpMs, true);
  let gcMs = 0;
  const collections = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) gcMs += duration;
  });
  collections.observe({ entryTypes: ['gc'] });
  const [before, server] = [await calls(admin), await work(admin)];
  const cpu = process.cpuUsage();
  door.entered = 0;
  const elapsedMs = await run(spec.ms, false);
  const { user, system } = process.cpuUsage(cpu);
  const { entered: acquisitions, violations } = door;
  const after = await work(admin);
  await turn(); // the last collections are reported
  collections.disconnect();
  return {
    elapsedMs,
    acquisitions,
    cpuMs: (user + system) / 1000,
    calls: difference(before, await calls(admin)),
    violations,
    gcMs,
    serverMs: after.cpuMs - server.cpuMs,
    executed: after.executed - server.executed - 1, // INFO
  };
}

/** The server's CPU time and commands so far. */
async function work(admin: Admin): Promise<{ cpuMs: number; executed: number }> {
  const info = await admin.info('all');
  const field = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)![1]);
  const cpuMs = (field('used_cpu_user') + field('used_cpu_sys')) * 1000;
  return { cpuMs, executed: field('total_commands_processed') };
}

/** Lets all callers go on until this process is ended, so that the window sees a steady load, neither growing nor shrinking. */
async function steady(spec: RoundSpec, job: JobOf<'steady'>, locks: Locks, admin: Admin): Promise<SteadySeen> {
  const turns: Turn[] = [];
  const pending = new Map<number, number>();
  const { readers = false, waiters, processes } = job;
  /** The index of the writer, after those of all readers. */
  const writer = processes * waiters;
  const loop = async (waiter: number): Promise<never> => {
    const shared = readers && waiter !== writer;
    const take = readers && !shared ? (locks.write ?? locks.acquire) : locks.acquire;
    for (;;) {
      const asked = now();
      pending.set(waiter, asked);
      const release = await take('bench:steady');
      const acquired = now();
      pending.delete(waiter);
      await sleep(job.holdMs);
      turns.push([waiter, asked, acquired, now(), shared && locks.write !== undefined]);
      await release();
    }
  };

  const probes = job.probed ? await probe(spec, processes) : [];
  const ours = Array.from({ length: waiters }, (_, n) => spec.index * waiters + n);
  if (readers && spec.index === 0) ours.push(writer);
  for (const waiter of ours) {
    loop(waiter).catch((error) => {
      console.error(error);
      process.exit(1);
    });
  }
  await sleep(spec.warmUpMs);
  const before = await calls(admin);
  const from = now();
  await sleep(spec.ms);
  const after = await calls(admin);
  const to = now();
  return {
    window: { from, to },
    waiters: ours.length,
    turns: turns.filter(([, , acquired]) => acquired >= from - margin && acquired <= to + margin),
    pending: [...pending.values()],
    pendingWriters: readers && pending.has(writer) ? [pending.get(writer)!] : [],
    probes,
    calls: difference(before, after),
  };
}

/** The windows of several processes differ by this much at most; the first one's counts. */
const margin = 500;

/** PUBLISH to the next process and hear from the one before, over connections of their own. */
async function probe({ url, index }: RoundSpec, processes: number): Promise<(readonly [at: number, ms: number])[]> {
  const heard: (readonly [number, number])[] = [];
  const [publisher, subscriber] = await Promise.all([connectNodeRedis(url), connectNodeRedis(url)]);
  await subscriber.subscribe(`bench:probe:${index}`, (sentAt) => heard.push([now(), now() - Number(sentAt)]));
  setInterval(() => {
    void publisher.publish(`bench:probe:${(index + 1) % processes}`, String(now()));
  }, probeEveryMs);
  return heard;
}

/** Loads each value in all processes at the same moment of the machine's clock. */
async function cached(
  spec: RoundSpec,
  { callers, loadMs }: JobOf<'cached'>,
  locks: Locks,
  admin: Admin,
): Promise<CachedSeen> {
  let loads = 0;
  let longestMs = 0;
  const load = async (): Promise<string> => {
    loads++;
    await sleep(loadMs);
    return 'loaded';
  };
  const call = async (key: string): Promise<void> => {
    const asked = now();
    await locks.cached!(key, load);
    longestMs = Math.max(longestMs, now() - asked);
  };
  await Promise.all(Array.from({ length: callers }, () => call(`bench:warm:${spec.index}`)));
  const everyMs = 4 * loadMs;
  const values = Math.max(1, Math.round(spec.ms / everyMs));
  const startMs = Math.ceil(now() / 1000 + 0.2) * 1000;
  await sleep(startMs - now() - everyMs / 2);
  [loads, longestMs] = [0, 0];
  const before = await calls(admin);
  const cpu = process.cpuUsage();
  for (let value = 0; value < values; value++) {
    await sleep(startMs + value * everyMs - now());
    await Promise.all(Array.from({ length: callers }, () => call(`bench:cached:${value}`)));
  }
  const { user, system } = process.cpuUsage(cpu);
  await sleep(everyMs); // the others are done as well
  const after = await calls(admin);
  const cpuMs = (user + system) / 1000;
  return { loads, values, callers, longestMs, cpuMs, calls: difference(before, after) };
}

async function memory({ locks: count }: JobOf<'memory'>, locks: Locks, admin: Admin): Promise<MemorySeen> {
  for (let warm = 0; warm < chunk; warm++) await (await locks.acquire('bench:warm'))();
  const held: Release[] = new Array(count).fill(undefined);
  const before = await bytes(admin);
  for (let from = 0; from < count; from += chunk) {
    const indexes = Array.from({ length: Math.min(chunk, count - from) }, (_, offset) => from + offset);
    await Promise.all(
      indexes.map(async (index) => {
        held[index] = await locks.acquire(`bench:memory:${index}`);
      }),
    );
  }
  const after = await bytes(admin);
  const keys = await admin.dbSize();
  return {
    nodeBytes: (after.node - before.node) / count,
    redisBytes: (after.redis - before.redis) / count,
    // Each is held by the loop that acquired it, or Redis would have fewer keys. `held` is read here so that it lives until now.
    violations: Math.max(0, held.length - keys),
  };
}

async function bytes(admin: Admin): Promise<{ node: number; redis: number }> {
  await sleep(100); // buffers go, tables finish growing
  for (let times = 0; times < 3; times++) {
    global.gc!();
    await turn();
  }
  const { heapUsed, external } = process.memoryUsage();
  return { node: heapUsed + external, redis: Number(/used_memory:(\d+)/.exec(await admin.info('memory'))![1]) };
}

async function calls(admin: Admin): Promise<Calls> {
  const lines = (await admin.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return Object.fromEntries([...lines].map(([, name, count]) => [name!, Number(count)]));
}

/** The calls between two readings, without those of the reading itself. */
function difference(before: Calls, after: Calls): Calls {
  const calls = Object.entries(after).map(([name, total]) => [name, total - (before[name] ?? 0)] as const);
  return Object.fromEntries(calls.filter(([name, count]) => count !== 0 && name !== 'info'));
}

async function connect(url: string, { client, commandTimeoutMs }: Setting): Promise<Admin | Redis | undefined> {
  if (client === 'none') return undefined;
  if (client === 'node-redis') return connectNodeRedis(url, commandTimeoutMs);
  const redis = new Redis(url, { enableAutoPipelining: client === 'ioredis, auto-pipelining', lazyConnect: true });
  await redis.connect();
  return redis;
}

async function connectNodeRedis(url: string, timeout?: number): Promise<Admin> {
  const client = createClient({ url, ...(timeout !== undefined && { commandOptions: { timeout } }) });
  client.on('error', (error) => console.error(error));
  await client.connect();
  return client as RedisClientType;
}

void main(JSON.parse(process.argv[2]!)).catch((error) => {
  console.error(error);
  process.exit(1);
});
