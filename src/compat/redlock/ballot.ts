// The votes of each client in one attempt of a redlock operation. The store decides the attempt. The votes are its report to the caller.
import { LockBackendError } from '../../core/errors';
import type { RedisLike } from '../../core/redis-like';

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

/** The signal of `using`. `error` is the reason of its abort. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** Another process holds one of the resources, or this process no longer holds it. */
export class ResourceLockedError extends Error {
  declare readonly message: string;

  /** Makes the error without a lock, such as for a test. */
  constructor(message: string) {
    super(message);
    this.name = 'ResourceLockedError';
  }
}

/** @internal True: a vote for. A number: a vote against, with the number of resources that the operation was applied to. */
export type Vote = boolean | number | Error;

/** @internal A failed attempt, and its error. */
export interface Refusal {
  readonly stats: Promise<ExecutionStats>;
  readonly error: Error;
}

/** @internal */
export class Ballot {
  /** Resolves when all votes are in. */
  readonly stats: Promise<ExecutionStats>;
  readonly #stats: ExecutionStats;
  readonly #count: number;
  readonly #onError: (error: Error) => void;
  readonly #missing: Set<Client>;
  #complete = (_: ExecutionStats): void => {};

  /**
   * @param count   The number of resources.
   * @param onError Receives the error of each vote against.
   */
  constructor(clients: ReadonlySet<Client>, count: number, onError: (error: Error) => void) {
    this.#stats = emptyStats(clients);
    this.#count = count;
    this.#onError = onError;
    this.#missing = new Set(clients);
    this.stats = new Promise((resolve) => {
      this.#complete = resolve;
    });
  }

  /** A refusal by all clients. @param why The number of resources that the operation was applied to, or another error. */
  static refused(clients: ReadonlySet<Client>, count: number, why: number | Error): Refusal {
    const error = typeof why === 'number' ? lockedError(why, count) : why;
    const votesAgainst = new Map([...clients].map((client) => [client, error]));
    return { stats: Promise.resolve({ ...emptyStats(clients), votesAgainst }), error };
  }

  /** Stats with a vote for from each client. */
  static unanimous(clients: ReadonlySet<Client>): Promise<ExecutionStats> {
    const { size } = clients;
    const quorumSize = Math.floor(size / 2) + 1;
    return Promise.resolve({ membershipSize: size, quorumSize, votesFor: new Set(clients), votesAgainst: new Map() });
  }

  cast(client: Client, vote: Promise<Vote>): void {
    this.#missing.delete(client);
    vote.then((known) => this.#note(client, known));
  }

  /** Counts clients that were not asked as votes against. */
  close(): void {
    for (const client of this.#missing) {
      this.#note(client, new LockBackendError('it was silent before, and was not asked', { retryable: true }));
    }
    this.#missing.clear();
  }

  #note(client: Client, vote: Vote): void {
    const { votesFor, votesAgainst, membershipSize } = this.#stats;
    if (vote === true) votesFor.add(client);
    else {
      const error = vote instanceof Error ? vote : lockedError(Number(vote), this.#count);
      votesAgainst.set(client, error);
      this.#onError(error);
    }
    if (votesFor.size + votesAgainst.size === membershipSize) this.#complete(this.#stats);
  }
}

function lockedError(applied: number, count: number): ResourceLockedError {
  return new ResourceLockedError(`The operation was applied to: ${applied} of the ${count} requested resources.`);
}

function emptyStats(clients: ReadonlySet<Client>): ExecutionStats {
  return {
    membershipSize: clients.size,
    quorumSize: Math.floor(clients.size / 2) + 1,
    votesFor: new Set(),
    votesAgainst: new Map(),
  };
}
