// This library, as its README shows it: `run` with node-redis, a lease's signal and fence.
import { createRequire } from 'node:module';
import redisExpLock from '../../lib/index.mjs';
import { nodeRedis } from './clients.mjs';

const require = createRequire(import.meta.url);
export const { version } = require('../../package.json');
export const source = 'protocol.md';
export const settings =
  'node-redis; the defaults (queued waiting, renewal at a third of the lifetime), `timeout` = the limit where the fault sets one';
const signal = 'docs/safety.md: the holder learns of a loss by its signal';
const owner = 'docs/protocol.md: the token is compared before the key is deleted';
const unknown = 'docs/protocol.md, A lost reply';
export const promises = {
  'stopped-holder': signal,
  'deleted-key': signal,
  'server-restart': signal,
  'stale-write': 'README: every grant has a fence',
  'release-after-expiry': owner,
  'extend-taken': owner,
  'lost-acquire-reply': unknown,
  'lost-release-reply': unknown,
  'late-request': unknown,
  'client-killed': 'docs/safety.md: free after at most the lifetime',
  crowd: 'docs/waiting.md: first come, first served',
};

export async function open(url, { lifetime }) {
  const withLock = redisExpLock({ redis: await nodeRedis(url), lifetime });
  return {
    redisKey: (key) => key,
    async acquire(key, wait) {
      const lease = await withLock.promise(key, wait === undefined ? {} : { timeout: wait });
      const extend = async (ms) => {
        if (!(await lease.extend(ms))) throw new Error('not extended');
      };
      return { release: () => lease.release(), extend, fence: lease.fence };
    },
    hold: (key, work) =>
      withLock.run(key, (lease) => {
        const notified = new Promise((resolve) => lease.signal.addEventListener('abort', resolve, { once: true }));
        return work({ notified, fence: lease.fence });
      }),
  };
}
