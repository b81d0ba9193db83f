// Calls of one tick go out as one script call, in their order, each with its own reply: one call as it is, more as a batch;
// in a cluster, one batch for each slot. An error that proves that nothing of the batch ran, and that one call alone may have
// caused (a key without rights, of another slot, or on the move), sends every call by itself, so that only the culprit fails.

import { slotOf } from '../../core/keys';
import { setImmediate } from '../../core/real-timers';
import { codeOf } from '../backend-errors';
import { type Moment, now } from '../contract';
import type { BatchedCall, SendCall } from './handlers';
import { arePlain, PlainCall, sendPlain } from './plain';
import { strangeReply } from './replies';
import * as scripts from './scripts/generated';
import type { BatchableCall, ScriptCall } from './scripts/script';

/** Errors that one call can bring upon a whole batch, or that each call waits out until its own deadline. */
const culpritErrors = new Set(['NOPERM', 'CROSSSLOT', 'TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']); // H56b

function isCulpritError(error: unknown): boolean {
  return culpritErrors.has(codeOf(String((error as Error).message)) ?? '');
}

export class Batch {
  #calls: BatchedCall[] = [];
  #sentAt: Moment | undefined;
  #isPlainRefused = false;
  readonly #most: number;
  readonly #bySlot: boolean;
  readonly #defer: (flush: () => void) => unknown;
  readonly #send: SendCall;

  /**
   * @param most Calls in one batch.
   * @param bySlot A cluster: slots cannot be mixed.
   * @param defer  When to send. nextTick runs when the microtasks of this tick are done: every caller that the last replies
   *               resumed has added its call by then. setImmediate: every caller whose timer is due has, too.
   */
  constructor(most: number, bySlot: boolean, send: SendCall, defer: (flush: () => void) => unknown) {
    this.#most = most;
    this.#bySlot = bySlot;
    this.#send = send;
    this.#defer = defer;
  }

  /** A moment before any call that is added now is sent; the same for all that leave together. */
  get sentAt(): Moment {
    this.#sentAt ??= now(); // S24
    return this.#sentAt;
  }

  /** The same on the monotonic clock alone: reading a clock twice costs 1 % of a pair. */
  get sentMs(): number {
    return this.#sentAt?.monoMs ?? performance.now();
  }

  /** The handler gets the reply to this call, or the error that it, or its whole batch, met. */
  add(call: BatchedCall): void {
    if (this.#calls.length === 0) this.#defer(this.flush);
    this.#calls.push(call);
  }

  /** Sends what was added so far: at the end of the tick, or before. */
  readonly flush = (): void => {
    this.#sentAt = undefined;
    if (this.#calls.length === 0) return;
    const some = this.#calls.splice(0, this.#most);
    // What is left over leaves in the next turn: Redis works on these while we still write and read those.
    if (this.#calls.length > 0) setImmediate(this.flush);
    if (!this.#bySlot || some.length === 1) return this.#sendTogether(some);
    for (const together of bySlot(some)) this.#sendTogether(together);
  };

  /** Most batches are plain. A user without the rights for those is served all the same, and asked for them once. */
  #sendTogether(together: readonly BatchedCall[]): void {
    if (together.length === 1 || this.#isPlainRefused || !arePlain(together)) return sendTogether(together, this.#send); // S9
    sendPlain(together, this.#send, (error) => {
      if (!isCulpritError(error)) return false;
      this.#isPlainRefused ||= codeOf(String((error as Error).message)) === 'NOPERM';
      sendTogether(together, this.#send);
      return true;
    });
  }
}

/** Sends calls of one family now. A single call goes as it is, unless it is a part of a batch by its nature. */
export function sendTogether(together: readonly BatchedCall[], send: SendCall): void {
  const [first] = together as [BatchedCall, ...BatchedCall[]];
  const isOwnScript = hasOwnScript(first.call);
  if (isOwnScript && together.length === 1) return send(first.call, first);
  const combine = isOwnScript ? scripts.batch : scripts.batchShared;
  send(combine(...partsOf(together)), {
    resolve: (reply) => distribute(reply, together),
    reject: (error) => {
      const mayBeOne = together.length > 1 && isCulpritError(error);
      for (const each of together) {
        if (mayBeOne) sendTogether([each], send);
        else each.reject(error);
      }
    },
  });
}

/** A call that may be sent by itself. */
function hasOwnScript(call: BatchableCall): call is ScriptCall {
  return 'lua' in call.script;
}

function bySlot(calls: readonly BatchedCall[]): Iterable<BatchedCall[]> {
  const slots = new Map<number, BatchedCall[]>();
  for (const each of calls) {
    const slot = slotOf(each.call instanceof PlainCall ? each.call.key : each.call.keys[0]!);
    const together = slots.get(slot);
    if (together === undefined) slots.set(slot, [each]);
    else together.push(each);
  }
  return slots.values();
}

function partsOf(together: readonly BatchedCall[]): [keys: string[], parts: string[]] {
  const keys: string[] = [];
  const parts: string[] = [];
  for (const { call } of together) {
    for (const key of call.keys) keys.push(key);
    parts.push(`${call.script.name} ${call.keys.length} ${call.args.length}`);
    for (const arg of call.args) parts.push(arg);
  }
  return [keys, parts];
}

/** To each call its own reply. A reply that does not add up is an error for all it should have been for. */
function distribute(reply: unknown, together: readonly BatchedCall[]): void {
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
