// A process that has nothing more to do, and a lock, or a wait, or a close under way. It listens to nothing, so that only what
// this library does can keep it alive. argv: Redis url, key, what is under way. It says 'held' first, and how it went last.
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key, scene] = process.argv.slice(2) as [string, string, string];
const client = createClient({ url });
const withLock = redisExpLock({ redis: client, lifetime: 1_000 });
/** For a machine so busy that a reply is late, or a grant of a second: that is asked for again. */
const patient = { maxRetries: 100, commandTimeout: 10_000 };
const kept: unknown[] = [];

async function main(): Promise<void> {
  await client.connect();
  await scenes[scene]!();
}

/** Two locks, one renewed, both watched, neither ever released. */
async function hold(): Promise<void> {
  const renewed = await withLock.promise(key, { autoExtend: true, ...patient });
  const long = await withLock.promise(`${key}:long`, { lifetime: 60_000, autoExtend: true, ...patient });
  kept.push(renewed, renewed.signal, long, long.signal);
  process.send!('held');
}

async function wait(options: redisExpLock.WaitOptions): Promise<void> {
  client.unref();
  process.send!('held');
  const lease = await withLock.promise(key, { commandTimeout: 10_000, ...options });
  await lease.release();
  process.send!('served');
}

const scenes: Record<string, () => Promise<void>> = {
  async unref() {
    await hold();
    client.unref();
  },

  async destroy() {
    await hold();
    client.destroy();
  },

  async extending() {
    await hold();
    void (kept[0] as redisExpLock.Lease).extend().catch(() => {});
    client.unref();
  },

  async released() {
    const lease = await withLock.promise(key, { autoExtend: true, ...patient });
    void lease.signal;
    await lease.release();
    process.send!('held');
    client.unref();
  },

  waiting: () => wait({ timeout: 20_000 }),

  retrying: () => wait({ maxRetries: 1_000, retryTimeout: 20 }),

  async closing() {
    await hold();
    client.unref();
    await withLock.close({ drain: 700 });
    process.send!('closed');
  },

  /** A grant whose wait was given up has to be released before close is done. */
  async abandoned() {
    const abort = new AbortController();
    const wait = withLock.promise(key, { signal: abort.signal }).catch(() => {});
    abort.abort();
    await wait;
    process.send!('held');
    client.unref();
    await withLock.close();
    process.send!('closed');
  },
};

void main();
