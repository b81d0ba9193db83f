// redlock's attempts: an operation is repeated until it succeeds or its settings allow no further attempt. The store decides an
// attempt; its ballot has the votes of the servers, as the caller is told of them.
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockBackendError } from '../../core/errors';
import type { RedisLike } from '../../core/redis-like';
import type { NodeVote, NodeVotes } from '../../store/contract';
import { connectIfLazy } from '../stores';

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

export interface RedlockSettings {
  /** Share of a duration that is not trusted, because clocks run at different rates. Default 0.01. */
  readonly driftFactor: number;
  /** Further attempts after the first; -1: without end. Default 10. */
  readonly retryCount: number;
  /** Pause in ms between two attempts. Default 200. */
  readonly retryDelay: number;
  /** Maximum of ms by which a pause is longer or shorter. Default 100. */
  readonly retryJitter: number;
  /** Ms left of the lock at which `using` extends it. Default 500. */
  readonly automaticExtensionThreshold: number;
}

/** No majority in any attempt. Nothing is held after a failed acquire; a failed release may be tried again. */
export class ExecutionError extends Error {
  declare readonly message: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  /** Makes the error without a lock, such as for a test. */
  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ExecutionError';
    this.attempts = attempts;
  }
}

/** @internal */
export const noQuorum = 'The operation was unable to achieve a quorum during its retry window.';

/** @internal Asks the servers once. A number says that the attempt failed, and to how many resources it was applied. */
type OneAsk<T> = (ballot: Ballot) => Promise<T | number> | number;

const defaultSettings: RedlockSettings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** The defaults, replaced by the given settings that are numbers. */
function withDefaults(given: Partial<RedlockSettings>): RedlockSettings {
  const names = Object.keys(defaultSettings) as (keyof RedlockSettings)[];
  const numbers = names.filter((name) => typeof given[name] === 'number').map((name) => [name, given[name]]);
  return { ...defaultSettings, ...Object.fromEntries(numbers) };
}

/** @internal The pause in ms before the next attempt. */
export function pauseMs({ retryDelay, retryJitter }: RedlockSettings): number {
  return Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));
}

/** @internal Checks a duration. @throws {Error} not a whole number of ms. @throws {ExecutionError} a number out of range. */
export function checkDuration(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error('Duration must be an integer value in milliseconds.');
  if (duration >= 1 && duration <= Number.MAX_SAFE_INTEGER) return;
  throw new ExecutionError(`Duration must be 1 to ${Number.MAX_SAFE_INTEGER} ms; got ${duration}.`, []);
}

/** @internal The votes of one attempt. The outcome of the attempt is the vote of a single server. */
export class Ballot implements NodeVotes {
  /** The token of an acquire. */
  token = '';
  /** The number of keys that a single server released, if it did not release all of them. */
  released = 0;
  readonly counted = (released: number): void => {
    this.released = released;
  };
  readonly #stats: ExecutionStats;
  readonly #count: number;
  readonly #onError: (error: Error) => void;
  readonly #clients: readonly Client[];
  /** The servers that were asked, by position. Each entry resolves when the vote is counted. */
  readonly #asked = new Map<number, Promise<void>>();

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
  }

  asked(node: number, vote: Promise<NodeVote>): void {
    const counting = vote.then((known) => this.#voted(this.#clients[node]!, known));
    this.#asked.set(node, counting);
  }

  /** Ends the attempt. Servers that were not asked vote against, or if none was asked, by the outcome. Resolves when all votes are in. */
  async close(outcome: true | number | Error): Promise<ExecutionStats> {
    const isOutcome = this.#asked.size === 0;
    const silence = (): Error => new LockBackendError('it was silent before, and was not asked', { retryable: true });
    for (const [node, client] of this.#clients.entries()) {
      if (!this.#asked.has(node)) this.#voted(client, isOutcome ? outcome : silence());
    }
    await Promise.all(this.#asked.values());
    return this.#stats;
  }

  #voted(client: Client, vote: NodeVote): void {
    const { votesFor, votesAgainst } = this.#stats;
    if (vote === true) return void votesFor.add(client);
    const error = this.#errorOf(client, vote);
    votesAgainst.set(client, error);
    this.#onError(error);
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

/** The base class that makes the attempts of redlock's operations. Emits an 'error' event for every vote against. */
export abstract class VotingAttempts extends EventEmitter {
  readonly clients: Set<Client>;
  readonly settings: RedlockSettings;

  constructor(clients: Iterable<Client>, settings: Partial<RedlockSettings>) {
    super();
    // An 'error' event that nobody listens to would end the process.
    this.on('error', () => {});
    this.clients = new Set(clients);
    if (this.clients.size === 0) throw new Error('Redlock must be instantiated with at least one redis client.');
    this.settings = withDefaults(settings);
  }

  /** @internal Attempts until one attempt succeeds or `given` allows no further one. @throws {ExecutionError} */
  protected async _repeat<T extends object | true>(
    given: Partial<RedlockSettings> | undefined,
    resources: readonly string[],
    ask: OneAsk<T>,
    pause = async (ms: number): Promise<T | undefined> => sleep(ms, undefined),
  ): Promise<{ attempts: Promise<ExecutionStats>[]; result: T }> {
    const attempts: Promise<ExecutionStats>[] = [];
    const settings = given === undefined ? this.settings : { ...this.settings, ...given };
    const maxAttempts = settings.retryCount === -1 ? Number.POSITIVE_INFINITY : settings.retryCount + 1;
    for (;;) {
      const { stats, result } = await this._attempt(resources, ask);
      attempts.push(stats);
      if (result !== undefined) return { attempts, result };
      if (!(attempts.length < maxAttempts)) throw new ExecutionError(noQuorum, attempts);
      const early = await pause(pauseMs(settings));
      if (early === undefined) continue;
      return { attempts: [...attempts, this.#newBallot(resources).close(true)], result: early };
    }
  }

  /** @internal Makes one attempt. Without a result it failed. */
  protected async _attempt<T extends object | true>(
    resources: readonly string[],
    ask: OneAsk<T>,
  ): Promise<{ stats: Promise<ExecutionStats>; result: T | undefined }> {
    const ballot = this.#newBallot(resources);
    for (const client of this.clients) connectIfLazy(client);
    try {
      const outcome = await ask(ballot);
      if (typeof outcome === 'number') return { stats: ballot.close(outcome), result: undefined };
      return { stats: ballot.close(true), result: outcome };
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      return { stats: ballot.close(error), result: undefined };
    }
  }

  #newBallot({ length }: readonly string[]): Ballot {
    return new Ballot(this.clients, length, (error) => this.#tell(error));
  }

  /** Emits an 'error' event. A listener that throws has no effect on the lock. */
  #tell(error: Error): void {
    // H9b
    try {
      this.emit('error', error);
    } catch (thrown) {
      process.nextTick(() => {
        throw thrown;
      });
    }
  }
}
