// Where the shims find their stores. All that they know of the rooms below is named here and in store.ts.

import type { RedisLike } from '../redis-like';
import type { Node, Store } from '../store';
import { storeOf } from '../stores/open';
import { Quorum } from '../stores/quorum/store';
import type { Readiness, ScriptClient } from '../stores/redis/client';
import { scriptClient } from '../stores/redis/clients/script-client';
import { redisStore } from '../stores/redis/store';

export { withDeadline } from '../stores/redis/deadlines';
export { isNoScript, notReady } from '../stores/redis/replies';
export type { RedisLike, ScriptClient };
export { scriptClient };

/** Longest wait in ms for one answer of Redis. */
export const commandTimeoutMs = 1000;
const readinessPollMs = 5;

/** The store of one client, or of memoryStore(). @throws {TypeError} `ERR_LOCK_OPTION`: no client that is known here. */
export function storeFor(client: RedisLike): Store {
  return storeOf(client);
}

/** One client as a node of a quorum. @throws {TypeError} `ERR_LOCK_OPTION`: no client that is known here. */
export function nodeFor(client: RedisLike): Node {
  return redisStore(client);
}

/** One lock over several independent servers. */
export function quorumOf(nodes: readonly Node[]): Store {
  return new Quorum(nodes);
}

/** ioredis with `lazyConnect` connects with its first command; the stores send none before it is connected. */
export function connectIfLazy(client: RedisLike): void {
  const lazy = client as { status?: unknown; connect?: () => Promise<unknown> };
  if (lazy.status === 'wait') lazy.connect!().catch(() => {});
}

/** What a command of a client that was closed for good fails with in ioredis. */
export function isClosed(client: RedisLike): boolean {
  return (client as { status?: unknown }).status === 'end';
}

/** Waits for a client that is connecting, at most `ms`; then says what it is. */
export async function readyWithin(client: ScriptClient, ms: number): Promise<Readiness> {
  const endMs = performance.now() + ms;
  while (client.readiness() === 'soon' && performance.now() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, readinessPollMs));
  }
  return client.readiness();
}

/** In the words of the client: node-redis 6 and GLIDE close. */
export async function quit(client: RedisLike): Promise<unknown> {
  const { quit, close } = client as { quit?: () => unknown; close?: () => unknown };
  return quit === undefined ? close?.call(client) : quit.call(client);
}
