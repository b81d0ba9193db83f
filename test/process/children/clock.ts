// A process whose wall clock is set: an hour back, then two hours ahead. argv: Redis url, key.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key] = process.argv.slice(2) as [string, string];
const realNow = Date.now;
const hourMs = 3_600_000;

async function main(): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  const withLock = redisExpLock({ redis: client });
  const long = await withLock.promise(`${key}:long`, { lifetime: 60_000 });
  const watched = await withLock.promise(`${key}:watched`, { lifetime: 60_000 });
  const renewed = await withLock.promise(`${key}:renewed`, { lifetime: 6_000, autoExtend: true });
  const { signal } = watched;

  Date.now = () => realNow() - hourMs;
  await sleep(6_400);
  const back = {
    remaining: [long.remaining(), watched.remaining(), renewed.remaining()],
    aborted: [long.signal.aborted, signal.aborted, renewed.signal.aborted],
    extended: await long.extend(60_000),
  };

  Date.now = () => realNow() + hourMs;
  const ahead = { remaining: [long.remaining(), renewed.remaining()] };
  if (!signal.aborted) await once(signal, 'abort', { signal: AbortSignal.timeout(30_000) });
  const extended = await Promise.all([long, watched, renewed].map((lease) => lease.extend()));
  process.send!({ back, ahead: { ...ahead, reason: signal.reason.reason, extended } });
  client.destroy();
  process.disconnect();
}

void main();
