// Its readme names node-redis, `lock` with `failAfter`, and the fencing token: https://github.com/AmrSaber/simple-redis-mutex#usage
import { createRequire } from 'node:module';
import { lock } from 'simple-redis-mutex';
import { nodeRedis } from './clients.mjs';

const require = createRequire(import.meta.url);
export const { version } = require('../node_modules/simple-redis-mutex/package.json');
export const source = 'https://github.com/AmrSaber/simple-redis-mutex';
export const settings =
  'node-redis; `lock` with its defaults (wake-up by Pub/Sub, safety net every 10 s), `failAfter` = the limit';
export const promises = {
  'stale-write': 'readme, Examples: `fencingToken: release.fencingToken`',
  'client-killed':
    'readme, API: “to prevent crashed processes holding the lock indefinitely”; polling every 10 s by default',
  'late-request':
    'readme, API: “fails to acquire the lock before `failAfter` milliseconds, it will throw” (nothing of what is left)',
};

export async function open(url, { lifetime }) {
  const client = await nodeRedis(url);
  async function acquire(key, wait) {
    const release = await lock(client, key, { timeout: lifetime, ...(Number.isFinite(wait) && { failAfter: wait }) });
    return { release, extend: () => release.refreshTimeout(), fence: release.fencingToken };
  }
  return { redisKey: (key) => key, acquire, hold: undefined };
}
