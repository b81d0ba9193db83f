/** The places where locks live, with what can happen to each, and what may be left there. */
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import { startCluster } from '../test/support/cluster';
import { startEndpoint } from '../test/support/endpoint';
import { type Action, type FaultProxy, startProxy } from '../test/support/fault-proxy';
import { waitFor } from '../test/support/processes';
import { type RedisServer, startRedis, startReplica } from '../test/support/redis';
import { patientMs, startSentinels } from '../test/support/sentinel';
import { nowMs } from './history';
import { lossyLine } from './line';
import type { Failover } from './models';
import { type Address, commandTimeoutMs } from './order';

export const stores = ['redis', 'shared-memory', 'quorum', 'sentinel', 'cluster', 'endpoint'] as const;
export type StoreName = (typeof stores)[number];

/** Something that happens, and takes as long as it takes. `between` draws a number. */
export interface Fault {
  readonly name: string;
  readonly weight: number;
  run(between: (from: number, to: number) => number): Promise<void>;
}

export interface Place {
  readonly address: Address;
  readonly execPath?: string | undefined;
  readonly faults: readonly Fault[];
  /** The failovers, after which exclusion is not promised for earlier grants. */
  readonly failovers: readonly Failover[];
  /** Begins the faults that go on until `heal`. */
  disturb(random: () => number): void;
  heal(): void;
  /** The servers that have keys now. */
  masters(): Promise<readonly RedisServer[]>;
  close(): Promise<void>;
}

export function open(store: StoreName): Promise<Place> {
  return { redis, quorum, sentinel, cluster, endpoint, 'shared-memory': sharedMemory }[store]();
}

/** Why a store cannot be tortured here; undefined: it can. */
export function missing(store: StoreName): string | undefined {
  const lacks = store === 'shared-memory' && nodeWithSqlite() === undefined;
  return lacks ? 'no Node with SQLite: run node scripts/runtimes.cjs' : undefined;
}

async function redis(): Promise<Place> {
  const server = await startRedis({ appendonly: 'always' });
  const proxy = await startProxy(server.port);
  const line = lossyLine(proxy);
  return {
    address: { kind: 'redis', url: proxy.url },
    faults: [...serverFaults([server]), ...lineFaults(proxy), killAndRestart(server)],
    failovers: [],
    ...line,
    masters: async () => [server],
    async close() {
      await proxy.stop();
      await server.discard();
    },
  };
}

/** No more than one of the three is out of order at a time. */
async function quorum(): Promise<Place> {
  const servers = await Promise.all([0, 1, 2].map(() => startRedis()));
  const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)));
  const lines = proxies.map(lossyLine);
  const faultsOfAll = servers.map((server, n) => [
    ...serverFaults([server]),
    ...lineFaults(proxies[n]!),
    killAndRestart(server),
  ]);
  return {
    address: { kind: 'quorum', urls: proxies.map(({ url }) => url) },
    faults: faultsOfAll.flat(),
    failovers: [],
    disturb: (random) => lines[Math.floor(random() * lines.length)]!.disturb(random),
    heal: () => {
      for (const line of lines) line.heal();
    },
    masters: async () => servers,
    async close() {
      await Promise.all(proxies.map((proxy) => proxy.stop()));
      await Promise.all(servers.map((server) => server.discard()));
    },
  };
}

async function sentinel(): Promise<Place> {
  const first = await startRedis({ appendonly: 'always' });
  const second = await startReplica(first, { appendonly: 'always' });
  const sentinels = await startSentinels({ main: first });
  await sentinels.ready('main', 1);
  const failovers: Failover[] = [];
  const isMaster = async (server: RedisServer): Promise<boolean> =>
    /role:master/.test(await server.command('INFO', 'replication').catch(() => ''));
  const masters = async (): Promise<RedisServer[]> => {
    const port = await sentinels.master('main');
    return [first, second].filter((server) => server.port === port);
  };
  const fails = async (): Promise<void> => {
    if (failovers.length > 0) return;
    const fromMs = nowMs();
    failovers.push({ fromMs, toMs: Number.POSITIVE_INFINITY });
    await sentinels.givesUpAfter('main', 500);
    await first.kill();
    await waitFor(() => isMaster(second), { timeoutMs: 20_000, what: 'the replica to be promoted' });
    await sentinels.givesUpAfter('main', patientMs);
    failovers[0] = { fromMs, toMs: nowMs() + slackMs };
  };
  return {
    address: { kind: 'sentinel', ports: sentinels.ports },
    faults: [...serverFaults([second]), { name: 'failover', weight: 1, run: fails }],
    failovers,
    disturb() {},
    heal() {},
    masters,
    async close() {
      await sentinels.stop();
      await Promise.all([first, second].map((server) => server.discard()));
    },
  };
}

/** The time after a failover in which a grant from before the failover may still arrive. */
const slackMs = 1000;

