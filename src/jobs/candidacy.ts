// One candidate, from its first campaign to the end of its candidacy: campaign, run the function for one term, wait for the function
// to settle, release the lock, and campaign again after a loss. This file uses neither locks nor Redis. The won term is passed in, so
// that the simulation can run this loop in its own worlds.
//
// Invariant: nothing is released, and no campaign begins, while the function runs.

import { abortReason } from '../acquire/refusals';
import { onAbort } from '../core/on-abort';

/** The result of a campaign: a lock, and the term that begins with it. */
export interface Won<Term> {
  readonly term: Term;
  /** Aborts when the lock may be lost. */
  readonly signal: AbortSignal;
  /** Tells if the lock may have been lost by now. Reads the clocks. */
  readonly isLost: boolean;
  /** Runs `fn` as code of this term, and settles as `fn` does. */
  run<T>(fn: () => T | PromiseLike<T>): Promise<T>;
  /** Tells if the calling code was started by `run`. */
  encloses(): boolean;
  /** Aborts the signal of the term, to ask the function to end. */
  abort(reason: unknown): void;
  /** Ends the term and gives the lock back. Never rejects. */
  release(): Promise<unknown>;
}

export class Candidacy<Term> {
  readonly #campaign: (stop: AbortSignal) => Promise<Won<Term>>;
  readonly #onFailure: (error: unknown) => void;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #end!: () => void;
  #isResigned = false;
  #won: Won<Term> | undefined;

  /**
   * @param campaign  Resolves with the won term. Rejects with the reason of `stop` when that signal aborts.
   * @param onFailure Receives the error of a function whose leadership was lost.
   */
  constructor(campaign: (stop: AbortSignal) => Promise<Won<Term>>, onFailure: (error: unknown) => void) {
    this.#campaign = campaign;
    this.#onFailure = onFailure;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  stop(reason: unknown): void {
    this.#stop.abort(reason);
  }

  /** Ends the candidacy. Resolves when the lock is released, or at once if the function itself calls this. */
  async resign(): Promise<void> {
    this.#isResigned ||= !this.#stop.signal.aborted;
    this.stop(Object.assign(new Error('the candidate resigned'), { name: 'AbortError', code: 'ABORT_ERR' }));
    if (!this.#won?.encloses()) await this.#ended;
  }

  async run<T>(fn: (term: Term) => T | PromiseLike<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
    const stop = (): void => this.stop(signal!.reason);
    if (signal?.aborted) stop();
    const stopListening = signal && onAbort(signal, stop);
    try {
      for (;;) {
        const won = await this.#elected();
        if (won === undefined) return undefined;
        const { outcome, isLost } = await this.#serve(won, fn);
        if (!isLost || this.#stop.signal.aborted) {
          if (outcome.status === 'rejected') throw outcome.reason;
          return outcome.value;
        }
        if (outcome.status === 'rejected') this.#onFailure(outcome.reason);
      }
    } finally {
      stopListening?.();
      this.#end();
    }
  }

  /** Campaigns until a term is won. Resolves with undefined after a resignation. */
  async #elected(): Promise<Won<Term> | undefined> {
    const { signal } = this.#stop;
    for (;;) {
      const won = await this.#campaign(signal).catch((error) => {
        if (this.#isResigned) return undefined;
        throw error;
      });
      if (won === undefined || (!won.isLost && !signal.aborted)) return won;
      // The candidate was stopped at the moment of its election, or this process was suspended until the grant had expired.
      await won.release();
      if (this.#isResigned) return undefined;
      if (signal.aborted) throw abortReason(signal);
    }
  }

  /** Runs `fn` for one term. Waits for `fn` to settle even after a stop or a loss, and only then releases the lock. */
  async #serve<T>(
    won: Won<Term>,
    fn: (term: Term) => T | PromiseLike<T>,
  ): Promise<{ outcome: PromiseSettledResult<T>; isLost: boolean }> {
    const [lost, stopped] = [won.signal, this.#stop.signal];
    const onLost = (): void => won.abort(lost.reason);
    const onStop = (): void => won.abort(stopped.reason); // H86c
    lost.addEventListener('abort', onLost); // H86d
    stopped.addEventListener('abort', onStop);
    this.#won = won;
    const [outcome] = await Promise.allSettled([won.run(() => fn(won.term))]); // H86b
    const { isLost } = won;
    await won.release();
    this.#won = undefined;
    lost.removeEventListener('abort', onLost);
    stopped.removeEventListener('abort', onStop);
    return { outcome, isLost };
  }
}
