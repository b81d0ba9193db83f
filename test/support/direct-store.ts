// The two verbs as the shims use them: each call leaves at once, unless many are on their way.
import { atOnce } from '../../src/compat/stores';
import type { RedisLike } from '../../src/core/redis-like';
import type { Store } from '../../src/store/contract';
import { storeOf } from '../../src/store/open';

export function directStore(client: RedisLike): Pick<Store, 'acquire' | 'release'> {
  const store = storeOf(client);
  return {
    acquire: (request) => atOnce(store, store.acquire(request)),
    release: (request) => atOnce(store, store.release(request)),
  };
}
