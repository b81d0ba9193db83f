// Its README names ioredis, `Mutex` with automatic refresh and `onLockLost`: https://github.com/swarthy/redis-semaphore#mutex
import { createRequire } from 'node:module';
import { ioredis } from './clients.mjs';

const require = createRequire(import.meta.url);
const { Mutex } = require('redis-semaphore');
export const { version } = require('../node_modules/redis-semaphore/package.json');
export const source = 'https://github.com/swarthy/redis-semaphore';
export const settings =
  'ioredis; `Mutex` with its defaults (retry every 10 ms, refresh at 0.8 × lifetime), `acquireTimeout` = the limit where the fault sets one';
const lost = 'README, Mutex: “`onLockLost` – called when lock loss is detected due refresh cycle”';
const noEffect =
  'README, Example with lost lock handling: “if lock is no longer belongs to this mutex, .release() will have no effect”';
export const promises = {
  'stopped-holder': lost,
  'deleted-key': lost,
  'server-restart': lost,
  'release-after-expiry': noEffect,
  'lost-release-reply': noEffect,
  'client-killed': 'README, Mutex: “`lockTimeout` – time after mutex will be auto released (expired)”',
};

export async function open(url, { lifetime }) {
  const client = await ioredis(url);
  const mutexOf = (key, wait, more) =>
    new Mutex(client, key, { lockTimeout: lifetime, ...(wait && { acquireTimeout: wait }), ...more });
  return {
    redisKey: (key) => `mutex:${key}`,
    async acquire(key, wait) {
      const mutex = mutexOf(key, wait, { refreshInterval: 0 });
      await mutex.acquire();
      return { release: () => mutex.release() };
    },
    async hold(key, work) {
      let notify;
      const notified = new Promise((resolve) => {
        notify = resolve;
      });
      const mutex = mutexOf(key, undefined, { onLockLost: notify });
      await mutex.acquire();
      await work({ notified }).finally(() => mutex.release());
    },
  };
}
