// An estimate of one server's clock, learned from the time in its replies. The estimated offset is never above the true one, so
// a request becomes stale no later than it should.
export class ServerClock {
  /** Undefined until the first reply. */
  #offsetMs: number | undefined;

  /** Server time minus monotonic time, in ms. Before the first reply it is a guess. */
  get offsetMs(): number {
    return this.#offsetMs ?? Date.now() - performance.now();
  }

  /** The server's time, or an earlier one, at the moment `monoMs` of our monotonic clock. */
  serverMs(monoMs: number): number {
    return monoMs + this.offsetMs; // H19b
  }

  /** Learns from one reply. The offset is at least (server time − our time of reading) and at most (server time − our time of sending). */
  learn(serverMs: number, sentMs: number): void {
    const known = this.#offsetMs;
    const maxOffsetMs = serverMs + 1 - sentMs;
    // Nothing to learn: the lower bound is at most (server time − our time of sending), and the offset is that large already.
    if (known !== undefined && known <= maxOffsetMs && known >= maxOffsetMs - 1) return;
    const minOffsetMs = serverMs - performance.now();
    // H3f
    if (known === undefined || known > maxOffsetMs) this.#offsetMs = minOffsetMs;
    else this.#offsetMs = Math.max(known, minOffsetMs);
  }
}
