/**
 * One round at one place: processes take locks of every kind while things go wrong, then without faults, then they
 * end in order; and their diaries are checked with the models.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mulberry32 } from '../test/simulation/events';
import type { RedisServer } from '../test/support/redis';
import { draw } from './draw';
import { accountOf, Diary, nowMs, readHistory, type Written, watchStalls } from './history';
import { leftovers } from './leftovers';
import type { Violation, World } from './models';
import * as models from './models';
import { cachedMs, permitsInAll } from './order';
import { type Fault, open, type Place, type StoreName } from './places';
import { type Member, Team } from './team';

export interface RoundOptions {
  readonly store: StoreName;
  readonly seed: number;
  readonly processes: number;
  readonly callers: number;
  /** The time with faults, and the time without them. */
  readonly faultsMs: number;
  readonly calmMs: number;
  /** Called with each fault. */
  readonly onFault?: ((what: string) => void) | undefined;
}

export interface RoundReport {
  readonly events: readonly Written[];
  readonly violations: readonly Violation[];
  /** Breaches that a failover explains. */
  readonly excused: number;
  readonly grants: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly operations: number;
  /** Ms for which a lock was idle while a caller was queued for it, after the faults. */
  readonly longestIdleMs: number;
}

/** Entries of dead processes have expired by then, and unconfirmed grants. */
const recoveryMs = 6500;
/** A queued process polls after a second at most. */
const maxIdleMs = 1500;

const outcomes =
  /^(released|gone|busy|forgotten|value|led|ran|done|the job fails|the round is over|The operation was aborted due to timeout|ERR_LOCK_(ATTEMPTS|TIMEOUT|LOST|DEADLOCK|CLOSED|NOT_ACQUIRED)|ERR_LOCK_BACKEND( (LOADING|TRYAGAIN|CLUSTERDOWN|READONLY|MASTERDOWN|SQLITE_BUSY|BUSY))?)$/;

