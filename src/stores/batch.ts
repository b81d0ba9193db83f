// Extensions that come due in the same turn of the event loop go out as one script call, each with its own answer. A batch
// that Redis refuses as a whole is sent again one by one, so that only the culprit is refused: extending twice is harmless.
import type { Key } from '../keys';
import * as scripts from '../scripts/generated';
import type { ScriptCall } from '../scripts/script';
import type { ExtendRequest } from '../store';
import { integers, listOf } from './replies';

/** One answer for each key of a request: 1 extended, 0 gone, -1 somebody else's, -2 too late. */
export interface ExtensionResult {
  readonly results: readonly number[];
  readonly serverMs: number;
}

interface Pending {
  readonly keys: Key;
  readonly request: ExtendRequest;
  readonly notAfter: number;
  readonly resolve: (result: ExtensionResult) => void;
  readonly reject: (error: unknown) => void;
}

export class ExtensionBatch {
  #pending: Pending[] = [];
  readonly #most: number;
  readonly #send: (call: ScriptCall) => Promise<unknown>;

  /** @param most Requests in one call: 1 for a cluster, whose slots cannot be mixed. */
  constructor(most: number, send: (call: ScriptCall) => Promise<unknown>) {
    this.#most = most;
    this.#send = send;
  }

  /** The answer to this request, or the client's own error. */
  add(request: ExtendRequest, notAfter: number): Promise<ExtensionResult> {
    return new Promise((resolve, reject) => {
      // setImmediate, not a microtask: timers that come due together run microtasks between one another.
      if (this.#pending.length === 0) setImmediate(() => this.#flush());
      this.#pending.push({ keys: request.keys, request, notAfter, resolve, reject });
    });
  }

  #flush(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (let from = 0; from < pending.length; from += this.#most) {
      void this.#exchange(pending.slice(from, from + this.#most));
    }
  }

  async #exchange(batch: readonly Pending[]): Promise<void> {
    try {
      const call = extendCall(batch);
      const reply = integers(await this.#send(call), call.keys.length + 1, batch[0]!.keys);
      const serverMs = reply.at(-1)!;
      let from = 0;
      for (const { keys, resolve } of batch) {
        const to = from + listOf(keys).length;
        resolve({ results: reply.slice(from, to), serverMs });
        from = to;
      }
    } catch (error) {
      if (batch.length === 1) batch[0]!.reject(error);
      else for (const each of batch) void this.#exchange([each]);
    }
  }
}

function extendCall(batch: readonly Pending[]): ScriptCall {
  const keys: string[] = [];
  const tokens: string[] = [];
  const lifetimes: number[] = [];
  const exacts: number[] = [];
  const limits: number[] = [];
  for (const { request, notAfter } of batch) {
    for (const key of listOf(request.keys)) {
      keys.push(key);
      tokens.push(request.token);
      lifetimes.push(request.lifetimeMs ?? 0);
      exacts.push(request.exact ? 1 : 0);
      limits.push(Math.min(Math.ceil(notAfter), Number.MAX_SAFE_INTEGER));
    }
  }
  return scripts.extend(keys, tokens, lifetimes, exacts, limits);
}
