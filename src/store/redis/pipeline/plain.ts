// The plain batch: each call of a tick acquires, renews or releases one mutex, on equal terms, as nearly all calls do. Then the
// keys are read together, the released ones are deleted together, and all fences are minted at once. The script notices an
// unusual call, and runs it as the script that it would be by itself.
import { companionOf } from '../../../core/keys';
import { strangeReply } from '../replies';
import * as scripts from '../scripts/generated';
import type { Script, ScriptCall } from '../scripts/script';
import type { BatchedCall, SendCall } from './handlers';

interface AcquireTerms {
  readonly verb: 'acquire';
  readonly lifetimeMs: number;
  readonly notAfter: number;
  readonly fences: number;
  /** 0: no minimum. */
  readonly minFence: number;
}

interface RenewTerms {
  readonly verb: 'renew';
  readonly lifetimeMs: number;
  readonly notAfter: number;
}

interface ReleaseTerms {
  readonly verb: 'release';
  readonly yieldMs: number;
}

type PlainTerms = AcquireTerms | RenewTerms | ReleaseTerms;

/** The acquire of one mutex by a caller that is neither queued nor polls; or the renewal, or the release, of a mutex that is surely held. */
export class PlainCall<T extends PlainTerms = PlainTerms> implements ScriptCall {
  readonly key: string;
  readonly token: string;
  readonly fence: string;
  readonly terms: T;
  #whole: ScriptCall | undefined;

  constructor(key: string, token: string, fence: string, terms: T) {
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

  /** The call outside a plain batch. */
  #asScript(): ScriptCall {
    this.#whole ??= this.#newScript();
    return this.#whole;
  }

  /** The call as its own script, written out for a single key: a lone acquire or release nearly always has one key. */
  #newScript(): ScriptCall {
    const { terms, token, key } = this;
    if (terms.verb === 'renew') return scripts.extend([key], token, terms.lifetimeMs, 0, terms.notAfter);
    const keys = [key, companionOf(key, 'queue'), this.fence];
    if (terms.verb === 'release') return { script: releaseScript, keys, args: [token, '0', String(terms.yieldMs)] };
    const args = [token, String(terms.lifetimeMs), String(terms.notAfter), String(terms.fences)];
    if (terms.minFence > 0) args.push(terms.minFence.toFixed(0));
    return { script: acquireScript, keys, args };
  }
}

const { script: acquireScript } = scripts.acquire([], [], '', '', 1, 0, 0, []);
const { script: releaseScript } = scripts.release([], [], '', '', 0, 0, []);

/** The calls of a plain batch by verb; `all` has them in the order of the script. */
class PlainBatch {
  readonly renewals: PlainCall<RenewTerms>[] = [];
  readonly releases: PlainCall<ReleaseTerms>[] = [];
  readonly acquires: PlainCall<AcquireTerms>[] = [];
  readonly all: readonly BatchedCall[];

  constructor(together: readonly BatchedCall[]) {
    const handlers = { renew: [] as BatchedCall[], release: [] as BatchedCall[], acquire: [] as BatchedCall[] };
    for (const each of together) {
      const call = each.call as PlainCall;
      const { verb } = call.terms;
      handlers[verb].push(each);
      const calls: PlainCall[] = verb === 'renew' ? this.renewals : verb === 'release' ? this.releases : this.acquires;
      calls.push(call);
    }
    this.all = [...handlers.renew, ...handlers.release, ...handlers.acquire];
  }

