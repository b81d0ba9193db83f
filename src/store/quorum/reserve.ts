// The nodes that a round has not asked yet, and the moment at which the round asks them. One timer serves all rounds, because
// nearly all end before that moment.
import { type Linked, LinkedList } from '../../core/linked-list';
import type { QuorumClock, QuorumNode } from './node';

export class Reserves {
  readonly #clock: QuorumClock;
  readonly #waiting = new LinkedList<Reserve>();
  #timer: unknown;
  #timerDueMs = Number.POSITIVE_INFINITY;

  constructor(clock: QuorumClock) {
    this.#clock = clock;
  }

  add(reserve: Reserve): void {
    this.#waiting.add(reserve);
    if (reserve.dueMs < this.#timerDueMs) this.#arm(reserve.dueMs);
  }

  delete(reserve: Reserve): void {
    this.#waiting.delete(reserve);
  }

  #arm(dueMs: number): void {
    if (this.#timerDueMs < Number.POSITIVE_INFINITY) this.#clock.clearTimer(this.#timer);
    this.#timerDueMs = dueMs;
    this.#timer = this.#clock.setTimer(() => this.#onDue(), Math.max(dueMs - this.#clock.now().monoMs, 1));
  }

  #onDue(): void {
    this.#timerDueMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.now().monoMs;
    let nextMs = Number.POSITIVE_INFINITY;
    const due: Reserve[] = [];
    for (const reserve of this.#waiting) {
      // A timer may fire a moment early.
      if (reserve.dueMs <= nowMs + 1) due.push(reserve);
      else nextMs = Math.min(nextMs, reserve.dueMs);
    }
    for (const reserve of due) reserve.onLate();
    if (nextMs < this.#timerDueMs) this.#arm(nextMs);
  }
}

export class Reserve implements Linked<Reserve> {
  before: Reserve | undefined = undefined;
  after: Reserve | undefined = undefined;
  readonly #reserves: Reserves;
  #nodes: readonly QuorumNode[] = none;
  dueMs = 0;
  onLate = (): void => {};

  constructor(reserves: Reserves) {
    this.#reserves = reserves;
  }

  get size(): number {
    return this.#nodes.length;
  }

  keep(nodes: readonly QuorumNode[], dueMs: number, onLate: () => void): void {
    if (nodes.length === 0) return;
    this.#nodes = nodes;
    this.dueMs = dueMs;
    this.onLate = onLate;
    this.#reserves.add(this);
  }

  /** All remaining nodes; afterwards none are left. */
  take(): readonly QuorumNode[] {
    const nodes = this.#nodes;
    if (nodes.length > 0) this.#reserves.delete(this);
    this.#nodes = none;
    return nodes;
  }
}

const none: readonly QuorumNode[] = [];
