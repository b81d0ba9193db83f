// The way of the shims to the store of a client, and what they do to a client themselves.
import type { RedisLike } from '../core/redis-like';
import type { Store } from '../store/contract';
import { embeddedStore } from '../store/embedded/store';
import { directStore } from '../store/redis/store';

/** Longest wait in ms for one answer of Redis. */
export const commandTimeoutMs = 1000;

/** The verbs for one attempt at a time. @throws {TypeError} `ERR_LOCK_OPTION`: no client that is known here. */
export function directOf(client: RedisLike): Pick<Store, 'acquire' | 'release'> {
  return embeddedStore(client) ?? directStore(client);
}

/** ioredis with `lazyConnect` connects with its first command; the stores send none before it is connected. */
export function connectIfLazy(at: RedisLike | RedisLike[]): void {
  if (Array.isArray(at)) return at.forEach(connectIfLazy);
  const lazy = at as { status?: unknown; connect?: () => Promise<unknown> };
  if (lazy.status === 'wait') lazy.connect!().catch(() => {});
}
