// Rounds by their tokens. Tokens come and go as fast as locks do, and the old tables of a `Map` keep later entries alive: with
// 256 pairs in flight on three servers, a quarter of the CPU went into moving dead rounds.
import type { Round } from './round';

const bucketCount = 256;

export class Rounds {
  readonly #buckets = Array.from({ length: bucketCount }, (): Round[] => []);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(token: string): Round | undefined {
    return this.#bucketOf(token).find((round) => round.token === token);
  }

  add(round: Round): void {
    this.#bucketOf(round.token).push(round);
    this.#size += 1;
  }

  delete(round: Round): void {
    const bucket = this.#bucketOf(round.token);
    const at = bucket.indexOf(round);
    if (at < 0) return;
    bucket.splice(at, 1);
    this.#size -= 1;
  }

  /** The bucket of a token, by the token's end, which is random. */
  #bucketOf(token: string): Round[] {
    const { length } = token;
    const hash =
      (token.charCodeAt(length - 1) << 4) ^ token.charCodeAt(length - 2) ^ (token.charCodeAt(length - 3) << 2);
    return this.#buckets[hash & (bucketCount - 1)]!;
  }
}
