// The jobs of one process that are about this library as a whole, and not about pairs: what it takes at first, at rest, with very
// many, and how long others wait meanwhile. Each gives its figures as they are.
import { subscribe, tracingChannel, unsubscribe } from 'node:diagnostics_channel';
import { dirname } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { type Locks, lib } from './contenders';
import type { Figures } from './measure';
import { keys, replicated, waits } from './overload';
import { copyWithoutEvents } from './without-events';

export type Trial =
  /** `pairs` pairs, the first ones of their process. */
  | { readonly kind: 'first'; readonly pairs: number }
  /** `keys` keys, each acquired and released once: what Redis keeps. */
  | { readonly kind: 'used-once'; readonly keys: number }
  /** `locks` held locks that are renewed together: the time for which the event loop is blocked. */
  | { readonly kind: 'renewals'; readonly locks: number }
  /** `queues` queues, of one waiter each, behind holders that stay. */
  | { readonly kind: 'at-rest'; readonly queues: number }
  /** `waiters` readers and writers by turns behind a writer, all let in: the time that they and others take. */
  | { readonly kind: 'crowd'; readonly waiters: number }
  /** `pairs` pairs with events, with listeners to all of them, and of a copy without, in turn. */
  | { readonly kind: 'events'; readonly pairs: number; readonly turns: number }
  /** `pairs` pairs by turns on five servers, on five of which one is stopped, and on each alone; and in flight on three, and on one. */
  | { readonly kind: 'quorum'; readonly pairs: number; readonly inFlight: number; readonly turns: number }
  /** `pairs` pairs of this contender and of its peer, by turns in one process. */
  | {
      readonly kind: 'beside';
      readonly peer: string;
      readonly pairs: number;
      readonly turns: number;
      /** The number of pairs at once, each with a key of its own; default 1. */
      readonly inFlight?: number;
    }
  /** `callers` callers want one key in one tick. */
  | { readonly kind: 'waits'; readonly callers: number }
  /** `locks` keys, taken in one tick and held beyond their lifetime. */
  | { readonly kind: 'keys'; readonly locks: number; readonly lifetimeMs: number }
  /** `locks` keys, taken in one tick, each confirmed by `minReplicas` of two replicas. */
  | { readonly kind: 'replicated'; readonly locks: number; readonly minReplicas: number }
  /** One leader resigns, the other candidate is elected; beside it PUBLISH → message, there and back. */
  | { readonly kind: 'election' };

/** The figures of a trial, and the number of times that two callers held the lock at once. */
export type TrialSeen = Figures & { readonly violations?: number };

/** The servers and helpers that a trial works with. */
export interface Ground {
  readonly url: string;
  /** Makes contenders, each on a connection of its own: this row's, or the one that is named. */
  locks(contender?: string): Promise<Locks>;
  /** Connections of node-redis. */
  connect(): Promise<any>;
  /** A connection to each server of the trial, made before the last server was stopped. */
  readonly nodes: readonly any[];
  readonly lib: typeof import('../src/index');
  readonly ms: number;
}

const chunk = 500;

/** Does `work` for each index below `count`, some at a time. */
async function each<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const done: T[] = [];
  for (let from = 0; from < count; from += chunk) {
    const some = Array.from({ length: Math.min(chunk, count - from) }, (_, n) => work(from + n));
    done.push(...(await Promise.all(some)));
  }
  return done;
}

const cpuMs = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
};

const field = (text: string, name: string): number =>
  Number(new RegExp(`${name}:([\\d.]+)`).exec(text)?.[1] ?? Number.NaN);

async function first({ pairs }: { pairs: number }, ground: Ground): Promise<Figures> {
  const cpu = process.cpuUsage();
  const locks = await ground.locks();
  for (let n = 0; n < pairs; n++) await (await locks.acquire('bench:first'))();
  return { cpuMicros: (cpuMs(cpu) * 1000) / pairs };
}

