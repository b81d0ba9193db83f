// @upstash/redis: commands over HTTP, one request each, without a connection and without messages. Commands bypass the client's
// methods, which would read each text of a reply as JSON and collect commands in pipelines of their own.
//
// Invariant: an error that leaves here never has the token of the database, a password of its address, or the failed command.
import type { ScriptClient, SendWords } from '../client';
import { clientOf, type ForeignClient, hasMethods } from './shape';

export function upstash(client: ForeignClient): ScriptClient {
  const send = hasMethods(client.client, 'request') ? overHttp(client.client) : byMethods(client);
  const common = clientOf(client, (words) =>
    send(words).catch((error: unknown) => {
      throw withoutSecrets(error, client.client ?? {});
    }),
  );
  return {
    ...common,
    advice: 'the Upstash client has no url or no token',
    readiness: () => (client.client?.hasCredentials === false ? 'closed' : 'ready'),
    masters: hasMethods(client.client, 'request') ? common.masters : undefined,
  };
}

function overHttp(http: ForeignClient): SendWords {
  return async (words) => {
    const { result, error } = await http.request({ body: words });
    if (error) throw new Error(String(error));
    return result;
  };
}

/** Sends through the methods of an object that only looks like this client, and turns the values that they have parsed into text again. */
function byMethods(client: ForeignClient): SendWords {
  return async ([name, script, count, ...rest]) => {
    const keys = rest.splice(0, Number(count));
    return asText(await client[name!.toLowerCase()](script, keys, rest));
  };
}

function asText(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(asText);
  return (typeof reply === 'object' && reply !== null) || typeof reply === 'boolean' ? JSON.stringify(reply) : reply;
}

/**
 * The error without secrets. The client appends the whole command to Redis's text. The client also quotes an answer that is no
 * JSON, which may be an echo of our request or a word that looks like Redis's own; and an address that `fetch` refuses, with
 * its password.
 */
function withoutSecrets(error: unknown, { headers, baseUrl }: ForeignClient): Error {
  const { name, message, cause } = error as Error;
  if (name === 'UpstashJSONParseError' || cause instanceof SyntaxError)
    return new Error('the answer over HTTP was no JSON');
  const [said] = message.split(', command was: ') as [string];
  const reason = cause instanceof Error ? `${said}: ${cause.message}` : said;
  const [, bearer] = String(headers?.authorization ?? '').split(' ');
  const [, user] = /\/\/([^/@]*)@/.exec(String(baseUrl)) ?? [];
  const secrets = [bearer, user, ...(user?.split(':') ?? [])].filter((each) => each !== undefined && each !== '');
  const text = secrets.reduce<string>((left, secret) => left.replaceAll(secret!, '…'), reason);
  return new Error(text.replace(/\bBearer \S+/gi, '…').replace(/^unauthorized\b/i, 'NOAUTH $&'));
}
