/**
 * The protection from one hazard of docs/hazards.md: alterations that take it out of the sources, and the test that must fail
 * without it: one that names the hazard.
 */
import type { Alteration } from '../support/alteration';

export interface Protection {
  /** Such as `H12`. */
  readonly hazard: string;
  /** The behaviour of the sources without the protection. */
  readonly without: string;
  readonly changes: readonly Alteration[];
  /** A file below test/. */
  readonly test: string;
  /** `sqlite`: the test needs a Node that has SQLite. Default: the Node of this process. */
  readonly node?: 'sqlite';
}

/** A hazard with nothing in src/ to take out. */
export interface NoProtection {
  readonly hazard: string;
  readonly why: string;
}
