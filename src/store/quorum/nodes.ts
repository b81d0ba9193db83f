// The nodes of a quorum together: the choice of the nodes to ask, and the meaning of their replies and errors.
import type { Clock } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { describe, type Key } from '../../core/keys';
import type { Node, NodeVote, NodeVotes } from '../contract';
import { QuorumNode } from './node';

/** The replies to one request so far. */
export interface Tally<T> {
  readonly replies: Map<QuorumNode, T>;
  readonly errors: LockBackendError[];
  /** The number of nodes that have not replied yet. */
  open: number;
}

/** The nodes to ask first, and those to ask after them. */
export type Order = readonly [first: readonly QuorumNode[], rest: readonly QuorumNode[]];

export class Nodes {
  readonly all: readonly QuorumNode[];
  /** The clock of the first node: all have the same one. */
  readonly clock: Clock;
  readonly majority: number;
  /** The longest lifetime in use: a node that may have forgotten a lock of this lifetime in a restart has no vote. */
  longestMs = 0;
  /** The orders by their first node, for when all nodes are well: a tenth of the CPU time of a pair. */
  readonly #orders: readonly Order[];
  #duplicate: string | undefined;

  constructor(stores: readonly Node[]) {
    const { clock } = stores[0]!;
    const all = stores.map((store, index) => new QuorumNode(store, `redis[${index}]`, clock, () => this.#review()));
    this.all = all;
    this.clock = clock;
    this.majority = Math.floor(all.length / 2) + 1; // B6
    this.#orders = all.map((_, n) => this.#split([...all.slice(n), ...all.slice(0, n)]));
  }

  get size(): number {
    return this.all.length;
  }

  /** True if a majority is impossible without `others` nodes. */
  isMinority(others: number): boolean {
    return others > this.size - this.majority;
  }

  /** The nodes to ask. A silent one is skipped until it answers again, while there is a majority without it. */
  get responsive(): QuorumNode[] {
    const responsive = this.all.filter((each) => each.silence === undefined);
    return responsive.length >= this.majority ? responsive : [...this.all]; // H66d
  }

  /** The nodes to ask, a bare majority first. The order depends on the key, so concurrent callers of a key meet at the same nodes. */
  inOrder(key: string, nowMs: number): Order {
    const from = this.size === this.majority ? 0 : spread(key) % this.size;
    if (this.all.every((node) => node.silence === undefined && node.lastUntilMs <= nowMs)) return this.#orders[from]!;
    const { responsive } = this;
    const ordered = [...responsive.slice(from), ...responsive.slice(0, from)];
    // The node that was late most recently comes last.
    const lateness = ({ lastUntilMs }: QuorumNode): number => (lastUntilMs > nowMs ? lastUntilMs : 0);
    ordered.sort((a, b) => lateness(a) - lateness(b)); // H66e
    return this.#split(ordered);
  }

  #split(ordered: readonly QuorumNode[]): Order {
    return [ordered.slice(0, this.majority), ordered.slice(this.majority)];
  }

  /** The errors of the skipped nodes. */
  skipped(asked: readonly QuorumNode[]): LockBackendError[] {
    if (asked.length === this.size) return [];
    return this.all.flatMap((each) => (asked.includes(each) ? [] : (each.silence ?? [])));
  }

  report<T>(node: QuorumNode, votes: NodeVotes | undefined, reply: Promise<T>, voteOf: (reply: T) => NodeVote): void {
    votes?.asked(
      this.all.indexOf(node),
      reply.then(voteOf, (error) => error),
    );
  }

  /** The outcome: `won` once a majority reports it, and a loss once no majority can. Until then undefined. */
  decided<Won extends string>(won: Won, outcomes: readonly string[]): Won | 'missing' | 'taken' | undefined {
    const count = { won: 0, missing: 0, taken: 0 };
    for (const outcome of outcomes) {
      if (outcome === won) count.won += 1;
      else if (outcome === 'missing' || outcome === 'taken') count[outcome] += 1;
    }
    if (count.won >= this.majority) return won; // H64
    if (this.isMinority(count.missing + count.taken)) return count.taken > 0 ? 'taken' : 'missing'; // H64b
    return undefined;
  }

  /**
   * Asks nodes in one tick. Settles as soon as `decide` returns a result; a later reply is processed in the background.
   *
   * @param onFailure Called after a node has failed to reply.
   * @throws {LockBackendError} (rejects) no result when all have replied. The request may have taken effect.
   */
  ask<T, R>(
    key: Key,
    send: (node: QuorumNode) => Promise<T>,
    decide: (tally: Tally<T>) => R | undefined,
    asked: readonly QuorumNode[] = this.responsive,
    onFailure?: (node: QuorumNode) => void,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      // Without a node to ask, the decision is made at once.
      const tally: Tally<T> = { replies: new Map(), errors: this.skipped(asked), open: Math.max(asked.length, 1) };
      const settle = (): void => {
        tally.open -= 1;
        const decision = decide(tally);
        if (decision !== undefined) resolve(decision);
        else if (tally.open === 0) reject(this.noMajority(tally.errors, key, true));
      };
      if (asked.length === 0) return settle(); // H62
      for (const node of asked) {
        send(node).then(
          (reply) => {
            node.answered();
            tally.replies.set(node, reply);
            settle();
          },
          (error) => {
            node.failed(error);
            onFailure?.(node);
            tally.errors.push(error);
            settle();
          },
        );
      }
    });
  }

  /** Asks the nodes, and resolves once each of them has replied or failed. */
  askAll<T>(key: Key, send: (node: QuorumNode) => Promise<T>): Promise<Tally<T>> {
    return this.ask(key, send, (tally) => (tally.open === 0 ? tally : undefined));
  }

  /**
   * Examines the nodes again when one was identified anew. A server under two names would have two votes. If an operator has said
   * of all servers that they are in their first run, the quorum has nothing to forget. This statement counts once, while all of
   * them are young: a later one about a restarted server changes nothing.
   */
  #review(): void {
    const known = this.all.filter(({ runId }) => runId !== '');
    const firstOf = ({ runId }: QuorumNode): QuorumNode => known.find((each) => each.runId === runId)!;
    const second = known.find((node) => firstOf(node) !== node);
    this.#duplicate =
      second &&
      `${firstOf(second).name} and ${second.name} are the same server (run_id ${second.runId}): a quorum is of independent ones`;
    if (this.all.every((node) => node.isMarkedNew && node.youngForMs(this.longestMs) > 0)) {
      for (const node of this.all) node.isFirstRun = true;
    }
  }

  /** The error for a quorum that is none: a server has two names. */
  refuses(key: Key): LockBackendError | undefined {
    if (this.#duplicate === undefined) return undefined;
    return new LockBackendError(this.#duplicate, { key, retryable: false }); // H66
  }

  noMajority(errors: readonly LockBackendError[], key: Key, unknown = false): LockBackendError {
    const lasting = errors.filter((error) => !error.retryable);
    const retryable = !this.isMinority(lasting.length);
    const telling = retryable ? errors : lasting;
    // Redis's own error is more informative than silence.
    const cause = telling.find((error) => error.redisCode !== undefined) ?? telling[0];
    const message = `no majority of the quorum could be asked about ${describe(key)} (${errors.length} of ${this.size} failed): ${cause?.message}`;
    return new LockBackendError(message, { key, cause, redisCode: cause?.redisCode, retryable, unknown });
  }
}

/** A number from the end of a key, where keys differ. */
function spread(key: string): number {
  let sum = key.length;
  for (let i = Math.max(0, key.length - 4); i < key.length; i++) sum = 31 * sum + key.charCodeAt(i);
  return sum;
}
