// The nodes that a round has not asked yet, and the moment after which it does.
import type { Clock, QuorumNode } from './node';

export class Reserve {
  readonly #clock: Clock;
  #nodes: readonly QuorumNode[] = [];
  #timer: unknown;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#nodes.length;
  }

  keep(nodes: readonly QuorumNode[], ms: number, onLate: () => void): void {
    if (nodes.length === 0) return;
    this.#nodes = nodes;
    this.#timer = this.#clock.setTimer(onLate, ms);
  }

  /** All of them; none are left. */
  take(): readonly QuorumNode[] {
    const nodes = this.#nodes;
    if (nodes.length > 0) this.#clock.clearTimer(this.#timer);
    this.#nodes = [];
    return nodes;
  }
}
