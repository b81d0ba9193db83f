// ioredis 5 and 6, client and Cluster, and iovalkey, which is a copy of 5.
import { slotOf } from '../../../core/keys';
import type { DedicatedClient, Readiness, ScriptClient } from '../client';
import { anyOf, clientOf, countOf, type ForeignClient } from './shape';
import { type OpenSubscriber, subscribeOver } from './subscriptions';

export function ioredis(client: ForeignClient): ScriptClient {
  const clustered = client.isCluster === true;
  const { stringNumbers = client.options.redisOptions?.stringNumbers } = client.options;
  const send = sender(client);
  const run: typeof send = stringNumbers === true ? (name, args) => send(name, args).then(numbers) : send;
  const relocate = (): void => void Promise.resolve(client.refreshSlotsCache()).catch(() => {});
  return {
    ...clientOf(client, (words) => plain(anyNode(client)).call(...words)),
    keyPrefix: String(client.options.keyPrefix ?? ''),
    clustered,
    readiness: () => readinessOf(client.status),
    evalsha(sha, keys, args) {
      return run('evalsha', [sha, String(keys.length), ...keys, ...args]);
    },
    eval(lua, keys, args) {
      return run('eval', [lua, String(keys.length), ...keys, ...args]);
    },
    masters() {
      return mastersOf(client).map((node) => (words) => plain(node).call(...words));
    },
    generation: clustered ? undefined : countOf(client, 'ready'),
    missesFailovers: client.options.sentinels?.length > 0 && client.options.failoverDetector !== true, // H92
    nodeOf: (key) => nodeOf(client, key),
    relocate: clustered ? relocate : undefined,
    dedicate(key) {
      const name = nodeOf(client, key);
      const node = mastersOf(client).find(({ options }) => `${options.host}:${options.port}` === name);
      return dedicated(node ?? anyNode(client));
    },
    subscribe: subscribeOver(subscriberOn(client), () => readinessOf(client.status) === 'closed'),
  };
}

/**
 * The same client without two of its options. `keyPrefix` would go before each key by itself, inside or outside of the braces.
 * The client's own pipelining would put our calls behind those of a later tick. ioredis reads both options from the object on
 * which a command is called; everything else, sending included, stays with the client itself.
 */
function plain(client: ForeignClient, sends: (command: object) => void = () => {}): ForeignClient {
  const options = Object.create(client.options, { keyPrefix: { value: '' }, enableAutoPipelining: { value: false } });
  const sendCommand = (command: object, ...others: unknown[]): unknown => {
    sends(command);
    return client.sendCommand(command, ...others);
  };
  return Object.create(client, { options: { value: options }, sendCommand: { value: sendCommand } });
}

/**
 * Sends scripts, whose arguments are all text. The client's own methods flatten and check the arguments of any command: a
 * quarter of the time of two `EVALSHA`, and more of a batch. The first command made by those methods reveals the class of
 * commands, which the class of the client does not name.
 */
function sender(client: ForeignClient): (name: 'eval' | 'evalsha', args: string[]) => Promise<unknown> {
  let Command: any;
  const commands = plain(client, (command) => {
    Command = command.constructor;
  });
  return (name, args) => {
    if (Command === undefined) return commands[name](...args); // S31
    const command = new Command(name, [], utf8);
    command.args = args;
    return client.sendCommand(command);
  };
}

const utf8 = { replyEncoding: 'utf8' };

/** The reply as numbers: with `stringNumbers` integers come as text. */
function numbers(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(numbers);
  return typeof reply === 'string' && /^-?\d{1,16}$/.test(reply) ? Number(reply) : reply;
}

function readinessOf(status: string): Readiness {
  if (status === 'ready') return 'ready';
  return status === 'wait' || status === 'end' || status === 'disconnecting' ? 'closed' : 'soon';
}

/** The address of the node that has a key; '' for a client of one server. */
function nodeOf(client: ForeignClient, key: string): string {
  return client.slots?.[slotOf(key)]?.[0] ?? '';
}

function mastersOf(client: ForeignClient): ForeignClient[] {
  return client.isCluster ? client.nodes('master') : [client];
}

/** The client, or any node of the cluster; after a lost connection another node may be better. */
function anyNode(client: ForeignClient): ForeignClient {
  const nodes = mastersOf(client);
  const ready = nodes.filter(({ status }) => status === 'ready');
  return anyOf(ready.length > 0 ? ready : nodes);
}

/**
 * A connection of our own, which keeps no process alive. Offline queueing, resending and subscribing again are for us to decide;
 * channels have no prefix. While no sentinel answers, ioredis would ask them all for ever, on a timer that keeps the process alive.
 */
function duplicateOf(client: ForeignClient, options: object): ForeignClient {
  const connection = client.duplicate({
    lazyConnect: true,
    sentinelRetryStrategy: null,
    keyPrefix: '',
    enableAutoPipelining: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    ...options,
  });
  connection.on('error', () => {});
  connection.on('ready', () => connection.stream.unref());
  return connection;
}

function dedicated(client: ForeignClient): DedicatedClient {
  const retryStrategy = (times: number): number | null =>
    readinessOf(client.status) === 'closed' ? null : Math.min(times * 50, 500);
  // Another database may have been selected since the client was made.
  const db = client.condition?.select ?? client.options.db;
  const connection = duplicateOf(client, { db, retryStrategy });
  const opened: Promise<ScriptClient> = connection.connect().then(() => ioredis(connection));
  // A connection that failed to open would go on reconnecting, and nothing would be left to close it.
  opened.catch(() => end(connection));
  return { opened, close: () => end(connection) };
}

function subscriberOn(client: ForeignClient): OpenSubscriber {
  return async (onMessage, onEnd) => {
    // Each attempt of a sentinel client leaves timers of two seconds behind.
    if (readinessOf(client.status) === 'closed') throw new Error('the Redis client was closed');
    const connection = duplicateOf(anyNode(client), { retryStrategy: null });
    connection.on('end', onEnd);
    connection.on('message', onMessage);
    await connection.connect().catch((error: unknown) => {
      end(connection);
      throw error;
    });
    return {
      subscribe: (channel) => connection.subscribe(channel),
      unsubscribe: (channel) => connection.unsubscribe(channel),
      ping: () => connection.ping(),
      close: () => end(connection),
    };
  };
}

/** Ends a connection at once. ioredis would wait two seconds for a stalled server or an ended connection, and keep the process alive. */
function end(connection: ForeignClient): void {
  if (connection.status === 'end') return;
  connection.disconnect();
  connection.stream?.destroy();
}
