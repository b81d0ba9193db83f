// Takes locks in every way, on a host whose timers are numbers, and sends what became of each. argv: kind of store, Redis url.
import './other-host';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import IORedis from 'ioredis-5';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [kind, url] = process.argv.slice(2) as [string, string];
const { memoryStore, Lock, RWLock, Semaphore, Election } = redisExpLock;
const unheard: string[] = [];
for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
  process.on(event, (error: Error) => unheard.push(`${event}: ${error.stack}`));
}

async function storeOf(): Promise<any> {
  if (kind === 'memory') return memoryStore();
  if (kind === 'a clock') return memoryStore({ now: () => performance.now() });
  if (kind === 'ioredis') return new IORedis(url);
  return createClient({ url }).connect();
}

/** Resolves at the second extension. */
function renewed(): Promise<void> {
  return new Promise((resolve) => {
    let extensions = 0;
    const onExtension = (): void => {
      extensions += 1;
      if (extensions < 2) return;
      unsubscribe('redis-exp-lock:extend', onExtension);
      resolve();
    };
    subscribe('redis-exp-lock:extend', onExtension);
  });
}

async function main(): Promise<void> {
  const redis = await storeOf();
  const options = {
    redis,
    prefix: `${process.pid}:`,
    lifetime: 10_000,
    commandTimeout: 10_000,
    register: kind.includes('redis'),
  };
  const withLock = redisExpLock(options);
  const polling = { maxRetries: 10_000, retryTimeout: 5 };
  const queued = { timeout: 20_000 };

  const callback = (key: string, how: object): Promise<boolean> =>
    new Promise((resolve, reject) => {
      withLock(key, how, (error, done) => {
        if (error) reject(error);
        else done!((failure, released) => (failure ? reject(failure) : resolve(released!)));
      });
    });
  const released = async (lease: redisExpLock.Lease | null): Promise<boolean> => {
    void lease!.signal;
    return lease!.release();
  };
  const asLock = async (key: string, how: object): Promise<boolean> => {
    const lock = new Lock(key, { ...options, ...how });
    await lock.lock();
    return lock.unlock();
  };
  const asReader = (key: string, how: object) => new RWLock(key, options).read(how, () => true);
  const asWriter = async (key: string, how: object): Promise<boolean> => {
    const lease = await new RWLock(key, options).acquireRead(how);
    await lease.upgrade();
    return lease.release();
  };
  const ways: Record<string, (key: string, how: object) => Promise<boolean>> = {
    callback,
    promise: async (key, how) => released(await withLock.promise(key, { ...how, autoExtend: true })),
    'several keys': async (key, how) => released(await withLock.promise([key, `${key}2`], how)),
    signal: async (key, how) => released(await withLock.promise(key, { ...how, signal: new AbortController().signal })),
    run: (key, how) => withLock.run(key, how, () => true),
    'nested runs': (key, how) => withLock.run(key, how, () => withLock.run(`${key}2`, how, () => true)),
    Lock: asLock,
    synchronize: (key, how) => new Lock(key, { ...options, ...how }).synchronize(() => true),
    read: asReader,
    upgrade: asWriter,
    permit: (key, how) => new Semaphore(key, 1, options).run(how, () => true),
  };
  const single: Record<string, (key: string) => Promise<unknown>> = {
    tryLock: async (key) => released(await withLock.tryLock(key)),
    tryRun: async (key) => (await withLock.tryRun(key, () => true)).ran,
    once: async (key) => (await withLock.once(key, { every: 3_600_000 }, () => true)).ran,
    cached: (key) => withLock.cached(key, { ttl: 1_000 }, () => true),
    lead: (key) => new Election(key, options).lead(() => true),
    adopt: async (key) => {
      const detached = (await withLock.promise(key)).detach();
      return released(await withLock.adopt(detached, { autoExtend: true }));
    },
    renewal: async (key) => {
      if (!kind.includes('redis')) return true;
      return withLock.run(key, { lifetime: 3000 }, async () => renewed().then(() => true));
    },
  };

  const tell = async (name: string, work: Promise<unknown>): Promise<void> => {
    const outcome = await Promise.race([
      work.catch((error) => `${error.stack}`),
      new Promise((resolve) => setTimeout(() => resolve('unsettled'), 10_000)),
    ]);
    process.send!({ name, outcome });
  };
  for (const [name, way] of Object.entries(single)) await tell(name, way(name));
  for (const [name, way] of Object.entries(ways)) {
    await tell(`${name}, free`, way(`free:${name}`, queued));
    for (const [waiting, how] of Object.entries({ queued, polling })) {
      const key = `${waiting}:${name}`;
      const holder = await holderOf(name, key);
      const work = way(key, how);
      void Promise.resolve().then(() => setTimeout(() => void holder.release(), 20));
      await tell(`${name}, ${waiting}`, work);
    }
  }

  function holderOf(name: string, key: string): Promise<{ release(): Promise<boolean> }> {
    if (name === 'permit') return new Semaphore(key, 1, options).acquire();
    if (name === 'read' || name === 'upgrade') return new RWLock(key, options).acquireWrite();
    return withLock.promise(key);
  }

  await withLock.close();
  process.send!({ name: 'errors that nobody heard', outcome: unheard });
  process.exit();
}

void main();
