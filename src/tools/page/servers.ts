// The two kinds of servers that the page can be mounted in: servers that pass a request and a response of Node, and servers that pass a
// Request and take a Response.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { answer, type Desk, type PageResponse, routeOf } from './answers';
import { type Incoming, maxBytes } from './checks';
import type { Seat } from './watch';

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

function send({ status, headers, body, stream }: PageResponse, req: IncomingMessage, res: ServerResponse): void {
  if (res.destroyed) return;
  // HTTP/2 has no Connection header.
  const { connection, ...others } = headers;
  res.writeHead(status, connection === undefined || req.httpVersionMajor > 1 ? others : headers);
  if (stream === undefined) return void res.end(req.method === 'HEAD' ? undefined : body);
  res.flushHeaders();
  const seat = stream({
    write: (text) => {
      const hasRoom = res.write(text);
      (res as { flush?: () => void }).flush?.(); // Compressing middleware adds `flush`.
      return hasRoom;
    },
    end: () => {
      seat.leave();
      res.destroy();
    },
  });
  res.on('drain', () => seat.onRoom());
  res.on('close', () => seat.leave());
  res.on('error', () => seat.leave());
}

// ---- fetch

export async function serveFetch(request: Request, desk: Desk): Promise<Response> {
  const { pathname, host } = new URL(request.url);
  const { status, headers, body, stream } = await answer(routeOf(pathname, false), ofFetch(request, host), desk);
  if (stream === undefined) return new Response(request.method === 'HEAD' ? null : body!, { status, headers });
  return new Response(streamOf(stream, request.signal), { status, headers });
}

function ofFetch(request: Request, host: string): Incoming {
  return {
    method: request.method,
    // Servers that make a Request keep the host in its URL, and often set no Host header.
    header: (name) => request.headers.get(name) ?? (name === 'host' ? host : undefined),
    peer: undefined,
    body: async () => (request.body === null ? '' : read(request.body)),
    original: request,
  };
}

function streamOf(stream: NonNullable<PageResponse['stream']>, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let seat: Seat;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const leave = (): void => {
        seat.leave();
        signal.removeEventListener('abort', end);
      };
      const end = (): void => {
        leave();
        controller.close();
      };
      seat = stream({
        write: (text) => {
          controller.enqueue(encoder.encode(text));
          return (controller.desiredSize ?? 0) > 0;
        },
        end,
      });
      signal.addEventListener('abort', end, { once: true });
    },
    pull: () => seat.onRoom(),
    cancel: () => seat.leave(),
  });
}
