// The kind of a given client, and its adapter. A client is known by its shape, never by its class: several majors and copies of
// a package work side by side, and none is imported.
import { optionError } from '../../../core/errors';
import type { ScriptClient } from '../client';
import { bun } from './bun';
import { glide } from './glide';
import { ioredis } from './ioredis';
import { nodeRedis } from './node-redis';
import { type ForeignClient, hasMethods } from './shape';
import { upstash } from './upstash';

/** @throws {TypeError} `ERR_LOCK_OPTION` for anything that is no known client. */
export function scriptClient(given: unknown): ScriptClient {
  const client = given as ForeignClient;
  if (hasMethods(client, 'customCommand', 'invokeScript')) return glide(client);
  // Only a client has a state: the objects of multi(), legacy() and pipeline() have the same methods.
  if (hasMethods(client, 'evalSha', 'eval') && hasState(client)) return nodeRedis(client);
  if (hasMethods(client, 'defineCommand', 'evalsha', 'eval') && typeof client.status === 'string')
    return ioredis(client);
  if (hasMethods(client, 'send')) return bun(client);
  // Pipelines, those of ioredis too, collect commands.
  if (hasMethods(client, 'eval', 'evalsha') && !('multiExec' in client) && !('defineCommand' in client))
    return upstash(client);
  throw optionError(
    'redis',
    'a client of node-redis (4 to 6: client, cluster, sentinel, pool), ioredis (5, 6: client, Cluster), iovalkey, ' +
      'Valkey GLIDE, @upstash/redis or Bun’s RedisClient (no legacy, multi or pipeline object of one), memoryStore() or sharedMemoryStore(name)',
    client,
  );
}

function hasState({ isReady, isOpen }: ForeignClient): boolean {
  return typeof isReady === 'boolean' || typeof isOpen === 'boolean';
}
