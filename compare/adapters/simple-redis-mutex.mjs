// Its readme names node-redis, `lock` with `failAfter`, and the fencing token: https://github.com/AmrSaber/simple-redis-mutex#usage
import { createRequire } from 'node:module';
import { lock } from 'simple-redis-mutex';
import { nodeRedis } from './clients.mjs';

const require = createRequire(import.meta.url);
export const { version } = require('../node_modules/simple-redis-mutex/package.json');
export const source = 'https://github.com/AmrSaber/simple-redis-mutex';
export const settings =
  'node-redis; `lock` with its defaults (wake-up by Pub/Sub, safety net every 10 s), `failAfter` = the limit where the fault sets one';
export const promises = {
  'stale-write': 'readme, Examples: `fencingToken: release.fencingToken`',
  'client-killed':
    'readme, API: “to prevent crashed processes holding the lock indefinitely”; polling every 10 s by default',
};

export async function open(url, { lifetime }) {
  const client = await nodeRedis(url);
  async function acquire(key, wait) {
    const release = await lock(client, key, { timeout: lifetime, ...(wait && { failAfter: wait }) });
    return { release, extend: () => release.refreshTimeout(), fence: release.fencingToken };
  }
  return { redisKey: (key) => `@simple-redis-mutex:lock-${key}`, acquire, hold: undefined };
}
