// Where locks live, by what the option `redis` was given: the store of it, one for each, whoever asks.
import { optionError } from '../errors';
import type { Node, Store } from '../store';
import type { ClientLike } from './clients';
import { type EmbeddedStore, embeddedStore } from './embedded/store';
import { Quorum } from './quorum';
import { redisStore } from './redis';

/** What the option `redis` takes, alone or, as a quorum, several of them. */
export type RedisLike = ClientLike | EmbeddedStore;

/** @internal @throws {TypeError} `ERR_LOCK_OPTION` when it is nothing that we know. */
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

/** By their first node. */
const quorums = new WeakMap<Node, { readonly nodes: readonly Node[]; readonly quorum: Quorum }[]>();

/** One for the same nodes, however often a list of them is made. */
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
