// `await using`, which TypeScript has had since 5.2. Compiled, never run, as with-lock.ts is.
import type redisExpLock from '../../../src/index';

export async function disposed(withLock: redisExpLock.WithLock): Promise<void> {
  await using lease = await withLock.promise('bankAccount');
  console.log(lease.fence);
}
