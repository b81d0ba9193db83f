// A process that takes locks and never awaits, catches or releases anything, while its Redis dies. It tells what reached the
// process as a whole. argv: Redis url. In: the process of Redis, which it kills.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url] = process.argv.slice(2) as [string];
const heard: string[] = [];
for (const event of ['unhandledRejection', 'uncaughtException', 'warning'] as const) {
  process.on(event, (error: unknown) => heard.push(`${event}: ${error}`));
}
const { exit } = process;
process.exit = ((code: number) => {
  heard.push(`process.exit(${code})`);
  exit(code);
}) as typeof process.exit;

async function main(): Promise<void> {
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  const withLock = redisExpLock({ redis: client, lifetime: 3_000, commandTimeout: 1_000, autoExtend: true });
  const leases = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => withLock.promise(`careless:${n}`)));
  const signals = leases.slice(0, 3).map((lease) => lease.signal);
  let callbackErrors = 0;
  withLock('careless:callback', (_, done) => {
    leases.push(done!);
    process.send!('held');
  });

  process.once('message', async (pid: number) => {
    // From now on every release and every renewal fails. Nothing comes between: a renewal that fails ends the locks.
    process.kill(pid, 'SIGKILL');
    void leases[0]!();
    void leases[1]!.release();
    leases[2]!((err) => {
      if (err) callbackErrors += 1;
    });
    void leases[3]![Symbol.asyncDispose]().catch(() => {});
    await sleep(3_600);
    const lost = leases.map((lease) => lease.signal.reason?.reason ?? null);
    void withLock.close({ drain: false });
    await sleep(1_200);
    process.send!({ heard, lost, callbackErrors, kept: signals.map((signal) => signal.aborted) });
    client.destroy();
    process.disconnect();
  });
}

void main();