async function usedOnce({ keys }: { keys: number }, ground: Ground): Promise<Figures> {
  const [locks, admin] = [await ground.locks(), await ground.connect()];
  await (await locks.acquire('bench:warm'))();
  const bytes = async (): Promise<number> => field(await admin.info('memory'), 'used_memory');
  const before = await bytes();
  const start = performance.now();
  await each(keys, async (n) => (await locks.acquire(`bench:once:${n}`))());
  const perSecond = (keys / (performance.now() - start)) * 1000;
  await sleep(200); // buffers go
  return { redisMB: Math.max((await bytes()) - before, 0) / 1e6, perSecond };
}

async function renewals({ locks: count }: { locks: number }, ground: Ground): Promise<Figures> {
  const redis = await ground.connect();
  const lifetime = 15_000;
  const withLock = ground.lib({ redis, lifetime, autoExtend: true, commandTimeout: 60_000 });
  const leases = await each(count, (n) => withLock.promise(`bench:renewed:${n}`));
  // From one moment on: so they are due together.
  await Promise.all(leases.map((lease) => lease.extend()));
  await turn();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const cpu = process.cpuUsage();
  await sleep(lifetime / 3 + 1500);
  delay.disable();
  const lost = leases.filter((lease) => lease.remaining() <= lifetime / 3).length;
  if (lost > 0) throw new Error(`${lost} of ${count} leases were not renewed`);
  return { lagMs: delay.max / 1e6, cpuMicros: (cpuMs(cpu) * 1000) / count };
}

async function atRest({ queues }: { queues: number }, ground: Ground): Promise<Figures> {
  const [holder, waiter, admin] = [await ground.connect(), await ground.connect(), await ground.connect()];
  const hold = ground.lib({ redis: holder, lifetime: 600_000 });
  await each(queues, (n) => hold.promise(`bench:rest:${n}`));
  const wait = ground.lib({ redis: waiter, lifetime: 600_000, timeout: 600_000 });
  for (let n = 0; n < queues; n++) {
    wait.promise(`bench:rest:${n}`).catch(() => {});
    if (n % chunk === 0) await turn();
  }
  await sleep(12_000); // all are queued, and have found their pace
  const server = async (): Promise<number> => {
    const cpu = await admin.info('cpu');
    return field(cpu, 'used_cpu_user') + field(cpu, 'used_cpu_sys');
  };
  const [cpu, before, start] = [process.cpuUsage(), await server(), performance.now()];
  await sleep(8000);
  const elapsedMs = performance.now() - start;
  const serverPercent = (((await server()) - before) * 100_000) / elapsedMs;
  return { cpuPercent: (cpuMs(cpu) * 100) / elapsedMs, serverPercent };
}

async function crowd({ waiters }: { waiters: number }, ground: Ground): Promise<Figures> {
  const [redis, other] = [await ground.connect(), await ground.connect()];
  const lock = new ground.lib.RWLock('bench:crowd', { redis, lifetime: 60_000, timeout: 60_000 });
  const hold = await lock.acquireWrite();
  let inside = 0;
  const use = (isWriter: boolean) => async (): Promise<void> => {
    inside += isWriter ? waiters : 1;
    if (inside > waiters && !(isWriter && inside === waiters)) throw new Error('a writer was not alone');
    inside -= isWriter ? waiters : 1;
  };
  const all = Array.from({ length: waiters }, (_, n) => (n % 2 ? lock.write(use(true)) : lock.read(use(false))));
  const queued = async (): Promise<number> => other.zCard('{bench:crowd}:queue');
  while ((await queued()) < waiters) await sleep(20);
  await other.configResetStat();
  await other.sendCommand(['CONFIG', 'SET', 'slowlog-log-slower-than', '10000']);
  await other.sendCommand(['SLOWLOG', 'RESET']);
  let isOver = false;
  let pingMs = 0;
  const pings = (async () => {
    for (; !isOver; await sleep(2)) {
      const start = performance.now();
      await other.ping();
      pingMs = Math.max(pingMs, performance.now() - start);
    }
  })();
  const start = performance.now();
  await hold.release();
  await Promise.all(all);
  const servedMs = performance.now() - start;
  isOver = true;
  await pings;
  return { servedMs, pingMs, slowScripts: Number(await other.sendCommand(['SLOWLOG', 'LEN'])) };
}

