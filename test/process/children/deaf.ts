// A process whose Redis is killed under it after it has heard messages, and that has nothing more to do: it has ended its own
// client, but never closed its factory. argv: port. It says 'heard', then waits for a word.
import { Redis } from 'ioredis';
import redisExpLock from '../../../src/index';

const client = new Redis(Number(process.argv[2]), { retryStrategy: () => null });
client.on('error', () => {});
const withLock = redisExpLock({ redis: client, timeout: 10_000 });

async function main(): Promise<void> {
  const lease = await withLock.promise('key');
  const waiting = withLock.promise('key');
  await new Promise((resolve) => setTimeout(resolve, 50));
  await lease.release();
  await (await waiting).release();
  process.once('message', () => {
    client.disconnect();
    process.disconnect();
  });
  process.send!('heard');
}

void main();
