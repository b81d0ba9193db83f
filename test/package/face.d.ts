// biome-ignore-all format: from the line after these two, the fixed face as it was given, byte for byte
// biome-ignore-all lint: the same
/// <reference types="node" />
// The public face of redis-exp-lock, fixed. Compiles with TypeScript 5.9 and 7 (strict or not, exactOptionalPropertyTypes,
// CommonJS and ESM, nodenext and bundler). The docstrings are the developers' to write in full; the rules are in DESIGN.md and
// TOOLS.md. Subpaths at the end.
import { promisify } from 'node:util';

declare function redisExpLock(config?: redisExpLock.Options): redisExpLock.WithLock;

declare namespace redisExpLock {
  // ---- where locks live
  /** node-redis 4 to 6: client, cluster, sentinel, pool. Connected by its owner. */
  interface NodeRedisLike { eval(...args: any[]): Promise<any>; evalSha(...args: any[]): Promise<any> }
  /** ioredis 5, 6 (client, Cluster), iovalkey. */
  interface IORedisLike { eval(...args: any[]): any; evalsha(...args: any[]): any; defineCommand(...args: any[]): any }
  /** Valkey GLIDE. */
  interface GlideLike { customCommand(...args: any[]): Promise<any>; invokeScript(...args: any[]): Promise<any> }
  /** Made by memoryStore() and sharedMemoryStore(); opaque. */
  interface Store { readonly kind: 'memory' | 'shared-memory'; close(): Promise<void> }
  interface MemoryStore extends Store { expire(key: string): boolean; seize(key: string): void }
  /** Over HTTP; polls. */
  interface UpstashLike { eval(...args: any[]): Promise<any>; evalsha(...args: any[]): Promise<any> }
  /** Bun's own client. */
  interface BunRedisLike { send(command: string, args: string[]): Promise<any> }
  type RedisLike = NodeRedisLike | IORedisLike | GlideLike | UpstashLike | BunRedisLike | Store;
  /** `now`: monotonic ms; owns waits, leases and expiry of this store. */
  function memoryStore(options?: { now?: (() => number) | undefined }): MemoryStore;
  function sharedMemoryStore(name: string): Store;

  /** One key, or several: all or nothing. */
  type Key = string | readonly string[];

  // ---- options; `undefined` means "not given"
  interface WaitOptions {
    maxRetries?: number | undefined; retryTimeout?: number | undefined; retryRatio?: number | undefined;
    maxRetryTimeout?: number | undefined; jitter?: number | undefined;
    timeout?: number | undefined; signal?: AbortSignal | undefined;
  }
  interface Options extends WaitOptions {
    redis?: RedisLike | readonly RedisLike[] | undefined;
    lifetime?: number | null | undefined;
    autoExtend?: boolean | undefined; maxHold?: number | undefined;
    owner?: string | undefined; prefix?: string | undefined; fencing?: boolean | undefined;
    minReplicas?: number | undefined; commandTimeout?: number | undefined;
    /** The low-cardinality label in events, spans and metrics. Default ''. */
    name?: string | undefined;
    /** Factory only: write what this process holds and waits for, for list() and the tools. Default false. */
    register?: boolean | undefined;
    /** Inside the function that holds a key, a call for it joins what is held. Default false. */
    reentrant?: boolean | undefined;
  }
  interface LockOptions extends Options { redis: RedisLike | readonly RedisLike[] }
  interface RWLockOptions extends LockOptions { prefer?: 'writer' | 'reader' | 'fair' | undefined; readers?: string | undefined }
  interface PermitOptions extends Options { permits?: number | undefined }
  interface HostLockOptions {
    lifetime?: number | undefined; timeout?: number | undefined; step?: number | undefined;
    ratio?: number | undefined; maxStep?: number | undefined;
  }
  interface CachedOptions extends Options { ttl: number; emptyTtl?: number | undefined }
  interface OnceOptions extends Options { every: number; offset?: number | undefined; mode?: 'at-most-once' | 'until-success' | undefined }
  interface ListOptions { prefix?: string | undefined; scan?: boolean | undefined; signal?: AbortSignal | undefined }
  interface FreeOptions { id?: string | undefined; force?: boolean | undefined }
  interface ElectionOptions extends LockOptions { id?: string | undefined; value?: string | undefined }
  interface CloseOptions { drain?: boolean | number | undefined }

