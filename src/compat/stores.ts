// The way of the shims to the store of a client, and what they do to a client themselves.
import type { RedisLike } from '../core/redis-like';
import type { Store } from '../store/contract';

/** Longest wait in ms for one answer of Redis. */
export const commandTimeoutMs = 1000;

/** Lets a request leave now: the shims make one attempt at a time, so there is seldom another one to leave with. */
export function atOnce<T>(store: Store, reply: Promise<T>): Promise<T> {
  store.flushIfQuiet?.();
  return reply;
}

/** ioredis with `lazyConnect` connects with its first command; the stores send none before it is connected. */
export function connectIfLazy(at: RedisLike | RedisLike[]): void {
  if (Array.isArray(at)) return at.forEach(connectIfLazy);
  const lazy = at as { status?: unknown; connect?: () => Promise<unknown> };
  if (lazy.status === 'wait') lazy.connect!().catch(() => {});
}
