// The nodes of a quorum together: which are asked, and what so many replies or errors come to.
import { LockBackendError } from '../../core/errors';
import { describe, type Key } from '../../core/keys';
import type { QuorumNode } from './node';

/** The replies to one request, as far as they have come. */
export interface Tally<T> {
  readonly replies: Map<QuorumNode, T>;
  readonly errors: LockBackendError[];
  /** Nodes that have not replied yet. */
  open: number;
}

/** Those that are asked first, and the rest. */
type Order = readonly [first: readonly QuorumNode[], rest: readonly QuorumNode[]];

export class Nodes {
  readonly all: readonly QuorumNode[];
  readonly majority: number;
  /** By the node that is the first, where all are well. */
  readonly #orders: readonly Order[];
  #identifications = 0;
  #duplicate: QuorumNode | undefined;

  constructor(all: readonly QuorumNode[]) {
    this.all = all;
    this.majority = Math.floor(all.length / 2) + 1; // B6
    this.#orders = all.map((_, n) => this.#split([...all.slice(n), ...all.slice(0, n)]));
  }

  get size(): number {
    return this.all.length;
  }

  /** So many nodes without us leave no majority for us. */
  isMinority(others: number): boolean {
    return others > this.size - this.majority;
  }

  /** The nodes to ask: a silent one is skipped until it answers again, as long as there is a majority without it. */
  get responsive(): QuorumNode[] {
    const responsive = this.all.filter((each) => !each.isSilent);
    return responsive.length >= this.majority ? responsive : [...this.all]; // H66d
  }

  /**
   * Those to ask, a bare majority first: the same for all callers of a key, so that two that want it at once meet at the same
   * nodes, and others for other keys.
   */
  inOrder(key: string, nowMs: number): Order {
    const from = this.size === this.majority ? 0 : spread(key) % this.size;
    if (this.all.every((node) => !node.isSilent && node.lastUntilMs <= nowMs)) return this.#orders[from]!;
    const { responsive } = this;
    const ordered = [...responsive.slice(from), ...responsive.slice(0, from)];
    // The one that was late last comes last.
    const lateness = ({ lastUntilMs }: QuorumNode): number => (lastUntilMs > nowMs ? lastUntilMs : 0);
    ordered.sort((a, b) => lateness(a) - lateness(b)); // H66e
    return this.#split(ordered);
  }

  #split(ordered: readonly QuorumNode[]): Order {
    return [ordered.slice(0, this.majority), ordered.slice(this.majority)];
  }

  /** Why the others are not asked. */
  skipped(asked: readonly QuorumNode[]): LockBackendError[] {
    if (asked.length === this.size) return [];
    return this.all.filter((each) => each.isSilent && !asked.includes(each)).map((each) => each.silence);
  }

  /** Asks in one tick; answers as soon as `decide` can, or throws. A node that replies later is heard in the background. */
  ask<T, R>(
    send: (node: QuorumNode) => Promise<T>,
    decide: (tally: Tally<T>) => R | undefined,
    asked = this.responsive,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      // Where none is left to be asked, that is an answer too.
      const tally: Tally<T> = { replies: new Map(), errors: this.skipped(asked), open: Math.max(asked.length, 1) };
      const settle = (): void => {
        tally.open -= 1;
        try {
          const decision = decide(tally);
          if (decision !== undefined) resolve(decision);
        } catch (error) {
          reject(error);
        }
      };
      if (asked.length === 0) return settle(); // H62
      for (const node of asked) {
        send(node).then(
          (reply) => {
            tally.replies.set(node, reply);
            settle();
          },
          (error) => {
            node.failed(error);
            tally.errors.push(error);
            settle();
          },
        );
      }
    });
  }

  /**
   * Looks at the nodes again when one was identified anew. One server under two names would have two votes. And a quorum all of
   * whose servers are in their first run, as their operator says, has nothing to forget: once, while all of them are young, so
   * that the same said later of a server that was restarted changes nothing.
   */
  review(longestMs: number, key: Key): LockBackendError | undefined {
    let identifications = 0;
    for (const node of this.all) identifications += node.identifications;
    if (identifications !== this.#identifications) {
      this.#identifications = identifications;
      const known = this.all.filter(({ runId }) => runId !== '');
      this.#duplicate = known.find(({ runId }, n) => known.findIndex((each) => each.runId === runId) < n);
      if (this.all.every((node) => node.isMarkedNew && node.isYoung(longestMs))) {
        for (const node of this.all) node.isFirstRun = true;
      }
    }
    return this.#duplicate && this.#isDuplicate(this.#duplicate, key); // H66
  }

  #isDuplicate({ name, runId }: QuorumNode, key: Key): LockBackendError {
    const other = this.all.find((each) => each.runId === runId)!;
    const message = `${other.name} and ${name} are the same server (run_id ${runId}): a quorum is of independent ones`;
    return new LockBackendError(message, { key, retryable: false });
  }

  noMajority(errors: readonly LockBackendError[], key: Key, unknown = false): LockBackendError {
    const lasting = errors.filter((error) => !error.retryable);
    const retryable = !this.isMinority(lasting.length);
    const telling = retryable ? errors : lasting;
    // Redis's own error says more than silence.
    const cause = telling.find((error) => error.redisCode !== undefined) ?? telling[0];
    const message = `no majority of the quorum could be asked about ${describe(key)} (${errors.length} of ${this.size} failed): ${cause?.message}`;
    return new LockBackendError(message, { key, cause, redisCode: cause?.redisCode, retryable, unknown });
  }
}

/** Any number, from the end of a key, where keys differ. */
function spread(key: string): number {
  let sum = key.length;
  for (let i = Math.max(0, key.length - 4); i < key.length; i++) sum = 31 * sum + key.charCodeAt(i);
  return sum;
}
