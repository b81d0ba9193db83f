// The names of shared memory in `redis-exp-lock/edge`, where there are no files and no sockets. Using one of them says so.
import { LockBackendError } from '../../core/errors';

export function sharedMemoryStore(): never {
  throw withoutFiles('sharedMemoryStore');
}

/** A constructor of nothing. */
export function HostLock(): never {
  throw withoutFiles('HostLock');
}

function withoutFiles(name: string): LockBackendError {
  const message = `${name} needs files and sockets, which redis-exp-lock/edge does without: use a Redis over HTTP, or memoryStore()`;
  return new LockBackendError(message, { redisCode: 'PLATFORM', retryable: false });
}
