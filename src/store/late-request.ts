// A request of unknown outcome: its reply was lost, or its caller has given up. It may have executed, and it may still execute
// until its command timeout has passed. While a token has a late request, the token is not handed on, and a release of the token
// is sent once more after that time.

export class LateRequest {
  /** Monotonic ms after which the request changes nothing. */
  readonly untilMs: number;

  /** @param nowMs A moment at which the request had been sent. */
  constructor(nowMs: number, commandTimeoutMs: number) {
    this.untilMs = nowMs + commandTimeoutMs;
  }

  mayExecute(nowMs: number): boolean {
    return nowMs < this.untilMs;
  }
}
