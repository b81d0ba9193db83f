// Who is measured. Each contender gets a connected node-redis client and takes and gives back one lock, the way its own
// documentation shows. `commands` are those that it sends itself: what its scripts call inside Redis is not counted.
import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';
import redisExpLock from '../src/index';

export interface Contender {
  /** Takes the lock and gives it back once. */
  pair(key: string): Promise<void>;
  close(): Promise<void>;
}

export interface Entry {
  readonly commands: readonly string[];
  make(client: RedisClientType): Promise<Contender>;
}

const compareAndDelete =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export const contenders: Readonly<Record<string, Entry>> = {
  /** The hand-written pair: SET NX PX, and EVALSHA of compare-and-delete. The floor: no fence, no validity, no retries. */
  'raw node-redis': {
    commands: ['set', 'evalsha'],
    async make(client) {
      const sha = await client.scriptLoad(compareAndDelete);
      return {
        async pair(key) {
          const token = randomUUID();
          const answer = await client.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: 10_000 } });
          if (answer !== 'OK') throw new Error('not ours');
          await client.evalSha(sha, { keys: [key], arguments: [token] });
        },
        async close() {},
      };
    },
  },
  'redis-exp-lock': {
    commands: ['eval', 'evalsha'],
    async make(client) {
      const withLock = redisExpLock({ redis: client, lifetime: 10_000 });
      return {
        async pair(key) {
          const release = await withLock.promise(key);
          await release();
        },
        close: () => withLock.close(),
      };
    },
  },
};
