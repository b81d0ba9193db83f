// Where locks live, by what the option `redis` was given: the store of it, one for each, whoever asks.
import type { Store } from '../store';
import type { ClientLike } from './clients';
import { type EmbeddedStore, embeddedStore } from './embedded';
import { redisStore } from './redis';

/** What the option `redis` takes. */
export type RedisLike = ClientLike | EmbeddedStore;

/** @internal @throws {TypeError} `ERR_LOCK_OPTION` when it is nothing that we know. */
export function storeOf(given: RedisLike): Store {
  return embeddedStore(given) ?? redisStore(given);
}
