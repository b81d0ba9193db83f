// What doctor finds, and how it sends its requests.

export type SendWords = (words: readonly string[]) => Promise<unknown>;

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** What was found, and what to do about it. */
  readonly remedy: string;
}
