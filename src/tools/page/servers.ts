// The two kinds of servers that the page can be mounted in: servers that pass a request and a response of Node, and servers that pass a
// Request and take a Response.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { answer, type Desk, routeOf } from './answers';
import type { Incoming } from './checks';

/** The maximum length of a body. */
const maxBytes = 8192;

/** A request of Node with the fields that frameworks add. */
interface Mounted extends IncomingMessage {
  originalUrl?: string;
  /** The body, if Express or another framework has already read it. */
  body?: unknown;
}

// ---- Node

/** Answers a request of Node, or calls `next` if the path is not a path of the page. */
export function serveNode(
  req: Mounted,
  res: ServerResponse,
  next: ((error?: unknown) => void) | undefined,
  desk: Desk,
): void {
  const path = (req.url ?? '/').split(/[?#]/, 1)[0]!;
  // A caller with `next` also serves other paths. A caller without it passes every request to the page.
  const route = routeOf(path, next !== undefined || req.originalUrl !== undefined);
  if (route === undefined && next !== undefined) return next();
  answer(route, ofNode(req), desk).then((given) => send(given, req, res));
}

function ofNode(req: Mounted): Incoming {
  return {
    method: req.method ?? 'GET',
    header: (name) => {
      const value = req.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    peer: req.socket?.destroyed ? '' : req.socket?.remoteAddress, // A closed socket has no address.
    body: async () => {
      if (req.body !== undefined) return alreadyRead(req.body);
      const length = Number(req.headers['content-length'] ?? 0);
      return length > maxBytes ? undefined : read(req);
    },
    gone: undefined,
    original: req,
  };
}

function alreadyRead(body: unknown): string | undefined {
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? String(body) : JSON.stringify(body);
  return Buffer.byteLength(text) > maxBytes ? undefined : text;
}

async function read(chunks: AsyncIterable<Uint8Array>): Promise<string | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Sends a response, and each part of it only when the last one has left. The end of either side ends the other. */
function send(response: Response, req: IncomingMessage, res: ServerResponse): void {
  const headers = Object.fromEntries(response.headers);
  if (req.httpVersionMajor > 1) delete headers.connection; // HTTP/2 has no such header.
  res.writeHead(response.status, headers);
  if (response.body === null) return void res.end();
  res.flushHeaders();
  const body = Readable.fromWeb(response.body as ReadableStream, { highWaterMark: 0 }); // No part is taken before it can leave.
  pipeline(body, res, () => {});
  body.on('data', () => (res as { flush?: () => void }).flush?.()); // Compressing middleware adds `flush`.
}

// ---- fetch

export function serveFetch(request: Request, desk: Desk): Promise<Response> {
  const { pathname, host } = new URL(request.url);
  return answer(routeOf(pathname, false), ofFetch(request, host), desk);
}

function ofFetch(request: Request, host: string): Incoming {
  return {
    method: request.method,
    // Servers that make a Request keep the host in its URL, and often set no Host header.
    header: (name) => request.headers.get(name) ?? (name === 'host' ? host : undefined),
    peer: undefined,
    body: async () => (request.body === null ? '' : read(request.body)),
    gone: request.signal,
    original: request,
  };
}