async function cluster(): Promise<Place> {
  const nodes = await startCluster(3, 1);
  const failovers: Failover[] = [];
  let isMoving = false;
  let dead: RedisServer | undefined;
  const fails = async (): Promise<void> => {
    if (failovers.length > 0 || isMoving) return;
    dead = await nodes.nodeOf('{m}:1');
    const fromMs = nowMs();
    failovers.push({ fromMs, toMs: Number.POSITIVE_INFINITY });
    await nodes.givesUpSoon();
    await dead.kill();
    await nodes.failedOver(dead);
    failovers[0] = { fromMs, toMs: nowMs() + slackMs };
  };
  const moves = async (): Promise<void> => {
    if (failovers.length > 0 || isMoving) return;
    isMoving = true;
    const move = await nodes.move('{m}:1', await nodes.otherThan(await nodes.nodeOf('{m}:1')));
    await sleep(50);
    await move.end();
    isMoving = false;
  };
  const masters = async (): Promise<RedisServer[]> => {
    const all = await Promise.all(
      nodes.nodes.map(async (node) => {
        return /role:master/.test(await node.command('INFO', 'replication').catch(() => '')) && node;
      }),
    );
    return all.filter((node) => node !== false);
  };
  return {
    address: { kind: 'cluster', ports: nodes.nodes.map(({ port }) => port) },
    faults: [
      ...serverFaults(nodes.nodes.slice(1, 3), 400, (server) => server === dead),
      { name: 'failover', weight: 1, run: fails },
      { name: 'slot moved', weight: 3, run: moves },
    ],
    failovers,
    disturb() {},
    heal() {},
    masters,
    close: () => nodes.stop(),
  };
}

/** Shards behind one endpoint, for plain clients. */
async function endpoint(): Promise<Place> {
  const shards = await startEndpoint();
  const proxy = await startProxy(shards.port);
  const line = lossyLine(proxy);
  return {
    address: { kind: 'redis', url: proxy.url },
    faults: [...serverFaults(shards.nodes, 400), ...lineFaults(proxy)],
    failovers: [],
    ...line,
    masters: async () => shards.nodes,
    async close() {
      await proxy.stop();
      await shards.discard();
    },
  };
}

async function sharedMemory(): Promise<Place> {
  const name = `torture-${randomUUID()}`;
  return {
    address: { kind: 'shared-memory', name },
    execPath: nodeWithSqlite(),
    faults: [],
    failovers: [],
    disturb() {},
    heal() {},
    masters: async () => [],
    async close() {
      rmSync(`${tmpdir()}/${name}`, { recursive: true, force: true });
    },
  };
}

/** @param maxMs How long a server may stand still without being taken for dead. */
function serverFaults(
  servers: readonly RedisServer[],
  maxMs = 1200,
  isDead: (server: RedisServer) => boolean = () => false,
): Fault[] {
  return servers.flatMap((server) => {
    return faultsOf(server, maxMs).map((fault) => ({
      ...fault,
      run: async (between) => (isDead(server) ? undefined : fault.run(between)),
    }));
  });
}

function faultsOf(server: RedisServer, maxMs: number): Fault[] {
  return [
    {
      name: 'server stopped',
      weight: 3,
      async run(between) {
        await server.pause();
        await sleep(between(50, maxMs));
        await server.resume();
      },
    },
    { name: 'CLIENT KILL', weight: 3, run: () => server.command('CLIENT', 'KILL', 'TYPE', 'normal') },
    { name: 'CLIENT KILL pubsub', weight: 3, run: () => server.command('CLIENT', 'KILL', 'TYPE', 'pubsub') },
    { name: 'SCRIPT FLUSH', weight: 2, run: () => server.command('SCRIPT', 'FLUSH') },
    {
      name: 'CLIENT PAUSE',
      weight: 2,
      async run(between) {
        const ms = Math.round(between(50, Math.min(maxMs, 800)));
        await server.command('CLIENT', 'PAUSE', ms, 'ALL');
        await sleep(ms);
      },
    },
    {
      name: 'companions deleted',
      weight: 3,
      async run(between) {
        const names = [
          '{m}:1:queue',
          '{m}:2:queue',
          '{rw-writer}:queue',
          '{permits}:queue',
          '{permits}:limit',
          'redis-exp-lock:fence',
        ];
        const name = names[Math.floor(between(0, names.length))]!;
        await server.command('DEL', name).catch(() => {}); // of another slot
      },
    },
  ];
}

function lineFaults(proxy: FaultProxy): Fault[] {
  const during = (begin: () => void) => async (between: (from: number, to: number) => number) => {
    begin();
    await sleep(between(50, 700));
    proxy.heal();
  };
  return [
    { name: 'nothing travels', weight: 2, run: during(() => proxy.blackHole()) },
    { name: 'no replies', weight: 2, run: during(() => proxy.halfOpen()) },
    { name: 'replies in pieces', weight: 1, run: during(() => proxy.dribble(7, 1)) },
    { name: 'replies late', weight: 6, run: (between) => repliesLate(proxy, between) },
    { name: 'connections reset', weight: 2, run: async () => proxy.resetAll() },
  ];
}

/**
 * Half of the connections hear nothing for a while, and then all at once, in time for their requests. By then other processes
 * may have had what was granted to them.
 */
async function repliesLate(proxy: FaultProxy, between: (from: number, to: number) => number): Promise<void> {
  const ms = between(0.3, 0.95) * commandTimeoutMs;
  const endMs = nowMs() + ms;
  const lateOnes = Math.floor(between(0, 2));
  const rule = proxy.onCommand(({ connection }) => (connection % 2 === lateOnes ? replyAt(endMs) : undefined));
  await sleep(ms);
  rule.remove();
}

function replyAt(endMs: number): Action {
  return {
    async reply(link, reply) {
      if (nowMs() < endMs) await link.pause(endMs - nowMs());
      await link.toClient(reply);
    },
  };
}

function killAndRestart(server: RedisServer): Fault {
  return {
    name: 'server killed',
    weight: 2,
    async run(between) {
      await server.kill();
      await sleep(between(0, 500));
      await server.start();
    },
  };
}
