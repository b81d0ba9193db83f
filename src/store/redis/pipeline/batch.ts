// Calls of one tick leave as one script call, in their order, each with its own reply. A lone call leaves as it is; several
// leave as a batch, in a cluster as one batch for each slot. An error may prove that nothing of the batch ran, and a single
// call may have caused it (a key without rights, of another slot, or on the move). Then each call is sent by itself, so that
// only the culprit fails.

import { slotOf } from '../../../core/keys';
import { setImmediate } from '../../../core/real-timers';
import { codeOf } from '../../backend-errors';
import { type Moment, now } from '../../contract';
import type { ScriptClient } from '../client';
import * as scripts from '../scripts/generated';
import { type ScriptCall, strangeReply } from '../scripts/script';
import type { BatchedCall, ReplyHandler, SendCall } from './deadlines';
import { arePlain, asScript, type PlainCall, plainBatch, type StoreCall } from './plain';

/** Errors that one call can bring upon a whole batch, or that each call waits out until its own deadline. */
const culpritErrors = new Set(['NOPERM', 'CROSSSLOT', 'TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']); // H56b

function isCulpritError(error: unknown): boolean {
  return culpritErrors.has(codeOf(String((error as Error).message)) ?? '');
}

export class Batch {
  #calls: BatchedCall[] = [];
  #sentAt: Moment | undefined;
  #isPlainRefused = false;
  readonly #maxCalls: number;
  readonly #client: ScriptClient;
  readonly #defer: (flush: () => void) => unknown;
  readonly #send: SendCall;

  /**
   * @param defer Schedules the flush. nextTick runs once every caller that the last replies resumed has added its call, and
   * setImmediate once every caller whose timer is due has, too.
   */
  constructor(maxCalls: number, client: ScriptClient, send: SendCall, defer: (flush: () => void) => unknown) {
    this.#maxCalls = maxCalls;
    this.#client = client;
    this.#send = send;
    this.#defer = defer;
  }

  /** A moment before any call that is added now is sent; the same for all calls that leave together. */
  get sentAt(): Moment {
    this.#sentAt ??= now(); // S24
    return this.#sentAt;
  }

  /** Adds a call, whose handler gets the reply to this call, or the error of the call or of its whole batch. */
  add(call: BatchedCall): void {
    if (this.#calls.length === 0) this.#defer(this.flush);
    this.#calls.push(call);
  }

  /** Sends the calls added so far: at the end of the tick, or before. */
  readonly flush = (): void => {
    this.#sendSome();
    // The rest leaves in the next turn: Redis works on this batch while we still write and read that one.
    if (this.#calls.length > 0) setImmediate(this.flush);
  };

  /** Sends all calls added so far in this turn. */
  flushAll(): void {
    while (this.#calls.length > 0) this.#sendSome();
  }

  #sendSome(): void {
    this.#sentAt = undefined;
    if (this.#calls.length === 0) return;
    const some = this.#calls.splice(0, this.#maxCalls);
    const nowMs = performance.now();
    for (const each of some) each.onSent?.(nowMs); // H99i
    if (!this.#client.clustered) return this.#sendTogether(some);
    for (const together of bySlot(some)) this.#sendTogether(together);
  }

  /** Sends a plain batch if all calls are plain, as most are. Without the rights for it, a user is refused once and served otherwise. */
  #sendTogether(together: readonly BatchedCall[]): void {
    if (together.length === 1 || this.#isPlainRefused || !arePlain(together)) return sendTogether(together, this.#send); // S9
    const [call, resolve] = plainBatch(together);
    const reject = (error: unknown): void => {
      if (!isCulpritError(error)) return rejectAll(together, error);
      this.#isPlainRefused ||= codeOf(String((error as Error).message)) === 'NOPERM';
      if (!this.#client.clustered) return sendTogether(together, this.#send);
      for (const some of bySlot(together)) sendTogether(some, this.#send);
    };
    this.#send(call, { resolve, reject });
  }
}

function rejectAll(together: readonly ReplyHandler[], error: unknown): void {
  for (const each of together) each.reject(error);
}

/** Sends calls of one family now. A lone call goes as it is, unless its script exists only inside a batch. */
export function sendTogether(together: readonly BatchedCall[], send: SendCall): void {
  const first = together[0]!;
  const isOwnScript = hasOwnScript(first.call);
  if (isOwnScript && together.length === 1) return send(asScript(first.call), first);
  const combine = isOwnScript ? scripts.batch : scripts.batchShared;
  send(combine(...partsOf(together)), {
    resolve: (reply) => distribute(reply, together),
    reject: (error) => {
      if (together.length === 1 || !isCulpritError(error)) return rejectAll(together, error);
      for (const each of together) sendTogether([each], send);
    },
  });
}

/** True if the call may be sent by itself. */
export function hasOwnScript(call: StoreCall): call is PlainCall | ScriptCall {
  return 'verb' in call || 'lua' in call.script;
}

/** The calls as they may go together in a cluster: slots cannot be mixed. */
function bySlot(calls: readonly BatchedCall[]): Iterable<readonly BatchedCall[]> {
  if (calls.length === 1) return [calls];
  const slots = new Map<number, BatchedCall[]>();
  for (const each of calls) {
    const slot = slotOf('verb' in each.call ? each.call.key : each.call.keys[0]!);
    const together = slots.get(slot);
    if (together === undefined) slots.set(slot, [each]);
    else together.push(each);
  }
  return slots.values();
}

function partsOf(together: readonly BatchedCall[]): [keys: string[], parts: string[]] {
  const keys: string[] = [];
  const parts: string[] = [];
  for (const each of together) {
    const call = asScript(each.call);
    for (const key of call.keys) keys.push(key);
    parts.push(`${call.script.name} ${call.keys.length} ${call.args.length}`);
    for (const arg of call.args) parts.push(arg);
  }
  return [keys, parts];
}

/** Gives each call its own reply. If a reply does not add up, the remaining calls get an error. */
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
      each.reject(strangeReply(reply, asScript(each.call).keys));
    }
  }
}
