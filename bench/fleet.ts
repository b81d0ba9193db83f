// One process of a fleet's round: loops on one key, each with a connection and a factory of its own, as if it were a process of a
// fleet. The first process has no loop: it reads the server's figures, and its PINGs are those of somebody else's connection.
//
// Invariant: a round fails if two held what excludes: by the times of all holders, by the order of their fences, and by a number in
// a file that each exclusive holder reads when its hold begins and writes, plus one, when it ends.

import { closeSync, existsSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../test/support/processes';
import { type Locks, permits } from './contenders';
import type { Figures } from './measure';
import type { JobOf, RoundSpec, SteadySeen, Turn, Window } from './round';
import { sumUp } from './sum-up';

/** The kind of lock that all loops take. One reader in sixteen writes. */
export type FleetLock = 'mutex' | 'readers and writers' | 'semaphore';

type FleetTurn = readonly [...Required<Turn>, fence: number];

export interface FleetSeen {
  /** The server's figures within the window, reported by the first process only. */
  readonly server?: { readonly window: Window; readonly figures: ServerFigures; readonly pingMs: number };
  /** The turns of each loop. */
  readonly loops: readonly { readonly turns: readonly FleetTurn[]; readonly pending: readonly number[] }[];
  /** The time from the first acquire of any loop until each loop had its first turn. */
  readonly servedMs: number;
  /** The CPU time of this process within the window. */
  readonly cpuMs: number;
  /** Acquires and releases that rejected, from the first on. */
  readonly failures: number;
  /** Exclusive turns that found the number changed when they ended. */
  readonly disturbed: number;
}

interface ServerFigures {
  readonly cpuMs: number;
  readonly executed: number;
  readonly scripts: number;
  readonly scriptMicros: number;
}

const key = 'bench:fleet';
const writerEvery = 16;
const maxProcesses = 4;
const pingEveryMs = 10;
/** Windows of several processes differ by less. */
const marginMs = 500;

/**
 * The number of processes: those that have loops, and the observer. The same at each size from four connections on: on few cores, scripts
 * take nearly twice as long beside four processes as beside one.
 */
export const fleetProcesses = (connections: number): number => Math.min(maxProcesses, connections) + 1;

/** Loops that have had no turn by then do not delay the round: `servedMs` is at least this. */
const maxFirstMs = 30_000;
/** The time between the first turn of the last loop and the window. */
const warmUpMs = 1000;

const now = (): number => Number(process.hrtime.bigint()) / 1e6;

interface Ground {
  locks(): Promise<Locks>;
  connect(): Promise<any>;
}

type FleetJob = JobOf<'fleet'>;

/** Connects, and begins: each loop has had a turn when it resolves. @returns What measures. */
export async function fleet(spec: RoundSpec, job: FleetJob, ground: Ground): Promise<() => Promise<FleetSeen>> {
  if (spec.index === 0) {
    const number = openSync(numberFile(), 'w');
    const admin = await ground.connect();
    const other = await ground.connect();
    return async () => {
      const seen = await observe(spec, admin, other);
      closeSync(number);
      rmSync(numberFile());
      return seen;
    };
  }
  const all: { readonly waiter: number; readonly locks: Locks }[] = [];
  for (let waiter = spec.index - 1; waiter < job.connections; waiter += job.processes - 1) {
    all.push({ waiter, locks: await ground.locks() });
  }
  return generate(spec, job, all);
}

/** The file of the shared number, one for each round: all processes of a round have the same parent, and no two rounds do. */
const numberFile = (): string => join(tmpdir(), `redis-exp-lock-fleet-${process.ppid}`);

async function generate(
  { ms }: RoundSpec,
  { lock, holdMs }: FleetJob,
  all: readonly { readonly waiter: number; readonly locks: Locks }[],
): Promise<() => Promise<FleetSeen>> {
  const number = await SharedNumber.open();
  let disturbed = 0;
  let failures = 0;
  const countFailure = (error: unknown): void => {
    failures++;
    if (failures === 1) console.error(error);
  };
  const loops = all.map(({ waiter, locks }) => {
    const isWriter = lock === 'readers and writers' && waiter % writerEvery === 0;
    const excludes = lock === 'mutex' || isWriter;
    const take = isWriter ? locks.write! : locks.acquire;
    const turns: FleetTurn[] = [];
    const pending: number[] = [];
    const loop = async (): Promise<never> => {
      for (;;) {
        const asked = now();
        pending[0] = asked;
        const release = await take(key).catch(countFailure);
        if (!release) continue;
        const acquired = now();
        pending.length = 0;
        const before = number.read();
        if (holdMs > 0) await sleep(holdMs);
        if (number.read() !== before && lock !== 'semaphore') disturbed++;
        if (excludes) number.write(before + 1);
        turns.push([waiter, asked, acquired, now(), !excludes, (release as { fence?: number }).fence ?? 0]);
        await release().catch(countFailure);
      }
    };
    loop().catch((error) => {
      console.error(error);
      process.exit(1);
    });
    return { turns, pending };
  });
  const begunMs = now();
  while (now() < begunMs + maxFirstMs && loops.some(({ turns }) => turns.length === 0)) await sleep(10);
  const servedMs = Math.max(...loops.map(({ turns: [first] }) => first?.[2] ?? now())) - begunMs;
  return async () => {
    await sleep(warmUpMs);
    const from = now();
    const cpu = process.cpuUsage();
    await sleep(ms);
    const { user, system } = process.cpuUsage(cpu);
    await sleep(marginMs);
    const recent = loops.map(({ turns, pending }) => ({
      turns: turns.filter(([, , acquired]) => acquired >= from - marginMs),
      pending: [...pending],
    }));
    return { loops: recent, servedMs, cpuMs: (user + system) / 1000, failures, disturbed };
  };
}

async function observe({ ms }: RoundSpec, admin: any, other: any): Promise<FleetSeen> {
  await sleep(warmUpMs);
  let isOver = false;
  let pingMs = 0;
  const before = await serverFigures(admin);
  const from = now();
  const pings = (async () => {
    for (; !isOver; await sleep(pingEveryMs)) {
      const start = now();
      await other.ping();
      pingMs = Math.max(pingMs, now() - start);
    }
  })();
  await sleep(ms);
  isOver = true;
  const after = await serverFigures(admin);
  const to = now();
  await pings;
  const figures = Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - before[name as keyof ServerFigures]]),
  ) as unknown as ServerFigures;
  return {
    server: { window: { from, to }, figures, pingMs },
    loops: [],
    servedMs: 0,
    cpuMs: 0,
    failures: 0,
    disturbed: 0,
  };
}

