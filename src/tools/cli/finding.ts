// The findings of doctor, and the function that sends its commands.

export type SendWords = (words: readonly string[]) => Promise<unknown>;

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** The finding, and the remedy. */
  readonly remedy: string;
}
