/**
 * Upstash's REST protocol in front of a real redis-server: a command is a JSON list that is posted to `/`, several are a list of lists to
 * `/pipeline` or `/multi-exec`; replies are JSON, texts in base64 on request; an error of Redis is a 400.
 *
 * Invariant: one connection to the server, made again as soon as it breaks; a request whose reply is lost with it loses its own connection.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import IORedis from 'ioredis-5';

/** The configuration of @upstash/redis. */
export interface Bridge {
  readonly url: string;
  readonly token: string;
  /** Requests that are here as a whole; those that `answer` had are not counted. */
  readonly arrived: number;
  /** Every request from now on is answered by this; undefined: as usual. */
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  close(): void;
}

const token = 'the-credential-of-the-database';

export async function startBridge(redisUrl: string): Promise<Bridge> {
  const redis = new IORedis(redisUrl, {
    retryStrategy: () => 10,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    disableClientInfo: true,
  });
  redis.on('error', () => {});
  await once(redis, 'ready');

  const bridge = { token, url: '', arrived: 0, answer: undefined, close } as {
    -readonly [K in keyof Bridge]: Bridge[K];
  };
  const server = createServer((request, response) => {
    if (bridge.answer !== undefined) return bridge.answer(request, response);
    bodyOf(request)
      .then((body) => {
        bridge.arrived += 1;
        return serve(redis, body, request, response);
      })
      .catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  bridge.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return bridge;

  function close(): void {
    redis.disconnect();
    server.close();
    server.closeAllConnections();
  }
}

async function serve(redis: IORedis, body: unknown, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const send = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  if (request.headers.authorization !== `Bearer ${token}`) return send(401, { error: 'Unauthorized' });
  const encode = request.headers['upstash-encoding'] === 'base64' ? inBase64 : (reply: unknown) => reply;
  const run = async ([name, ...args]: string[]): Promise<{ result: unknown } | { error: string }> => {
    try {
      return { result: encode(await redis.call(name!, ...args.map(String))) };
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error; // the connection, not the command
      return { error: (error as Error).message };
    }
  };
  if (request.url === '/') {
    const answer = await run(body as string[]);
    return send('error' in answer ? 400 : 200, answer);
  }
  send(200, await Promise.all((body as string[][]).map(run)));
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  let text = '';
  request.setEncoding('utf8');
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

function inBase64(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(inBase64);
  return typeof reply === 'string' && reply !== 'OK' ? Buffer.from(reply).toString('base64') : reply;
}
