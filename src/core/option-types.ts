// The options as callers give them. core/options.ts has their rules and defaults.
import type { RedisLike } from './redis-like';

/** Options for waiting. `undefined` means "not given". */
export interface WaitOptions {
  /** Further attempts after the first. Default 0; integer ≥ 0, or Infinity. */
  maxRetries?: number | undefined;
  /** Pause in ms before the first further attempt. Default 5; ≥ 0. */
  retryTimeout?: number | undefined;
  /** Each pause is the last × this. Default 1; ≥ 1. */
  retryRatio?: number | undefined;
  /** Longest pause in ms. Default 500, or `retryTimeout` if that is longer; ≥ 0. */
  maxRetryTimeout?: number | undefined;
  /** Share of each pause that is random, 0 to 1. Default 0. */
  jitter?: number | undefined;
  /** Longest wait in ms; 0 = one attempt; Infinity allowed. Default: none, `maxRetries` decides. */
  timeout?: number | undefined;
  /** Gives up the wait; the call rejects with the signal's reason (as `cause` of an AbortError if that reason is no Error). */
  signal?: AbortSignal | undefined;
}

/** Options of the factory, and of each call, which override them. `undefined` means "not given". */
export interface Options extends WaitOptions {
  /**
   * A client that its owner connects and closes: node-redis 4 to 6 (client, cluster, sentinel, pool), ioredis 5 and 6 (client,
   * Cluster), iovalkey, Valkey GLIDE, `@upstash/redis`, or Bun's `RedisClient`. Or memoryStore(), or sharedMemoryStore(name). A list
   * of clients of independent servers is a quorum. A `keyPrefix` of the client counts as part of each key, before `prefix`.
   */
  redis?: RedisLike | readonly RedisLike[] | undefined;
  /** Ms until Redis frees the key by itself. Default 1000; integer ≥ 1; `null`: never (not recommended). */
  lifetime?: number | null | undefined;
  /**
   * Renew at lifetime / 3 while held. Default: on in `run`, `tryRun`, `once`, `cached`, in `read`, `write`, `acquireRead` and
   * `acquireWrite` of an RWLock, in `Semaphore.run` and in `Election.lead`; off in all others.
   */
  autoExtend?: boolean | undefined;
  /** Ms after the grant at which renewal stops. Default: none; > 0. */
  maxHold?: number | undefined;
  /** A label that `inspect` shows; the token becomes `<owner>_<uuid>`. Default: none. */
  owner?: string | undefined;
  /** A low-cardinality label for the lock's purpose, in events, spans and metrics. Default ''. */
  name?: string | undefined;
  /** The prefix of every key. Default ''. */
  prefix?: string | undefined;
  /** Mint a fence with each grant. Default true; if false, `fence` is 0. */
  fencing?: boolean | undefined;
  /** Replicas that must acknowledge (WAIT) before the grant counts. Default 0. */
  minReplicas?: number | undefined;
  /** Ms from sending, less up to a hundredth, before a silent Redis counts as an unknown outcome. Default 1000; integer ≥ 1. */
  commandTimeout?: number | undefined;
  /**
   * Register in Redis what this process holds and waits for, within 250 ms of a change and every 2 s, for `withLock.list` and the
   * tools. Holders then hear at once of a lock that `withLock.free` took away. Not an option of single calls. Default false.
   */
  register?: boolean | undefined;
  /**
   * Inside a function that holds the key, a call in the same async context joins its lock while the function runs: the same fence,
   * lifetime and signal, released with the outermost function. Default false.
   */
  reentrant?: boolean | undefined;
}

/** Options of a lock object: those of the factory, and `redis` is required. */
export interface LockOptions extends Options {
  redis: RedisLike | readonly RedisLike[];
}

/** Options of an RWLock. */
export interface RWLockOptions extends LockOptions {
  /** 'writer' (default): new readers wait behind a live waiting writer; 'reader': they overtake it; 'fair': order of arrival. */
  prefer?: 'writer' | 'reader' | 'fair' | undefined;
  /** The readers' group: readers of one group share, and different groups exclude each other. Default '': one common group. */
  readers?: string | undefined;
}

/** Options of `Semaphore.run`. */
export interface PermitOptions extends Options {
  /** The number of permits, acquired all at once. Default 1; integer, at most all permits of the semaphore. */
  permits?: number | undefined;
}

/** Options of `withLock.once`. */
export interface OnceOptions extends Options {
  /** The length of a slot in ms; integer ≥ 1000. */
  every: number;
  /** The begin of some slot in ms of the epoch; a whole number. Default 0: slots of a day begin at midnight UTC. */
  offset?: number | undefined;
  /**
   * The moment at which a slot counts as done. 'at-most-once' (default): before the function runs, so that a crash or a throw
   * skips the rest of the slot. 'until-success': once the function resolved, so that the next caller runs it after a failure.
   */
  mode?: 'at-most-once' | 'until-success' | undefined;
}

/** Options of `withLock.cached`. */
export interface CachedOptions extends Options {
  /** Ms for which a loaded value is kept; integer ≥ 1. */
  ttl: number;
  /** Ms for which a missing value (`undefined`) is remembered. Default 0: not at all. */
  emptyTtl?: number | undefined;
}

/** Options of `close`. */
export interface CloseOptions {
  /** Awaits every holder (true, default), for at most that many ms (a number), or takes the locks away at once (false). */
  drain?: boolean | number | undefined;
}
