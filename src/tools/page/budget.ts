// How often Redis may be asked: few rows often, so that what happens is seen at once; many rows with less than one command per
// second, in the long run, whatever each read costs.

/** Up to so many rows cost next to nothing. */
const fewRows = 200;
const quietMs = { few: 1000, many: 4000 };
/** Very many take us long to read: a read for each second that has as many ms as there are rows, and news ten times as often. */
const maxQuietMs = 60_000;
const newsShare = 1 / 10;
const perSecond = { few: 8, many: 0.9 };
/** What may be spent at once after a quiet time. */
const maxCredit = 8;

export class Budget {
  #credit = maxCredit;
  #atMs = performance.now();
  #cost = 0;

  /** A read begins. The first one may cost what it does: somebody wants to see something. */
  begin(isFirst: boolean): void {
    this.#cost = 0;
    if (isFirst) this.#credit = Number.POSITIVE_INFINITY;
  }

  /** So many commands are sent. */
  spend(commands: number): void {
    this.#cost += commands;
    this.#credit -= commands;
  }

  /** Ms until the next read, which will cost what the last one did. `soonMs`: as soon as it may be. */
  pauseMs(soonMs: number | undefined, rows: number): number {
    const size = rows > fewRows ? 'many' : 'few';
    const nowMs = performance.now();
    const earned = ((nowMs - this.#atMs) / 1000) * perSecond[size];
    this.#credit = Math.min(maxCredit, this.#credit + earned);
    this.#atMs = nowMs;
    const largeMs = Math.min(rows, maxQuietMs);
    const missing = Math.max(0, Math.min(this.#cost, maxCredit) - this.#credit);
    const minMs = soonMs === undefined ? Math.max(quietMs[size], largeMs) : Math.max(soonMs, largeMs * newsShare);
    return Math.max(minMs, (missing / perSecond[size]) * 1000);
  }
}
