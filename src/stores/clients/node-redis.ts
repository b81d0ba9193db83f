// node-redis 4, 5 and 6: client, cluster, sentinel and pool. They run scripts alike; the rest differs by kind and major.

import { slotOf } from '../../keys';
import type { DedicatedClient, Readiness, ScriptClient } from '../clients';
import { type Line, type OpenLine, subscriber } from './messages';
import { countOf, type Foreign, hasMethods, noDedicated, policyIn } from './shape';

/** A way to run commands has a state: the objects of multi() and legacy() have the same methods, and none. */
export function isNodeRedis(client: unknown): client is Foreign {
  if (!hasMethods(client, 'evalSha', 'eval')) return false;
  const { isReady, isOpen } = client as Foreign;
  return typeof isReady === 'boolean' || typeof isOpen === 'boolean';
}

type Kind = 'client' | 'cluster' | 'sentinel' | 'pool';

function kindOf(client: Foreign): Kind {
  if (hasMethods(client, 'nodeClient')) return 'cluster';
  if (hasMethods(client, 'getMasterNode')) return 'sentinel';
  return typeof client.totalClients === 'number' ? 'pool' : 'client';
}

export function nodeRedis(client: Foreign): ScriptClient {
  const kind = kindOf(client);
  const commands = plain(client);
  const keyPrefix: string = client._keyPrefix ?? client.options?.keyPrefix ?? '';
  const openLine = lineOf(client, kind);
  const readiness = readinessOf(client, kind);
  const lookFor = kind === 'cluster' ? looker(commands) : undefined;
  return {
    keyPrefix,
    clustered: kind === 'cluster',
    readiness,
    ...(lookFor || keyPrefix !== '' ? rawScripts(client, commands, kind, lookFor) : scripts(client, commands, kind)),
    async evictionPolicy() {
      const node = kind === 'cluster' ? plain(await client.nodeClient(client.masters[0])) : commands;
      return policyIn(await node.configGet('maxmemory-policy'));
    },
    async serverInfo() {
      const node = kind === 'cluster' ? plain(await client.nodeClient(client.masters[0])) : commands;
      return String(await node.info('server'));
    },
    generation: kind === 'client' ? countOf(client, 'ready') : undefined,
    nodeOf: (key) => (kind === 'cluster' ? (masterOf(client, key)?.address ?? '') : ''),
    lookFor,
    dedicate(key) {
      const node = kind === 'cluster' ? (masterOf(client, key)?.client ?? {}) : client;
      if (kind === 'sentinel' || !hasMethods(node, 'duplicate', 'wait')) throw noDedicated(client);
      return dedicated(node);
    },
    subscribe: openLine && subscriber(openLine, () => readiness() === 'closed'),
  };
}

/**
 * The same client without what its owner wants for his own commands: deadlines are ours (and an AbortSignal for each
 * command costs a lot), and a mapping of types must not change our replies. 4 has no such options, but a legacy mode
 * whose methods take callbacks.
 */
function plain(client: Foreign): Foreign {
  if (client.options?.legacyMode) return client.v4;
  return client.withCommandOptions?.(ourOptions) ?? client;
}

/** Named, because what is not named stays as the owner has it. */
const ourOptions = { timeout: undefined, typeMapping: undefined };

type Scripts = Pick<ScriptClient, 'eval' | 'evalsha'>;

/** By name where somebody stands in between (a wrapper, a spy), and in a pool; else as words, a tenth of a pair less to do. */
function scripts(client: Foreign, commands: Foreign, kind: Kind): Scripts {
  const raw = rawScripts(client, commands, kind);
  const isNamed = kind === 'pool' || !client.sendCommand || client.options?.legacyMode;
  const named = (): Foreign | undefined => {
    if (isNamed) return commands;
    return client.evalSha === Object.getPrototypeOf(client).evalSha ? undefined : client;
  };
  return {
    evalsha: (sha, keys, args) => named()?.evalSha(sha, { keys, arguments: args }) ?? raw.evalsha(sha, keys, args),
    eval: (lua, keys, args) => named()?.eval(lua, { keys, arguments: args }) ?? raw.eval(lua, keys, args),
  };
}

/**
 * As words. A `keyPrefix` (since 6) leaves them alone; otherwise it would go before each key by itself, inside or outside of
 * the braces. And the cluster of 4 sends a script to any node, until it is not redirected any more, unless it is told the key.
 */
