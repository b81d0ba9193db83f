// How is money moved between two accounts, without a deadlock?
//
//   npx tsx examples/transfer.ts          with a Redis at REDIS_URL, or at 127.0.0.1:6379
//
// Both accounts are locked in one step, all or nothing, so nobody ever holds one and waits for the other, in whatever order
// they are named. On a cluster the two keys need one hash tag.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'

async function main(): Promise<void> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
  client.on('error', (error) => {
    console.error(`no Redis to talk to (set REDIS_URL): ${error.message || error.code}`);
    process.exit(1);
  });
  await client.connect();
  const name = `example:transfer:${process.pid}`;

  const withLock = redisExpLock({ redis: client });
  const accounts = [`{${name}}:alice`, `{${name}}:bob`] as const;
  for (const account of accounts) await client.set(`${account}:balance`, 100);

  const transfer = (from: string, to: string, amount: number): Promise<void> =>
    withLock.run([from, to], { timeout: 10_000 }, async (lease) => {
      const balance = Number(await client.get(`${from}:balance`));
      await sleep(2); // somebody else would read the same balance now
      lease.signal.throwIfAborted();
      await client.set(`${from}:balance`, balance - amount);
      await client.set(`${to}:balance`, Number(await client.get(`${to}:balance`)) + amount);
    });
  const [alice, bob] = accounts;
  await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? transfer(alice, bob, 3) : transfer(bob, alice, 1))));

  const balances = await Promise.all(accounts.map((account) => client.get(`${account}:balance`)));
  console.log(`alice ${balances[0]}, bob ${balances[1]}, together ${Number(balances[0]) + Number(balances[1])}`);
  for (const account of accounts) await client.del(`${account}:balance`);

  client.destroy();
}

if (require.main === module) void main();
