// A process that takes a lock and forgets to give it back. argv: Redis url, key, promise | callback | renewed.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key, form] = process.argv.slice(2) as [string, string, string];

async function takeAndForget(withLock: redisExpLock.WithLock): Promise<void> {
  if (form === 'callback') withLock(key, () => {});
  else await withLock.promise(key);
}

async function main(): Promise<void> {
  const client = await createClient({ url }).connect();
  const withLock = redisExpLock({ redis: client, lifetime: 2_000, commandTimeout: 10_000 });
  await takeAndForget(withLock);
  await (await withLock.promise(`${key}:given-back`)).release();
  await sleep(2_500);
  client.destroy();
}

void main();
