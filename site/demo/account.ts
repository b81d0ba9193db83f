// The account that the workers write to. It takes what it is told, as a database row does; if it compares fences, it refuses a write whose
// fence is smaller than the last one that it stored.

export type WriteOutcome = 'wrote' | 'refused' | 'overwrote';

export class Account {
  balance = 0;
  /** The fence of the last write; 0 before the first. */
  fence = 0;
  readonly #comparesFences: boolean;

  constructor(comparesFences: boolean) {
    this.#comparesFences = comparesFences;
  }

  /** @returns `overwrote` where a fence would have refused the write. */
  write(balance: number, fence: number): WriteOutcome {
    const isStale = fence < this.fence;
    if (isStale && this.#comparesFences) return 'refused';
    this.balance = balance;
    this.fence = fence;
    return isStale ? 'overwrote' : 'wrote';
  }
}
