// RedisClient, which Bun brings along. The client connects with its first command, reconnects by itself, and shows only whether
// it is connected.
import type { Readiness, ScriptClient } from '../client';
import { type ForeignClient, hasMethods, noDedicated, policyIn } from './shape';
import { type OpenSubscriber, subscribeOver } from './subscriptions';

export function isBun(client: unknown): client is ForeignClient {
  return hasMethods(client, 'send');
}

export function bun(client: ForeignClient): ScriptClient {
  const run = (name: string, ...words: string[]): Promise<unknown> => client.send(name, words);
  return {
    keyPrefix: '',
    clustered: false,
    readiness: readinessOf(client),
    evalsha: (sha, keys, args) => run('EVALSHA', sha, String(keys.length), ...keys, ...args),
    eval: (lua, keys, args) => run('EVAL', lua, String(keys.length), ...keys, ...args),
    async evictionPolicy() {
      return policyIn(await run('CONFIG', 'GET', 'maxmemory-policy'));
    },
    async serverInfo() {
      return String(await run('INFO', 'server'));
    },
    masters: async () => [([name, ...words]) => client.send(name, words)],
    nodeOf: () => '',
    dedicate() {
      throw noDedicated(client);
    },
    // A connection with a subscription keeps a process of Bun alive; the connection ends with the client, at the next
    // heartbeat.
    subscribe: hasMethods(client, 'duplicate', 'subscribe')
      ? subscribeOver(subscriberOn(client), () => client.connected === false)
      : undefined,
  };
}

/**
 * The readiness of the client. The client's owner need not connect it, so our side does, once, as the owner's first command
 * would. A client that was closed looks like one that reconnects.
 */
function readinessOf(client: ForeignClient): () => Readiness {
  let isStarted = false;
  return () => {
    if (client.connected !== false) isStarted = true;
    else if (!isStarted) {
      isStarted = true;
      client.connect().catch(() => {});
    }
    return client.connected === false ? 'soon' : 'ready';
  };
}

/** Opens a subscriber, whose connection reconnects by itself but does not subscribe again: a second connection ends the first. */
function subscriberOn(client: ForeignClient): OpenSubscriber {
  return async (onMessage, onEnd) => {
    const connection = await client.duplicate();
    await connection.connect();
    connection.onclose = onEnd;
    connection.onconnect = onEnd;
    return {
      subscribe: (channel) => connection.subscribe(channel, (message: string) => onMessage(channel, message)),
      unsubscribe: (channel) => connection.unsubscribe(channel),
      ping: () => connection.ping(),
      close: () => connection.close(),
    };
  };
}
