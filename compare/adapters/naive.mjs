// SET NX PX and a plain DEL, as programs without a library do it. It must fail, or a fault does not bite.
import { ioredis } from './clients.mjs';

export const version = '';
export const source = 'https://redis.io/docs/latest/commands/set/';
export const settings = '`SET key 1 NX PX lifetime`, tried again every 50 ms; `DEL key`; `PEXPIRE key`';
export const promises = {};

export async function open(url, { lifetime }) {
  const client = await ioredis(url);
  async function acquire(key, wait = 10_000) {
    const end = performance.now() + wait;
    while ((await client.set(key, '1', 'PX', lifetime, 'NX')) !== 'OK') {
      if (performance.now() > end) throw new Error('busy');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return { release: () => client.del(key), extend: (ms) => client.pexpire(key, ms) };
  }
  return { redisKey: (key) => key, acquire, hold: undefined };
}
