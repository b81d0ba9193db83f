// Who may look, and who may act: decided from the request alone, before anything is asked of Redis.

import { noLock, warn } from '../../core/events';
import type { StoreKind } from '../../core/lock-state';

/** What a request is to the page, whatever kind of server it came through. */
export interface Incoming {
  readonly method: string;
  /** Lower-case names. Of several the first. */
  header(name: string): string | undefined;
  /** The peer's address; undefined: the transport does not show it. */
  readonly peer: string | undefined;
  /** At most so many bytes; undefined: there were more. */
  body(most: number): Promise<string | undefined>;
  /** As it came: for `authorize`. */
  readonly original: any;
}

/** Decides whether a request may be answered. It may throw or reject, which refuses it. */
export type Decision = (request: Incoming) => unknown;

const loopback = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/i;
const near = /^(?:::ffff:)?127\.|^::1$/;
const forwarded = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'];

/** Never throws. */
export async function isAllowed(request: Incoming, decide: Decision): Promise<boolean> {
  try {
    return Boolean(await decide(request));
  } catch {
    return false;
  }
}

/**
 * The decision without `authorize`: only requests to this machine from this machine. A page of another name that resolves to it
 * (DNS rebinding) has another Host, and what a proxy passes on says so. The Host alone proves nothing, since the sender chooses
 * it: a request whose peer has no known address is refused, and the first one is warned about.
 */
export function nearOnly(store: StoreKind): Decision {
  let hasWarned = false;
  return (request) => {
    if (request.peer === undefined && !hasWarned) {
      hasWarned = true;
      warn({ code: 'no-authorize', message: unseen, ...noLock(store) }, true);
    }
    return isNear(request.peer) && !isForwarded(request) && loopback.test(hostOf(request) ?? ''); // H91b
  };
}

const unseen =
  'lockPage refuses this request with 403: `fetch`, or a Unix socket, does not show where it comes from. Give `authorize`';

function isNear(address: string | undefined): boolean {
  return address !== undefined && near.test(address); // H91
}

function isForwarded(request: Incoming): boolean {
  return forwarded.some((name) => request.header(name) !== undefined);
}

function hostOf(request: Incoming): string | undefined {
  return request.header('host') ?? request.header(':authority');
}

/**
 * Whether a page of our own sent it: browsers put Origin on every POST, and scripts cannot set it. A page elsewhere cannot act for
 * somebody who is logged in here.
 */
export function isSameOrigin(request: Incoming): boolean {
  const site = request.header('sec-fetch-site');
  if (site !== undefined && site !== 'same-origin') return false;
  const [origin, host] = [request.header('origin'), hostOf(request)];
  if (origin === undefined || host === undefined) return false;
  const scheme = /^https?:\/\//i.exec(origin)?.[0];
  // Parsed, so that a default port counts as none on both sides.
  return scheme !== undefined && URL.canParse(scheme + host) && isOrigin(origin, new URL(scheme + host).host);
}

function isOrigin(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host && new URL(origin).origin === origin.toLowerCase();
}
