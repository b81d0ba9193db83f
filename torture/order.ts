/** The orders of a round to its processes: one at their start, and later messages. */

/** The place of the locks, as a process that uses them sees it. */
export type Address =
  | { readonly kind: 'redis'; readonly url: string }
  | { readonly kind: 'quorum'; readonly urls: readonly string[] }
  | { readonly kind: 'sentinel'; readonly ports: readonly number[] }
  | { readonly kind: 'cluster'; readonly ports: readonly number[] }
  | { readonly kind: 'shared-memory'; readonly name: string };

export interface Order {
  /** The name of the process, in its diary and before its operations. */
  readonly name: string;
  readonly number: number;
  readonly seed: number;
  readonly address: Address;
  /** The file of the diary. */
  readonly diary: string;
  /** The number of callers in the process. */
  readonly callers: number;
}

export type Message =
  /** Sets the wall clock of the process off by that much. */
  | { readonly clockMs: number }
  /** The event loop is blocked. */
  | { readonly blockMs: number }
  /** No more calls; what is open is ended, closed and then reported with `finished`. */
  | { readonly finish: true };

export const permitsInAll = 5;
export const cachedMs = 250;
export const commandTimeoutMs = 300;
