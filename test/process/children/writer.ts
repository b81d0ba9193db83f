// A process that takes a lock and, once told to, writes to four resources, whatever its lease says: a Redis row and a file that
// check its fence, and the same without the check. argv: Redis url, key, folder, lifetime in ms. Each resource keeps who wrote.
import { writeFileSync } from 'node:fs';
import { createClient } from 'redis';
import { writeFile, writeRow } from '../../../examples/fence';
import redisExpLock from '../../../src/index';

const [url, key, folder, lifetime] = process.argv.slice(2) as [string, string, string, string];

async function main(): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  const withLock = redisExpLock({ redis: client, timeout: 15_000, lifetime: Number(lifetime) });
  const lease = await withLock.promise(key, { autoExtend: true });
  const { signal } = lease;
  process.send!({ fence: lease.fence });

  process.once('message', async (name: string) => {
    // The first thing that runs after a stop, and on purpose blind to the signal.
    const { fence } = lease;
    const told = { remaining: lease.remaining(), aborted: lease.signal.aborted };
    const written = {
      row: await writeRow(client, `${key}:row`, fence, name),
      file: await writeFile(`${folder}/fenced.json`, fence, name),
    };
    await client.set(`${key}:bare`, name);
    writeFileSync(`${folder}/bare`, name);
    const released = await lease.release();
    process.send!({ ...told, written, released, reason: signal.reason?.reason ?? null });
    client.destroy();
    process.disconnect();
  });
}

void main();
