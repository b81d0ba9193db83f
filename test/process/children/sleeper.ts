// A process that holds locks, is stopped, and tells what it sees first when it runs again. argv: Redis url, key, lifetime in ms.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, key, lifetime] = process.argv.slice(2) as [string, string, string];

async function main(): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  const withLock = redisExpLock({ redis: client, lifetime: Number(lifetime), autoExtend: true });
  const names = ['gone', 'taken', 'kept'];
  const leases = await Promise.all(names.map((name) => withLock.promise(`${key}:${name}`)));
  const signals = leases.map((lease) => lease.signal);
  // Its lease is not touched after the stop: only what was kept of it speaks.
  const quiet = await withLock.promise(`${key}:quiet`);
  const quietSignal = quiet.signal;
  let finish!: (result: string) => void;
  const work = withLock.run(`${key}:run`, () => new Promise<string>((resolve) => (finish = resolve)));
  const running = Promise.allSettled([work]); // from now on, so that its rejection is never unhandled
  await sleep(Number(lifetime)); // by now all are held by renewal

  process.once('message', async () => {
    const first = leases.map((lease) => [lease.remaining(), lease.signal.aborted]);
    finish('result');
    await sleep(0);
    const reasons = [...signals, quietSignal].map((signal) => signal.reason?.reason ?? 'none');
    const extended = await Promise.all(leases.map((lease) => lease.extend(60_000)));
    const [run] = await running;
    const { code, reason, result } = run.status === 'rejected' ? run.reason : { result: run.value };
    process.send!({ first, reasons, extended, run: { code, reason, result } });
    client.destroy();
    process.disconnect();
  });
  process.send!('held');
}

void main();