async function serverFigures(admin: any): Promise<ServerFigures> {
  const info: string = await admin.info('all');
  const field = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)![1]);
  const scripts = [...info.matchAll(/^cmdstat_(?:eval|evalsha|fcall)(?:_ro)?:calls=(\d+),usec=(\d+)/gm)];
  const sum = (part: 1 | 2): number => scripts.reduce((total, match) => total + Number(match[part]), 0);
  return {
    cpuMs: (field('used_cpu_user') + field('used_cpu_sys')) * 1000,
    executed: field('total_commands_processed'),
    scripts: sum(1),
    scriptMicros: sum(2),
  };
}

/** A number in a file that all processes of a round read and write, without an atomic step: only the lock makes it exact. */
class SharedNumber {
  readonly #file: number;
  readonly #bytes = new Float64Array(1);

  private constructor(file: number) {
    this.#file = file;
  }

  /** Waits for the first process to have made it. */
  static async open(): Promise<SharedNumber> {
    await waitFor(() => existsSync(numberFile()));
    return new SharedNumber(openSync(numberFile(), 'r+'));
  }

  read(): number {
    return readSync(this.#file, this.#bytes, 0, 8, 0) === 8 ? this.#bytes[0]! : 0;
  }

  write(value: number): void {
    this.#bytes[0] = value;
    writeSync(this.#file, this.#bytes, 0, 8, 0);
  }
}

// The figures of the round.

export interface FleetSum {
  readonly figures: Figures;
  readonly violations: number;
}

export function sumUpFleet({ lock, connections }: FleetJob, processes: readonly FleetSeen[]): FleetSum {
  const { window, figures, pingMs } = processes[0]!.server!;
  const loops = processes.flatMap((seen) => seen.loops);
  const none = { window, waiters: 0, pendingWriters: [], probes: [], calls: {} };
  // Each loop is a process of its own to those who look.
  const asProcesses = loops.map(({ turns, pending }): SteadySeen => {
    const seen = turns.map(([, asked, acquired, releasing, shared]): Turn => [0, asked, acquired, releasing, shared]);
    return { ...none, waiters: 1, turns: seen, pending };
  });
  const { acquisitions, elapsedMs, longestMs, handOffMs, violations } = sumUp(asProcesses);
  const all = loops.flatMap(({ turns }) => turns).sort((a, b) => a[2] - b[2]);
  const tooMany = lock === 'semaphore' && maxAtOnce(all) > permits ? 1 : 0;
  const sum = (of: (seen: FleetSeen) => number): number => processes.reduce((total, seen) => total + of(seen), 0);
  const each = (value: number): number => value / acquisitions;
  return {
    figures: {
      perSecond: (acquisitions / elapsedMs) * 1000,
      scriptMicros: each(figures.scriptMicros),
      scripts: each(figures.scripts),
      executed: each(figures.executed),
      longestMs,
      servedMs: Math.max(...processes.map((seen) => seen.servedMs)),
      ...(lock === 'mutex' && handOffMs !== null && { handOffMs, cycles: longestMs / (handOffMs * connections) }),
      pingMs,
      serverPercent: (figures.cpuMs / elapsedMs) * 100,
      cpuMicros: each(sum((seen) => seen.cpuMs) * 1000),
      failures: sum((seen) => seen.failures),
    },
    violations: violations + sum((seen) => seen.disturbed) + tooMany + (lock === 'semaphore' ? 0 : fallingFences(all)),
  };
}

/** Turns in the order of their grants whose fence does not say so: it exceeds every one that an exclusive holder had. */
export function fallingFences(turns: readonly FleetTurn[]): number {
  let most = 0;
  let maxExclusive = 0;
  let falling = 0;
  for (const [, , , , shared, fence] of turns) {
    if (fence <= (shared ? maxExclusive : most)) falling++;
    most = Math.max(most, fence);
    if (!shared) maxExclusive = Math.max(maxExclusive, fence);
  }
  return falling;
}

export function maxAtOnce(turns: readonly FleetTurn[]): number {
  const ends = turns.map(([, , , releasing]) => releasing).sort((a, b) => a - b);
  let over = 0;
  return turns.reduce((most, [, , acquired], begun) => {
    while (ends[over]! < acquired) over++;
    return Math.max(most, begun + 1 - over);
  }, 0);
}