export async function round(options: RoundOptions): Promise<RoundReport> {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-torture-'));
  const place = await open(options.store);
  const random = mulberry32(options.seed);
  const { address, execPath } = place;
  const team = new Team({ address, execPath, size: options.processes, callers: options.callers, folder, random });
  const diary = new Diary(`${folder}/faults.jsonl`);
  const stalls = watchStalls(diary); // the proxies are in this process
  try {
    const masters = await place.masters();
    await team.start();
    const faults = await goWrong(place, team, diary, random, options);
    const calmMs = nowMs();
    await sleep(options.calmMs);
    const endMs = nowMs();
    await team.finish();
    const left = await leftovers(place, team.members);
    await expectNoOtherFailover(place, masters);
    const diaries = new Map(team.members.map(({ name, diary: path }) => [name, path]));
    const events = readHistory(diaries.set('faults', `${folder}/faults.jsonl`));
    return report(events, { place, team, faults, left, calmMs, endMs });
  } finally {
    clearInterval(stalls);
    await team.end();
    await place.close();
    diary.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** True if the machine itself stood still until a server was taken for dead: no failover of ours, so nothing is promised. */
async function expectNoOtherFailover({ masters, failovers }: Place, before: readonly RedisServer[]): Promise<void> {
  const after = await masters();
  const replaced = before.filter((server) => !after.includes(server)).length;
  if (replaced > failovers.length) throw new Error('a server was replaced that no fault had stopped for long enough');
}

/** A round with fewer faults shows little. On a busy machine one fault takes seconds. */
const minFaults = 4;

async function goWrong(place: Place, team: Team, diary: Diary, random: () => number, options: RoundOptions) {
  const between = (from: number, to: number): number => from + random() * (to - from);
  const all = [...place.faults, ...faultsOf(team, between)];
  const counts: Record<string, number> = {};
  const untilMs = nowMs() + options.faultsMs;
  await sleep(200);
  place.disturb(random);
  for (let count = 0; nowMs() < untilMs || count < minFaults; count++) {
    const fault = draw(all, random);
    counts[fault.name] = (counts[fault.name] ?? 0) + 1;
    options.onFault?.(fault.name);
    diary.write({ e: 'fault', what: fault.name });
    await fault.run(between);
    diary.write({ e: 'fault', what: `${fault.name}: over` });
    await sleep(between(20, 400));
  }
  place.heal();
  diary.write({ e: 'fault', what: 'calm' });
  return counts;
}

/** The faults that the processes meet. */
function faultsOf(team: Team, between: (from: number, to: number) => number): Fault[] {
  const any = (): Member => team.alive[Math.floor(between(0, team.alive.length))]!;
  const clock = async (): Promise<void> => {
    const ms = Math.round(between(-60_000, 60_000));
    team.send(any(), { clockMs: Math.abs(ms) < 20_000 ? 0 : ms });
  };
  return [
    { name: 'process killed', weight: 4, run: () => team.killAndReplace(any()) },
    { name: 'process stopped', weight: 6, run: () => team.stop(any(), between(50, 1500)) },
    { name: 'clock set', weight: 3, run: clock },
    { name: 'event loop blocked', weight: 3, run: async () => team.send(any(), { blockMs: between(50, 700) }) },
  ];
}

interface Ended {
  readonly place: Place;
  readonly team: Team;
  readonly faults: Record<string, number>;
  readonly left: readonly string[];
  readonly calmMs: number;
  readonly endMs: number;
}

function report(events: readonly Written[], { place, team, faults, left, calmMs, endMs }: Ended): RoundReport {
  const account = accountOf(events);
  const { holds, operations } = account;
  const world = worldOf(events, team);
  const of = (...kinds: string[]) => holds.filter(({ kind }) => kinds.includes(kind));
  const window = { fromMs: calmMs + recoveryMs, toMs: endMs };
  const idle = models.idle(account, window, maxIdleMs, world);
  const exclusive = [
    ...models.mutex(of('mutex', 'term')),
    ...models.readersWriter(of('read', 'write')),
    ...models.semaphore(of('permits'), permitsInAll),
    ...models.fences(holds, place.address.kind === 'quorum'),
    ...models.once(events),
  ];
  const broken = models.promised(exclusive, place.failovers);
  const ends = team.members.filter(({ end }) => end === 'hangs');
  const violations = [
    ...broken,
    ...models.settles(operations, world),
    ...models.cached(events, operations, cachedMs + 1500),
    ...idle.violations,
    ...left.map((message) => ({ model: 'nothing left', message, ids: [], fromMs: endMs, toMs: endMs })),
    ...ends.map(({ name, child }) => {
      const message = `${name} did not end by itself: ${child.output()}`;
      return { model: 'ends', message, ids: [], fromMs: endMs, toMs: endMs };
    }),
  ];
  const grants: Record<string, number> = {};
  for (const { heldMs, job } of operations) if (heldMs !== undefined) grants[job] = (grants[job] ?? 0) + 1;
  const excused = exclusive.length - broken.length;
  const longestIdleMs = idle.longestMs;
  return { events, violations, excused, grants, faults, operations: operations.length, longestIdleMs };
}

function worldOf(events: readonly Written[], team: Team): World {
  const members = new Map(team.members.map((member) => [member.name, member]));
  const lastMs = events.at(-1)?.t ?? 0;
  const stalls = events.flatMap((event) =>
    event.e === 'stall' ? [{ p: event.p, fromMs: event.t - event.ms, toMs: event.t }] : [],
  );
  for (const { name, stops } of team.members) stalls.push(...stops.map((stop) => ({ p: name, ...stop })));
  return {
    outcomes,
    slackMs: 6000,
    endOf: (p) => (members.get(p)?.end === 'killed' ? undefined : lastMs),
    isFinished: (p) => members.get(p)?.end === 'finished',
    pausedMs: (fromMs, toMs, p) =>
      stalls
        .filter((stall) => p === undefined || stall.p === p)
        .reduce((sum, each) => sum + Math.max(0, Math.min(toMs, each.toMs) - Math.max(fromMs, each.fromMs)), 0),
  };
}
