// Where the examples keep their locks: in the Redis at REDIS_URL, or at 127.0.0.1:6379; where none answers there, or REDIS_URL
// is empty, in shared memory, which all processes of this host have in common.
import { createClient } from 'redis';
import redisExpLock from '../src/index'; // in your program: from 'redis-exp-lock'

export interface Place {
  /** The value of the option `redis`. */
  readonly redis: redisExpLock.RedisLike;
  /** The client, where there is a Redis. */
  readonly client: Client | undefined;
  leave(): Promise<void>;
}

type Client = ReturnType<typeof clientFor>;

function clientFor(url: string) {
  return createClient({ url, socket: { connectTimeout: 1000, reconnectStrategy: false } });
}

export async function enter(): Promise<Place> {
  const { REDIS_URL } = process.env;
  const client = clientFor(REDIS_URL || 'redis://127.0.0.1:6379');
  client.on('error', () => {}); // connect() says it too
  try {
    if (REDIS_URL === '') throw new Error('REDIS_URL is empty');
    await client.connect();
    return { redis: client, client, leave: async () => client.destroy() };
  } catch (error) {
    if (REDIS_URL) throw error;
    console.log('without a Redis (REDIS_URL would name one): the locks are in shared memory of this host');
    const store = redisExpLock.sharedMemoryStore('examples');
    return { redis: store, client: undefined, leave: () => store.close() };
  }
}
