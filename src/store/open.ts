// Opens the store for what the option `redis` was given: a client, a list of clients, or one of our own stores. Always the
// same store for the same value.
import { optionError } from '../core/errors';
import type { RedisLike } from '../core/redis-like';
import type { Node, Store } from './contract';
import { embeddedStore } from './embedded/store';
import { Quorum } from './quorum/store';
import { redisStore } from './redis/store';

/** @internal @throws {TypeError} `ERR_LOCK_OPTION` for anything else. */
export function storeOf(given: RedisLike | readonly RedisLike[]): Store {
  if (isList(given)) return quorumOf(given.map(nodeOf));
  return embeddedStore(given) ?? redisStore(given);
}

function isList(given: RedisLike | readonly RedisLike[]): given is readonly RedisLike[] {
  return Array.isArray(given);
}

function nodeOf(given: RedisLike, index: number): Node {
  if (embeddedStore(given) === undefined) return redisStore(given);
  throw optionError(`redis[${index}]`, 'a client of a Redis: a quorum is of independent servers', given);
}

/** By the first node. */
const quorums = new WeakMap<Node, { readonly nodes: readonly Node[]; readonly quorum: Quorum }[]>();

/** Always the same one for the same nodes, in whatever list they come. */
function quorumOf(nodes: readonly Node[]): Quorum {
  const others = quorums.get(nodes[0]!) ?? [];
  const same = others.find(
    (each) => each.nodes.length === nodes.length && each.nodes.every((node, n) => node === nodes[n]),
  );
  if (same !== undefined) return same.quorum;
  const prefix = nodes[0]!.keyPrefix;
  const other = nodes.find(({ keyPrefix }) => keyPrefix !== prefix);
  if (other !== undefined) throw optionError('redis', `the same keyPrefix at all clients (${prefix})`, other.keyPrefix);
  const quorum = new Quorum(nodes);
  quorums.set(nodes[0]!, [...others, { nodes, quorum }]);
  return quorum;
}