  asScript(): ScriptCall {
    const { renewals, releases, acquires } = this;
    const keys = renewals.map(({ key }) => key);
    const words = renewals.map(({ token }) => token);
    for (const { terms } of renewals) words.push(String(terms.notAfter));
    for (const calls of [releases, acquires]) {
      for (const { key, token } of calls) {
        keys.push(key);
        words.push(token);
      }
      for (const { key } of calls) keys.push(companionOf(key, 'queue'));
    }
    if (acquires.some(({ terms }) => terms.minFence > 0)) {
      for (const { terms } of acquires) words.push(terms.minFence.toFixed(0));
    }
    const { lifetimeMs = 1, fences = 0 } = acquires[0]?.terms ?? {};
    // The earliest `notAfter` of all acquires: a call that is refused as too late is tried again.
    const notAfter = acquires.reduce((least, { terms }) => Math.min(least, terms.notAfter), Number.MAX_SAFE_INTEGER);
    return scripts.plain(
      keys,
      (this.all[0]!.call as PlainCall).fence,
      renewals.length,
      releases.length,
      renewals[0]?.terms.lifetimeMs ?? 0,
      releases[0]?.terms.yieldMs ?? 0,
      lifetimeMs,
      notAfter,
      fences,
      words,
    );
  }

  /** Gives each call the reply of its own script. If the reply does not add up, all calls get an error. */
  distribute(reply: unknown): void {
    const read = readReply(reply, this.all.length);
    const known = this.renewals.length + this.releases.length;
    let fence = (read?.fence ?? 0) - 1;
    this.all.forEach((each, n) => {
      // The fence of each acquire, counted as the script counts.
      if (n >= known) fence = Math.max(fence + 1, this.acquires[n - known]!.terms.minFence);
      const own = read?.others?.get(n + 1);
      if (read === undefined) each.reject(strangeReply(reply, each.call.keys));
      else if (typeof own === 'string') each.reject(new Error(own));
      else if (own !== undefined) each.resolve(own);
      else if (n < this.renewals.length) each.resolve([1, read.serverMs]);
      else if (n < known) each.resolve([1]);
      else each.resolve([1, read.fence === 0 ? 0 : fence, 0, read.serverMs]);
    });
  }
}

/** True if all calls are plain and on equal terms. */
export function arePlain(together: readonly BatchedCall[]): boolean {
  let acquire: AcquireTerms | undefined;
  let renewal: RenewTerms | undefined;
  let release: ReleaseTerms | undefined;
  for (const { call } of together) {
    if (!(call instanceof PlainCall)) return false;
    const terms: PlainTerms = call.terms;
    if (terms.verb === 'release') {
      release ??= terms;
      if (terms.yieldMs !== release.yieldMs) return false;
    } else if (terms.verb === 'renew') {
      renewal ??= terms;
      if (terms.lifetimeMs !== renewal.lifetimeMs) return false;
    } else {
      acquire ??= terms;
      if (terms.lifetimeMs !== acquire.lifetimeMs || terms.fences !== acquire.fences) return false;
    }
  }
  // Without a fence that is written first, the other calls would let an acquire pass although the memory is full.
  return acquire === undefined || acquire.fences > 0 || (release === undefined && renewal === undefined); // H55d
}

/** @param refused Called with an error of the whole batch; returns true if it has sent the calls in another way. */
export function sendPlain(
  together: readonly BatchedCall[],
  send: SendCall,
  refused: (error: unknown) => boolean,
): void {
  const batch = new PlainBatch(together);
  send(batch.asScript(), {
    resolve: (reply) => batch.distribute(reply),
    reject: (error) => {
      if (!refused(error)) for (const each of together) each.reject(error);
    },
  });
}

interface PlainReply {
  readonly fence: number;
  readonly serverMs: number;
  /** Replies, or errors, of the calls that did not go as usual, by their numbers; undefined if all did. */
  readonly others: ReadonlyMap<number, unknown[] | string> | undefined;
}

/** The parts of the reply; undefined if it is malformed, or not for this number of calls. */
function readReply(reply: unknown, calls: number): PlainReply | undefined {
  if (!Array.isArray(reply) || !reply.slice(0, 3).every((each) => Number.isSafeInteger(each) && each >= 0))
    return undefined;
  const [usual, fence, serverMs] = reply as [number, number, number];
  if (reply.length === 3) return usual === calls ? { fence, serverMs, others: undefined } : undefined;
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
