/**
 * A Redis Cluster for tests, on loopback, joined by commands alone: masters that share the slots evenly, each with as many
 * replicas; slots that are moved, and masters that die.
 *
 * Invariant: when it is given out every node knows all others and serves, and every replica is in step; the root hooks end its
 * servers like any other.
 */

import { freePort, waitFor } from './processes';
import { type RedisServer, startRedis } from './redis';

export interface TestCluster {
  /** Every node; the masters of the beginning first. */
  readonly nodes: readonly RedisServer[];
  /** The ports for TLS, if the servers speak it. */
  readonly tlsPorts: readonly number[];
  /** The master that has the key's slot now. */
  nodeOf(key: string): Promise<RedisServer>;
  /** A master that has other slots. */
  otherThan(node: RedisServer): Promise<RedisServer>;
  /** Begins to move the key's slot. `keys` moves some keys that are there, `end` the rest, and tells every node. */
  move(key: string, to: RedisServer): Promise<Move>;
  /** Counts a node as failed that is silent for a moment, for tests of a failover. At first none is given up for a minute. */
  givesUpSoon(): Promise<void>;
  /** Resolves when the replica of a master that was killed, or stands still, has its slots, and every other node knows. */
  failedOver(dead: RedisServer): Promise<RedisServer>;
  stop(): Promise<void>;
}

export interface Move {
  readonly slot: number;
  keys(...names: string[]): Promise<void>;
  end(): Promise<void>;
}

const slotCount = 16_384;
/** The time after which a silent node counts as failed, while the cluster begins and while a test has a master fail. */
const shortMs = 800;
/** That time otherwise: longer than a busy machine holds a node up. */
const longMs = 60_000;

export interface ClusterOptions {
  /** Options of TLS, certificates above all: the nodes speak it to each other, and to clients on ports of their own. */
  readonly tls?: readonly string[];
  /** Default: 127.0.0.1. */
  readonly host?: string;
}

