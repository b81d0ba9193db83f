// How does a leader in a container leave when it gets a SIGTERM?
//
//   npx tsx examples/leader-sigterm.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// In order: its function is asked to stop, tidies up while the lock is still renewed, and only then the lock is handed to the next one, at
// once. Without that the next one would wait for the lifetime.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:sigterm:${process.pid}`;

  const election = new redisExpLock.Election(name, { redis });
  const stopping = new AbortController();
  process.once('SIGTERM', () => stopping.abort(new Error('SIGTERM')));

  const led = election.lead(
    async (term) => {
      console.log('leads');
      setTimeout(() => process.kill(process.pid, 'SIGTERM'), 20); // what the container's host does
      while (!term.signal.aborted) await sleep(5); // the work
      console.log(`is asked to stop: ${term.signal.reason.message}`);
      await sleep(50); // writes down where it is; the lock is still its own
      return 'tidied up';
    },
    { signal: stopping.signal },
  );

  // Another container, which waits.
  const next = new redisExpLock.Election(name, { redis });
  const begins = next.lead(() => performance.now());
  console.log(await led);
  const endedMs = performance.now();
  console.log((await begins)! - endedMs < 5000 ? 'the next one leads at once' : 'the next one waited for the lifetime');

  await Promise.all([election.close(), next.close()]);
  await leave();
}

if (require.main === module) void main();
