// A call of redlock's `acquire` that waits for several keys on a single client. Several keys have no queue, so the call polls. It skips
// an attempt if another call for the same keys has just been refused, and a release in this process wakes it.

import { Turn, wakeNext } from './redis-semaphore/turns';
import type { VotedGrant } from './redlock/electorate';

/** The name under which calls for the same keys wait. */
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

  /** Tells if a key is known to be held, without a command. */
  get isKnownBusy(): boolean {
    return this.#turn.isKnownBusy(this.#pauseMs);
  }

  /** Notes that an attempt begins now. */
  requests(): void {
    this.#turn.asks();
  }

  /** Pauses between two attempts. Resolves with a grant if a release in this process allows one meanwhile, or undefined after `ms`. */
  async pause(ms: number): Promise<VotedGrant | undefined> {
    this.#pauseMs = ms;
    const endMs = performance.now() + ms;
    while (await this.#turn.pause(Math.max(endMs - performance.now(), 0), undefined)) {
      // The next scheduled attempt reports the error.
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

/** Wakes the next call for these keys after a release by this process. */
export function wakeFor(client: object, keys: readonly string[]): void {
  wakeNext(client, nameOf(keys), 1);
}
