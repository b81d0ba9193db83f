// `redis-exp-lock/page`: the live page. Mounted in a server of yours, it shows the holders and waiters of all locks, since when; where
// `actions` are on, it frees one. It sends requests to Redis only while a page is open.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { optionError, unknownOptionError } from '../core/errors';
import { adviceFor } from '../core/option-names';
import type { RedisLike } from '../core/redis-like';
import type { Desk } from './page/answers';
import { type Incoming, nearOnly } from './page/checks';
import { serveFetch, serveNode } from './page/servers';
import { openSource } from './page/source';
import { Watch } from './page/watch';

export interface PageOptions {
  /** A connected client, a list of them (a quorum), or a store of ours: where the locks are. */
  redis: RedisLike | readonly RedisLike[];
  /** Shows the locks under it, also those that no process tells of, and those of other libraries. Default '': what processes with `register: true` tell of. */
  prefix?: string | undefined;
  /**
   * Decides for each request: it is answered where this returns, or resolves to, something true; otherwise, and where it throws,
   * with 403. A stream of events is asked about again every ten minutes. Gets the request as the server has it. `fetch` needs one,
   * and so does a page behind a reverse proxy. Default: a listener answers only requests from this machine to this machine (Host
   * 127.0.0.1, localhost or [::1]), and `fetch`, which sees no address, answers everything with 403 and warns (`no-authorize`).
   */
  authorize?: ((request: any) => boolean | PromiseLike<boolean>) | undefined;
  /** Whether locks can be freed here. Default false: nothing here changes anything. */
  actions?: boolean | undefined;
}

/** What `lockPage` returns: a middleware of Express and its like, a listener of `node:http`, and a handler for `fetch`. */
export interface LockPage {
  /** Where the path is none of the page's, calls `next`; without it answers 404. */
  (req: IncomingMessage, res: ServerResponse, next?: (error?: any) => void): void;
  /** The same for servers of the other kind. Its address has to end with `/`. Without `authorize` it refuses everything. */
  fetch(request: Request): Promise<Response>;
}

const known = ['redis', 'prefix', 'authorize', 'actions'];

/**
 * Makes the live page. It keeps nothing open while no page is open, and never closes the client.
 *
 * @throws {TypeError} `ERR_LOCK_OPTION`: an unknown option or an impossible value.
 * @example
 * ```ts
 * import { createServer } from 'node:http';
 * import { lockPage } from 'redis-exp-lock/page';
 *
 * const authorize = (request: any) => request.headers.authorization === `Bearer ${process.env.PAGE_SECRET}`;
 * createServer(lockPage({ redis: client, authorize })).listen(7400, '127.0.0.1');
 * ```
 */
export function lockPage(options: PageOptions): LockPage {
  const desk = deskOf(options);
  const page = (req: IncomingMessage, res: ServerResponse, next?: (error?: any) => void): void =>
    serveNode(req, res, next, desk);
  return Object.assign(page, { fetch: (request: Request) => serveFetch(request, desk) });
}

function deskOf(options: PageOptions): Desk {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object with `redis`', options);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw unknownOptionError(unknown, adviceFor(unknown, known));
  const { redis, prefix = '', authorize, actions = false } = options;
  if (authorize !== undefined && typeof authorize !== 'function')
    throw optionError('authorize', 'a function', authorize);
  if (typeof actions !== 'boolean') throw optionError('actions', 'true or false', actions);
  const source = openSource(redis, prefix);
  const decide = authorize ? ({ original }: Incoming) => authorize(original) : nearOnly(source.kind);
  return { source, watch: new Watch(source, { actions, prefix }), authorize: decide, actions };
}
