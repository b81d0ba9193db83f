// How is money moved between two accounts, without a deadlock?
//
//   npx tsx examples/transfer.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// Both accounts are locked in one step, all or nothing, so nobody ever holds one and waits for the other, in whatever order
// they are named. On a cluster the two keys need one hash tag.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:transfer:${process.pid}`;

  const withLock = redisExpLock({ redis });
  const accounts = [`{${name}}:alice`, `{${name}}:bob`] as const;
  const balances = new Map<string, number>(accounts.map((account) => [account, 100])); // the database

  const transfer = (from: string, to: string, amount: number): Promise<void> =>
    withLock.run([from, to], { timeout: 10_000 }, async (lease) => {
      const [have, has] = [balances.get(from)!, balances.get(to)!];
      await sleep(2); // somebody else would read the same balances now
      lease.signal.throwIfAborted();
      balances.set(from, have - amount).set(to, has + amount);
    });
  const [alice, bob] = accounts;
  await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? transfer(alice, bob, 3) : transfer(bob, alice, 1))));

  const [alices, bobs] = [balances.get(alice)!, balances.get(bob)!];
  console.log(`alice ${alices}, bob ${bobs}, together ${alices + bobs}`);

  await leave();
}

if (require.main === module) void main();
