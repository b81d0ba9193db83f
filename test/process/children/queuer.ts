// A process whose users queue for a key when it is told so, each once or `turns` times. argv: Redis url. In: an order; out: 'ready', and
// for each order `{ fences, crowded }`: what its users were granted, and how often somebody else was inside.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

interface Order {
  readonly key: string;
  readonly users: number;
  readonly turns?: number;
  readonly holdMs: number;
}

async function main(): Promise<void> {
  const client = createClient({ url: process.argv[2]! });
  client.on('error', () => {});
  await client.connect();
  const withLock = redisExpLock({ redis: client, lifetime: 10_000, timeout: 60_000 });

  async function obey({ key, users, turns = 1, holdMs }: Order): Promise<unknown> {
    const fences: number[] = [];
    let crowded = 0;
    const use = async (lease: redisExpLock.Lease): Promise<void> => {
      fences.push(lease.fence);
      if ((await client.incr(`${key}:inside`)) !== 1) crowded += 1;
      if (holdMs > 0) await sleep(holdMs);
      await client.decr(`${key}:inside`);
    };
    const user = async (): Promise<void> => {
      for (let turn = 0; turn < turns; turn++) await withLock.run(key, use);
    };
    await Promise.all(Array.from({ length: users }, user));
    return { fences, crowded };
  }

  process.on('message', (order: Order) => {
    obey(order).then(
      (done) => process.send!(done),
      (error) => process.send!({ failed: String(error.stack) }),
    );
  });
  process.send!('ready');
}

void main();
