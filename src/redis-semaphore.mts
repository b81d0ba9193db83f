// The face for `import`: the same objects that `require` gets, by name.
import redisSemaphore from './redis-semaphore.js';

export import Mutex = redisSemaphore.Mutex;
export import Semaphore = redisSemaphore.Semaphore;
export import MultiSemaphore = redisSemaphore.MultiSemaphore;
export import RedlockMutex = redisSemaphore.RedlockMutex;
export import RedlockSemaphore = redisSemaphore.RedlockSemaphore;
export import RedlockMultiSemaphore = redisSemaphore.RedlockMultiSemaphore;
export import TimeoutError = redisSemaphore.TimeoutError;
export import LostLockError = redisSemaphore.LostLockError;
export import defaultTimeoutOptions = redisSemaphore.defaultTimeoutOptions;

export type LockLostCallback = redisSemaphore.LockLostCallback;
export type LockOptions = redisSemaphore.LockOptions;
export type RedisClient = redisSemaphore.RedisClient;
export type TimeoutOptions = redisSemaphore.TimeoutOptions;