  // ---- what you hold
  interface Lease {
    (callback: (err: Error | null, released?: boolean) => void): void;
    (): Promise<boolean>;
    release(): Promise<boolean>;
    readonly key: Key;
    readonly keys: readonly string[];
    readonly token: string;
    readonly fence: number;
    readonly retries: number;
    readonly signal: AbortSignal;
    remaining(): number;
    extend(lifetime?: number): Promise<boolean>;
    /** Forgets it here without releasing it; adopt() takes it over elsewhere. Plain JSON. */
    detach(): DetachedLease;
    [Symbol.asyncDispose](): Promise<void>;
  }
  interface DetachedLease { key: Key; token: string; fence: number; until: number }
  interface RWLease extends Lease {
    readonly mode: 'read' | 'write';
    upgrade(options?: WaitOptions): Promise<void>;
    downgrade(): Promise<void>;
  }
  type LockCallback = (...args: [err: Error, done: undefined] | [err: null, done: Lease]) => void;

  interface LockState {
    locked: boolean;
    owner: string | null;
    remaining: number;
    waiters: number;
    fence: number;
    mode: 'exclusive' | 'read' | 'write' | 'permits' | null;
    holders: readonly HolderState[];
    queue: readonly WaiterState[];
  }
  interface HolderState { id: string; owner: string | null; kind: 'exclusive' | 'read' | 'write' | 'permits'; permits: number; remaining: number }
  interface WaiterState { owner: string | null; kind: 'exclusive' | 'read' | 'write' | 'permits'; waitingMs: number }
  interface ListedLock extends LockState { key: string }
  interface LockList extends AsyncIterable<ListedLock> {
    /** The sources that were read; known once the iteration has ended. */
    coverage(): { processes: number; scanned: boolean };
  }
  interface Slot { readonly index: number; readonly start: number; readonly end: number }
  type OnceResult<T> = { ran: true; slot: Slot; value: T } | { ran: false; slot: Slot; reason: 'done' | 'busy' };
  type TryRunResult<T> = { ran: true; value: T } | { ran: false };
  interface Leader { readonly id: string; readonly value: string; readonly term: number; readonly since: number; readonly remaining: number }
  interface Term { readonly id: string; readonly fence: number; readonly since: number; readonly signal: AbortSignal; proclaim(value: string): Promise<void> }

  interface WithLock {
    (key: Key, callback: LockCallback): void;
    (key: Key, options: Options, callback: LockCallback): void;
    (key: Key, callback: (err: Error | null) => void): void;
    (key: Key, options: Options, callback: (err: Error | null) => void): void;
    readonly [promisify.custom]: (key: Key, options?: Options) => Promise<Lease>;
    promise(key: Key, options?: Options): Promise<Lease>;
    tryLock(key: Key, options?: Options): Promise<Lease | null>;
    run<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
    run<T>(key: Key, options: Options, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
    tryRun<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<TryRunResult<T>>;
    tryRun<T>(key: Key, options: Options, fn: (lease: Lease) => T | PromiseLike<T>): Promise<TryRunResult<T>>;
    once<T>(key: string, options: OnceOptions, fn: (lease: Lease, slot: Slot) => T | PromiseLike<T>): Promise<OnceResult<T>>;
    adopt(detached: DetachedLease, options?: Options): Promise<Lease | null>;
    list(options?: ListOptions): LockList;
    /** Takes the lock from the holder with this `id`, if that still has it. */
    free(key: string, options: FreeOptions): Promise<boolean>;
    cached<T>(key: string, options: CachedOptions, load: (lease: Lease) => T | undefined | PromiseLike<T | undefined>): Promise<T | undefined>;
    inspect(key: string): Promise<LockState>;
    close(options?: CloseOptions): Promise<void>;
  }

