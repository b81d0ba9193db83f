// A process of its own at a table of this host, made to be killed, stopped or replaced in the middle of what it does. Run by
// the tests in this folder, on Node, Bun and Deno.
import { appendFileSync, readFileSync, writeSync } from 'node:fs';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import redisExpLock from '../../../src/index';
import { tableOf } from '../../support/embedded-table';

const { sharedMemoryStore, LockError } = redisExpLock;
const never = (): Promise<never> => new Promise(() => setInterval(() => {}, 1000));
const say = (message: unknown): void => void process.send!(message);

/** The observations at a table while other processes died at it. */
export interface Seen {
  pairs: number;
  refused: Record<string, number>;
  longestMs: number;
  /** The longest time for which a pair of calls let its thread sleep, as it asked for, and the longest of the rest. */
  longestSleepMs: number;
  longestRestMs: number;
}

/** Adds a line to a file, if the lock is ours: its number is one higher than that of the line before. */
function count(file: string, fence: number): void {
  const last = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)!;
  appendFileSync(file, `${Number(last.split(' ')[0]) + 1} ${fence}\n`); // one write: all of it or nothing
}

const deeds: Record<string, (name: string, ...args: string[]) => Promise<unknown>> = {
  /** Adds lines to files as fast as it can, one lock for each; tells what it saw when it is asked to end. */
  async count(name, ...files) {
    // A process that stands still between its look at what remains and its line must still have the lock then.
    const withLock = redisExpLock({ redis: sharedMemoryStore(name), lifetime: 15_000 });
    const seen: Seen = { pairs: 0, refused: {}, longestMs: 0, longestSleepMs: 0, longestRestMs: 0 };
    const { wait } = Atomics;
    let sleptMs = 0;
    Atomics.wait = ((array: Int32Array<SharedArrayBuffer>, index: number, value: number, ms: number) => {
      sleptMs += ms;
      return wait(array, index, value, ms);
    }) as typeof Atomics.wait;
    let ends = false;
    process.once('message', () => {
      ends = true;
    });
    say('counting');
    for (let n = 0; !ends; n++) {
      const file = files[Math.floor(Math.random() * files.length)]!;
      const startMs = performance.now();
      sleptMs = 0;
      try {
        const lease = await withLock.tryLock(file);
        if (lease !== null) {
          if (lease.remaining() > 10_000) count(file, lease.fence);
          await lease();
          seen.pairs += 1;
        }
      } catch (error) {
        if (!(error instanceof LockError)) throw error;
        const what = String((error as { redisCode?: unknown }).redisCode ?? error.message);
        seen.refused[what] = (seen.refused[what] ?? 0) + 1;
      }
      const tookMs = performance.now() - startMs;
      seen.longestMs = Math.max(seen.longestMs, tookMs);
      seen.longestSleepMs = Math.max(seen.longestSleepMs, sleptMs);
      seen.longestRestMs = Math.max(seen.longestRestMs, tookMs - sleptMs);
      if (n % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    say(seen);
  },

  /** Never comes out of a write. */
  async stuck(name) {
    tableOf(sharedMemoryStore(name)).run(() => {
      writeSync(1, 'stuck\n'); // nothing asynchronous leaves from here
      for (;;);
    });
  },

  /** Ends threads in the middle of their writes, and takes a lock after each. */
  async threads(name, times) {
    const withLock = redisExpLock({ redis: sharedMemoryStore(name) });
    const waits: number[] = [];
    for (let n = 0; n < Number(times); n++) {
      const flag = new Int32Array(new SharedArrayBuffer(4));
      const thread = new Worker(__filename, { workerData: { name, flag } });
      while (Atomics.load(flag, 0) === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      if (n === 0) {
        // While it writes, nobody waits for longer than a second, and all are told why.
        const startMs = performance.now();
        const error = await withLock.tryLock('key').catch((reason) => reason);
        say({ code: error.code, redisCode: error.redisCode, ms: performance.now() - startMs });
      }
      await thread.terminate();
      const startMs = performance.now();
      await (await withLock.promise('key'))();
      waits.push(performance.now() - startMs);
    }
    say({ waits });
  },

  /** Does one thing after another, as it is told. */
  async obey(name) {
    const store = sharedMemoryStore(name);
    const withLock = redisExpLock({ redis: store, lifetime: 60_000 });
    const lagMs = (): number => tableOf(store).lagMs!();
    const leases = new Map<string, redisExpLock.Lease>();
    const orders: Record<string, (key: string, lifetime?: number) => Promise<unknown>> = {
      async take(key, lifetime = 60_000) {
        const lease = await withLock.tryLock(key, { lifetime });
        if (lease !== null) leases.set(key, lease);
        return lease && { fence: lease.fence, remaining: lease.remaining() };
      },
      /** Also tells by how many ms its clock may have been behind others meanwhile. */
      async inspect(key) {
        const beforeMs = lagMs();
        const seen = await withLock.inspect(key);
        return { ...seen, lagMs: Math.max(beforeMs, lagMs()) };
      },
      extend: (key) => leases.get(key)!.extend(60_000),
      release: (key) => leases.get(key)!.release(),
      /** Waits in the queue, so that a release in another process has to wake this one. */
      async wait(key) {
        const startMs = performance.now();
        const lease = await withLock.promise(key, { timeout: 30_000 });
        leases.set(key, lease);
        return { fence: lease.fence, ms: performance.now() - startMs };
      },
    };
    process.on('message', ({ order, key, lifetime }: { order: string; key: string; lifetime?: number }) => {
      orders[order]!(key, lifetime).then(say, (error) => say({ code: error.code, message: error.message }));
    });
    say('ready');
    await never();
  },

  /** Adds one to the number in a file, the given number of times. */
  async add(name, file, times) {
    const withLock = redisExpLock({ redis: sharedMemoryStore(name), lifetime: 10_000, timeout: 60_000 });
    for (let n = 0; n < Number(times); n++) {
      await withLock.run('counter', async (lease) => {
        if (n % 8 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        count(file!, lease.fence);
      });
    }
    say('done');
  },
};

if (isMainThread) {
  const [deed, name, ...args] = process.argv.slice(2) as [string, string, ...string[]];
  void deeds[deed]!(name, ...args).then(
    () => process.disconnect(),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
} else {
  const { name, flag } = workerData as { name: string; flag: Int32Array };
  tableOf(sharedMemoryStore(name)).run(() => {
    Atomics.store(flag, 0, 1);
    for (;;);
  });
}
