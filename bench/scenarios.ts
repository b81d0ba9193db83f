// The scenarios, and the goals that must be reached. Goals are computed from the figures of one run; peers are shown at their best.
import { contenders, permits } from './contenders';
import { type FleetLock, fleetProcesses } from './fleet';
import type { Figures, MeasuredRow, Metric, Row } from './measure';
import type { Job } from './round';
import { shims } from './shims';
import { median } from './sum-up';
import type { Trial } from './trials';

export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** The scenario, in a sentence or two. */
  readonly text: string;
  /** What keeps the figures from goals that are not reached. */
  readonly limitedBy?: string | undefined;
  readonly rows: readonly Row[];
  /** The first one is drawn, with its spread. */
  readonly columns: readonly Metric[];
  /** The number of columns that are drawn, from the first on; default 1. */
  readonly drawn?: number;
  /** The row that the ratios of the first column refer to; default: none. */
  readonly floor?: (row: MeasuredRow) => string;
  /** The factor by which there are fewer and longer rounds. */
  readonly heavy?: number;
  /** The largest number of rounds, for figures that hardly differ from round to round. */
  readonly rounds?: number;
  /** Measured on the Node that runs the bench as well as on Node 24: what the client's own code costs depends on it. */
  readonly onEachNode?: boolean;
  /** The time that a round must have gone on before it counts. */
  readonly warmUpMs?: number;
  goals(seen: Seen): readonly Goal[];
}

export interface Goal {
  readonly text: string;
  readonly value: number;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** The figures of one scenario, asked for by name. */
export class Seen {
  readonly rows: readonly MeasuredRow[];
  /** The major version of the Node that they were seen on. */
  readonly node: number;

  constructor(rows: readonly MeasuredRow[], node = 24) {
    this.rows = rows;
    this.node = node;
  }

  /** The median of all rounds; NaN where there is none. */
  of(id: string, metric: Metric): number {
    const row = this.rows.find((each) => each.id === id);
    return row ? medianOf(row.rounds, metric) : Number.NaN;
  }

