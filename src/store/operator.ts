// The operator's view of a store: inspect locks, by key or all of them, and take a lock away. Also the registry: each process
// writes down what it holds and waits for, so that its locks are found without reading every key.
import type { LockBackendError } from '../core/errors';
import type { HolderState, HoldKind, LockState, WaiterState } from '../core/lock-state';
import { idOf, ownerOf } from '../core/token';

/** The channel on which holders hear that an operator has taken their lock away: `!<SHA-1 of the token> <key>`. */
export const freedChannel = 'redis-exp-lock:1:freed';
/** The channel on which a process publishes its id when its record has changed. */
export const changedChannel = 'redis-exp-lock:1:changed';
/** The ids of the processes that have a record. */
export const processesKey = 'redis-exp-lock:1:processes';
const processPrefix = 'redis-exp-lock:1:process:';

/** The key of a process's record. */
export const processKey = (id: string): string => processPrefix + id;

/** True for a key of the registry, which is no lock. */
export const isOfRegistry = (key: string): boolean => key.startsWith(processPrefix) || key === processesKey;

/** The maximum number of holders, and of queue entries, of a lock that are shown individually. */
export const maxShown = 256;

/** A process and its record. */
export interface Registration {
  readonly id: string;
  /** JSON; '': the process neither holds nor waits; undefined: the record is unchanged. */
  readonly text: string | undefined;
  readonly ttlMs: number;
}

export interface Processes {
  /** The store's time, in ms of the epoch. */
  readonly atMs: number;
  readonly texts: readonly string[];
}

/** The state of a lock and, if a token was named, whether the holder that ends last has it. Outside, a holder is an id and a label. */
export interface OwnedState extends LockState {
  owned?: boolean;
}

/** The state, or the reason for which it is not known. */
export type Inspection = OwnedState | LockBackendError;

export interface Operator {
  /** Inspects each key; with a token, also whether it holds them. Rejects if the store cannot be asked. */
  inspect(keys: readonly string[], commandTimeoutMs: number, token?: string): Promise<Inspection[]>;
  /** The number of permits of a semaphore that are held, by the store's clock. */
  permitsOut(key: string, commandTimeoutMs: number): Promise<number>;
  /** Frees a lock of the holder with this id, or without an id of its only holder, and serves its queue. False: nothing was changed. */
  free(key: string, id: string | undefined, commandTimeoutMs: number): Promise<boolean>;
  /** Writes the record of a process. False: the record that should stay unchanged is gone. */
  register(registration: Registration, commandTimeoutMs: number): Promise<boolean>;
  processes(commandTimeoutMs: number): Promise<Processes>;
  /**
   * Keys with this prefix, in pieces; a key may come twice. Absent if the store cannot list its keys. Unless `isPaced` is
   * false, the listing and the inspection of those keys take a small share of the store's time.
   */
  readonly keys:
    | ((prefix: string, commandTimeoutMs: number, isPaced?: boolean) => AsyncIterable<readonly string[]>)
    | undefined;
  /** True if all keys can be listed at no cost, also without a registry. */
  readonly isLocal: boolean;
  /** The store's time minus this process's monotonic time, in ms; of a Redis never above the true difference. */
  readonly offsetMs: number;
}

export function holderOf(token: string, kind: HoldKind, permits: number, remaining: number): HolderState {
  return { id: idOf(token), owner: ownerOf(token), kind, permits, remaining };
}

/** The waiter of an entry; undefined if the entry has expired. */
export function waiterOf(
  token: string,
  kind: HoldKind,
  ticket: number,
  deadlineMs: number,
  micros: number,
): WaiterState | undefined {
  if (deadlineMs < Math.floor(micros / 1000)) return undefined;
  return { owner: ownerOf(token), kind, waitingMs: Math.max(Math.floor((micros - ticket) / 1000), 0) };
}
