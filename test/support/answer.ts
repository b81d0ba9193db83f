/** A reply that a test gives when it likes: whatever waits for it runs within that call. The code under test takes it for a promise. */
export class Answer<T> {
  #settled: ((handlers: Handlers<T>) => void) | undefined;
  readonly #waiting: Handlers<T>[] = [];

  readonly resolve = (reply: T): void => this.#settle(({ onReply }) => onReply(reply));
  readonly reject = (error: unknown): void => this.#settle(({ onError }) => onError(error));

  get promise(): Promise<T> {
    return this as unknown as Promise<T>;
  }

  // biome-ignore lint/suspicious/noThenProperty: it stands in for a promise
  then<R>(onReply: (reply: T) => R, onError?: (error: unknown) => R): Answer<R> {
    const next = new Answer<R>();
    const handlers: Handlers<T> = {
      onReply: (reply) => next.resolve(onReply(reply)),
      onError: (error) => (onError === undefined ? next.reject(error) : next.resolve(onError(error))),
    };
    if (this.#settled === undefined) this.#waiting.push(handlers);
    else this.#settled(handlers);
    return next;
  }

  #settle(settled: (handlers: Handlers<T>) => void): void {
    this.#settled = settled;
    for (const handlers of this.#waiting.splice(0)) settled(handlers);
  }
}

interface Handlers<T> {
  onReply(reply: T): void;
  onError(error: unknown): void;
}
