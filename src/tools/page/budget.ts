// The budget of commands to Redis. Few rows are read often, so that changes show at once. Many rows cost less than one command per
// second in the long run, whatever each read costs.

/** The maximum number of rows that cost next to nothing. */
const fewRows = 200;
const quietMs = { few: 1000, many: 4000 };
/** Longest pause. The pause in ms is at least the number of rows, because a read of very many rows takes long; with news a tenth. */
const maxQuietMs = 60_000;
const newsMs = 100;
const newsShare = 1 / 10;
const perSecond = { few: 8, many: 0.9 };
/** Commands that may be sent at once after a quiet time. */
const maxCredit = 8;

export class Budget {
  /** The first read has no limit. */
  #credit = Number.POSITIVE_INFINITY;
  #atMs = performance.now();
  #cost = 0;

  /** Begins a read. */
  begin(): void {
    this.#cost = 0;
  }

  spend(commands: number): void {
    this.#cost += commands;
    this.#credit -= commands;
  }

  /** Ms until the next read, which is sooner after news, and is expected to cost as much as the last one. */
  pauseMs(isNews: boolean, rows: number): number {
    const size = rows > fewRows ? 'many' : 'few';
    const nowMs = performance.now();
    const earned = ((nowMs - this.#atMs) / 1000) * perSecond[size];
    this.#credit = Math.min(maxCredit, this.#credit + earned);
    this.#atMs = nowMs;
    const largeMs = Math.min(rows, maxQuietMs);
    const missing = Math.max(0, Math.min(this.#cost, maxCredit) - this.#credit);
    const minMs = isNews ? Math.max(newsMs, largeMs * newsShare) : Math.max(quietMs[size], largeMs);
    return Math.max(minMs, (missing / perSecond[size]) * 1000);
  }
}
