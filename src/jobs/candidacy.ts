// One candidate, from its first campaign to the end of what it was asked for: campaign, run the function for one term, wait for it
// to settle, give the lock back, and after a loss campaign again. It knows neither locks nor Redis: what it leads under is
// handed in, so that the simulation runs this very loop in worlds of its own.
//
// Invariant: nothing is released, and no campaign begins, while the function runs.

import { abortReason } from '../acquire/spec';
import { onAbort } from '../core/on-abort';

/** What was won in a campaign: a lock, and the term that begins with it. */
export interface Won<Term> {
  readonly term: Term;
  /** Aborts when the lock may be lost. */
  readonly signal: AbortSignal;
  /** Whether the lock may be lost by now; reads the clocks. */
  readonly isLost: boolean;
  /** Runs `fn` as code of this term, and settles as it does. */
  run<T>(fn: () => T | PromiseLike<T>): Promise<T>;
  /** Whether the running code is that of `run`. */
  encloses(): boolean;
  /** The function should end: its term's signal aborts. */
  abort(reason: unknown): void;
  /** Ends the term and gives the lock back. Never rejects. */
  release(): Promise<unknown>;
}

/** How a function ended. */
type FunctionOutcome<T> = { readonly value: T } | { readonly error: unknown };

export class Candidacy<Term> {
  readonly #campaign: (stop: AbortSignal) => Promise<Won<Term>>;
  readonly #onFailure: (error: unknown) => void;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #end!: () => void;
  #isResigned = false;
  #won: Won<Term> | undefined;

  /**
   * @param campaign  Resolves with what was won; rejects with the reason of `stop` when that aborts.
   * @param onFailure Hears what a function rejected with after its leadership was lost.
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

  /** Resolves once the lock is released; at once where the function itself calls it. */
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
          if ('error' in outcome) throw outcome.error;
          return outcome.value;
        }
        if ('error' in outcome) this.#onFailure(outcome.error);
      }
    } finally {
      stopListening?.();
      this.#end();
    }
  }

  /** What a term begins with; undefined after a resignation. */
  async #elected(): Promise<Won<Term> | undefined> {
    const { signal } = this.#stop;
    for (;;) {
      const won = await this.#campaign(signal).catch((error) => {
        if (this.#isResigned) return undefined;
        throw error;
      });
      if (won === undefined || (!won.isLost && !signal.aborted)) return won;
      // It was stopped in the moment of its election; or this process was, until the grant was over.
      await won.release();
      if (this.#isResigned) return undefined;
      if (signal.aborted) throw abortReason(signal);
    }
  }

  /** Runs `fn` for one term. If it is asked to stop, or the lock is lost, it is waited for; only then the lock is released. */
  async #serve<T>(
    won: Won<Term>,
    fn: (term: Term) => T | PromiseLike<T>,
  ): Promise<{ outcome: FunctionOutcome<T>; isLost: boolean }> {
    const [lost, stopped] = [won.signal, this.#stop.signal];
    const onLost = (): void => won.abort(lost.reason);
    const onStop = (): void => won.abort(stopped.reason); // H86c
    lost.addEventListener('abort', onLost); // H86d
    stopped.addEventListener('abort', onStop);
    this.#won = won;
    const outcome: FunctionOutcome<T> = await won // H86b
      .run(() => fn(won.term))
      .then(
        (value) => ({ value }),
        (error) => ({ error }),
      );
    const { isLost } = won;
    await won.release();
    this.#won = undefined;
    lost.removeEventListener('abort', onLost);
    stopped.removeEventListener('abort', onStop);
    return { outcome, isLost };
  }
}
