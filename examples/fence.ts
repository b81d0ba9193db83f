// How does a resource refuse a holder that came too late?
//
//   npx tsx examples/fence.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// A lock with a lifetime can be outlived. Its holder is notified (`lease.signal`), but a process that is stopped between checking
// the signal and writing cannot notice anything; when it runs again, its next act is the write. So the last word belongs
// to what is written to: every grant carries a larger fence than all before it, and a resource that keeps the fence of its
// last writer refuses a smaller one. The comparison and the write must be one step; how, depends on the resource.
import { type FileHandle, mkdtemp, open, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

// (a) A row in Redis. A script is one step. An equal fence may write: one holder, several writes.

const writeUnlessStale = `
  if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return 0 end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
  return 1`;

interface Evaluates {
  eval(script: string, call: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** Resolves to whether it was written; false: somebody with a larger fence has been here. */
export async function writeRow(redis: Evaluates, row: string, fence: number, value: string): Promise<boolean> {
  return (await redis.eval(writeUnlessStale, { keys: [row], arguments: [String(fence), value] })) === 1;
}

// (b) A file. The process that creates `<file>.next` is alone ('wx' fails where it exists), reads the fence in the file, and makes the
// new version in there; the rename puts it in place and ends the exclusion in one step. A reader sees the old version or the
// new one. A writer that dies in between leaves `<file>.next` behind, and all after it fail until somebody removes that.

/** Resolves to whether it was written; false: somebody with a larger fence has been here. */
export async function writeFile(file: string, fence: number, value: string): Promise<boolean> {
  const next = `${file}.next`;
  const version = await createAlone(next);
  try {
    if ((await readVersion(file)).fence > fence) {
      await rm(next);
      return false;
    }
    await version.writeFile(JSON.stringify({ fence, value }));
    await version.sync();
    await rename(next, file);
    return true;
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  } finally {
    await version.close();
  }
}

export async function readVersion(file: string): Promise<{ fence: number; value: string }> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { fence: 0, value: '' };
    throw error;
  }
}

async function createAlone(path: string, timeoutMs = 10_000): Promise<FileHandle> {
  for (const endMs = performance.now() + timeoutMs; ; await sleep(5)) {
    try {
      return await open(path, 'wx');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || performance.now() > endMs) throw error;
    }
  }
}

// (c) A row in SQL. The condition and the change are one statement; 0 rows changed: you are stale, stop.

export const updateUnlessStale = `
  UPDATE account SET balance = :balance, fence = :fence
   WHERE id = :id AND fence <= :fence`;

// All of it at work: `slow` sleeps longer than its lock lives, and writes as if nothing had happened.

async function main(): Promise<void> {
  const { redis, client, leave } = await enter();
  const withLock = redisExpLock({ redis, lifetime: 200 });
  const folder = await mkdtemp(join(tmpdir(), 'fence-'));
  const file = join(folder, 'balance.json');
  const row = `example:fence:${process.pid}`;

  const write = async (name: string, { fence }: redisExpLock.Lease) => {
    console.log(`${name} writes, fence ${fence}`);
    const report = (what: string, written: boolean) => console.log(`  ${what}: ${written ? 'written' : 'refused'}`);
    if (client) report('row', await writeRow(client, row, fence, name));
    report('file', await writeFile(file, fence, name));
  };

  const slow = await withLock.promise(`${row}:lock`);
  await sleep(300); // blocked, stopped, asleep: 200 ms were its lifetime
  const quick = await withLock.promise(`${row}:lock`);
  await write('quick', quick);
  await quick.release();

  console.log(`slow wakes up; its signal is ${slow.signal.aborted ? 'aborted' : 'silent'}, and it does not check it`);
  await write('slow', slow);
  if (client) console.log(`row:  ${await client.hGet(row, 'value')}`);
  console.log(`file: ${(await readVersion(file)).value}`);

  await client?.del(row);
  await rm(folder, { recursive: true });
  await leave();
}

// Not where its functions are a part of another program, bundled with it or not.
if (basename(require.main?.filename ?? '').includes('fence')) void main();
