// A process whose timer asks for the jobs of many keys, its wall clock put forward or back. argv: Redis url, key, number of
// keys, ms by which its clock is wrong, mode. Counts each run in Redis. Out: 'ready'; ends at any message, and then writes of which
// slots it was told that the job had run.
// With the number 0: one job that never ends. Out: 'running'.
const [url, key, count, wrongMs, mode] = process.argv.slice(2) as [string, string, string, string, any];
const rightNow = Date.now;
Date.now = () => rightNow() + Number(wrongMs);

import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

async function main(): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  // Outlasts a machine that stands still.
  const withLock = redisExpLock({ redis: client, lifetime: 10_000, commandTimeout: 10_000 });
  if (count === '0') {
    await withLock.once(key, { every: 10 * 365 * 86_400_000, mode }, () => {
      process.send!('running');
      return new Promise(() => setInterval(() => {}, 1000));
    });
  }
  let isOver = false;
  process.once('message', () => {
    isOver = true;
  });
  const told = new Set<string>();
  process.send!('ready');
  while (!isOver) {
    const jobs = Array.from({ length: Number(count) }, async (_, n) => {
      const result = await withLock.once(`${key}:${n}`, { every: 1000, mode }, async (_lease, { index }) => {
        await client.hIncrBy(`${key}:runs`, `${n} ${index}`, 1);
      });
      if (result.ran || result.reason === 'done') told.add(`${n} ${result.slot.index}`);
    });
    await Promise.all(jobs);
    await sleep(120 * Math.random()); // a timer that fires early, and late
  }
  // A process that a busy machine has starved was told of none.
  if (told.size > 0) await client.sAdd(`${key}:told`, [...told]);
  client.destroy();
  process.disconnect();
}

void main();
