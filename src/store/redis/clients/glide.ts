// Valkey GLIDE, standalone and cluster. The client routes a script by its keys, has no connection of its own to give, and words
// errors in its own way. Scripts are sent as plain commands: GLIDE's class Script would have to be imported.
import type { ScriptClient, SendWords } from '../client';
import { clientOf, type ForeignClient, hasMethods } from './shape';

/** GLIDE's `Decoder.String`: replies as text, whatever the client is configured to return. */
const asText = { decoder: 1 };

export function glide(client: ForeignClient): ScriptClient {
  const clustered = hasMethods(client, 'pubsubShardChannels');
  const send: SendWords = (words) => client.customCommand(words, asText).catch(inRedisWords);
  const common = clientOf(client, send);
  return {
    ...common,
    // Only GLIDE's cluster client knows sharded channels.
    clustered,
    // The client connects when it is made and reconnects by itself; it shows only that it was closed.
    readiness: () => (client.isClosed === true ? 'closed' : 'ready'),
    masters: clustered ? undefined : common.masters,
  };
}

/** GLIDE's names for the first words of Redis's errors. Other words stay the same, with a colon after them. */
const redisWords: Readonly<Record<string, string>> = {
  Ask: 'ASK',
  BusyLoadingError: 'LOADING',
  ClusterDown: 'CLUSTERDOWN',
  CrossSlot: 'CROSSSLOT',
  MasterDown: 'MASTERDOWN',
  Moved: 'MOVED',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
  ReadOnly: 'READONLY',
  ResponseError: 'ERR',
  TryAgain: 'TRYAGAIN',
};

function inRedisWords(error: Error): never {
  const [, word, text] = /^(?:An error was signalled by the server: - )?(\w+): (.*)$/s.exec(error.message) ?? [];
  const code = word && (redisWords[word] ?? (/^[A-Z]+$/.test(word) ? word : undefined));
  throw code ? new Error(`${code} ${text}`, { cause: error }) : error;
}
