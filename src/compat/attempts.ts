// redlock's attempts: an operation is repeated until it succeeds, or its settings allow no more.
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockBackendError, optionError } from '../errors';
import { Ballot, type Client, type ExecutionStats } from './ballot';
import { errorOf } from './electorate';
import { connectIfLazy } from './stores';

export interface Settings {
  /** Share of a duration that is not trusted, since clocks run at different rates. Default 0.01. */
  readonly driftFactor: number;
  /** Further attempts after the first; -1: without end. Default 10. */
  readonly retryCount: number;
  /** Pause in ms between two attempts. Default 200. */
  readonly retryDelay: number;
  /** By how many ms at most a pause is longer or shorter. Default 100. */
  readonly retryJitter: number;
  /** `using` extends when so many ms are left. Default 500. */
  readonly automaticExtensionThreshold: number;
}

/** No majority in any attempt. Nothing is held after a failed acquire; a failed release may be tried again. */
export class ExecutionError extends Error {
  declare readonly message: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ExecutionError';
    this.attempts = attempts;
  }
}

/** @internal */
export const noQuorum = 'The operation was unable to achieve a quorum during its retry window.';

/** @internal What became of one attempt; no result: it failed. */
export interface Attempt<T> {
  readonly stats: Promise<ExecutionStats>;
  readonly result: T | undefined;
}

const defaultSettings: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** @internal The settings that are numbers, over the defaults. */
export function withDefaults(given: Partial<Settings>): Settings {
  const settings: Record<string, number> = { ...defaultSettings };
  for (const name of Object.keys(defaultSettings) as (keyof Settings)[]) {
    if (typeof given[name] === 'number') settings[name] = given[name];
  }
  return settings as unknown as Settings;
}

/** @internal The pause in ms before the next attempt. */
export function pauseMs({ retryDelay, retryJitter }: Settings): number {
  return Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));
}

/** @internal @throws {TypeError} `ERR_LOCK_OPTION`: a script of one's own. */
export function refuseScripts(scripts: object): void {
  for (const name of ['acquireScript', 'extendScript', 'releaseScript']) {
    const given = (scripts as Record<string, unknown>)[name];
    if (given === undefined) continue;
    throw optionError(name, 'no script: the scripts of this library mint fences and cannot be replaced', given);
  }
}

/** @internal @throws {Error} no whole number of ms; an impossible one, as an ExecutionError. */
export function checkDuration(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error('Duration must be an integer value in milliseconds.');
  if (duration >= 1 && duration <= Number.MAX_SAFE_INTEGER) return;
  throw new ExecutionError(`Duration must be 1 to ${Number.MAX_SAFE_INTEGER} ms; got ${duration}.`, []);
}

/** What makes the attempts of redlock's operations. Its 'error' events tell of every vote against. */
export abstract class Attempts extends EventEmitter {
  readonly clients: Set<Client>;
  readonly settings: Settings;

  constructor(clients: Iterable<Client>, settings: Partial<Settings>) {
    super();
    // An 'error' event that nobody listens to would end the process.
    this.on('error', () => {});
    this.clients = new Set(clients);
    if (this.clients.size === 0) throw new Error('Redlock must be instantiated with at least one redis client.');
    this.settings = withDefaults(settings);
  }

  /** @internal Attempts until one succeeds, or `settings` allow no more. @throws {ExecutionError} */
  protected async _repeat<T>(
    given: Partial<Settings> | undefined,
    attempt: () => Promise<Attempt<T>>,
    pause = async (ms: number): Promise<T | undefined> => sleep(ms, undefined),
  ): Promise<{ attempts: Promise<ExecutionStats>[]; result: T }> {
    const settings = { ...this.settings, ...given };
    const most = settings.retryCount === -1 ? Number.POSITIVE_INFINITY : settings.retryCount + 1;
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      const { stats, result } = await attempt();
      attempts.push(stats);
      if (result !== undefined) return { attempts, result };
      if (!(attempts.length < most)) throw new ExecutionError(noQuorum, attempts);
      const early = await pause(pauseMs(settings));
      if (early === undefined) continue;
      attempts.push(Ballot.unanimous(this.clients));
      return { attempts, result: early };
    }
  }

  /** @internal One attempt, whose votes are cast on the ballot. */
  protected async _attempt<T>(
    resources: readonly string[],
    ask: (ballot: Ballot) => Promise<T | undefined>,
  ): Promise<Attempt<T>> {
    const ballot = new Ballot(this.clients, resources.length, (error) => this._tell(error));
    for (const client of this.clients) connectIfLazy(client);
    try {
      return { stats: ballot.stats, result: await ask(ballot) };
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      return { stats: ballot.stats, result: undefined };
    } finally {
      ballot.close();
    }
  }

  /** @internal One attempt with the only client, whose vote is its answer. */
  protected async _attemptAlone<T>(
    resources: readonly string[],
    ask: () => Promise<T | undefined>,
  ): Promise<Attempt<T>> {
    const [client] = this.clients as unknown as [Client];
    connectIfLazy(client);
    let failure: Error | undefined;
    try {
      const result = await ask();
      if (result !== undefined) return { stats: Ballot.unanimous(this.clients), result };
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      failure = errorOf(error, client);
    }
    const { stats, error } = Ballot.refused(this.clients, resources.length, failure);
    this._tell(error);
    return { stats, result: undefined };
  }

  /** @internal A listener that throws has no effect on the lock. */
  protected _tell(error: Error): void {
    try {
      this.emit('error', error);
    } catch (thrown) {
      process.nextTick(() => {
        throw thrown;
      });
    }
  }
}
