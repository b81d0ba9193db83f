// Who may look, and who may act: decided from the request alone, before anything is asked of Redis.

/** What a request is to the page, whatever kind of server it came through. */
export interface Incoming {
  readonly method: string;
  /** Lower-case names. Of several the first. */
  header(name: string): string | undefined;
  /** False: the connection is known to come from another machine. */
  readonly isNear: boolean;
  /** At most so many bytes; undefined: there were more. */
  body(most: number): Promise<string | undefined>;
  /** As it came: for `authorize`. */
  readonly original: any;
}

/** Decides for each request; see PageOptions. */
export type Authorize = (request: any) => unknown;

const loopback = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/i;
const near = /^(?:::ffff:)?127\.|^::1$/;
const forwarded = ['forwarded', 'x-forwarded-for', 'x-forwarded-host'];

/** Whether an address of a peer is on this machine; true where it is not known. */
export function isNear(address: string | undefined): boolean {
  return address === undefined || near.test(address);
}

/**
 * Whether this request may be answered. Without `authorize` only one to this machine from this machine: a page of another name
 * that resolves to it (DNS rebinding) has another Host, and what a proxy passes on says so. Never throws.
 */
export async function isAllowed(request: Incoming, authorize: Authorize | undefined): Promise<boolean> {
  if (authorize === undefined) return isLocal(request);
  try {
    return Boolean(await authorize(request.original));
  } catch {
    return false;
  }
}

function isLocal(request: Incoming): boolean {
  if (!request.isNear || forwarded.some((name) => request.header(name) !== undefined)) return false;
  return loopback.test(hostOf(request) ?? '');
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
