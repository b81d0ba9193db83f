// The entry for `import`: the same objects that `require` gets, by name.
export type { LockLostCallback, LockOptions, RedisClient, TimeoutOptions } from './redis-semaphore.js';
export {
  defaultTimeoutOptions,
  LostLockError,
  MultiSemaphore,
  Mutex,
  RedlockMultiSemaphore,
  RedlockMutex,
  RedlockSemaphore,
  Semaphore,
  TimeoutError,
} from './redis-semaphore.js';
