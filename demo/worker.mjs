// One worker process: transfers money until it is ordered to stop, with or without the lock, and reports what it did.
// This is the whole use of the library in the demo: one factory call, one `withLock.run`.

import { tracingChannel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from 'redis-exp-lock';
import { Bank, below } from './bank.mjs';
import { enter } from './server.mjs';

const NEWS_MS = 50;

process.on('SIGINT', () => {}); // the terminal sends it to all processes; our parent ends us
process.once('disconnect', () => process.exit()); // and if that one is gone, so are we

/** A clock that all processes share: performance.now() alone counts from each process's own start. */
const now = () => performance.timeOrigin + performance.now();

const waits = []; // in ms, of every acquire, as the library publishes it
tracingChannel('redis-exp-lock:acquire').subscribe({ asyncEnd: ({ waitedMs }) => waits.push(waitedMs) });

try {
  const [setup] = await once(process, 'message');
  const { vault, redis } = await enter(setup);
  const bank = new Bank(vault, setup);
  const withLock = redisExpLock({ redis, prefix: setup.prefix, lifetime: 5000, register: setup.page });

  const transfers = {
    unlocked: async () => {
      const asked = now();
      return { asked, got: asked, ...(await bank.transfer(0)), ended: now() };
    },
    locked: () => {
      const asked = now();
      return withLock.run('bankAccount', { timeout: 10_000, retryTimeout: 1 }, async (lease) => {
        const got = now();
        return { asked, got, ...(await bank.transfer(lease.fence)), ended: now() };
      });
    },
  };

  process.on('message', ({ how, until }) => work(transfers[how], until).catch(giveUp));
  process.send({ ready: true });
} catch (error) {
  giveUp(error);
}

async function work(transfer, until) {
  const done = [];
  const news = setInterval(() => process.send({ done: done.length }), NEWS_MS);
  try {
    while (now() < until) {
      done.push(await transfer());
      await sleep(below(6)); // until the next customer comes
    }
  } finally {
    clearInterval(news);
  }
  process.send({ done: done.length, transfers: done, waits: waits.splice(0) });
}

function giveUp(error) {
  const line = `${error?.code ? `${error.code}: ` : ''}${error?.message ?? error}`;
  process.send({ failed: line }, () => process.exit(1));
}
