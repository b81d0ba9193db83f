// Calls of one tick go out as one script call, in their order, each with its own answer: one call as it is, more as a
// batch; in a cluster, one batch for each slot. An error that proves that nothing of the batch ran, and that may be one
// caller's fault (a key without rights, of another slot, or on the move), sends every call on its own, so that only the
// culprit is refused.
import { slotOf } from '../keys';
import { setImmediate } from '../real-timers';
import type { Call, ScriptCall } from '../scripts/script';
import { type Moment, now } from '../store';
import { codeOf, strangeReply } from './replies';

/** How the answer to one call is told. */
export interface Answer {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Monotonic ms until which it is worth sending again; absent where that is for others to say. */
  readonly deadlineMs?: number;
}

/** Somebody's call, and how he is told the answer. */
export interface Pending extends Answer {
  readonly call: Call;
}

/** Sends a call and tells its answer: by callbacks, because each promise on this way is paid for by every lock. */
export type Send = (call: ScriptCall, answer: Answer) => void;

/** The script that runs several calls of one family. */
export type Together = (keys: readonly string[], parts: readonly string[]) => ScriptCall;

/** What one caller can bring upon a whole batch; or what each waits out for as long as his own patience lasts. */
const culprits = new Set(['NOPERM', 'CROSSSLOT', 'TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']);

export class Batch {
  #pending: Pending[] = [];
  #moment: Moment | undefined;
  readonly #most: number;
  readonly #bySlot: boolean;
  readonly #defer: (flush: () => void) => unknown;
  readonly #together: Together;
  readonly #send: Send;

  /**
   * @param most Calls in one batch.
   * @param bySlot A cluster: slots cannot be mixed.
   * @param defer  When to send. nextTick runs when the microtasks of this tick are done: every caller that the last replies
   *               woke has asked by then. setImmediate: all whose timers are due have asked, too.
   */
  constructor(most: number, bySlot: boolean, together: Together, send: Send, defer: (flush: () => void) => unknown) {
    this.#most = most;
    this.#bySlot = bySlot;
    this.#together = together;
    this.#send = send;
    this.#defer = defer;
  }

  /** A moment before anything that is added now is sent; the same for all that leave together. */
  get moment(): Moment {
    this.#moment ??= now();
    return this.#moment;
  }

  /** The answer is the reply to this call, or the error that it, or its whole batch, met. */
  add(pending: Pending): void {
    if (this.#pending.length === 0) this.#defer(this.#flush);
    this.#pending.push(pending);
  }

  readonly #flush = (): void => {
    this.#moment = undefined;
    const some = this.#pending.splice(0, this.#most);
    // What is left over leaves in the next turn: Redis works on these while we still write and read those.
    if (this.#pending.length > 0) setImmediate(this.#flush);
    if (!this.#bySlot || some.length === 1) return this.#sendTogether(some, this.#send);
    for (const together of bySlot(some)) this.#sendTogether(together, this.#send);
  };

  /** Sends a call now, and not with others. */
  sendAlone(each: Pending, send: Send): void {
    this.#sendTogether([each], send);
  }

  /** One call goes as it is; one that is nothing by itself is a batch of one. */
  #sendTogether(together: readonly Pending[], send: Send): void {
    const [first] = together as [Pending, ...Pending[]];
    if (together.length === 1 && isWhole(first.call)) return send(first.call, first);
    send(this.#together(...partsOf(together)), {
      resolve: (reply) => deal(reply, together),
      reject: (error) => {
        const blame = together.length > 1 && culprits.has(codeOf(String((error as Error).message)) ?? '');
        for (const each of together) {
          if (blame) this.sendAlone(each, send);
          else each.reject(error);
        }
      },
    });
  }
}

function isWhole(call: Call): call is ScriptCall {
  return 'lua' in call.script;
}

function bySlot(pending: readonly Pending[]): Iterable<Pending[]> {
  const slots = new Map<number, Pending[]>();
  for (const each of pending) {
    const slot = slotOf(each.call.keys[0]!);
    const together = slots.get(slot);
    if (together === undefined) slots.set(slot, [each]);
    else together.push(each);
  }
  return slots.values();
}

function partsOf(together: readonly Pending[]): [keys: string[], parts: string[]] {
  const keys: string[] = [];
  const parts: string[] = [];
  for (const { call } of together) {
    for (const key of call.keys) keys.push(key);
    parts.push(`${call.script.name} ${call.keys.length} ${call.args.length}`);
    for (const arg of call.args) parts.push(arg);
  }
  return [keys, parts];
}

/** To each its answer. An answer that does not add up is nobody's. */
function deal(reply: unknown, together: readonly Pending[]): void {
  const parts = Array.isArray(reply) ? reply : [];
  let at = 0;
  for (const each of together) {
    const count = parts[at];
    if (count === -1) {
      each.reject(new Error(String(parts[at + 1])));
      at += 2;
    } else if (Number.isSafeInteger(count)) {
      each.resolve(parts.slice(at + 1, at + 1 + count));
      at += 1 + count;
    } else {
      each.reject(strangeReply(reply, each.call.keys));
    }
  }
}
