// AWS Lambda: one attempt, an answer at once when another call is at it, and a lock that ends with the call. The client is made once for
// each container. No wait is queued: a container that is frozen could not hear that it was granted the lock.
import { Redis } from 'ioredis';
import redisExpLock from 'redis-exp-lock';

export const redis = new Redis(process.env.REDIS_URL!, { lazyConnect: true });
const withLock = redisExpLock({ redis });

interface Event {
  readonly pathParameters: { readonly id: string };
}
interface Context {
  getRemainingTimeInMillis(): number;
}

export async function handler({ pathParameters: { id } }: Event, context: Context) {
  if (redis.status === 'wait') await redis.connect();
  // Not renewed beyond the end of this call: nobody would be there to release it.
  const lifetime = context.getRemainingTimeInMillis();
  const result = await withLock.tryRun(`order:${id}`, { lifetime, autoExtend: false }, (lease) => settle(id, lease));
  return result.ran ? { statusCode: 200, body: JSON.stringify(result.value) } : { statusCode: 409, body: '"busy"' };
}

async function settle(id: string, { fence, signal }: redisExpLock.Lease) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  signal.throwIfAborted();
  return { id, fence };
}
