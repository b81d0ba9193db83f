// The votes of the servers in one attempt of a redlock operation, as the caller is told of them. The store decides the attempt.
import { LockBackendError } from '../../core/errors';
import type { RedisLike } from '../../core/redis-like';
import type { NodeVote, NodeVotes } from '../../store/contract';

/** A client of Redis: ioredis, as with redlock, or any other that this library knows. */
export type Client = RedisLike;

/** The votes of one attempt. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<Client>;
  readonly votesAgainst: Map<Client, Error>;
}

export type ClientExecutionResult =
  | { client: Client; vote: 'for'; value: number }
  | { client: Client; vote: 'against'; error: Error };

export interface ExecutionResult {
  attempts: ReadonlyArray<Promise<ExecutionStats>>;
}

/** Another process holds one of the resources, or this process no longer holds it. */
export class ResourceLockedError extends Error {
  declare readonly message: string;

  /** Makes the error without a lock, such as for a test. */
  constructor(message: string) {
    super(message);
    this.name = 'ResourceLockedError';
  }
}

/** @internal The votes of one attempt. The outcome of the attempt is the vote of a single server. */
export class Ballot implements NodeVotes {
  /** The token of an acquire. */
  token = '';
  readonly #stats: ExecutionStats;
  /** Resolves when all votes are in. */
  readonly #whole: Promise<ExecutionStats>;
  readonly #count: number;
  readonly #onError: (error: Error) => void;
  readonly #clients: readonly Client[];
  /** The servers that were not asked, by position. */
  readonly #unasked: Set<number>;
  #complete = (_: ExecutionStats): void => {};

  /**
   * @param count   The number of resources.
   * @param onError Receives the error of each vote against.
   */
  constructor(clients: ReadonlySet<Client>, count: number, onError: (error: Error) => void) {
    const { size } = clients;
    const quorumSize = Math.floor(size / 2) + 1;
    this.#stats = { membershipSize: size, quorumSize, votesFor: new Set(), votesAgainst: new Map() };
    this.#count = count;
    this.#onError = onError;
    this.#clients = [...clients];
    this.#unasked = new Set(this.#clients.keys());
    this.#whole = new Promise((resolve) => {
      this.#complete = resolve;
    });
  }

  asked(node: number): void {
    this.#unasked.delete(node);
  }

  voted(node: number, vote: NodeVote): void {
    const client = this.#clients[node]!;
    const { votesFor, votesAgainst, membershipSize } = this.#stats;
    if (vote === true) votesFor.add(client);
    else {
      const error = this.#errorOf(client, vote);
      votesAgainst.set(client, error);
      this.#onError(error);
    }
    if (votesFor.size + votesAgainst.size === membershipSize) this.#complete(this.#stats);
  }

  /** Ends the attempt. Servers that were not asked vote against, or if none was asked, by the outcome. Resolves when all votes are in. */
  close(outcome: true | number | Error): Promise<ExecutionStats> {
    const isOutcome = this.#unasked.size === this.#clients.length;
    const silence = (): Error => new LockBackendError('it was silent before, and was not asked', { retryable: true });
    for (const node of this.#unasked) this.voted(node, isOutcome ? outcome : silence());
    return this.#whole;
  }

  #errorOf(client: Client, vote: Exclude<NodeVote, true>): Error {
    if (typeof vote === 'number') {
      return new ResourceLockedError(
        `The operation was applied to: ${vote} of the ${this.#count} requested resources.`,
      );
    }
    if (!(vote instanceof Error)) {
      const ms = Math.ceil(vote.guardedForMs);
      return new LockBackendError(`it was started less than a duration ago, and has no vote for another ${ms} ms`);
    }
    // A client of ioredis that was closed for good votes in the words of ioredis.
    const isClosed = (client as { status?: unknown }).status === 'end';
    return isClosed ? new Error('Connection is closed.', { cause: vote }) : vote;
  }
}
