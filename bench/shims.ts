// The shims beside the originals: the same small program on both, by the shim as built.
import { join } from 'node:path';
import type { Contender, Locks, Terms } from './contenders';
import type { Row } from './measure';
import type { Goal, Scenario, Seen } from './scenarios';

const built = join(__dirname, '../lib');
const sides = { peer: (name: string) => name, shim: (name: string) => join(built, 'compat', name) };
type Side = keyof typeof sides;

/** A shim mints fences and hands locks off by the library's own parts, and may take this multiple of the peer's time where nobody waits. */
const aloneTimes = 1.25;
const retryMs = 5;
const waitMs = 60_000;
const nothing = async (): Promise<void> => {};

type Make = (module: any, client: unknown, terms: Terms) => Locks;

function redlock(resourcesOf: (key: string) => string[], using = false): Make {
  return ({ default: Redlock }, client, { lifetimeMs, contended }) => {
    const retries = { retryCount: contended ? -1 : 0, retryDelay: retryMs, retryJitter: 3 };
    const instance = new Redlock([client], { retryCount: 0 });
    const pair = (key: string): Promise<void> => instance.using(resourcesOf(key), lifetimeMs, retries, nothing);
    return {
      async acquire(key) {
        const lock = await instance.acquire(resourcesOf(key), lifetimeMs, retries);
        return () => lock.release();
      },
      ...(using && { pair }),
    };
  };
}

function semaphore(name: string, ...more: number[]): Make {
  return ({ [name]: Kind }, client, { lifetimeMs, contended }) => ({
    async acquire(key) {
      const wait = contended ? { acquireTimeout: waitMs } : { acquireAttemptsLimit: 1 };
      const lock = new Kind(client, key, ...more, { lockTimeout: lifetimeMs, retryInterval: retryMs, ...wait });
      await lock.acquire();
      return () => lock.release();
    },
  });
}

interface Program {
  readonly package: 'redlock' | 'redis-semaphore';
  readonly make: Make;
  /** The number of callers that may hold it together; absent: it is not measured with contention. */
  readonly most?: number;
}

const programs: Readonly<Record<string, Program>> = {
  'redlock, one key': { package: 'redlock', make: redlock((key) => [key]), most: 1 },
  'redlock, two keys': { package: 'redlock', make: redlock((key) => [`{${key}}1`, `{${key}}2`]), most: 1 },
  'redlock, using': { package: 'redlock', make: redlock((key) => [key], true) },
  Mutex: { package: 'redis-semaphore', make: semaphore('Mutex'), most: 1 },
  'Semaphore(2)': { package: 'redis-semaphore', make: semaphore('Semaphore', 2), most: 2 },
  'MultiSemaphore(5), 2 permits each': { package: 'redis-semaphore', make: semaphore('MultiSemaphore', 5, 2), most: 2 },
};

const contenderOf = (program: string, side: Side): string => `${program}: ${side}`;

export const shimContenders: Readonly<Record<string, Contender>> = Object.fromEntries(
  Object.entries(programs).flatMap(([name, program]) =>
    (Object.keys(sides) as Side[]).map((side): [string, Contender] => [
      contenderOf(name, side),
      {
        package: side === 'peer' ? program.package : '..',
        peer: side === 'peer',
        settings: () => [{ client: 'ioredis', retryMs }],
        make: (client, _, terms) => program.make(require(sides[side](program.package)), client, terms),
      },
    ]),
  ),
);

const alone = 'alone';
const contended = '4 × 10 wait';

/** 4 processes of 10 where one holds it; where several do, 40 in one process, which counts them. */
function crowdOf({ most }: Program): readonly (readonly [scene: string, job: Row['job']])[] {
  if (most === undefined) return [];
  if (most === 1) return [[contended, { kind: 'steady', processes: 4, waiters: 10, holdMs: 1 }]];
  return [['40 wait', { kind: 'burst', waiters: 40, holdMs: 1, most }]];
}

const idOf = (program: string, scene: string, side?: Side): string =>
  `${program}, ${scene}: ${side ?? 'both, by turns in one process'}`;

const scenes = Object.entries(programs).flatMap(([name, program]) =>
  crowdOf(program).map(([scene, job]) => ({ name, scene, job })),
);

/** The speed of a machine changes within seconds: two that are alone take turns within one process. */
const byTurns = Object.keys(programs).map((name): Row => {
  const contender = contenderOf(name, 'shim');
  const trial = { kind: 'beside', peer: contenderOf(name, 'peer'), pairs: 200, turns: 40 } as const;
  return { id: idOf(name, alone), contender, job: { kind: 'trial', trial } };
});

function goalOf(seen: Seen, name: string, scene: string): Goal {
  const of = (side: Side): number => seen.of(idOf(name, scene, side), 'perSecond');
  return { text: `a second, × the peer’s: ${name}, ${scene}`, value: of('shim') / of('peer'), atLeast: 1 };
}

function aloneGoalOf(seen: Seen, name: string): Goal {
  const value = seen.of(idOf(name, alone), 'speedTimes');
  return { text: `a second, × the peer’s: ${name}, ${alone}`, value, atLeast: 1 / aloneTimes };
}

function cpuGoalOf(seen: Seen, name: string): Goal {
  return {
    text: `client CPU, of the peer’s: ${name}`,
    value: seen.of(idOf(name, alone), 'cpuTimes'),
    atMost: aloneTimes,
  };
}

export const shims: Scenario = {
  name: 'shims',
  title: 'The shims beside redlock and redis-semaphore',
  text: 'The same program on the library that it was written for and on the shim, on ioredis: one lock after the other, by turns in one process; and where 40 want it, each for a timer of 1 ms, with attempts each 5 ms.',
  rows: [
    ...byTurns,
    ...scenes.flatMap(({ name, scene, job }) =>
      (Object.keys(sides) as Side[]).map((side) => ({
        id: idOf(name, scene, side),
        contender: contenderOf(name, side),
        job,
      })),
    ),
  ],
  columns: ['perSecond', 'speedTimes', 'cpuMicros', 'cpuTimes', 'commands', 'longestMs'],
  warmUpMs: 1000,
  floor: ({ id }) => id.replace(/: shim$/, ': peer'),
  goals: (seen) => [
    ...Object.keys(programs).map((name) => aloneGoalOf(seen, name)),
    ...scenes.map(({ name, scene }) => goalOf(seen, name, scene)),
    ...Object.keys(programs).map((name) => cpuGoalOf(seen, name)),
  ],
};
