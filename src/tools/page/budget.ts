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

export class Budget {
  #cost = 0;
  #atMs = Number.NEGATIVE_INFINITY;

  /** Begins a read. */
  begin(): void {
    this.#cost = 0;
    this.#atMs = performance.now();
  }

  spend(commands: number): void {
    this.#cost += commands;
  }

  /** Ms until the next read, which is sooner after news, and later after a read that cost more. */
  pauseMs(isNews: boolean, rows: number): number {
    const size = rows > fewRows ? 'many' : 'few';
    const largeMs = Math.min(rows, maxQuietMs);
    const minMs = isNews ? Math.max(newsMs, largeMs * newsShare) : Math.max(quietMs[size], largeMs);
    const costMs = (this.#cost / perSecond[size]) * 1000;
    return Math.max(minMs, this.#atMs + costMs - performance.now());
  }
}
