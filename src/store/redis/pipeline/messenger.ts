// Sends scripts at once, each by itself, for callers that wait for one reply at a time.
import type { Key } from '../../../core/keys';
import type { ScriptClient } from '../client';
import type { ScriptCall } from '../scripts/script';
import { PendingRequest } from './deadlines';
import { Sender } from './sender';

export class Messenger {
  readonly client: ScriptClient;
  readonly #sender: Sender;

  constructor(client: ScriptClient) {
    this.client = client;
    this.#sender = new Sender(client);
  }

  /** Sends a script and resolves with its reply. @throws {LockBackendError} Redis refused, or was silent for `timeoutMs`. */
  ask(call: ScriptCall, keys: Key, timeoutMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#sender.send(call, new PendingRequest(keys, timeoutMs, false, resolve, reject));
    });
  }
}