/** Starts that many masters, and replicas of each, and resolves when each node says that the cluster is whole. */
export async function startCluster(
  masters = 3,
  replicasOfEach = 0,
  { tls, host = '127.0.0.1' }: ClusterOptions = {},
): Promise<TestCluster> {
  const args = [
    '--cluster-enabled',
    'yes',
    '--cluster-node-timeout',
    String(shortMs),
    '--repl-diskless-sync-delay',
    '0',
  ];
  // A replica that has heard nothing for a moment may take over all the same.
  args.push('--cluster-replica-validity-factor', '0');
  const count = masters * (1 + replicasOfEach);
  if (host !== '127.0.0.1') args.push('--bind', '127.0.0.1', host);
  if (tls !== undefined) args.push(...tls, '--tls-cluster', 'yes', '--tls-replication', 'yes');
  const tlsPorts = tls === undefined ? [] : await Promise.all(Array.from({ length: count }, freePort));
  const portOf = (i: number): string[] => (tls === undefined ? [] : ['--tls-port', String(tlsPorts[i])]);
  const starting = Array.from({ length: count }, (_, i) => startRedis({ args: [...args, ...portOf(i)] }));
  const nodes = await Promise.all(starting);
  const share = Math.ceil(slotCount / masters);
  const begin = async (node: RedisServer, i: number): Promise<void> => {
    const slots = Array.from({ length: Math.min(share, slotCount - i * share) }, (_, j) => i * share + j);
    if (i < masters) await node.command('CLUSTER', 'ADDSLOTS', ...slots);
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1); // else they find themselves in conflict, and take turns
  };
  await Promise.all(nodes.map(begin));
  const meet = (i: number): Promise<unknown> =>
    nodes[0]!.command('CLUSTER', 'MEET', host, tlsPorts[i] ?? nodes[i]!.port);
  for (let i = 1; i < count; i += 1) await meet(i);
  const ids = new Map<RedisServer, string>();
  for (const node of nodes) ids.set(node, await node.command<string>('CLUSTER', 'MYID'));
  const serves = (node: RedisServer, i: number) => async () => {
    const info = await node.command<string>('CLUSTER', 'INFO');
    // On a busy machine the first node may have given the meeting up.
    if (i > 0 && /cluster_known_nodes:1\r/.test(info)) await meet(i);
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${count}`);
  };
  await Promise.all(nodes.map((node, i) => waitFor(serves(node, i), { what: `node ${node.port} to see the cluster` })));
  const follow = async (node: RedisServer, i: number): Promise<void> => {
    const master = nodes[i % masters]!;
    await node.command('CLUSTER', 'REPLICATE', ids.get(master)!);
    const inStep = async () => /master_link_status:up/.test(await node.command('INFO', 'replication'));
    await waitFor(inStep, { what: `replica ${node.port} to be in step` });
  };
  await Promise.all(nodes.slice(masters).map((node, i) => follow(node, i)));

  const gone = new Set<RedisServer>();
  const living = (): RedisServer[] => nodes.filter((node) => !gone.has(node));
  // From here on a node that a busy machine holds up must not take the cluster down, or lose its slots to its replica.
  const isWhole = async (node: RedisServer): Promise<boolean> =>
    !/fail/.test(await node.command('CLUSTER', 'NODES')) &&
    /cluster_state:ok/.test(await node.command('CLUSTER', 'INFO'));
  const areWhole = async (): Promise<boolean> => (await Promise.all(nodes.map(isWhole))).every(Boolean);
  const patience = (ms: number): Promise<unknown> =>
    Promise.all(living().map((node) => node.command('CONFIG', 'SET', 'cluster-node-timeout', ms)));
  for (await patience(longMs); !(await areWhole()); await patience(longMs)) {
    // One that was given up just before would stay so for two minutes.
    await patience(shortMs);
    await waitFor(areWhole, { what: 'the nodes to find each other again' });
  }

  /** The owners of the slots, as one node sees them. */
  const shares = async (node: RedisServer): Promise<[from: number, to: number, [host: string, port: number]][]> =>
    node.command('CLUSTER', 'SLOTS');
  const masterOf = async (slot: number, asked = living()[0]!): Promise<RedisServer> => {
    const found = (await shares(asked)).find(([from, to]) => from <= slot && slot <= to);
    return nodes.find(({ port }) => port === found?.[2][1])!;
  };
  const epochOf = async (node: RedisServer): Promise<number> =>
    Number(/cluster_current_epoch:(\d+)/.exec(await node.command('CLUSTER', 'INFO'))![1]);
  const mastersNow = async (): Promise<RedisServer[]> => {
    const ports = (await shares(living()[0]!)).map(([, , [, port]]) => port);
    return nodes.filter(({ port }) => ports.includes(port));
  };
  const slotOf = (key: string): Promise<number> => living()[0]!.command('CLUSTER', 'KEYSLOT', key);
  /** True if the node agrees: a cluster reports its state some time after it was told. */
  const agreed = async (node: RedisServer): Promise<boolean> => {
    const views = await Promise.all(
      living().map(async (each) =>
        JSON.stringify((await shares(each)).map(([from, to, [, port]]) => [from, to, port])),
      ),
    );
    return new Set(views).size === 1 && views[0]!.includes(`${node.port}]`);
  };

  return {
    nodes,
    tlsPorts,
    async nodeOf(key) {
      return masterOf(await slotOf(key));
    },
    async otherThan(node) {
      return (await mastersNow()).find((each) => each !== node)!;
    },
    async move(key, to) {
      const slot = await slotOf(key);
      const from = await masterOf(slot);
      await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', ids.get(from)!);
      await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', ids.get(to)!);
      const migrate = async (names: readonly string[]): Promise<void> => {
        if (names.length > 0) await from.command('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'KEYS', ...names);
      };
      return {
        slot,
        keys: (...names) => migrate(names),
        async end() {
          for (;;) {
            const names = await from.command<string[]>('CLUSTER', 'GETKEYSINSLOT', slot, 100);
            if (names.length === 0) break;
            await migrate(names);
          }
          // Else the new owner takes it under an epoch that is older than the last owner's.
          const isAbreast = async (): Promise<boolean> => (await epochOf(to)) >= (await epochOf(from));
          await waitFor(isAbreast, { what: `${to.port} to hear the epoch of ${from.port}` });
          const others = (await mastersNow()).filter((node) => node !== to && node !== from);
          for (const node of [to, from, ...others])
            await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', ids.get(to)!);
          // Older news from another node may undo for a moment what we told a node.
          const knows = async (): Promise<boolean> => {
            const masters = await Promise.all(living().map((node) => masterOf(slot, node)));
            return masters.every((master) => master === to);
          };
          await waitFor(knows, { what: `every node to know who has slot ${slot}` });
        },
      };
    },
    async givesUpSoon() {
      await patience(shortMs);
    },
    async failedOver(dead) {
      gone.add(dead);
      const successor = async (): Promise<RedisServer | undefined> => {
        const heirs = await Promise.all(
          living().map(async (node) => /role:master/.test(await node.command('INFO', 'replication')) && node),
        );
        const [heir] = heirs.filter(
          (node) =>
            node && nodes.indexOf(node) >= masters && nodes.indexOf(node) % masters === nodes.indexOf(dead) % masters,
        );
        return heir && (await agreed(heir)) ? heir : undefined;
      };
      const heir = await waitFor(successor, { timeoutMs: 15_000, what: `a replica to take the place of ${dead.port}` });
      await patience(longMs); // or a busy machine makes them fail over again
      return heir;
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.discard()));
    },
  };
}
