// node-redis 4, 5 and 6: client, cluster, sentinel and pool. All run scripts alike; the rest differs by kind and major version.

import { slotOf } from '../../../core/keys';
import type { DedicatedClient, Readiness, ScriptClient, SendWords } from '../client';
import { anyOf, clientOf, countOf, type ForeignClient, hasMethods, noDedicated } from './shape';
import { type OpenSubscriber, subscribeOver } from './subscriptions';

type NodeRedisKind = 'client' | 'cluster' | 'sentinel' | 'pool';

function kindOf(client: ForeignClient): NodeRedisKind {
  if (hasMethods(client, 'nodeClient')) return 'cluster';
  if (hasMethods(client, 'getMasterNode')) return 'sentinel';
  return typeof client.totalClients === 'number' ? 'pool' : 'client';
}

export function nodeRedis(client: ForeignClient): ScriptClient {
  const kind = kindOf(client);
  const commands = plain(client);
  const keyPrefix: string = client._keyPrefix ?? client.options?.keyPrefix ?? '';
  const openSubscriber = subscriberOf(client, kind);
  const readiness = readinessOf(client, kind);
  const relocate = kind === 'cluster' ? relocator(commands) : undefined;
  const masters = (): SendWords[] => mastersOf(client, commands, kind);
  return {
    ...clientOf(client, (words) => masters()[0]!(words)),
    keyPrefix,
    clustered: kind === 'cluster',
    readiness,
    ...scripts(client, commands, kind, { keyPrefix, relocate }),
    masters,
    generation: kind === 'client' ? countOf(client, 'ready') : undefined,
    nodeOf: (key) => nodeOf(client, kind, key),
    relocate,
    dedicate(key) {
      if (kind === 'cluster') return dedicated(masterWith(client, key));
      if (kind === 'sentinel' && hasMethods(client, '_execute')) return dedicated(masterBehind(client));
      if (!hasMethods(client, 'duplicate')) throw noDedicated(client);
      return dedicated(Promise.resolve(client));
    },
    subscribe: openSubscriber && subscribeOver(openSubscriber, () => readiness() === 'closed'),
  };
}

/**
 * The same client without the options that its owner chose for commands. Deadlines are ours (and an AbortSignal for each
 * command costs a lot), and a mapping of types must not change our replies. Version 4 has no such options, but a legacy mode
 * whose methods take callbacks.
 */
function plain(client: ForeignClient): ForeignClient {
  if (client.options?.legacyMode) return client.v4;
  return client.withCommandOptions?.(ourOptions) ?? client;
}

function mastersOf(client: ForeignClient, commands: ForeignClient, kind: NodeRedisKind): SendWords[] {
  if (kind === 'sentinel') return [(words) => commands.sendCommand(false, words, ourOptions)];
  if (kind !== 'cluster') return [(words) => commands.sendCommand(words, ourOptions)];
  return client.masters.map((master: ForeignClient): SendWords => {
    return async (words) => plain(await client.nodeClient(master)).sendCommand(words, ourOptions);
  });
}

/** Named explicitly, because other options stay as the owner set them. */
const ourOptions = { timeout: undefined, typeMapping: undefined };

/**
 * Sends a script as words: a quarter less CPU for a sequential pair, no less for a batched one. But calls the client's method if
 * that is wrapped (by a spy, say). A `keyPrefix` (since 6) does not apply to words; otherwise it would go before each key by
 * itself, inside or outside of the braces. The cluster of 4 must be told the key: otherwise it sends a script to any node until
 * it is no longer redirected.
 */
