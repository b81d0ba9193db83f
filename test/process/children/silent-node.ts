// A process with a quorum of which one node dies: it takes a lock, hears that the node is silent, leaves its clients, and ends.
import { subscribe } from 'node:diagnostics_channel';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

async function main([key, ...urls]: string[]): Promise<void> {
  const redis = await Promise.all(
    urls.map((url) =>
      createClient({ url })
        .on('error', () => {})
        .connect(),
    ),
  );
  const withLock = redisExpLock({ redis, lifetime: 60_000, commandTimeout: 1_000 });
  const lease = await withLock.promise(key!);
  const silent = new Promise((resolve) => {
    subscribe(
      'redis-exp-lock:warning',
      (warning) => (warning as { code: string }).code === 'node-silent' && resolve(0),
    );
  });
  const told = new Promise((resolve) => process.once('message', resolve));
  process.send!('held');
  await told;
  await lease.extend();
  await silent;
  for (const client of redis) client.destroy();
  process.send!('silent', () => process.disconnect());
}

void main(process.argv.slice(2));
