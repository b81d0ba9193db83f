// What an operator does to the locks of a store from outside: see what there is, by key or all, and take a lock away. And how
// a process writes down what it holds and waits for (the registry), so that its locks are found without looking at every key.
import type { LockBackendError } from '../core/errors';
import type { LockState } from '../core/lock-state';

/** Where holders hear that an operator has taken their lock away: `!<SHA-1 of the token> <key>`. */
export const freedChannel = 'redis-exp-lock:1:freed';
/** Where a process that has written something new publishes its id. */
export const changedChannel = 'redis-exp-lock:1:changed';
/** The ids of the processes that have written something down. */
export const processesKey = 'redis-exp-lock:1:processes';
const processPrefix = 'redis-exp-lock:1:process:';

/** What a process has written down. */
export const processKey = (id: string): string => processPrefix + id;

/** Whether it is a key of the registry, and no lock. */
export const isOfRegistry = (key: string): boolean => key.startsWith(processPrefix) || key === processesKey;

/** So many holders, and entries of the queue, of a lock are shown one by one. */
export const maxShown = 256;

/** Which process this is, and what it has to say. */
export interface Registration {
  readonly id: string;
  /** JSON; '': it neither holds nor waits any more; undefined: the same as before. */
  readonly text: string | undefined;
  readonly ttlMs: number;
}

export interface Processes {
  /** The store's time, in ms of the epoch. */
  readonly atMs: number;
  readonly texts: readonly string[];
}

export interface Operator {
  /** What is known of each key, or why it is not known. Rejects where the store cannot be asked. */
  inspect(keys: readonly string[], commandTimeoutMs: number): Promise<(LockState | LockBackendError)[]>;
  /**
   * Takes a lock away: from the holder with this id, if that still has it; without one from its only holder. The next in the
   * queue is served in the same step. False: nothing was changed.
   */
  free(key: string, id: string | undefined, commandTimeoutMs: number): Promise<boolean>;
  /** False: what is to stay the same is gone. */
  register(registration: Registration, commandTimeoutMs: number): Promise<boolean>;
  processes(commandTimeoutMs: number): Promise<Processes>;
  /**
   * Keys that begin so, some at a time; some may come twice. Absent: the store cannot list its keys. Unless `isPaced` is false it
   * takes a small share of the store's time, with the inspection of those keys.
   */
  readonly keys:
    | ((prefix: string, commandTimeoutMs: number, isPaced?: boolean) => AsyncIterable<readonly string[]>)
    | undefined;
  /** All keys can be listed at no cost: without a registry, too. */
  readonly isLocal: boolean;
  /** The store's time less this process's monotonic one, in ms. */
  readonly offsetMs: number;
}
