// The last step to the client: a script goes by its SHA once the server has its text, and as text when it has forgotten it.
import type { ScriptCall } from '../../scripts/script';
import type { Answer } from './batch';
import type { ScriptClient } from './client';
import { codeOf, isNoScript } from './replies';

/** What tells that a slot is on the move, to a client that does not follow it any further; and how often it is asked again. */
const moving = new Set<string | undefined>(['TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']);
const movingPauseMs = 20;

export class Sender {
  readonly #client: ScriptClient;
  /** Scripts that this server was sent whole; later calls send the SHA alone. */
  readonly #sent = new Set<string>();

  constructor(client: ScriptClient) {
    this.#client = client;
  }

  send(call: ScriptCall, answer: Answer): void {
    const { script, keys, args } = call;
    try {
      if (!this.#sent.has(script.sha)) return this.#sendWhole(call, answer);
      this.#client.evalsha(script.sha, keys, args).then(
        (reply) => answer.resolve(reply),
        (error) => {
          if (isNoScript(error)) this.#sendWhole(call, answer);
          else this.#refused(error, call, answer);
        },
      );
    } catch (error) {
      answer.reject(error); // a client that throws instead of rejecting
    }
  }

  #sendWhole(call: ScriptCall, answer: Answer): void {
    const { script, keys, args } = call;
    this.#client.eval(script.lua, keys, args).then(
      (reply) => {
        this.#sent.add(script.sha);
        answer.resolve(reply);
      },
      (error) => this.#refused(error, call, answer),
    );
  }

  /** In a cluster, while a slot is on the move: its keys are partly here and partly there, or its node died. Nothing ran. */
  #refused(error: unknown, call: ScriptCall, answer: Answer): void {
    const { deadlineMs = 0 } = answer;
    const isMoving = this.#client.clustered && moving.has(codeOf(String((error as Error).message)));
    if (!isMoving || performance.now() + movingPauseMs >= deadlineMs) return answer.reject(error);
    setTimeout(() => this.send(call, answer), movingPauseMs).unref();
  }
}
