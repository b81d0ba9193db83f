// The store of each client of the shims, and what the shims do to a client themselves.
import type { RedisLike } from '../core/redis-like';
import type { Store } from '../store/contract';
import { storeOf } from '../store/open';
import { scriptClient } from '../store/redis/clients/script-client';
import { Sender } from '../store/redis/pipeline/sender';
import { directStore } from '../store/redis/store';

/** Longest wait in ms for one answer of Redis. */
export const commandTimeoutMs = 1000;

interface ClientPlace {
  readonly store: Store;
  /** The short way to the store, for one attempt at a time. */
  readonly direct: Pick<Store, 'acquire' | 'release'>;
  /** The sender of the shims' own scripts; made when first needed. */
  sender?: Sender;
}

const places = new WeakMap<object, ClientPlace>();

/** @throws {TypeError} `ERR_LOCK_OPTION`: no client that is known here. */
export function placeOf(client: RedisLike): ClientPlace {
  let place = places.get(client);
  if (place === undefined) {
    const store = storeOf(client);
    place = { store, direct: store.kind === 'redis' ? directStore(client) : store };
    places.set(client, place);
  }
  return place;
}

/** @throws {TypeError} `ERR_LOCK_OPTION`: no client of Redis that is known here. */
export function senderOf(client: RedisLike): Sender {
  const place = placeOf(client);
  place.sender ??= new Sender(scriptClient(client));
  return place.sender;
}

/** ioredis with `lazyConnect` connects with its first command; the stores send none before it is connected. */
export function connectIfLazy(client: RedisLike): void {
  const lazy = client as { status?: unknown; connect?: () => Promise<unknown> };
  if (lazy.status === 'wait') lazy.connect!().catch(() => {});
}

/** In the words of the client: node-redis 6 and GLIDE close. */
export async function quit(client: RedisLike): Promise<unknown> {
  const { quit, close } = client as { quit?: () => unknown; close?: () => unknown };
  return quit === undefined ? close?.call(client) : quit.call(client);
}
