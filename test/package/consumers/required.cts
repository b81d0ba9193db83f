// CommonJS as TypeScript writes it: the module itself is the function, and the namespace of everything else.
import redisExpLock = require('../../../src/index');

const withLock: redisExpLock.WithLock = redisExpLock({ lifetime: 1000 });

export function locked(key: redisExpLock.Key, options: redisExpLock.Options): Promise<redisExpLock.Lease> {
  return withLock.promise(key, options);
}

export function attempts(error: unknown): number {
  return error instanceof redisExpLock.TooManyLockAttemptsError ? error.attempts : 0;
}
