// biome-ignore-all format: from the line after these two, the fixed face as it was given, byte for byte
// biome-ignore-all lint: the same
/// <reference types="node" />
// The public face of redis-exp-lock, fixed. Compiles with TypeScript 5.9 and 7 (strict or not, exactOptionalPropertyTypes,
// CommonJS and ESM, nodenext and bundler). The docstrings are the developers' to write in full; the rules are in DESIGN.md.
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
  type RedisLike = NodeRedisLike | IORedisLike | GlideLike | Store;
  function memoryStore(): Store;
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
  }
  interface LockOptions extends Options { redis: RedisLike | readonly RedisLike[] }
  interface RWLockOptions extends LockOptions { prefer?: 'writer' | 'reader' | 'fair' | undefined; readers?: string | undefined }
  interface PermitOptions extends Options { permits?: number | undefined }
  interface HostLockOptions {
    lifetime?: number | undefined; timeout?: number | undefined; step?: number | undefined;
    ratio?: number | undefined; maxStep?: number | undefined;
  }
  interface CachedOptions extends Options { ttl: number; emptyTtl?: number | undefined }
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
    [Symbol.asyncDispose](): Promise<void>;
  }
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
  }

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
  class HostLock {
    constructor(name: string, options?: HostLockOptions);
    readonly name: string;
    readonly key: string | null;
    lock(key: string): Promise<number>;
    unlock(): Promise<boolean>;
    expire(ms?: number): Promise<true>;
  }

  // ---- errors
  class LockError extends Error { readonly code: string; readonly key: Key; readonly retryable: boolean }
  class TooManyLockAttemptsError extends LockError { readonly code: 'ERR_LOCK_ATTEMPTS'; readonly attempts: number }
  class LockTimeoutError extends LockError { readonly code: 'ERR_LOCK_TIMEOUT' }
  class AlreadyAcquiredLockError extends LockError { readonly code: 'ERR_LOCK_ALREADY_ACQUIRED' }
  class NotAcquiredLockError extends LockError { readonly code: 'ERR_LOCK_NOT_ACQUIRED' }
  class LockLostError extends LockError {
    readonly code: 'ERR_LOCK_LOST';
    readonly reason: 'expired' | 'taken' | 'missing' | 'unreachable' | 'stalled' | 'closed';
    readonly result?: unknown;
  }
  class LockDeadlockError extends LockError { readonly code: 'ERR_LOCK_DEADLOCK' }
  class LockBackendError extends LockError { readonly code: 'ERR_LOCK_BACKEND'; readonly redisCode?: string }
  class LockClosedError extends LockError { readonly code: 'ERR_LOCK_CLOSED' }
}
export = redisExpLock;
