// Some contenders of one library, old or new, in one process. argv: library, scenario, contenders, acquisitions of each, key, ports.
// While it holds a lock, each has counted itself on the server, and notes from when to when it held it: until it begins to release
// it, or until its lock ends by itself as its own process knows it, whichever comes first. All processes of a host read one clock.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const [library, scenario, contenders, acquisitions, key, ...ports] = process.argv.slice(2) as [
  'old' | 'new',
  string,
  string,
  string,
  string,
  ...string[],
];

interface HeldLock {
  /** Ms of this process's monotonic clock. */
  readonly endsAt: () => number;
  release(): Promise<unknown>;
}

/** A contender's way to get the lock. `places`: the number of permits that it takes. */
interface Contender {
  readonly places: number;
  acquire(): Promise<HeldLock>;
}

const lockTimeout = 10_000;
/** Ms; the same clock in every process of a host. */
const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
const clients = ports.map((port) => new Redis(Number(port)));
const [redis] = clients as [Redis];
let lost = 0;
/** Releases that a server did not answer in time. */
let silent = 0;

function redlock(resources: string[], some: Redis[], duration: number, settings: object): () => Contender {
  const { default: Redlock } = library === 'old' ? require('redlock') : require('../../../src/compat/redlock');
  const instance = new Redlock(some, { retryCount: -1, ...settings });
  return () => ({
    places: 1,
    async acquire() {
      const lock = await instance.acquire(resources, duration);
      const until = lock.expiration;
      // The wall clock is read in whole ms.
      const endsAt = clock() + until - Date.now() - 1;
      return {
        endsAt: () => endsAt,
        release: () =>
          instance.release(lock, { retryCount: 0 }).catch(async (error: any) => {
            // A machine that stands still for longer than a lock lasts: then there is nothing to release.
            if (Date.now() >= until) return;
            const votes = await votesAgainst(error);
            if (votes.every(({ name }) => name === 'ResourceLockedError')) throw new Error(`${library}: ${votes}`);
            silent += 1;
          }),
      };
    },
  });
}

async function votesAgainst({ attempts }: any): Promise<Error[]> {
  return (await Promise.all<any>(attempts)).flatMap((stats) => [...stats.votesAgainst.values()]);
}

function semaphore(make: (module: any, options: object, n: number) => any, places: (n: number) => number) {
  const module = library === 'old' ? require('redis-semaphore') : require('../../../src/compat/redis-semaphore');
  const onLockLost = (): void => {
    lost += 1;
  };
  const options = { lockTimeout, acquireTimeout: 120_000, onLockLost };
  return (n: number): Contender => ({
    places: places(n),
    async acquire() {
      const lock = make(module, options, n);
      await lock.acquire();
      return { endsAt: () => (lock.isAcquired ? Number.POSITIVE_INFINITY : 0), release: () => lock.release() };
    },
  });
}

const one = (): number => 1;
const some = (n: number): number => 1 + (n % 3);
const fast = { retryDelay: 20, retryJitter: 10 };
/** redlock keeps the votes of a failed attempt until they end: with its own pauses, attempts seldom meet. */
const scenarios: Record<string, () => (n: number) => Contender> = {
  redlock: () => redlock([key], [redis], 5000, fast),
  'redlock, two keys': () => redlock([`{${key}}1`, `{${key}}2`], [redis], 5000, fast),
  'redlock, three servers': () => redlock([key], clients, 500, {}),
  Mutex: () => semaphore(({ Mutex }, options) => new Mutex(redis, key, options), one),
  RedlockMutex: () => semaphore(({ RedlockMutex }, options) => new RedlockMutex(clients, key, options), one),
  'Semaphore(2)': () => semaphore(({ Semaphore }, options) => new Semaphore(redis, key, 2, options), one),
  'MultiSemaphore(5)': () =>
    semaphore(({ MultiSemaphore }, options, n) => new MultiSemaphore(redis, key, 5, some(n), options), some),
};
const limits: Record<string, number> = { 'Semaphore(2)': 2, 'MultiSemaphore(5)': 5 };

async function main(): Promise<void> {
  const make = scenarios[scenario]!();
  const result = { served: 0, crowded: 0, failures: [] as string[] };
  const held: [from: number, to: number, places: number][] = [];
  const inside = `${key}:inside`;
  const compete = async (n: number): Promise<void> => {
    const contender = make(n);
    for (let i = 0; i < Number(acquisitions); i += 1) {
      const lock = await contender.acquire();
      const from = clock();
      if ((await redis.incrby(inside, contender.places)) > (limits[scenario] ?? 1)) result.crowded += 1;
      if (i % 8 === 0) await sleep(1);
      await redis.decrby(inside, contender.places);
      held.push([from, Math.min(clock(), lock.endsAt()), contender.places]);
      await lock.release();
      result.served += 1;
    }
  };
  const all = Array.from({ length: Number(contenders) }, (_, n) => compete(n));
  for (const each of await Promise.allSettled(all)) {
    if (each.status === 'rejected') result.failures.push(String(each.reason));
  }
  process.send!({ ...result, lost, silent, held, limit: limits[scenario] ?? 1 });
  for (const client of clients) client.disconnect();
}

process.once('message', () => void main().then(() => process.disconnect()));
process.send!('ready');
