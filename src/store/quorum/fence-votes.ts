// The fence of a grant by majority. Each node mints its own. The grant counts once a majority, all of whose nodes voted for the
// grant, knows the largest of these fences: none of its nodes will mint one that is not larger (H65). The other nodes are
// raised to that fence.
import type { QuorumNode } from './node';
import { NodeMap } from './node-map';

export class FenceVotes {
  /** The last fence that each voting node is known to have. */
  readonly #fences = new NodeMap<number>();
  #fence: number | undefined;
  #raising: Set<QuorumNode> | undefined;

  get size(): number {
    return this.#fences.size;
  }

  has(node: QuorumNode): boolean {
    return this.#fences.has(node);
  }

  set(node: QuorumNode, fence: number): void {
    this.#fences.set(node, fence);
  }

  delete(node: QuorumNode): void {
    this.#fences.delete(node);
  }

  /** True if the nodes had minted different fences, so that the largest was written back to some of them. */
  get wroteBack(): boolean {
    return this.#raising !== undefined;
  }

  /** The largest fence at the first call: a later vote does not raise it. */
  get fence(): number {
    this.#fence ??= Math.max(...this.#fences.values()); // H65b
    return this.#fence;
  }

  isKnownTo(majority: number): boolean {
    const { fence } = this;
    let count = 0;
    for (const each of this.#fences.values()) if (each >= fence) count += 1;
    return count >= majority;
  }

  /** The nodes that have to be raised to the fence, each returned once. */
  takeBehind(): QuorumNode[] {
    const { fence } = this;
    const fences = this.#fences.values();
    const behind = this.#fences.keys().filter((node, n) => fences[n]! < fence && !this.#raising?.has(node));
    this.#raising ??= new Set();
    for (const node of behind) this.#raising.add(node);
    return behind;
  }
}