  best(metric: Metric, which: 'most' | 'least' = 'most'): number {
    const values = this.rows
      .filter(({ contender }) => contenders[contender]!.peer)
      .map(({ id }) => this.of(id, metric))
      .filter((value) => !Number.isNaN(value));
    return which === 'most' ? Math.max(...values) : Math.min(...values);
  }
}

export function medianOf(rounds: readonly Figures[], metric: Metric): number {
  const values = rounds.map((figures) => figures[metric]).filter((value) => value !== undefined);
  return values.length === 0 ? Number.NaN : median(values);
}

const we = 'redis-exp-lock';
const weOnIoredis = 'redis-exp-lock, ioredis';
/** node-redis keeps a deadline of five seconds for each command of its caller: only after those is its load a steady one. */
const steadyMs = 6000;
const inMemory = 'redis-exp-lock, memory';
const runExclusive = 'async-mutex, runExclusive';
const inSharedMemory = 'redis-exp-lock, shared memory';
/** The peers; those of the shims have a scenario of their own. */
const peers = Object.keys(contenders).filter((name) => contenders[name]!.peer && !name.endsWith(': peer'));
/** Peers that run one after the other, each beside our contender on the same client. */
const besides: readonly (readonly [ours: string, other: string])[] = [
  ['redis-exp-lock', 'raw node-redis'],
  ['redis-exp-lock, ioredis', 'raw ioredis'],
  ...peers.map((peer): [string, string] => {
    const isNodeRedis = contenders[peer]!.settings(false)[0]!.client === 'node-redis';
    return [isNodeRedis ? 'redis-exp-lock' : 'redis-exp-lock, ioredis', peer];
  }),
];
/** The bare locks, each beside the raw pair of its client. */
const bareBesides: readonly (readonly [bare: string, other: string])[] = [
  ['a bare lock', 'raw node-redis'],
  ['a bare lock, ioredis', 'raw ioredis'],
];
const besideOf = ([ours, other]: readonly [string, string]): string => `${ours}, by turns beside ${other}`;
const raws = ['raw node-redis', 'raw ioredis', 'raw ioredis, auto-pipelining'];
/** We beside what we are measured by: a machine changes its speed within the minutes that a round of all takes. */
const everybody = ['raw node-redis', we, 'raw ioredis', weOnIoredis, ...raws.slice(2), ...peers];

const rowsOf = (names: readonly string[], job: Job): Row[] =>
  names.map((contender) => ({ id: contender, contender, job }));
const trial = (which: Trial): Job => ({ kind: 'trial', trial: which });
const toRaw = (): string => 'raw node-redis';

/** The raw pair on the same client, set up the same way. */
const toRawOfSameClient = ({ setting }: MeasuredRow): string => `raw ${setting.client}`;

const pairs = (inFlight: number): Job => ({ kind: 'pairs', inFlight });
const burst = (waiters: number, holdMs: number): Job => ({ kind: 'burst', waiters, holdMs });
const steady: Job = { kind: 'steady', processes: 4, waiters: 25, holdMs: 1 };
const readMostly: Job = { kind: 'steady', processes: 4, waiters: 16, holdMs: 1, readers: true };
const rwLocks = ['RWLock, writers first', 'RWLock, readers first', 'RWLock, fair'];
const ourSemaphore = 'Semaphore of 8';
const theirSemaphore = 'redis-semaphore, Semaphore of 8';
const loadMs = 50;
const crowds = [10, 100, 1000];
const inCrowd = (contender: string, count: number): string => `${contender}, ${count} waiters`;

const sizes = [2, 10, 20, 200, 600, 1000];
/** The sizes at which the library is compared with other builds and kinds of locks. */
const someSizes = [10, 20, 200, 1000];
const bareQueue = 'a bare queue';
const kinds: Readonly<Record<string, { readonly contender: string; readonly lock: FleetLock }>> = {
  mutex: { contender: we, lock: 'mutex' },
  'mutex of the build before': { contender: 'the build before', lock: 'mutex' },
  [bareQueue]: { contender: bareQueue, lock: 'mutex' },
  'readers and writers': { contender: 'RWLock, writers first', lock: 'readers and writers' },
  [`${bareQueue} of readers and writers`]: {
    contender: `${bareQueue} of readers and writers`,
    lock: 'readers and writers',
  },
  [`semaphore of ${permits}`]: { contender: 'Semaphore of 8', lock: 'semaphore' },
  [`${bareQueue} of ${permits}`]: { contender: `${bareQueue} of ${permits}`, lock: 'semaphore' },
};
const isPresent = (contender: string): boolean => contender !== 'the build before' && !contender.startsWith(bareQueue);
const inFleet = (kind: string, count: number): string => `${kind}, ${count} connections`;

/** A scenario with one key, which all connections want again and again. */
function fleet(name: string, holdMs: number, limitedBy: string, goals: (seen: Seen) => readonly Goal[]): Scenario {
  const hold = holdMs === 0 ? 'given back at once' : `held for ${holdMs} ms`;
  return {
    name,
    title: `A fleet of 2 to 1,000 connections, ${hold}`,
    text:
      'One key. Each connection is a loop with a factory of its own, as a process of a fleet is; up to four processes generate the ' +
      'load, and client CPU is what that costs them. One in sixteen of readers and writers writes. The hand-off is from the call that gives the lock ' +
      'back to the grant of another connection. All ask at once at first; then they are measured. PINGs come every 10 ms from a process that does nothing else.',
    limitedBy,
    rows: Object.entries(kinds).flatMap(([kind, { contender, lock }]) =>
      (kind === 'mutex' || kind === bareQueue ? sizes : someSizes).map((connections): Row => {
        const job = { kind: 'fleet', processes: fleetProcesses(connections), connections, holdMs, lock } as const;
        return { id: inFleet(kind, connections), contender, job };
      }),
    ),
    columns: [
      'perSecond',
      'scriptMicros',
      'scripts',
      'executed',
      'longestMs',
      'handOffMs',
      'cycles',
      'servedMs',
      'pingMs',
      'serverPercent',
      'cpuMicros',
      'failures',
    ],
    drawn: 2,
    heavy: 4,
    rounds: 2,
    goals: (seen) => [
      ...goals(seen),
      {
        text: 'acquires and releases that were rejected',
        value: Math.max(
          ...seen.rows.filter(({ contender }) => isPresent(contender)).map(({ id }) => seen.of(id, 'failures')),
        ),
        atMost: 0,
      },
    ],
  };
}

const bareQueueIs =
  'A bare queue does the least that hands a lock on, eight commands with a list, a counter and a message, without lifetimes or repair. ';
const loadedServer =
  `${bareQueueIs}It misses the goal of the longest wait, too: callers are served in order, so that a wait is the sum of the hand-offs before ` +
  'it, whose mean is above their median. A woken reader reads the entries before its own, of which ten connections have few.';
const idleServer =
  `${bareQueueIs}At this rate each command wakes a server that was asleep, and scripts take more than twice as long as where the lock is given ` +
  'back at once (µs in scripts each). From 600 connections on, those far back ask for their place every two seconds, in case a message was lost: ' +
  'at 1,000 that is three scripts of five. Asking less often would let processes that died in the queue delay it for longer than docs/waiting.md says. At ' +
  '200 connections nobody waits for that long, and the server takes more than the goal all the same.';

const fourTimes = (contender: string, waiters: number): string => `${contender}, 4 × ${waiters}`;

const five = 5;
const onFive = (contender: string): string => `${contender}, quorum of ${five}`;
const oneDead = `${onFive(we)}, one stopped`;
const byTurns = `${we}, by turns in one process`;
const onNode = (node: number): string => `${we}, node ${node + 1} alone`;

/** Our own pair on all, with one of them stopped, and on each alone; and those of the peers that know quorums. */
function quorum(name: string, title: string, text: string, farMs: number | undefined): Scenario {
  const network = farMs === undefined ? {} : { farMs };
  const row = (id: string, contender: string, more: Partial<Row>): Row => {
    return { id, contender, job: pairs(1), ...network, ...more };
  };
  // The speed of a machine changes within the minutes of a round of all rows: what is compared takes turns within one process.
  const turns = row(byTurns, we, {
    job: trial({ kind: 'quorum', pairs: 200, inFlight: 256, turns: 12 }),
    nodes: five + 1,
    stops: true,
  });
  const shares: readonly Metric[] = farMs === undefined ? ['aloneTimes', 'stoppedShare', 'flightShare'] : [];
  const alone = Array.from({ length: five }, (_, node) => row(onNode(node), we, { node }));
  return {
    name,
    title,
    text: `${text} Commands are those that one of the five was sent.`,
    limitedBy:
      farMs === undefined
        ? 'One process has five conversations for each pair (client CPU µs each), on the cores of the servers.'
        : undefined,
    rows: [
      row(onFive(we), we, { nodes: five }),
      row(oneDead, we, { nodes: five, stops: true }),
      ...['redlock', '@sesamecare-oss/redlock'].map((peer) => row(onFive(peer), peer, { nodes: five })),
      ...alone,
      ...(farMs === undefined ? [turns] : []),
    ],
    columns: ['micros', 'perSecond', 'cpuMicros', 'commands', ...shares],
    floor: () => onNode(0),
    heavy: 1,
    rounds: farMs === undefined ? 5 : 2,
    warmUpMs: 2000,
    goals: (seen) => [
      {
        text: 'a pair, × that of the slowest node alone',
        value:
          farMs === undefined
            ? seen.of(byTurns, 'aloneTimes')
            : seen.of(onFive(we), 'micros') / Math.max(...alone.map(({ id }) => seen.of(id, 'micros'))),
        atMost: 1.5,
      },
      {
        text: 'with one node stopped, of the speed with all five',
        value:
          farMs === undefined
            ? seen.of(byTurns, 'stoppedShare')
            : seen.of(oneDead, 'perSecond') / seen.of(onFive(we), 'perSecond'),
        atLeast: 0.9,
      },
      ...(farMs === undefined
        ? [
            {
              text: '256 in flight on three, of the speed on one',
              value: seen.of(byTurns, 'flightShare'),
              atLeast: 0.3,
            },
          ]
        : []),
    ],
  };
}

interface Only {
  readonly trial: Trial;
  readonly columns: readonly Metric[];
  readonly goals: readonly (readonly [metric: Metric, text: string, atMost: number])[];
  readonly rounds: number;
  readonly mayFail?: boolean;
}

/** A scenario of this library alone. */
function only(
  name: string,
  title: string,
  text: string,
  { trial: which, columns, goals, rounds, mayFail }: Only,
): Scenario {
  return {
    name,
    title,
    text,
    rows: [{ id: we, contender: we, job: trial(which), ...(mayFail && { mayFail }) }],
    columns,
    rounds,
    goals: (seen) => goals.map(([metric, text, atMost]) => ({ text, value: seen.of(we, metric), atMost })),
  };
}

export const scenarios: readonly Scenario[] = [
  {
    name: 'sequential',
    onEachNode: true,
    warmUpMs: steadyMs,
    rounds: 3,
    title: 'One lock taken and released, one after the other',
    text: 'One process, one key, nobody else wants it. Speed against the raw pair on the same client; then of two by turns in one process, since the speed of a machine changes within seconds.',
    limitedBy:
      'Most of it is what any lock must do: a bare lock, which reads the clock, looks for a queue, mints a fence and does nothing else, is slower ' +
      'than the raw pair, too (its rows by turns). The rest is what keeps a grant safe: on the server the check of a right, on the client deadlines and validity.',
    rows: [
      ...rowsOf([...everybody, 'async-mutex'], pairs(1)),
      ...[...besides, ...bareBesides].map((two): Row => {
        const [ours, peer] = two;
        return {
          id: besideOf(two),
          contender: ours,
          job: trial({ kind: 'beside', peer, pairs: 200, turns: 40 }),
        };
      }),
    ],
    columns: ['micros', 'cpuMicros', 'speedTimes', 'cpuTimes', 'commands'],
    floor: toRawOfSameClient,
    goals: (seen) => {
      const times = (two: (typeof besides)[number]): number => seen.of(besideOf(two), 'speedTimes');
      const [nodeRedis, ioredis, ...others] = besides;
      return [
        { text: 'speed, of the raw pair: node-redis', value: times(nodeRedis!), atLeast: seen.node < 24 ? 1 : 0.95 },
        { text: 'speed, of the raw pair: ioredis', value: times(ioredis!), atLeast: 0.9 },
        { text: 'speed, of the best peer on the same client', value: Math.min(...others.map(times)), atLeast: 0.95 },
      ];
    },
  },
  only(
    'events',
    'What events cost',
    'Client CPU of a pair, one after the other, beside a copy of the library whose events are silent: 200 of each in turn in one process, 150 times, first while nobody listens, then while all channels are heard; medians.',
    {
      trial: { kind: 'events', pairs: 200, turns: 150 },
      columns: ['unheardTimes', 'heardTimes'],
      goals: [['unheardTimes', 'client CPU where nobody listens, × without events', 1.02]],
      rounds: 3,
    },
  ),
  {
    name: 'flight',
    onEachNode: true,
    warmUpMs: steadyMs,
    rounds: 3,
    title: '256 in flight',
    text: 'One process, 256 loops that each take and release a key of their own: pairs a second. Then of two by turns in one process, where both pay for the five seconds of deadlines that node-redis keeps for the raw pair.',
    limitedBy:
      'By turns beside raw node-redis, a bare lock misses the goal on Node 24, too: it sends the same batches and does nothing else. ' +
      'The server’s time is that of Lua, which reads and writes all locks of a batch together: that of a bare lock is the same.',
    rows: [
      ...rowsOf([...everybody, ...bareBesides.map(([bare]) => bare)], pairs(256)),
      ...[...besides.slice(0, 2), ...bareBesides].map((two): Row => {
        const [contender, peer] = two;
        const job = trial({ kind: 'beside', peer, pairs: 2048, turns: 40, inFlight: 256 });
        return { id: besideOf(two), contender, job };
      }),
    ],
    columns: [
      ...(['perSecond', 'cpuMicros', 'speedTimes', 'cpuTimes'] as const),
      ...(['gcMicros', 'serverMicros', 'executed', 'commands'] as const),
    ],
    floor: toRaw,
    goals: (seen) => [
      {
        text: 'pairs a second, × raw node-redis',
        value: seen.of(besideOf(besides[0]!), 'speedTimes'),
        atLeast: seen.node < 24 ? 3.5 : 3,
      },
      {
        text: 'on ioredis: pairs a second, × raw ioredis',
        value: seen.of(besideOf(besides[1]!), 'speedTimes'),
        atLeast: seen.node < 24 ? 2.5 : 3,
      },
      {
        text: 'pairs a second, × the best peer',
        value: Math.max(seen.of(we, 'perSecond'), seen.of(weOnIoredis, 'perSecond')) / seen.best('perSecond'),
        atLeast: 2.3,
      },
      { text: 'server CPU a pair, µs', value: seen.of(we, 'serverMicros'), atMost: 2.5 },
      { text: 'commands executed a pair', value: seen.of(we, 'executed'), atMost: 1.2 },
      { text: 'GC a pair, µs', value: seen.of(we, 'gcMicros'), atMost: 0.7 },
      { text: 'commands a pair', value: seen.of(we, 'commands'), atMost: 0.02 },
    ],
  },
  {
    name: 'hold-0',
    title: '100 waiters in one process, released at once',
    text: '100 ask for one key at once and each takes it once, again and again: acquisitions a second. async-mutex is the bound.',
    rows: rowsOf(['raw node-redis', ...peers, 'async-mutex', we], burst(100, 0)),
    columns: ['perSecond', 'commands', 'cpuMicros'],
    floor: toRaw,
    goals: (seen) => [
      {
        text: 'acquisitions a second, × the best peer',
        value: seen.of(we, 'perSecond') / seen.best('perSecond'),
        atLeast: 20,
      },
      { text: 'commands an acquisition', value: seen.of(we, 'commands'), atMost: 0.15 },
    ],
  },
  {
    name: 'hold-1',
    title: '100 waiters in one process, held for 1 ms',
    text: 'The same, each holding it for a timer of 1 ms. async-mutex is the bound.',
    rows: rowsOf(['raw node-redis', ...peers, 'async-mutex', we], burst(100, 1)),
    columns: ['perSecond', 'commands', 'cpuMicros'],
    floor: () => 'async-mutex',
    goals: (seen) => [
      {
        text: 'acquisitions a second, of async-mutex',
        value: seen.of(we, 'perSecond') / seen.of('async-mutex', 'perSecond'),
        atLeast: 0.95,
      },
    ],
  },
  {
    name: 'processes',
    title: '4 processes of 25 waiters, held for 1 ms',
    text: '25 loops in each of four processes, all on one key. Jain’s index is over the 100 loops; a wait that has not ended counts with what it has lasted.',
    rows: rowsOf(['raw node-redis', ...peers, we], steady),
    columns: ['perSecond', 'commands', 'jain', 'longestMs'],
    floor: toRaw,
    heavy: 2,
    goals: (seen) => [
      {
        text: 'acquisitions a second, × the best peer',
        value: seen.of(we, 'perSecond') / seen.best('perSecond'),
        atLeast: 1.3,
      },
      { text: 'Jain’s index', value: seen.of(we, 'jain'), atLeast: 0.99 },
      {
        text: 'longest wait, of the shortest among peers',
        value: seen.of(we, 'longestMs') / seen.best('longestMs', 'least'),
        atMost: 0.25,
      },
      { text: 'commands an acquisition', value: seen.of(we, 'commands'), atMost: 0.3 },
    ],
  },
  {
    name: 'scale',
    title: '10, 100 and 1,000 waiters',
    text: 'Callers of one process ask for one key at once, and each takes it once, held for 1 ms: commands an acquisition.',
    rows: crowds.flatMap((count) =>
      ['raw node-redis', 'redlock', 'redis-semaphore', we].map((contender) => ({
        id: inCrowd(contender, count),
        contender,
        job: burst(count, 1),
      })),
    ),
    columns: ['commands', 'perSecond', 'cpuMicros'],
    heavy: 1,
    goals: (seen) => {
      const commands = (count: number): number => seen.of(inCrowd(we, count), 'commands');
      return [100, 1000].map((count) => ({
        text: `commands an acquisition, ${count} waiters against 10`,
        value: commands(count) / commands(10),
        atMost: 1,
      }));
    },
  },
  {
    name: 'hand-off',
    title: 'Hand-off to another process',
    text:
      'Four processes of 25 waiters each, and of one each, held for 1 ms; from the call that gives the lock back to the grant in ' +
      'another process. Beside it each process PUBLISHes to the next one every 20 ms, over connections of their own: ' +
      'PUBLISH → message under the same load.',
    rows: [25, 1].flatMap((waiters) =>
      ['raw node-redis', we].map((contender) => ({
        id: fourTimes(contender, waiters),
        contender,
        job: { kind: 'steady', processes: 4, waiters, holdMs: 1, probed: true } as const,
      })),
    ),
    columns: ['handOffMs', 'publishMs', 'perSecond'],
    heavy: 2,
    goals: (seen) =>
      [
        [25, 2],
        [1, 1],
      ].map(([waiters, atMost]) => ({
        text: `median hand-off, × PUBLISH → message: 4 × ${waiters}`,
        value: seen.of(fourTimes(we, waiters!), 'handOffMs') / seen.of(fourTimes(we, waiters!), 'publishMs'),
        atMost: atMost!,
      })),
  },
  fleet('fleet', 0, loadedServer, (seen) => {
    const of = (metric: Metric, connections: number, kind = 'mutex'): number =>
      seen.of(inFleet(kind, connections), metric);
    return [
      ...Object.entries(kinds)
        .filter(([, { contender }]) => isPresent(contender))
        .map(([kind, { lock }]) => {
          // Of ten callers of a semaphore two wait at a time, and most take a permit at once.
          const few = lock === 'semaphore' ? 20 : 10;
          return {
            text: `µs in scripts, 1,000 connections against ${few}: ${kind}`,
            value: of('scriptMicros', 1000, kind) / of('scriptMicros', few, kind),
            atMost: 1.3,
          };
        }),
      { text: 'µs in scripts at 10 connections', value: of('scriptMicros', 10), atMost: 90 },
      {
        text: 'acquisitions a second, 600 connections against 10',
        value: of('perSecond', 600) / of('perSecond', 10),
        atLeast: 0.8,
      },
      { text: 'scripts an acquisition at 600', value: of('scripts', 600), atMost: 2.1 },
      { text: 'longest wait at 200, of (200 × the median hand-off)', value: of('cycles', 200), atMost: 1.2 },
    ];
  }),
  fleet('fleet-held', 5, idleServer, (seen) => {
    const most = inFleet('mutex', 1000);
    return [
      { text: 'longest PING of others at 1,000, ms', value: seen.of(most, 'pingMs'), atMost: 5 },
      { text: 'server at 1,000, % of a core', value: seen.of(most, 'serverPercent'), atMost: 5 },
    ];
  }),
  {
    name: 'read-mostly',
    title: '64 readers and a writer in 4 processes, held for 1 ms',
    text: '16 loops that read in each of four processes, and one that writes, all on one key; and the same where everybody takes one exclusive lock.',
    rows: rowsOf([...rwLocks, we], readMostly),
    columns: ['perSecond', 'writerMs', 'longestMs', 'commands'],
    floor: () => we,
    heavy: 2,
    goals: (seen) => [
      ...rwLocks.map((id) => ({
        text: `acquisitions a second, × an exclusive lock: ${id}`,
        value: seen.of(id, 'perSecond') / seen.of(we, 'perSecond'),
        atLeast: 20,
      })),
      ...['RWLock, writers first', 'RWLock, fair'].map((id) => ({
        text: `the writer’s longest wait, ms: ${id}`,
        value: seen.of(id, 'writerMs'),
        atMost: 50,
      })),
    ],
  },
  {
    name: 'semaphore',
    title: `A semaphore of ${permits}`,
    text: `Callers of one process ask for one of ${permits} permits at once, and each holds it once for 1 ms.`,
    rows: [
      ...crowds.map((count) => ({
        id: inCrowd(ourSemaphore, count),
        contender: ourSemaphore,
        job: { ...burst(count, 1), most: permits },
      })),
      {
        id: inCrowd(theirSemaphore, 100),
        contender: theirSemaphore,
        job: { ...burst(100, 1), most: permits },
      },
    ],
    columns: ['perSecond', 'commands', 'cpuMicros'],
    floor: () => inCrowd(theirSemaphore, 100),
    heavy: 1,
    goals: (seen) => [
      {
        text: '100 waiters: acquisitions a second, × redis-semaphore’s',
        value: seen.of(inCrowd(ourSemaphore, 100), 'perSecond') / seen.of(inCrowd(theirSemaphore, 100), 'perSecond'),
        atLeast: 2.3,
      },
      ...[100, 1000].map((count) => ({
        text: `commands an acquisition, ${count} waiters against 10`,
        value: seen.of(inCrowd(ourSemaphore, count), 'commands') / seen.of(inCrowd(ourSemaphore, 10), 'commands'),
        atMost: 1,
      })),
    ],
  },
  {
    name: 'cached',
    title: '1,000 callers in 4 processes, a loader of 50 ms',
    text: '250 callers in each of four processes want one cached value at the same moment; then the next one. From a caller’s call to its answer.',
    rows: rowsOf([we], { kind: 'cached', processes: 4, callers: 250, loadMs }),
    columns: ['longestMs', 'loads', 'commands', 'cpuMicros'],
    heavy: 2,
    goals: (seen) => [
      { text: 'loads a value', value: seen.of(we, 'loads'), atMost: 1 },
      { text: 'the longest wait of all, × the loader’s time', value: seen.of(we, 'longestMs') / loadMs, atMost: 2 },
    ],
  },
  {
    name: 'memory',
    title: 'Memory of 100,000 held locks',
    text: 'Bytes per lock, what gives it back kept with it: heap and external memory in Node after a collection, used_memory in Redis.',
    rows: [
      ...rowsOf(['raw node-redis', ...peers, we], { kind: 'memory', locks: 100_000 }),
      { id: `${we}, fencing: false`, contender: we, job: { kind: 'memory', locks: 100_000 }, fencing: false },
    ],
    columns: ['nodeBytes', 'redisBytes'],
    heavy: 1,
    rounds: 1,
    goals: (seen) => [
      {
        text: 'in Node, of the raw client’s',
        value: seen.of(we, 'nodeBytes') / seen.of('raw node-redis', 'nodeBytes'),
        atMost: 1.3,
      },
      {
        text:
          'in Redis without fences, of the raw client’s ' +
          `(all fences: ${(seen.of(we, 'redisBytes') - seen.of(`${we}, fencing: false`, 'redisBytes')).toFixed(0)} B each)`,
        value: seen.of(`${we}, fencing: false`, 'redisBytes') / seen.of('raw node-redis', 'redisBytes'),
        atMost: 1.1,
      },
    ],
  },
  quorum(
    'quorum',
    'A quorum of five, one lock after the other',
    'One process, one key, five servers of this machine: what five conversations cost the client counts most.',
    undefined,
  ),
  quorum(
    'quorum-far',
    'A quorum of five behind a network',
    'The same, each answer 2 ms later: what waiting for a majority costs counts most.',
    2,
  ),
  shims,
  {
    name: 'memory-store',
    title: 'The memory store, one lock after the other',
    text: 'One process, one key, no Redis; the library as built.',
    rows: rowsOf([inMemory, 'async-mutex', runExclusive], pairs(1)),
    columns: ['perSecond', 'cpuMicros'],
    goals: (seen) => [
      {
        text: 'pairs a second, of async-mutex’s runExclusive',
        value: seen.of(inMemory, 'perSecond') / seen.of(runExclusive, 'perSecond'),
        atLeast: 0.5,
      },
    ],
  },
  {
    name: 'memory-waiters',
    title: 'The memory store, 100 waiters',
    text: '100 ask for one key at once and each takes it once, released at once; no Redis.',
    rows: rowsOf([inMemory, 'async-mutex'], burst(100, 0)),
    columns: ['perSecond', 'cpuMicros'],
    floor: () => 'async-mutex',
    goals: (seen) => [
      {
        text: 'acquisitions a second, of async-mutex',
        value: seen.of(inMemory, 'perSecond') / seen.of('async-mutex', 'perSecond'),
        atLeast: 0.4,
      },
    ],
  },
  {
    name: 'shared-memory',
    title: 'Shared memory, one lock after the other',
    text: 'One process, one key; a table of this host against Redis on loopback.',
    rows: rowsOf(['raw node-redis', we, inSharedMemory], pairs(1)),
    columns: ['perSecond', 'micros', 'cpuMicros'],
    floor: () => we,
    goals: (seen) => [
      {
        text: 'pairs a second, × this library on Redis',
        value: seen.of(inSharedMemory, 'perSecond') / seen.of(we, 'perSecond'),
        atLeast: 3,
      },
    ],
  },
  {
    name: 'first',
    onEachNode: true,
    title: 'The first 2,000 pairs of a process',
    text: 'One key, one pair after the other, from connecting on: what is compiled is part of it, what is loaded is not.',
    limitedBy:
      'A bare lock takes the same two round trips and does nothing else. The library’s functions run uncompiled at first, and compiling them is ' +
      'work of other threads: by a profile on ioredis they take 40 µs of a pair in the first 2,000 pairs, and 17 µs in the first 20,000. ' +
      'Interpreted throughout, they would take 74 µs, spread over a hundred functions of which none takes 4. With parts of the library replaced ' +
      'by nothing, 25 processes each by turns, in × raw ioredis and to within 0.05: all of it 1.43; without timers, send window, async context, ' +
      'lines, events and the list of waits 1.35; without acquisitions 1.30; without batches and deadlines 1.28; without acquisitions and held ' +
      'locks 1.21; without acquisitions, held locks, batches and deadlines 1.10. So 1.3 would need a second way to a lock, beside the one that all locks take.',
    rows: ['raw node-redis', 'a bare lock', we, 'raw ioredis', 'a bare lock, ioredis', weOnIoredis].map(
      (contender) => ({
        id: contender,
        contender,
        job: trial({ kind: 'first', pairs: 2000 }),
      }),
    ),
    columns: ['cpuMicros'],
    goals: (seen) =>
      [
        ['raw node-redis', we],
        ['raw ioredis', weOnIoredis],
      ].map(([raw, ours]) => ({
        text: `client CPU, × ${raw}`,
        value: seen.of(ours!, 'cpuMicros') / seen.of(raw!, 'cpuMicros'),
        atMost: seen.node < 24 ? 1.6 : 1.3,
      })),
  },
  only(
    'used-once',
    '1,000,000 keys used once',
    'Each is acquired and released once, 500 at a time; then what Redis keeps.',
    {
      trial: { kind: 'used-once', keys: 1_000_000 },
      columns: ['redisMB', 'perSecond'],
      goals: [['redisMB', 'MB that Redis keeps', 2]],
      rounds: 1,
    },
  ),
  only('renewals', '10,000 renewals at once', 'As many held locks, extended at one moment and so due together.', {
    trial: { kind: 'renewals', locks: 10_000 },
    columns: ['lagMs', 'cpuMicros'],
    goals: [['lagMs', 'the event loop stands still, ms', 25]],
    rounds: 3,
  }),
  only('at-rest', '10,000 queues at rest', 'One waiter each in one process, behind holders that stay.', {
    trial: { kind: 'at-rest', queues: 10_000 },
    columns: ['cpuPercent', 'serverPercent'],
    goals: [['cpuPercent', '% of a core', 3]],
    rounds: 1,
  }),
  only(
    'crowd',
    '4,000 waiting readers and writers',
    'By turns, behind a writer that releases; beside them PING on another connection.',
    {
      trial: { kind: 'crowd', waiters: 4000 },
      columns: ['servedMs', 'pingMs', 'slowScripts'],
      goals: [
        ['servedMs', 'ms until all are served', 10_000],
        ['slowScripts', 'scripts over 10 ms', 0],
        ['pingMs', 'longest PING of others, ms', 20],
      ],
      rounds: 1,
    },
  ),
  only(
    'waits',
    '150,000 callers of one key in one tick',
    'One process with default options and a `timeout` of a minute; each runs an empty function.',
    {
      trial: { kind: 'waits', callers: 150_000 },
      columns: ['servedMs', 'failures'],
      goals: [
        ['servedMs', 'ms until all are served', 20_000],
        ['failures', 'rejected', 0],
      ],
      rounds: 1,
      mayFail: true,
    },
  ),
  only(
    'keys',
    '150,000 keys taken in one tick, and renewed',
    'One process; a lifetime of 30 s, beyond which all are held before they are given back.',
    {
      trial: { kind: 'keys', locks: 150_000, lifetimeMs: 30_000 },
      columns: ['servedMs', 'failures', 'lagMs'],
      goals: [
        ['servedMs', 'ms until all are granted', 10_000],
        ['failures', 'rejected or lost', 0],
        ['lagMs', 'the event loop stands still while they are renewed, ms', 300],
      ],
      rounds: 1,
      mayFail: true,
    },
  ),
  {
    name: 'replicated',
    title: '1,000 keys in one tick with `minReplicas`',
    text: 'One process, and a server with two replicas on this machine, which are well.',
    rows: [1, 2].map((minReplicas) => ({
      id: `${we}, minReplicas: ${minReplicas}`,
      contender: we,
      job: trial({ kind: 'replicated', locks: 1000, minReplicas }),
      nodes: 3,
    })),
    columns: ['servedMs', 'failures'],
    rounds: 3,
    goals: (seen) =>
      seen.rows.flatMap(({ id }) => [
        { text: `ms until all are granted: ${id}`, value: seen.of(id, 'servedMs'), atMost: 500 },
        { text: `rejected: ${id}`, value: seen.of(id, 'failures'), atMost: 0 },
      ]),
  },
  {
    name: 'election',
    title: 'An Election’s hand-over in order',
    text:
      'Two candidates by turns; from the end of the one’s function to the beginning of the other’s. Beside it a PUBLISH every ' +
      '20 ms whose message is answered by a PING: there and back, as a hand-over is.',
    rows: [{ id: we, contender: we, job: trial({ kind: 'election' }) }],
    columns: ['handOverMs', 'roundTripMs'],
    heavy: 2,
    goals: (seen) => [
      {
        text: 'median hand-over, × PUBLISH → message → PING',
        value: seen.of(we, 'handOverMs') / seen.of(we, 'roundTripMs'),
        atMost: 2,
      },
    ],
  },
];
