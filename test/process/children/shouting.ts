// A process whose subscribers all throw. argv: Redis url, key. It tells what became of its locks, and what the process heard.
import { channel, subscribe, tracingChannel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key] = process.argv.slice(2) as [string, string];
const thrown = new Set<string>();
process.on('uncaughtException', (error) => thrown.add(error.message));

const shout = (name: string) => () => {
  throw new Error(name);
};
for (const name of ['release', 'lost', 'warning']) subscribe(`redis-exp-lock:${name}`, shout(name));
const { start, end, asyncStart, asyncEnd, error } = tracingChannel('redis-exp-lock:acquire');
for (const [name, part] of Object.entries({ start, end, asyncStart, asyncEnd, error })) {
  channel(part.name as string).subscribe(shout(name));
}

async function main(): Promise<void> {
  const client = await createClient({ url }).connect();
  const withLock = redisExpLock({ redis: client });
  const seen: Record<string, unknown> = {};

  const lease = await withLock.promise(key);
  seen.held = (await client.get(key)) === lease.token;
  seen.busy = await withLock.promise(key).catch((reason) => reason.code);
  seen.tried = await withLock.tryLock(key);
  seen.released = await lease.release();
  seen.called = await new Promise((resolve) =>
    withLock(key, (_, done) => done?.((_err, released) => resolve(released))),
  );
  seen.ran = await withLock.run(key, () => 'result');

  const lost = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
  const { signal } = lost;
  await client.del(key);
  while (!signal.aborted) await sleep(10);
  seen.lost = signal.reason?.reason;
  await withLock.promise(key, { lifetime: 1_000 });
  await sleep(1_200);
  await client.exists(key).then((left) => (seen.left = left));
  await withLock.close();
  seen.closed = true;
  process.send!({ seen, thrown: [...thrown].sort() });
  client.destroy();
}

void main();
