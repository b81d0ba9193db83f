// The permission to look and to act, decided from the request alone before any command is sent to Redis.

import { noLock, warn } from '../../core/events';
import type { StoreKind } from '../../core/lock-state';

/** A request to the page, independent of the kind of server. */
export interface Incoming {
  readonly method: string;
  /** The first header with this lower-case name. */
  header(name: string): string | undefined;
  /** The address of the peer; undefined if the transport does not show it. */
  readonly peer: string | undefined;
  /** The body; undefined if it is too long. */
  body(): Promise<string | undefined>;
  /** Aborts when the sender is gone, if the server tells that. */
  readonly gone: AbortSignal | undefined;
  /** The request as the server has it, for `authorize`. */
  readonly original: any;
}

/** Decides whether a request may be answered. A decision that throws or rejects refuses the request. */
export type Decision = (request: Incoming) => unknown;

const loopback = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/i;
const near = /^(?:::ffff:)?127\.|^::1$/;
const forwarded = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'];

/** Tells if a decision allows a request. Never rejects. */
export async function isAllowed(request: Incoming, decide: Decision): Promise<boolean> {
  try {
    return Boolean(await decide(request));
  } catch {
    return false;
  }
}

/**
 * The decision without `authorize`: only requests from this machine to this machine are allowed. A foreign name that resolves to this
 * machine (DNS rebinding) shows in the Host header, and a proxy adds headers of its own. The Host header alone proves nothing, because
 * the sender chooses it. So a request whose peer has no known address is refused, and the first such request causes a warning.
 */
export function nearOnly(store: StoreKind): Decision {
  let hasWarned = false;
  return (request) => {
    if (request.peer === undefined && !hasWarned) {
      hasWarned = true;
      warn({ code: 'no-authorize', message: unseen, ...noLock(store) }, true);
    }
    const isNear = request.peer !== undefined && near.test(request.peer); // H91
    const isForwarded = forwarded.some((name) => request.header(name) !== undefined);
    return isNear && !isForwarded && loopback.test(hostOf(request) ?? ''); // H91b
  };
}

const unseen =
  'lockPage refuses this request with 403: `fetch`, or a Unix socket, does not show where it comes from. Give `authorize`';

function hostOf(request: Incoming): string | undefined {
  return request.header('host') ?? request.header(':authority');
}

/**
 * Tells if the request comes from this page. Browsers put Origin on every POST, and scripts cannot set it. So a page of another origin
 * cannot act for a user who is logged in here.
 */
export function isSameOrigin(request: Incoming): boolean {
  const site = request.header('sec-fetch-site');
  if (site !== undefined && site !== 'same-origin') return false;
  const [origin, host] = [request.header('origin'), hostOf(request)];
  if (origin === undefined || host === undefined) return false;
  const scheme = /^https?:\/\//i.exec(origin)?.[0];
  if (scheme === undefined || !URL.canParse(scheme + host)) return false;
  // The host is parsed, so that its default port counts as no port, as in an origin.
  return new URL(scheme + host).origin === origin.toLowerCase();
}
