// The answers to requests, independent of the kind of server: the page, the stream of events, and the freeing of a lock.
import { STATUS_CODES } from 'node:http';
import { type Decision, type Incoming, isAllowed, isSameOrigin } from './checks';
import { html, scriptHash, styleHash } from './document';
import type { Watch } from './watch';

/** The three paths below the mount, each with its methods. */
const methods = { '': ['GET', 'HEAD'], events: ['GET'], free: ['POST'] } as const;
type Route = keyof typeof methods;

export interface Desk {
  readonly watch: Watch;
  readonly authorize: Decision;
  readonly actions: boolean;
}

/** The content policy: no other address, no frame, no foreign code. The only image is the icon in the page itself. */
const policy = [
  "default-src 'none'",
  `script-src '${scriptHash}'`,
  `style-src '${styleHash}'`,
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const always = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store, no-transform',
};

/**
 * The route of a path; undefined if it is not a path of the page.
 *
 * @param isExact True if the path begins at the mount. Otherwise the mount is unknown, and the last part of the path decides.
 */
export function routeOf(path: string, isExact: boolean): Route | undefined {
  const rest = isExact ? path.replace(/^\//, '') : path.slice(path.lastIndexOf('/') + 1);
  return Object.hasOwn(methods, rest) ? (rest as Route) : undefined;
}

/** Answers a request. Never rejects. */
export async function answer(route: Route | undefined, request: Incoming, desk: Desk): Promise<Response> {
  const response = await whole(route, request, desk);
  return request.method === 'HEAD' ? new Response(null, response) : response;
}

async function whole(route: Route | undefined, request: Incoming, desk: Desk): Promise<Response> {
  if (!(await isAllowed(request, desk.authorize))) return plain(403);
  if (route === undefined || (route === 'free' && !desk.actions)) return plain(404);
  const allowed: readonly string[] = methods[route];
  if (!allowed.includes(request.method)) return plain(405, { allow: allowed.join(', ') });
  if (route === 'free') return free(request, desk.watch);
  return route === '' ? respond(200, 'text/html; charset=utf-8', html) : events(request, desk.watch);
}

function events({ gone }: Incoming, watch: Watch): Response {
  if (watch.isFull) return plain(503, { 'retry-after': '10' });
  // Without this header nginx would buffer the events.
  return respond(200, 'text/event-stream; charset=utf-8', watch.events(gone), { 'x-accel-buffering': 'no' });
}

async function free(request: Incoming, watch: Watch): Promise<Response> {
  if (!isSameOrigin(request)) return plain(403); // H88d
  if (!/^application\/json\s*(?:;|$)/i.test(request.header('content-type') ?? '')) return plain(415);
  const body = await request.body().catch(() => '');
  if (body === undefined) return plain(413, { connection: 'close' });
  const wanted = wantedOf(body);
  if (wanted === undefined) return plain(400);
  try {
    const freed = await watch.free(wanted.key, wanted.id);
    return respond(freed ? 200 : 409, 'application/json', JSON.stringify({ freed }));
  } catch (error) {
    return plain((error as { code?: unknown }).code === 'ERR_LOCK_OPTION' ? 400 : 502);
  }
}

function wantedOf(body: string): { key: string; id: string } | undefined {
  try {
    const { key, id } = JSON.parse(body);
    const isKey = typeof key === 'string' && key !== '';
    return isKey && typeof id === 'string' && /^[0-9a-f]{8}$/.test(id) ? { key, id } : undefined;
  } catch {
    return undefined;
  }
}

const reasons: NodeJS.Dict<string> = { ...STATUS_CODES, 502: 'Redis does not answer', 503: 'Too many viewers' };

/** A response with a status and no detail. */
function plain(status: number, headers?: Record<string, string>): Response {
  return respond(status, 'text/plain; charset=utf-8', `${reasons[status]}\n`, headers);
}

function respond(
  status: number,
  type: string,
  body: string | ReadableStream<Uint8Array>,
  headers?: Record<string, string>,
): Response {
  return new Response(body, { status, headers: { ...always, ...headers, 'content-type': type } });
}
