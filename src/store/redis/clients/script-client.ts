// The kind of a given client, and its adapter. A client is known by its shape, never by its class: several majors and copies of
// a package work side by side, and none is imported.
import { optionError } from '../../../core/errors';
import type { ScriptClient } from '../client';
import { bun, isBun } from './bun';
import { glide, isGlide } from './glide';
import { ioredis, isIORedis } from './ioredis';
import { isNodeRedis, nodeRedis } from './node-redis';
import { isUpstash, upstash } from './upstash';

/** @throws {TypeError} `ERR_LOCK_OPTION` for anything that is no known client. */
export function scriptClient(client: unknown): ScriptClient {
  if (isGlide(client)) return glide(client);
  if (isNodeRedis(client)) return nodeRedis(client);
  if (isIORedis(client)) return ioredis(client);
  if (isBun(client)) return bun(client);
  if (isUpstash(client)) return upstash(client);
  throw optionError(
    'redis',
    'a client of node-redis (4 to 6: client, cluster, sentinel, pool), ioredis (5, 6: client, Cluster), iovalkey, ' +
      'Valkey GLIDE, @upstash/redis or Bun’s RedisClient (no legacy, multi or pipeline object of one), memoryStore() or sharedMemoryStore(name)',
    client,
  );
}
