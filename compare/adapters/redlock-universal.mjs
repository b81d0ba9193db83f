// Its README recommends `using()`, names the adapters and the defaults: https://github.com/alexpota/redlock-universal#core-api
import { createRequire } from 'node:module';
import { ioredis } from './clients.mjs';

const require = createRequire(import.meta.url);
const { createLock, IoredisAdapter } = require('redlock-universal');
export const { version } = require('../node_modules/redlock-universal/package.json');
export const source = 'https://github.com/alexpota/redlock-universal';
export const settings =
  'ioredis; `createLock` with its defaults (retry every 100 ms); `retryAttempts` = limit / 100 ms where the fault sets a limit';
const signal = 'README, Best Practices: “Handle `signal.aborted` – gracefully exit when lock is lost”';
const mismatch = 'README, Error Handling: LockReleaseError, “handle mismatch”';
export const promises = {
  'stopped-holder': signal,
  'deleted-key': signal,
  'server-restart': signal,
  'release-after-expiry': mismatch,
  'lost-release-reply': mismatch,
  'extend-taken': 'README, Error Handling: LockExtensionError, “Extension failed (lock expired or lost)”',
  'client-killed': 'README, Best Practices: “Set appropriate TTL – short enough for quick recovery”',
};

export async function open(url, { lifetime }) {
  const adapter = new IoredisAdapter(await ioredis(url));
  const lockOf = (key, wait) =>
    createLock({ adapter, key, ttl: lifetime, ...(wait && { retryAttempts: Math.ceil(wait / 100), retryDelay: 100 }) });
  return {
    redisKey: (key) => key,
    async acquire(key, wait) {
      const lock = lockOf(key, wait);
      const handle = await lock.acquire();
      return {
        release: () => lock.release(handle),
        async extend(ms) {
          if (!(await lock.extend(handle, ms))) throw new Error('not extended');
        },
      };
    },
    hold: (key, work) =>
      lockOf(key).using((aborted) => {
        const notified = new Promise((resolve) => aborted.addEventListener('abort', resolve, { once: true }));
        return work({ notified });
      }),
  };
}
