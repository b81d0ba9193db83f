// A call of redlock's `acquire` that waits for several keys of an only client. They have no queue: it polls, but asks for nothing
// that another call for the same keys has just heard, and a release in this process wakes it.

import { Turn, wakeNext } from './redis-semaphore/turns';
import type { VotedGrant } from './redlock/electorate';

/** What a call for the same keys in this process waits by. */
function nameOf(keys: readonly string[]): string {
  return JSON.stringify(keys);
}

export class SeveralKeysCall {
  readonly #turn: Turn;
  readonly #ask: () => Promise<VotedGrant | 0>;
  #pauseMs = 0;

  constructor(client: object, keys: readonly string[], ask: () => Promise<VotedGrant | 0>) {
    this.#turn = new Turn(client, nameOf(keys), true);
    this.#ask = ask;
  }

  /** Whether it is known without a command that a key is still held. */
  get isKnownBusy(): boolean {
    return this.#turn.isKnownBusy(this.#pauseMs);
  }

  /** The keys are asked for now. */
  requests(): void {
    this.#turn.asks();
  }

  /** The pause between two attempts: resolves with the grant if a release meanwhile makes one, with undefined after `ms`. */
  async pause(ms: number): Promise<VotedGrant | undefined> {
    this.#pauseMs = ms;
    const endMs = performance.now() + ms;
    while (await this.#turn.pause(Math.max(endMs - performance.now(), 0), undefined)) {
      // The next attempt of the schedule tells why it failed.
      const grant = await this.#ask().catch(() => undefined);
      if (grant) return grant;
      if (grant === undefined) this.#turn.failed();
    }
    return undefined;
  }

  leave(): void {
    this.#turn.end();
  }
}

/** The keys were released by this process. */
export function wakeFor(client: object, keys: readonly string[]): void {
  wakeNext(client, nameOf(keys), 1);
}
