// Some contenders of one library, old or new, in one process. argv: library, scenario, contenders, acquisitions of each, key, ports.
// While it holds a lock, each has counted itself on the server; one too many there is what must never be seen.
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const [library, scenario, contenders, acquisitions, key, ...ports] = process.argv.slice(2) as [
  'old' | 'new',
  string,
  string,
  string,
  string,
  ...string[],
];

/** How one contender gets the lock, and what gives it back. `places`: how many of them it takes. */
interface Contender {
  readonly places: number;
  acquire(): Promise<() => Promise<unknown>>;
}

const clients = ports.map((port) => new Redis(Number(port)));
const [redis] = clients as [Redis];
let lost = 0;

function redlock(resources: string[], some: Redis[], duration: number, settings: object): () => Contender {
  const { default: Redlock } = library === 'old' ? require('redlock') : require('../../../src/redlock');
  const instance = new Redlock(some, { retryCount: -1, ...settings });
  return () => ({
    places: 1,
    async acquire() {
      const lock = await instance.acquire(resources, duration);
      const until = lock.expiration;
      return () =>
        instance.release(lock, { retryCount: 0 }).catch((error: Error) => {
          // A machine that stands still for longer than a lock lasts: then there is nothing to release.
          if (Date.now() < until) throw error;
        });
    },
  });
}

function semaphore(make: (module: any, options: object, n: number) => any, places: (n: number) => number) {
  const module = library === 'old' ? require('redis-semaphore') : require('../../../src/redis-semaphore');
  const onLockLost = (): void => {
    lost += 1;
  };
  const options = { lockTimeout: 3000, acquireTimeout: 120_000, onLockLost };
  return (n: number): Contender => ({
    places: places(n),
    async acquire() {
      const lock = make(module, options, n);
      await lock.acquire();
      return () => lock.release();
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
  const result = { served: 0, tooMany: 0, failures: [] as string[] };
  const inside = `${key}:inside`;
  const compete = async (n: number): Promise<void> => {
    const contender = make(n);
    for (let i = 0; i < Number(acquisitions); i += 1) {
      const release = await contender.acquire();
      if ((await redis.incrby(inside, contender.places)) > (limits[scenario] ?? 1)) result.tooMany += 1;
      if (i % 8 === 0) await sleep(1);
      await redis.decrby(inside, contender.places);
      await release();
      result.served += 1;
    }
  };
  const all = Array.from({ length: Number(contenders) }, (_, n) => compete(n));
  for (const each of await Promise.allSettled(all)) {
    if (each.status === 'rejected') result.failures.push(String(each.reason));
  }
  process.send!({ ...result, lost });
  for (const client of clients) client.disconnect();
}

process.once('message', () => void main().then(() => process.disconnect()));
process.send!('ready');
