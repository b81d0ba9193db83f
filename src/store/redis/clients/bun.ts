// RedisClient, which Bun brings along. The client connects with its first command, reconnects by itself, and shows only whether
// it is connected.
import type { Readiness, ScriptClient } from '../client';
import { clientOf, type ForeignClient, hasMethods } from './shape';
import { type OpenSubscriber, subscribeOver } from './subscriptions';

export function bun(client: ForeignClient): ScriptClient {
  return {
    ...clientOf(client, ([name, ...words]) => client.send(name, words)),
    readiness: readinessOf(client),
    // A connection with a subscription keeps a process of Bun alive; it ends with the client, at the next heartbeat.
    subscribe: hasMethods(client, 'duplicate', 'subscribe')
      ? subscribeOver(subscriberOn(client), () => client.connected === false)
      : undefined,
  };
}

/** Connects the client once, as its owner's first command would. A client that was closed looks like one that reconnects. */
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
