// A map from nodes, of which there are few. Two small arrays cost a third of a `Map`, and each round needs several maps.
import type { QuorumNode } from './node';

export class NodeMap<T> {
  readonly #nodes: QuorumNode[] = [];
  readonly #values: T[] = [];

  get size(): number {
    return this.#nodes.length;
  }

  has(node: QuorumNode): boolean {
    return this.#nodes.includes(node);
  }

  get(node: QuorumNode): T | undefined {
    return this.#values[this.#nodes.indexOf(node)];
  }

  set(node: QuorumNode, value: T): void {
    const at = this.#nodes.indexOf(node);
    if (at < 0) this.#nodes.push(node);
    this.#values[at < 0 ? this.#nodes.length - 1 : at] = value;
  }

  delete(node: QuorumNode): void {
    const at = this.#nodes.indexOf(node);
    if (at < 0) return;
    this.#nodes.splice(at, 1);
    this.#values.splice(at, 1);
  }

  /** The nodes in the order of their arrival; the caller must not change the list. */
  keys(): readonly QuorumNode[] {
    return this.#nodes;
  }

  /** The values in the same order. */
  values(): readonly T[] {
    return this.#values;
  }
}
