// What is known of one server's clock, learned from the time in its replies. The offset is never more than it really is:
// then a request is stale no later than it should be.
export class ServerClock {
  #offsetMs: number | undefined;
  #isKnown = false;
  /** What was learned last: a batch tells each of its calls the same. */
  #lastServerMs = 0;
  #lastSentMs = 0;

  /** Server time minus monotonic time, in ms. Guessed when it is first needed: a test may have put other clocks in place by then. */
  get offsetMs(): number {
    this.#offsetMs ??= Date.now() - performance.now();
    return this.#offsetMs;
  }

  /** The server's time, or earlier, when our monotonic clock says `monoMs`. */
  serverMs(monoMs: number): number {
    return monoMs + this.offsetMs; // H19b
  }

  /** The offset is at least (server time − our time of reading it), and at most (server time − our time of sending). */
  learn(serverMs: number, sentMs: number): void {
    if (serverMs === this.#lastServerMs && sentMs === this.#lastSentMs) return;
    this.#lastServerMs = serverMs;
    this.#lastSentMs = sentMs;
    const most = serverMs + 1 - sentMs;
    // Nothing to learn: the least that it may be is not more than (server time − our time of sending).
    if (this.#isKnown && this.offsetMs <= most && this.offsetMs >= most - 1) return;
    const least = serverMs - performance.now();
    // H3f
    if (!this.#isKnown || this.offsetMs > most) this.#offsetMs = least;
    else this.#offsetMs = Math.max(this.offsetMs, least);
    this.#isKnown = true;
  }
}
