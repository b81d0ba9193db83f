// Opens the store for the value of the option `redis`: a client, a list of clients, or one of our own stores. The same value
// always has the same store.
import { optionError } from '../core/errors';
import type { RedisLike } from '../core/redis-like';
import type { Node, Store } from './contract';
import { embeddedStore } from './embedded/store';
import { Quorum } from './quorum/store';
import { redisStore } from './redis/store';

/** @internal @throws {TypeError} `ERR_LOCK_OPTION` for anything else. */
export function storeOf(given: RedisLike | readonly RedisLike[]): Store {
  if (Array.isArray(given)) return quorumOf(given.map(nodeOf));
  return embeddedStore(given) ?? redisStore(given);
}

function nodeOf(given: RedisLike, index: number): Node {
  if (embeddedStore(given) === undefined) return redisStore(given);
  throw optionError(`redis[${index}]`, 'a client of a Redis: a quorum is of independent servers', given);
}

/** Quorums by their first node. */
const quorums = new WeakMap<Node, { readonly nodes: readonly Node[]; readonly quorum: Quorum }[]>();

/** The quorum of these nodes; always the same one, in whatever list the nodes come. */
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
