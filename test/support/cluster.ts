/**
 * A Redis Cluster for tests: masters on loopback that share the slots evenly, joined by commands alone.
 *
 * Invariant: when it is given out every node knows all others and serves; the root hooks end its servers like any other.
 */

import { waitFor } from './processes';
import { type RedisServer, startRedis } from './redis';

export interface TestCluster {
  readonly nodes: readonly RedisServer[];
  /** The node that has the key. */
  nodeOf(key: string): Promise<RedisServer>;
  stop(): Promise<void>;
}

const slotCount = 16_384;

/** Starts so many masters and resolves when each of them says that the cluster is whole. */
export async function startCluster(masters = 3): Promise<TestCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1500'];
  const nodes = await Promise.all(Array.from({ length: masters }, () => startRedis({ args })));
  const share = Math.ceil(slotCount / masters);
  for (const [i, node] of nodes.entries()) {
    const slots = Array.from({ length: Math.min(share, slotCount - i * share) }, (_, j) => i * share + j);
    await node.command('CLUSTER', 'ADDSLOTS', ...slots);
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1); // else they find themselves in conflict, and take turns
  }
  for (const node of nodes.slice(1)) await node.command('CLUSTER', 'MEET', '127.0.0.1', nodes[0]!.port);
  for (const node of nodes)
    await waitFor(() => isWhole(node, masters), { what: `node ${node.port} to see the cluster` });
  return {
    nodes,
    async nodeOf(key) {
      const slot = await nodes[0]!.command<number>('CLUSTER', 'KEYSLOT', key);
      return nodes[Math.floor(slot / share)]!;
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.discard()));
    },
  };
}

async function isWhole(node: RedisServer, masters: number): Promise<boolean> {
  const info = await node.command<string>('CLUSTER', 'INFO');
  const slots = await node.command<unknown[]>('CLUSTER', 'SLOTS');
  return /cluster_state:ok/.test(info) && slots.length === masters;
}
