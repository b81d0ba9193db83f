// A candidate of an election. argv: Redis url, name, lifetime in ms, how many terms it leads (0: one after the other, without
// end). Times are those of the clock that all processes of the host have in common, in ms.
// Out, for a given number of terms: 'ready', and from the first message on: all of them, [fence, began, ended]. Without end: 'campaigning', and then each { begins: fence },
// { aborted: reason }, { settled: fence }, with its time. A function that is told to stop takes 300 ms more.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import redisExpLock from '../../../src/index';

const [url, name, lifetime, count] = process.argv.slice(2) as [string, string, string, string];
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

async function main(): Promise<void> {
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  const election = new redisExpLock.Election(name, { redis: client, lifetime: Number(lifetime) });
  if (count === '0') return endless(election);
  const terms: [number, number, number][] = [];
  process.send!('ready');
  await once(process, 'message');
  while (terms.length < Number(count)) {
    await election.lead(async (term) => {
      const began = nowMs();
      if (terms.length % 3 === 0) setTimeout(() => void election.resign(), Math.random());
      if (terms.length % 3 === 1) void election.resign();
      await sleep(Math.random() * 2);
      terms.push([term.fence, began, nowMs()]);
    });
  }
  process.send!(terms);
  await election.close();
  client.destroy();
  process.disconnect();
}

async function endless(election: redisExpLock.Election): Promise<void> {
  process.send!('campaigning');
  await election.lead(async (term) => {
    process.send!({ begins: term.fence, at: nowMs() });
    await new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve()));
    process.send!({ aborted: term.signal.reason.reason, at: nowMs() });
    await sleep(300);
    process.send!({ settled: term.fence, at: nowMs() });
  });
}

void main();
