// The plain batch: all calls of a tick acquire or release one mutex each, on equal terms, as nearly all do. Then the keys are read
// together, the released ones are deleted together, and all fences are minted at once. What is not as usual about a call, the
// script notices, and runs it as the script that it would be by itself.
import { companionOf } from '../../keys';
import * as scripts from '../../scripts/generated';
import type { Script, ScriptCall } from '../../scripts/script';
import type { BatchedCall, Send } from './handlers';
import { strangeReply } from './replies';

interface AcquireTerms {
  readonly lifetimeMs: number;
  readonly notAfter: number;
  readonly fences: number;
}

interface ReleaseTerms {
  readonly yieldMs: number;
}

/** The acquire of one mutex by a caller that is neither queued nor polls, or the release of one that is surely held. */
export class PlainCall implements ScriptCall {
  readonly key: string;
  readonly token: string;
  readonly fence: string;
  readonly terms: AcquireTerms | ReleaseTerms;
  #whole: ScriptCall | undefined;

  constructor(key: string, token: string, fence: string, terms: AcquireTerms | ReleaseTerms) {
    this.key = key;
    this.token = token;
    this.fence = fence;
    this.terms = terms;
  }

  get script(): Script {
    return this.#asScript().script;
  }

  get keys(): readonly string[] {
    return this.#asScript().keys;
  }

  get args(): readonly string[] {
    return this.#asScript().args;
  }

  /** As it goes where it does not go in a plain batch. */
  #asScript(): ScriptCall {
    this.#whole ??= this.#newScript();
    return this.#whole;
  }

  #newScript(): ScriptCall {
    const { terms, token, fence } = this;
    const keys = [[this.key], [companionOf(this.key, 'queue')], fence] as const;
    if ('yieldMs' in terms) return scripts.release(...keys, token, 0, terms.yieldMs, []);
    return scripts.acquire(...keys, token, terms.lifetimeMs, terms.notAfter, terms.fences, []);
  }
}

interface PlainParts {
  readonly releases: BatchedCall[];
  readonly acquires: BatchedCall[];
}

/** Whether all calls are plain, and on equal terms. */
export function arePlain(together: readonly BatchedCall[]): boolean {
  let acquire: AcquireTerms | undefined;
  let release: ReleaseTerms | undefined;
  for (const { call } of together) {
    if (!(call instanceof PlainCall)) return false;
    const { terms } = call;
    if ('yieldMs' in terms) {
      release ??= terms;
      if (terms.yieldMs !== release.yieldMs) return false;
    } else {
      acquire ??= terms;
      if (terms.lifetimeMs !== acquire.lifetimeMs || terms.fences !== acquire.fences) return false;
    }
  }
  // Where no fence is written before the releases, they would let an acquire pass a memory that is full.
  return release === undefined || acquire === undefined || acquire.fences > 0;
}

/** @param refused Gets an error for all of them; true: they were sent in another way. */
export function sendPlain(together: readonly BatchedCall[], send: Send, refused: (error: unknown) => boolean): void {
  const releases = together.filter(({ call }) => 'yieldMs' in (call as PlainCall).terms);
  const acquires = together.filter(({ call }) => !('yieldMs' in (call as PlainCall).terms));
  send(plainCall({ releases, acquires }), {
    resolve: (reply) => distribute(reply, { releases, acquires }),
    reject: (error) => {
      if (!refused(error)) for (const each of together) each.reject(error);
    },
  });
}

function plainCall({ releases, acquires }: PlainParts): ScriptCall {
  const keys: string[] = [];
  const tokens: string[] = [];
  let [yieldMs, lifetimeMs, notAfter, fences] = [0, 1, 0, 0];
  for (const some of [releases, acquires]) {
    for (const { call } of some) {
      const { key, token } = call as PlainCall;
      keys.push(key);
      tokens.push(token);
    }
    for (const { call } of some) keys.push(companionOf((call as PlainCall).key, 'queue'));
  }
  const [release, acquire] = [releases[0]?.call, acquires[0]?.call] as (PlainCall | undefined)[];
  if (release !== undefined) ({ yieldMs } = release.terms as ReleaseTerms);
  if (acquire !== undefined) ({ lifetimeMs, notAfter, fences } = acquire.terms as AcquireTerms);
  // The earliest, should they differ: what is refused as too late is tried again.
  for (const { call } of acquires) notAfter = Math.min(notAfter, ((call as PlainCall).terms as AcquireTerms).notAfter);
  const fence = (release ?? acquire)!.fence;
  return scripts.plain(keys, fence, releases.length, yieldMs, lifetimeMs, notAfter, fences, tokens);
}

/** To each call the reply of its own script. A reply that does not add up is an error for all that it should have been for. */
function distribute(reply: unknown, { releases, acquires }: PlainParts): void {
  const calls = [...releases, ...acquires];
  const read = readReply(reply, calls.length);
  for (const [n, each] of calls.entries()) {
    const own = read?.others.get(n + 1);
    if (read === undefined) each.reject(strangeReply(reply, each.call.keys));
    else if (typeof own === 'string') each.reject(new Error(own));
    else if (own !== undefined) each.resolve(own);
    else if (n < releases.length) each.resolve([1]);
    else each.resolve([1, read.fence === 0 ? 0 : read.fence + n - releases.length, 0, read.serverMs]);
  }
}

interface PlainReply {
  readonly fence: number;
  readonly serverMs: number;
  /** By their numbers, the replies to calls that did not go as usual, or their errors. */
  readonly others: ReadonlyMap<number, unknown[] | string>;
}

/** undefined: it is none, or not to so many calls. */
function readReply(reply: unknown, calls: number): PlainReply | undefined {
  if (!Array.isArray(reply) || !reply.slice(0, 3).every((each) => Number.isSafeInteger(each) && each >= 0))
    return undefined;
  const [usual, fence, serverMs] = reply as [number, number, number];
  const others = new Map<number, unknown[] | string>();
  let at = 3;
  while (at < reply.length) {
    const [n, count] = reply.slice(at, at + 2);
    if (!(n > 0 && n <= calls) || !Number.isSafeInteger(count)) return undefined;
    others.set(n, count < 0 ? String(reply[at + 2]) : reply.slice(at + 2, at + 2 + count));
    at += count < 0 ? 3 : 2 + count;
  }
  return usual + others.size === calls && at === reply.length ? { fence, serverMs, others } : undefined;
}
