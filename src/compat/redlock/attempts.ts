// redlock's attempts: an operation is repeated until it succeeds or its settings allow no further attempt.
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockBackendError, optionError } from '../../core/errors';
import { connectIfLazy } from '../stores';
import { Ballot, type Client, type ExecutionStats } from './votes';

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
type OneAsk<T> = (ballot: Ballot | undefined) => Promise<T | number> | number;

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

/** @internal The part of a duration that is not trusted, with 1 ms for the precision of Redis's expiry and 1 ms that redlock adds. */
export function driftMs(durationMs: number, driftFactor: number): number {
  return Math.round(driftFactor * durationMs) + 2;
}

/** @internal The pause in ms before the next attempt. */
export function pauseMs({ retryDelay, retryJitter }: RedlockSettings): number {
  return Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));
}

/** @internal Refuses custom scripts. @throws {TypeError} `ERR_LOCK_OPTION`: a custom script. */
export function refuseScripts(scripts: object): void {
  for (const name of ['acquireScript', 'extendScript', 'releaseScript']) {
    const given = (scripts as Record<string, unknown>)[name];
    if (given === undefined) continue;
    throw optionError(name, 'no script: the scripts of this library mint fences and cannot be replaced', given);
  }
}

/** @internal Checks a duration. @throws {Error} not a whole number of ms. @throws {ExecutionError} a number out of range. */
export function checkDuration(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error('Duration must be an integer value in milliseconds.');
  if (duration >= 1 && duration <= Number.MAX_SAFE_INTEGER) return;
  throw new ExecutionError(`Duration must be 1 to ${Number.MAX_SAFE_INTEGER} ms; got ${duration}.`, []);
}

/** The base class that makes the attempts of redlock's operations. Emits an 'error' event for every vote against. */
export abstract class VotingAttempts extends EventEmitter {
  readonly clients: Set<Client>;
  readonly settings: RedlockSettings;
  #votesFor: Promise<ExecutionStats> | undefined;

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
      return { attempts: [...attempts, this.#unanimous()], result: early };
    }
  }

  /** @internal Makes one attempt. Without a result it failed. */
  protected async _attempt<T extends object | true>(
    resources: readonly string[],
    ask: OneAsk<T>,
  ): Promise<{ stats: Promise<ExecutionStats>; result: T | undefined }> {
    const several = this.clients.size > 1 ? this.#newBallot(resources.length) : undefined;
    for (const client of this.clients) connectIfLazy(client);
    let result: T | undefined;
    let vote: true | number | LockBackendError = true;
    try {
      const outcome = await ask(several);
      if (typeof outcome === 'number') vote = outcome;
      else result = outcome;
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      vote = error;
    }
    if (several === undefined && vote === true) return { stats: this.#unanimous(), result };
    const ballot = several ?? this.#newBallot(resources.length);
    return { stats: ballot.close(vote), result };
  }

  #newBallot(count: number): Ballot {
    return new Ballot(this.clients, count, (error) => this.#tell(error));
  }

  /** The stats of a successful attempt with a single client, which never change. */
  #unanimous(): Promise<ExecutionStats> {
    this.#votesFor ??= this.#newBallot(0).close(true);
    return this.#votesFor;
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