async function election(ground: Ground): Promise<Figures> {
  const { Election } = ground.lib;
  const candidates = await Promise.all(
    ['a', 'b'].map(async (id) => new Election('bench:election', { redis: await ground.connect(), id })),
  );
  const [publisher, subscriber, back] = [await ground.connect(), await ground.connect(), await ground.connect()];
  const handOvers: number[] = [];
  const roundTrips: number[] = [];
  let resignedMs = Number.NaN;
  let leads = 0;
  const endMs = performance.now() + ground.ms;
  const campaign = async (candidate: (typeof candidates)[number]): Promise<void> => {
    while (performance.now() < endMs) {
      await candidate.lead(async () => {
        if (++leads > 1) throw new Error('two lead');
        if (!Number.isNaN(resignedMs)) handOvers.push(performance.now() - resignedMs);
        await sleep(10); // the other one campaigns
        leads -= 1;
        resignedMs = performance.now();
      });
    }
  };
  // There and back, as a hand-over has: a message to the one, and its confirmation to Redis.
  let sentMs = 0;
  await subscriber.subscribe('bench:there', async () => {
    await back.ping();
    roundTrips.push(performance.now() - sentMs);
  });
  const probe = setInterval(() => {
    sentMs = performance.now();
    void publisher.publish('bench:there', 'x');
  }, 20);
  await Promise.all(candidates.map(campaign));
  clearInterval(probe);
  await Promise.all(candidates.map((candidate) => candidate.close()));
  return { handOverMs: median(handOvers.slice(2)), roundTripMs: median(roundTrips) };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

const channels = ['release', 'extend', 'lost', 'hold'].map((name) => `redis-exp-lock:${name}`);
const nothing = (): void => {};
const traced = { start: nothing, end: nothing, asyncStart: nothing, asyncEnd: nothing, error: nothing };

/** Subscribes to all events of a pair. @returns How to end that. */
function listen(): () => void {
  tracingChannel('redis-exp-lock:acquire').subscribe(traced);
  for (const name of channels) subscribe(name, nothing);
  return () => {
    tracingChannel('redis-exp-lock:acquire').unsubscribe(traced);
    for (const name of channels) unsubscribe(name, nothing);
  };
}

async function events({ pairs, turns }: { pairs: number; turns: number }, ground: Ground): Promise<Figures> {
  const silent: typeof ground.lib = require(copyWithoutEvents(dirname(lib)));
  const [ours, without] = [
    ground.lib({ redis: await ground.connect(), lifetime: 60_000 }),
    silent({ redis: await ground.connect(), lifetime: 60_000 }),
  ];
  const cpuOf = async (withLock: typeof ours): Promise<number> => {
    const cpu = process.cpuUsage();
    for (let n = 0; n < pairs; n++) await (await withLock.promise('bench:events'))();
    return cpuMs(cpu);
  };
  /** Both ways round, so that neither gains by its place. */
  const ratios = async (): Promise<number[]> => {
    const seen: number[] = [];
    for (let turn = 0; turn < turns; turn++) {
      const [first, base, third] = [await cpuOf(ours), await cpuOf(without), await cpuOf(ours)];
      if (turn >= turns / 5) seen.push((first + third) / 2 / base);
    }
    return seen;
  };
  const unheard = await ratios();
  // Apart from the others: what is compiled while nobody listens is compiled anew once somebody does.
  const stop = listen();
  const heard = await ratios().finally(stop);
  return { unheardTimes: median(unheard), heardTimes: median(heard) };
}

type Pair = (key: string) => Promise<unknown>;

/** The last server is stopped: five go on without it, and five with it in the place of one of them. */
async function quorum(
  { pairs, inFlight, turns }: { pairs: number; inFlight: number; turns: number },
  { nodes, lib: library }: Ground,
): Promise<Figures> {
  const pairOn = (redis: any): Pair => {
    const withLock = library({ redis, lifetime: 10_000 });
    return async (key) => (await withLock.promise(key))();
  };
  const microsOf = async (count: number, work: () => Promise<unknown>): Promise<number> => {
    const start = performance.now();
    await work();
    return ((performance.now() - start) * 1000) / count;
  };
  const oneByOne = (pair: Pair) => (): Promise<number> =>
    microsOf(pairs, async () => {
      for (let n = 0; n < pairs; n++) await pair('bench:quorum');
    });
  const together = (pair: Pair) => (): Promise<number> =>
    microsOf(2 * inFlight, () =>
      Promise.all(
        Array.from({ length: inFlight }, async (_, n) => {
          for (let again = 0; again < 2; again++) await pair(`bench:quorum:${n}`);
        }),
      ),
    );
  const five = nodes.slice(0, -1);
  const works = {
    five: oneByOne(pairOn(five)),
    stopped: oneByOne(pairOn([...five.slice(0, -1), nodes.at(-1)])),
    flight: together(pairOn(five.slice(0, 3))),
    flightAlone: together(pairOn(five[0])),
    ...Object.fromEntries(five.map((node, n) => [`alone ${n}`, oneByOne(pairOn(node))])),
  };
  const micros = new Map(Object.keys(works).map((name): [string, number[]] => [name, []]));
  for (let turn = -turns / 4; turn < turns; turn++) {
    for (const [name, work] of Object.entries(works)) {
      const each = await work();
      if (turn >= 0) micros.get(name)!.push(each);
    }
  }
  const of = (name: string): number => median(micros.get(name)!);
  const shares = (one: string, other: string): number =>
    median(micros.get(one)!.map((each, n) => each / micros.get(other)![n]!));
  return {
    micros: of('five'),
    perSecond: 1e6 / of('five'),
    aloneTimes: of('five') / Math.max(...five.map((_, n) => of(`alone ${n}`))),
    stoppedShare: shares('five', 'stopped'),
    flightShare: shares('flightAlone', 'flight'),
  };
}

async function beside(
  { peer, pairs, turns, inFlight = 1 }: { peer: string; pairs: number; turns: number; inFlight?: number },
  ground: Ground,
): Promise<Figures> {
  const sides = [await ground.locks(), await ground.locks(peer)] as const;
  const taking = async ({ pair, acquire }: Locks): Promise<{ wall: number; cpu: number }> => {
    const loop = async (key: string): Promise<void> => {
      for (let n = 0; n < pairs / inFlight; n++) await (pair?.(key) ?? (await acquire(key))());
    };
    const [start, cpu] = [performance.now(), process.cpuUsage()];
    await Promise.all(Array.from({ length: inFlight }, (_, n) => loop(`bench:beside:${n}`)));
    return { wall: performance.now() - start, cpu: cpuMs(cpu) };
  };
  const seen: { ours: { wall: number; cpu: number }; theirs: { wall: number; cpu: number } }[] = [];
  for (let turn = -turns / 4; turn < turns; turn++) {
    // Both ways round, so that neither gains by its place.
    const isFirst = turn % 2 === 0;
    const early = await taking(sides[isFirst ? 0 : 1]);
    const late = await taking(sides[isFirst ? 1 : 0]);
    if (turn >= 0) seen.push(isFirst ? { ours: early, theirs: late } : { ours: late, theirs: early });
  }
  const wall = median(seen.map(({ ours }) => ours.wall)) / pairs;
  return {
    perSecond: 1000 / wall,
    cpuMicros: (median(seen.map(({ ours }) => ours.cpu)) * 1000) / pairs,
    speedTimes: median(seen.map(({ ours, theirs }) => theirs.wall / ours.wall)),
    cpuTimes: median(seen.map(({ ours, theirs }) => ours.cpu / theirs.cpu)),
  };
}

/** Does a trial, and gives its figures. */
export function tried(trial: Trial, ground: Ground): Promise<TrialSeen> {
  switch (trial.kind) {
    case 'first':
      return first(trial, ground);
    case 'used-once':
      return usedOnce(trial, ground);
    case 'renewals':
      return renewals(trial, ground);
    case 'at-rest':
      return atRest(trial, ground);
    case 'crowd':
      return crowd(trial, ground);
    case 'events':
      return events(trial, ground);
    case 'quorum':
      return quorum(trial, ground);
    case 'beside':
      return beside(trial, ground);
    case 'waits':
      return waits(trial, ground);
    case 'keys':
      return keys(trial, ground);
    case 'replicated':
      return replicated(trial, ground);
    case 'election':
      return election(ground);
  }
}
