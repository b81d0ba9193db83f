// `redis-exp-lock/page`: the live page. Mounted in a server of yours, it shows the holders and waiters of all locks with their times. If
// `actions` is set, it can free a lock. It sends requests to Redis only while a page is open.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { flag, functionRule, optionsOf, prefixRule, type Rule } from '../core/options';
import type { RedisLike } from '../core/redis-like';
import type { Desk } from './page/answers';
import { type Incoming, nearOnly } from './page/checks';
import { serveFetch, serveNode } from './page/servers';
import { Source } from './page/source';
import { Watch } from './page/watch';

export interface PageOptions {
  /** A connected client, a list of clients (a quorum), or a store of this library. */
  redis: RedisLike | readonly RedisLike[];
  /**
   * Shows all locks under this prefix, including unregistered locks and locks of other libraries. Default '': the locks that processes
   * with `register: true` have registered.
   */
  prefix?: string | undefined;
  /**
   * Decides for each request. Receives the request as the server has it. The page answers if this returns or resolves to a true value;
   * otherwise, or if it throws, the answer is 403. A stream of events is authorized again every ten minutes. `fetch` needs this option,
   * and so does a page behind a reverse proxy. Default: a listener answers only requests from this machine to this machine (Host
   * 127.0.0.1, localhost or [::1]), and `fetch`, which sees no address, answers everything with 403 and warns (`no-authorize`).
   */
  authorize?: ((request: any) => boolean | PromiseLike<boolean>) | undefined;
  /** Lets viewers free locks. Default false: the page changes nothing. */
  actions?: boolean | undefined;
}

/** The live page: middleware for Express and similar frameworks, a listener of `node:http`, and a handler for `fetch`. */
export interface LockPage {
  /** Answers a request. If the path is not a path of the page, calls `next`, or answers 404 without it. */
  (req: IncomingMessage, res: ServerResponse, next?: (error?: any) => void): void;
  /** Answers a Request with a Response. The address of the page has to end with `/`. Without `authorize`, every request is refused. */
  fetch(request: Request): Promise<Response>;
}

/** The client is checked when it is used. */
const anyValue: Rule = { expected: '', kind: () => true, possible: () => true };
const rules = { redis: anyValue, prefix: prefixRule, authorize: functionRule('a function'), actions: flag };

/**
 * Makes the live page. The page keeps nothing open while nobody views it, and never closes the client.
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
  const { redis, prefix = '', authorize, actions = false } = optionsOf<PageOptions>(options, rules);
  const source = new Source(redis, prefix);
  const decide = authorize ? ({ original }: Incoming) => authorize(original) : nearOnly(source.kind);
  const desk: Desk = { watch: new Watch(source, { actions, prefix }), authorize: decide, actions };
  const page = (req: IncomingMessage, res: ServerResponse, next?: (error?: any) => void): void =>
    serveNode(req, res, next, desk);
  return Object.assign(page, { fetch: (request: Request) => serveFetch(request, desk) });
}