function scripts(
  client: ForeignClient,
  commands: ForeignClient,
  kind: NodeRedisKind,
  { keyPrefix, relocate }: { readonly keyPrefix: string; readonly relocate: Relocate | undefined },
): Pick<ScriptClient, 'eval' | 'evalsha'> {
  const isNamed = !client.sendCommand || client.options?.legacyMode; // S23
  const isSentAsWords = relocate !== undefined || keyPrefix !== '';
  const named = (): ForeignClient | undefined => {
    if (isSentAsWords) return undefined;
    if (isNamed) return commands;
    return client.evalSha === Object.getPrototypeOf(client).evalSha ? undefined : client;
  };
  const send = (name: string, script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> => {
    const words = [name, script, String(keys.length), ...keys, ...args];
    // In 5 `sendCommand` does not use the options of `commands`.
    if (kind === 'sentinel') return commands.sendCommand(false, words, ourOptions);
    if (relocate === undefined) return commands.sendCommand(words, ourOptions);
    if (isServed(client, keys[0]!)) return commands.sendCommand(keys[0], false, words, ourOptions);
    relocate(keys[0]!);
    return Promise.reject(new Error('CLUSTERDOWN its node is not connected'));
  };
  return {
    evalsha: (sha, keys, args) => named()?.evalSha(sha, { keys, arguments: args }) ?? send('EVALSHA', sha, keys, args),
    eval: (lua, keys, args) => named()?.eval(lua, { keys, arguments: args }) ?? send('EVAL', lua, keys, args),
  };
}

/**
 * True unless the node of a key is known to be disconnected. A cluster of 4 or 5 learns of a failover only from a node that
 * replies MOVED, which a dead one never does; 6 checks after some seconds. So the offline queue of a dead node is never used.
 * Instead any node is asked for the key: the client goes from node to node, and reads the slot map again, until one has the key.
 */
function isServed(client: ForeignClient, key: string): boolean {
  return masterOf(client, key)?.client?.isReady !== false;
}

const relocatePauseMs = 100;

type Relocate = (key: string) => void;

/** Asks any node for the key. A node without it redirects, and the client reads the slot map again. One command is enough for many keys. */
function relocator(commands: ForeignClient): Relocate {
  let againMs = 0;
  return (key) => {
    if (performance.now() < againMs) return;
    againMs = performance.now() + relocatePauseMs;
    commands.sendCommand(undefined, false, ['PTTL', key], ourOptions).catch(() => {});
  };
}

/** The address of the node that has the key; behind sentinels that of the master, which changes with a failover. */
function nodeOf(client: ForeignClient, kind: NodeRedisKind, key: string): string {
  if (kind === 'cluster') return masterOf(client, key)?.address ?? '';
  const master = kind === 'sentinel' && client.getMasterNode();
  return master ? `${master.host}:${master.port}` : '';
}

function masterOf(cluster: ForeignClient, key: string): ForeignClient | undefined {
  return cluster.slots[slotOf(key)]?.master;
}

/** The cluster client's own client of the master that has the key. It is made now if there is none yet. */
async function masterWith(cluster: ForeignClient, key: string): Promise<ForeignClient> {
  const master = masterOf(cluster, key);
  if (master === undefined) throw new Error('CLUSTERDOWN its slot has no node');
  return cluster.nodeClient(master);
}

function readinessOf(client: ForeignClient, kind: NodeRedisKind): () => Readiness {
  const isReady = (): boolean => {
    if (kind === 'pool') return client.isOpen && !client.isClosing;
    // A cluster of 4 or 5 is already open while it still asks for the slots, and would fail without them.
    if (kind === 'cluster') return (client.isReady ?? client.isOpen) && client.masters.length > 0;
    return client.isReady ?? client.isOpen;
  };
  return () => {
    if (isReady()) return 'ready';
    return client.isOpen === false || client.isClosing === true ? 'closed' : 'soon';
  };
}

/** A connection of our own. It keeps no process alive, and without an error listener a dropped socket would end the process. */
function duplicateOf(client: ForeignClient, options?: object): ForeignClient {
  const legacy = client.options?.legacyMode ? { legacyMode: false } : undefined;
  // Our connection caches nothing, and its end would clear a cache that it shared.
  const connection = client.duplicate({ clientSideCache: undefined, ...legacy, ...options });
  connection.on('error', () => {});
  connection.on('ready', () => connection.unref());
  return connection;
}

/** Closes a connection. `destroy` is new in 5; 4 calls it `disconnect`, whose promise may reject. Either may throw on a closed connection. */
function destroy(connection: ForeignClient): void {
  try {
    if (typeof connection.destroy === 'function') connection.destroy();
    else connection.disconnect().catch(() => {});
  } catch {
    // closed already
  }
}

/** @param origin The client whose server and options the connection has. */
function dedicated(origin: Promise<ForeignClient>): DedicatedClient {
  const made = origin.then((client) => {
    const connection = duplicateOf(client);
    // Reconnecting must not keep the process alive once the owner has closed the client.
    connection.on('reconnecting', () => client.isOpen === false && destroy(connection)); // H77c
    const opened = openLike(client, connection).then(() => nodeRedis(connection));
    // A connection that failed to open would go on reconnecting, and nothing would be left to close it.
    opened.catch(() => destroy(connection));
    return { opened, connection };
  });
  return {
    opened: made.then(({ opened }) => opened),
    close: () => void made.then(({ connection }) => destroy(connection)).catch(() => {}),
  };
}

/** Connects and selects the client's present database; a duplicate starts in the database of the options. */
async function openLike(client: ForeignClient, connection: ForeignClient): Promise<void> {
  const database = client.options?.database ?? 0;
  let present = database;
  await connection.connect();
  try {
    present = (await plain(client).clientInfo()).db;
  } catch {
    // CLIENT INFO is not permitted
  }
  if (present !== database) await connection.select(present);
}

function subscriberOf(client: ForeignClient, kind: NodeRedisKind): OpenSubscriber | undefined {
  if (kind === 'sentinel') return hasMethods(client, '_execute') ? subscriberAtMaster(client) : undefined;
  if (kind === 'cluster') return subscriberOn(() => client.nodeClient(anyOf(client.masters)));
  return kind === 'client' && hasMethods(client, 'duplicate', 'subscribe') ? subscriberOn(() => client) : undefined;
}

function subscriberOn(node: () => ForeignClient | Promise<ForeignClient>): OpenSubscriber {
  return async (onMessage, onEnd) => {
    const client = await node();
    const connection = duplicateOf(client, { socket: { ...client.options?.socket, reconnectStrategy: false } });
    // The connection does not reconnect, so an error is its end; if our side closes it, no error follows.
    connection.on('error', onEnd);
    await connection.connect();
    return {
      subscribe: (channel) => connection.subscribe(channel, (message: string) => onMessage(channel, message)),
      unsubscribe: (channel) => connection.unsubscribe(channel),
      ping: () => connection.ping(),
      close: () => destroy(connection),
    };
  };
}

/** A subscriber at the present master, which ends when another one is found: a former master may live on and bring no further messages. */
function subscriberAtMaster(sentinel: ForeignClient): OpenSubscriber {
  const open = subscriberOn(() => masterBehind(sentinel));
  return async (onMessage, onEnd) => {
    const subscriber = await open(onMessage, onEnd);
    const close = (): void => {
      sentinel.removeListener('topology-change', onEnd);
      subscriber.close();
    };
    sentinel.on('topology-change', onEnd);
    return { ...subscriber, close };
  };
}

/** The sentinel client's own client of the present master. */
function masterBehind(sentinel: ForeignClient): Promise<ForeignClient> {
  return new Promise((resolve, reject) => {
    sentinel._execute(false, async (master: ForeignClient) => resolve(master)).catch(reject);
  });
}