function rawScripts(client: Foreign, commands: Foreign, kind: Kind, lookFor?: LookFor): Scripts {
  const isServed = lookFor && lookout(client, lookFor);
  const send = (name: string, script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> => {
    const words = [name, script, String(keys.length), ...keys, ...args];
    if (isServed?.(keys[0]!) === false) return Promise.reject(new Error('CLUSTERDOWN its node is not connected'));
    // In 5 the options of `commands` are not those of its sendCommand.
    if (kind === 'cluster') return commands.sendCommand(keys[0], false, words, ourOptions);
    return kind === 'sentinel'
      ? commands.sendCommand(false, words, ourOptions)
      : commands.sendCommand(words, ourOptions);
  };
  return {
    evalsha: (sha, keys, args) => send('EVALSHA', sha, keys, args),
    eval: (lua, keys, args) => send('EVAL', lua, keys, args),
  };
}

const lookPauseMs = 100;

/**
 * Whether the node of a key is connected. A cluster of 4 or 5 learns of a failover only from a node that says MOVED, which a dead
 * one never does; 6 looks after some seconds. So nothing is left to the queue of a dead one, and any node is asked for the key:
 * the client goes from one to the next, and reads the map of the slots anew, until one has it.
 */
function lookout(client: Foreign, lookFor: LookFor): (key: string) => boolean {
  return (key) => {
    if (masterOf(client, key)?.client?.isReady !== false) return true;
    lookFor(key);
    return false;
  };
}

type LookFor = (key: string) => void;

/** Asks any node: one that has it not says who has, and the client reads the map of the slots anew. One question is enough for many. */
function looker(commands: Foreign): LookFor {
  let againMs = 0;
  return (key) => {
    if (performance.now() < againMs) return;
    againMs = performance.now() + lookPauseMs;
    commands.sendCommand(undefined, false, ['PTTL', key], ourOptions).catch(() => {});
  };
}

function masterOf(cluster: Foreign, key: string): Foreign | undefined {
  return cluster.slots[slotOf(key)]?.master;
}

function readinessOf(client: Foreign, kind: Kind): () => Readiness {
  const isReady = (): boolean => {
    if (kind === 'pool') return client.isOpen && !client.isClosing;
    // A cluster of 4 or 5 is open while it is still asking for the slots, and would fail on them.
    if (kind === 'cluster') return (client.isReady ?? client.isOpen) && client.masters.length > 0;
    return client.isReady ?? client.isOpen;
  };
  return () => {
    if (isReady()) return 'ready';
    return client.isOpen === false || client.isClosing === true ? 'closed' : 'soon';
  };
}

/** A connection of our own. Without a listener of ours a dropped socket of it would crash the process. */
function duplicateOf(client: Foreign, options?: object): Foreign {
  const legacy = client.options?.legacyMode ? { legacyMode: false } : undefined;
  // Nothing of ours is cached, and the end of our connection would clear a cache that it shared.
  const connection = client.duplicate({ clientSideCache: undefined, ...legacy, ...options });
  connection.on('error', () => {});
  return connection;
}

/** `destroy` is new in 5; 4 calls it `disconnect`, whose promise may reject. Either may throw when it is closed already. */
function destroy(connection: Foreign): void {
  try {
    if (typeof connection.destroy === 'function') connection.destroy();
    else connection.disconnect().catch(() => {});
  } catch {
    // closed already
  }
}

function dedicated(client: Foreign): DedicatedClient {
  const connection = duplicateOf(client);
  const commands = plain(connection);
  let generation = 0;
  connection.on('ready', () => {
    generation += 1;
    // Our own connection must not keep a process alive whose own work is done.
    connection.unref();
  });
  const opened = openLike(client, connection);
  // It would go on redialling, and nobody would know of it any more.
  opened.catch(() => destroy(connection));
  return {
    opened,
    script: nodeRedis(connection),
    wait: (replicas, timeoutMs) => commands.wait(replicas, timeoutMs),
    generation: () => generation,
    close: () => destroy(connection),
  };
}

/** A duplicate begins in the database of the options; its owner may have selected another one since. */
async function openLike(client: Foreign, connection: Foreign): Promise<void> {
  await connection.connect();
  const database = await databaseOf(client);
  if (database !== (client.options?.database ?? 0)) await connection.select(database);
}

/** That of the options where it may not be asked. */
async function databaseOf(client: Foreign): Promise<number> {
  try {
    return (await plain(client).clientInfo()).db;
  } catch {
    return client.options?.database ?? 0;
  }
}

function lineOf(client: Foreign, kind: Kind): OpenLine | undefined {
  if (kind === 'sentinel') return sentinelLine(client);
  if (kind === 'cluster') return lineOver(() => client.nodeClient(anyOf(client.masters)));
  return kind === 'client' && hasMethods(client, 'duplicate', 'subscribe') ? lineOver(() => client) : undefined;
}

/** PUBLISH is broadcast in a cluster: any node will do, and after a loss perhaps another. */
function anyOf<T>(nodes: readonly T[]): T {
  return nodes[Math.floor(Math.random() * nodes.length)]!;
}

function lineOver(node: () => Foreign | Promise<Foreign>): OpenLine {
  return async (onMessage, onEnd) => {
    const client = await node();
    const connection = duplicateOf(client, { socket: { ...client.options?.socket, reconnectStrategy: false } });
    // It does not redial, so an error is its end; closed by us it ends without one.
    connection.on('error', onEnd);
    await connection.connect();
    connection.unref();
    return {
      subscribe: (channel) => connection.subscribe(channel, (message: string) => onMessage(channel, message)),
      unsubscribe: (channel) => connection.unsubscribe(channel),
      ping: () => connection.ping(),
      close: () => destroy(connection),
    };
  };
}

/**
 * A sentinel's own connection for messages, which it moves along with the master; it says only that something was wrong.
 * Subscribing anew is confirmed once that connection stands again.
 */
function sentinelLine(sentinel: Foreign): OpenLine {
  return async (onMessage, onEnd): Promise<Line> => {
    const listeners = new Map<string, (message: string) => void>();
    const unsubscribe = (channel: string): Promise<unknown> => sentinel.unsubscribe(channel, listeners.get(channel));
    sentinel.on('error', onEnd);
    sentinel.on('topology-change', onEnd);
    return {
      subscribe(channel) {
        const listener = (message: string): void => onMessage(channel, message);
        listeners.set(channel, listener);
        return sentinel.subscribe(channel, listener);
      },
      unsubscribe,
      close() {
        sentinel.removeListener('error', onEnd);
        sentinel.removeListener('topology-change', onEnd);
        for (const channel of listeners.keys()) unsubscribe(channel).catch(() => {});
      },
    };
  };
}
