// One process of a round: callers that take locks of every kind, one after the other, and write down the answers.
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { mulberry32 } from '../test/simulation/events';
import { dial } from './dial';
import { Diary, watchStalls } from './history';
import { Jobs } from './jobs';
import type { Message, Order } from './order';

const order: Order = JSON.parse(process.argv[2]!);
const diary = new Diary(order.diary);
let isOver = false;
const tellAfterMs = 20_000;

void main().catch((error) => {
  console.error(error);
  process.exit(1);
});

async function main(): Promise<void> {
  const random = mulberry32(order.seed);
  const stalls = watchStalls(diary);
  const { redis, close } = await dial(order.address, order.number);
  const jobs = new Jobs(redis, order, diary, random);
  process.on('message', (message: Message) => obey(message, () => finish(jobs, close, stalls)));
  process.send!('ready');
  await Promise.all(Array.from({ length: order.callers }, () => calls(jobs, random)));
  finished();
}

let finished: () => void;
const callersEnded = new Promise<void>((resolve) => {
  finished = resolve;
});

async function calls(jobs: Jobs, random: () => number): Promise<void> {
  while (!isOver) {
    await jobs.one();
    if (random() < 0.5) await sleep(random() * 10);
    else await turn();
  }
}

function obey(message: Message, finish: () => void): void {
  if ('clockMs' in message) stepClock(message.clockMs);
  else if ('blockMs' in message) block(message.blockMs);
  else finish();
}

async function finish(jobs: Jobs, close: () => void, stalls: NodeJS.Timeout): Promise<void> {
  isOver = true;
  let step = 'calls';
  // Reported only when it does not end: what it still waits for.
  setTimeout(() => console.error(step, process.getActiveResourcesInfo().join(' ')), tellAfterMs).unref();
  jobs.stop();
  await callersEnded;
  step = 'closing';
  await jobs.close();
  step = 'leaving';
  clearInterval(stalls);
  close();
  diary.close();
  process.send!('finished', () => {
    // A sentinel client of node-redis, destroyed after a failover, may leave a connection of its own behind.
    if (order.address.kind === 'sentinel') process.exit(0);
    process.disconnect();
  });
}

const realWallMs = Date.now;

function stepClock(ms: number): void {
  diary.write({ e: 'clock', ms });
  Date.now = () => realWallMs() + ms;
}

function block(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

process.on('unhandledRejection', (error) => {
  diary.write({ e: 'ask', id: `${order.name}!`, job: 'process', keys: [], boundMs: 0, queued: false });
  diary.write({ e: 'done', id: `${order.name}!`, outcome: `unhandled rejection: ${String((error as Error)?.stack)}` });
});
