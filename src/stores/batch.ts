// Calls of one tick go out as one script call, in their order, each with its own answer: one call as it is, more as a
// batch. An error that proves that nothing of the batch ran, and that may be one caller's fault (a key without rights, of
// another slot, or on the move), sends every call on its own, so that only the culprit is refused.
import type { ScriptCall } from '../scripts/script';
import { codeOf, strangeReply } from './replies';

/** How the answer to one call is told. */
export interface Answer {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Pending extends Answer {
  readonly call: ScriptCall;
}

/** Sends a call and tells its answer: by callbacks, because each promise on this way is paid for by every lock. */
export type Send = (call: ScriptCall, answer: Answer) => void;

/** The script that runs several calls of one family. */
export type Together = (keys: readonly string[], parts: readonly string[]) => ScriptCall;

/** What one caller can bring upon a whole batch. */
const culprits = new Set(['NOPERM', 'CROSSSLOT', 'TRYAGAIN', 'MOVED', 'ASK']);

export class Batch {
  #pending: Pending[] = [];
  readonly #most: number;
  readonly #together: Together;
  readonly #send: Send;

  /** @param most Calls in one batch: 1 for a cluster, whose slots cannot be mixed. */
  constructor(most: number, together: Together, send: Send) {
    this.#most = most;
    this.#together = together;
    this.#send = send;
  }

  /** The answer is the reply to this call, or the error that it, or its whole batch, met. */
  add(call: ScriptCall, { resolve, reject }: Answer): void {
    // nextTick runs when the microtasks of this tick are done: every caller that the last replies woke has asked by then.
    if (this.#pending.length === 0) process.nextTick(this.#flush);
    this.#pending.push({ call, resolve, reject });
  }

  readonly #flush = (): void => {
    const pending = this.#pending;
    this.#pending = [];
    for (let from = 0; from < pending.length; from += this.#most) {
      const some = pending.length <= this.#most ? pending : pending.slice(from, from + this.#most);
      if (some.length === 1) this.#send(some[0]!.call, some[0]!);
      else this.#sendTogether(some);
    }
  };

  #sendTogether(together: readonly Pending[]): void {
    this.#send(this.#together(...partsOf(together)), {
      resolve: (reply) => deal(reply, together),
      reject: (error) => {
        const blame = culprits.has(codeOf(String((error as Error).message)) ?? '');
        for (const each of together) {
          if (blame) this.#send(each.call, each);
          else each.reject(error);
        }
      },
    });
  }
}

function partsOf(together: readonly Pending[]): [keys: string[], parts: string[]] {
  const keys: string[] = [];
  const parts: string[] = [];
  for (const { call } of together) {
    keys.push(...call.keys);
    parts.push(call.script.name, String(call.keys.length), String(call.args.length), ...call.args);
  }
  return [keys, parts];
}

/** To each its answer. An answer that does not add up is nobody's. */
function deal(reply: unknown, together: readonly Pending[]): void {
  const parts = Array.isArray(reply) ? reply : [];
  let at = 0;
  for (const { call, resolve, reject } of together) {
    const count = parts[at];
    if (count === -1) {
      reject(new Error(String(parts[at + 1])));
      at += 2;
    } else if (Number.isSafeInteger(count)) {
      resolve(parts.slice(at + 1, at + 1 + count));
      at += 1 + count;
    } else {
      reject(strangeReply(reply, call.keys));
    }
  }
}
