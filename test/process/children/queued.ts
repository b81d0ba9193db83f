// A process that queues, five times each, for a lock of readers and writers that it wants to write, for another that it
// wants to read, and for permits; and is killed there. argv: 'Redis' and its url, or 'shared memory' and its name, and what
// the keys begin with. Out: 'ready'.
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const { RWLock, Semaphore, sharedMemoryStore } = redisExpLock;

async function main(): Promise<void> {
  const [kind, address, base] = process.argv.slice(2) as [string, string, string];
  const client = createClient({ url: kind === 'Redis' ? address : 'redis://127.0.0.1' });
  client.on('error', () => {});
  if (kind === 'Redis') await client.connect();
  const options = { redis: kind === 'Redis' ? client : sharedMemoryStore(address), timeout: 60_000 };
  const stand = (ask: () => Promise<unknown>): void => {
    for (let n = 0; n < 5; n++) ask().catch(() => {});
  };
  const written = new RWLock(`${base}:written`, options);
  stand(() => written.acquireWrite());
  const counted = new RWLock(`${base}:counted`, {
    ...options,
    timeout: undefined,
    maxRetries: 10_000,
    retryTimeout: 50,
  });
  stand(() => counted.acquireWrite());
  // Those of one lock object would have one entry together.
  stand(() => new RWLock(`${base}:read`, { ...options, prefer: 'fair', readers: 'others' }).acquireRead());
  stand(() => new Semaphore(`${base}:permits`, 3, options).acquire(3));
  process.send!('ready');
}

void main();
