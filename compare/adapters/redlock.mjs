// Its README names ioredis, `using` with its signal, and the settings below, which are the defaults:
// https://github.com/mike-marcacci/node-redlock#configuration
import { createRequire } from 'node:module';
import { ioredis } from './clients.mjs';

const require = createRequire(import.meta.url);
export const version = require('../node_modules/redlock/package.json').version.replace('v', '');
export const source = 'https://github.com/mike-marcacci/node-redlock';
export const settings =
  'one ioredis; the defaults of its README; `retryCount` = limit / 200 ms where the fault sets a limit';
const algorithm =
  'README, first sentence: “an implementation of the redlock algorithm” (it deletes a key only if it has its value)';
const signal = 'README, Usage: “In the case that auto-extension fails, an AbortSignal will be updated”';
export const promises = {
  'stopped-holder': signal,
  'deleted-key': signal,
  'server-restart': signal,
  'release-after-expiry': algorithm,
  'lost-release-reply': algorithm,
  'extend-taken': algorithm,
  'client-killed': 'README, Usage: the second parameter is the lock duration',
};

export async function open(url, { lifetime }, Redlock = require('redlock').default) {
  const redlock = new Redlock([await ioredis(url)]);
  redlock.on('error', () => {});
  return {
    redisKey: (key) => key,
    async acquire(key, wait) {
      // Without a limit: the defaults. Settings given here would be those of later extensions too.
      const settings = wait === undefined ? undefined : { retryCount: Math.ceil(wait / 200) };
      let lock = await redlock.acquire([key], lifetime, settings);
      return {
        release: () => lock.release(),
        async extend(ms) {
          lock = await lock.extend(ms);
        },
      };
    },
    hold: (key, work) =>
      redlock.using([key], lifetime, (aborted) => {
        const notified = new Promise((resolve) => aborted.addEventListener('abort', resolve, { once: true }));
        return work({ notified });
      }),
  };
}