  // ---- the other faces
  class Lock {
    constructor(key: Key, options: LockOptions);
    readonly key: Key;
    readonly locked: boolean;
    readonly fence: number;
    readonly signal: AbortSignal;
    keyLocked(): Promise<boolean>;
    keyOwned(): Promise<boolean>;
    tryLock(): Promise<boolean>;
    lock(options?: WaitOptions): Promise<number>;
    unlock(): Promise<boolean>;
    extend(lifetime?: number): Promise<boolean>;
    synchronize<T>(fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
    synchronize<T>(options: WaitOptions, fn: (attempts: number) => T | PromiseLike<T>): Promise<T>;
    close(options?: CloseOptions): Promise<void>;
  }
  class RWLock {
    constructor(key: string, options: RWLockOptions);
    readonly key: string;
    read<T>(fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
    read<T>(options: Options, fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
    write<T>(fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
    write<T>(options: Options, fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
    acquireRead(options?: Options): Promise<RWLease>;
    acquireWrite(options?: Options): Promise<RWLease>;
    close(options?: CloseOptions): Promise<void>;
  }
  class Semaphore {
    constructor(key: string, permits: number, options: LockOptions);
    readonly key: string;
    readonly permits: number;
    acquire(permits?: number, options?: Options): Promise<Lease>;
    run<T>(fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
    run<T>(options: PermitOptions, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
    available(): Promise<number>;
    close(options?: CloseOptions): Promise<void>;
  }
  class Election {
    constructor(name: string, options: ElectionOptions);
    readonly name: string;
    readonly id: string;
    lead<T>(fn: (term: Term) => T | PromiseLike<T>, options?: { signal?: AbortSignal | undefined }): Promise<T | undefined>;
    resign(): Promise<void>;
    leader(): Promise<Leader | null>;
    observe(options?: { signal?: AbortSignal | undefined }): AsyncIterable<Leader | null>;
    close(options?: CloseOptions): Promise<void>;
  }
  class HostLock {
    constructor(name: string, options?: HostLockOptions);
    readonly name: string;
    readonly key: string | null;
    lock(key: string): Promise<number>;
    unlock(): Promise<boolean>;
    expire(ms?: number): Promise<true>;
  }

  // ---- errors
  /** `code`, `key` and `retryable` are own, enumerable properties. `is` holds across copies of this package. */
  class LockError extends Error { readonly code: LockErrorCode; readonly key: Key; readonly retryable: boolean; static is(error: unknown): error is LockError }
  type LockErrorCode = 'ERR_LOCK_ATTEMPTS' | 'ERR_LOCK_TIMEOUT' | 'ERR_LOCK_ALREADY_ACQUIRED' | 'ERR_LOCK_NOT_ACQUIRED' | 'ERR_LOCK_LOST' | 'ERR_LOCK_DEADLOCK' | 'ERR_LOCK_BACKEND' | 'ERR_LOCK_CLOSED';
  /** Somebody else has it: the parent of the two ways to find that out. */
  class LockBusyError extends LockError { static is(error: unknown): error is LockBusyError }
  class TooManyLockAttemptsError extends LockBusyError { readonly code: 'ERR_LOCK_ATTEMPTS'; readonly attempts: number; static is(error: unknown): error is TooManyLockAttemptsError }
  class LockTimeoutError extends LockBusyError { readonly code: 'ERR_LOCK_TIMEOUT'; static is(error: unknown): error is LockTimeoutError }
  class AlreadyAcquiredLockError extends LockError { readonly code: 'ERR_LOCK_ALREADY_ACQUIRED'; static is(error: unknown): error is AlreadyAcquiredLockError }
  class NotAcquiredLockError extends LockError { readonly code: 'ERR_LOCK_NOT_ACQUIRED'; static is(error: unknown): error is NotAcquiredLockError }
  class LockLostError extends LockError {
    static is(error: unknown): error is LockLostError;
    readonly code: 'ERR_LOCK_LOST';
    readonly reason: 'expired' | 'taken' | 'missing' | 'unreachable' | 'stalled' | 'closed';
    readonly result?: unknown;
  }
  class LockDeadlockError extends LockError { readonly code: 'ERR_LOCK_DEADLOCK'; static is(error: unknown): error is LockDeadlockError }
  class LockBackendError extends LockError { readonly code: 'ERR_LOCK_BACKEND'; readonly redisCode?: string; static is(error: unknown): error is LockBackendError }
  class LockClosedError extends LockError { readonly code: 'ERR_LOCK_CLOSED'; static is(error: unknown): error is LockClosedError }
  /** To narrow by `code` in a switch. */
  type AnyLockError = TooManyLockAttemptsError | LockTimeoutError | AlreadyAcquiredLockError | NotAcquiredLockError | LockLostError | LockDeadlockError | LockBackendError | LockClosedError;
}
// Also `redisExpLock.default` and a named export `redisExpLock`, both the function itself.
export = redisExpLock;

// ---- subpaths (each loads its peer only when used)
// redis-exp-lock/otel            instrument(options?: { tracerProvider?, meterProvider?, key?: (key: string) => string }): () => void
// redis-exp-lock/prometheus      collect(registry: import('prom-client').Registry): () => void
// redis-exp-lock/edge            as the main entry, without Node's modules; also by the conditions workerd, edge-light, browser
// redis-exp-lock/page            lockPage(options: { redis, prefix?, authorize?, actions? }): ((req, res, next?) => void) & { fetch(request: Request): Promise<Response> }
// redis-exp-lock/redlock         default Redlock; Lock, ExecutionError, ResourceLockedError        (as redlock 5.0.0-beta.2)
// redis-exp-lock/redis-semaphore Mutex, Semaphore, MultiSemaphore, RedlockMutex, TimeoutError, LostLockError   (as redis-semaphore 5)
// redis-exp-lock/nestjs          LockModule, InjectLock, Locked, Once, currentLease
