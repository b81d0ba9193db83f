// How does one of many workers read a change stream, and another go on when it ends?
//
//   npx tsx examples/leader.ts          with the Redis at REDIS_URL, or at 127.0.0.1:6379, or none
//
// The leader keeps its place in the stream where the next leader finds it, and writes it with its fence: what a leader writes
// that was replaced without knowing it is refused.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'
import { enter } from './place';

/** The changes that leaders read, and the storage that they share: in your program, a database that compares the fence as it writes. */
const changes = Array.from({ length: 20 }, (_, n) => `change ${n}`);
const stored = { at: 0, fence: 0, read: [] as string[] };

function store(change: string, fence: number): void {
  if (fence < stored.fence) throw new Error('another leader is ahead of us');
  stored.read.push(change);
  stored.at += 1;
  stored.fence = fence;
}

async function main(): Promise<void> {
  const { redis, leave } = await enter();
  const name = `example:leader:${process.pid}`;
  const workers = ['ann', 'bob', 'eve'].map(
    (id) => new redisExpLock.Election(name, { redis, id, value: `http://${id}` }),
  );

  const read = async (term: redisExpLock.Term): Promise<void> => {
    console.log(`${term.id} leads`);
    for (let n = 0; n < 8 && stored.at < changes.length; n += 1) {
      if (term.signal.aborted) return; // lost, or asked to stop
      store(changes[stored.at]!, term.fence);
      await sleep(2);
    }
  };
  // Each leads for a while, and the next goes on where it ended.
  await Promise.all(workers.map((worker) => worker.lead(read)));
  const inOrder = stored.read.every((change, n) => change === changes[n]);
  console.log(
    `${stored.read.length} changes were read, ${inOrder ? 'each once, in their order' : 'not in their order'}`,
  );

  await Promise.all(workers.map((worker) => worker.close()));
  await leave();
}

if (require.main === module) void main();
