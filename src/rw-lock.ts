// Readers and a writer. A thin class over `acquire`. Redis decides which holders exclude each other and which goes first
// (scripts/holders.lua), by a member with its own end for each holder, and never by a counter.

import { changeInPlace } from './acquire/change';
import { acquireLease, optionsThenFunction, runUnder } from './acquire/run';
import { optionError } from './core/errors';
import type { CloseOptions, Options, RWLockOptions, WaitOptions } from './core/option-types';
import { defaults, oneOf, type Settings, settle, settlerWith, textRule, waitRules } from './core/options';
import type { HeldLock } from './hold/held-lock';
import { getter, type Lease, leaseMethods, method } from './hold/lease';
import type { Scope } from './hold/scope';
import { scopeFor } from './inspect/registry';
import type { Mode } from './store/contract';

/** The lease of a reader or a writer. */
export interface RWLease extends Lease {
  readonly mode: 'read' | 'write';
  /**
   * Upgrades a reader to the writer in place: no other writer gets in between. While the upgrade waits, no new reader gets in.
   * The lease has a new `fence` afterwards. Resolves at once for a writer.
   *
   * @param options Options for waiting; default: those with which the lease was acquired.
   * @throws {LockDeadlockError} another reader waits to write already. Still held for reading.
   * @throws {TooManyLockAttemptsError | LockTimeoutError | LockBackendError} Still held for reading.
   * @throws {LockLostError} the lock was lost meanwhile.
   */
  upgrade(options?: WaitOptions): Promise<void>;
  /**
   * Downgrades the writer to a reader in place: no writer gets in between. Keeps the `fence`. Resolves at once for a reader.
   *
   * @throws {LockBackendError} Still held; for reading as soon as Redis can be reached.
   */
  downgrade(): Promise<void>;
}

const rwDefaults: Settings = { ...defaults, maxRetries: 200, retryTimeoutMs: 10, autoExtend: true };

const settleObject = settlerWith<RWLockOptions>({
  prefer: oneOf("'writer', 'reader' or 'fair'", ['writer', 'reader', 'fair']),
  readers: { ...textRule, expected: 'the name of a group of readers, at most 256 well-formed characters' },
});

/**
 * Many readers or one writer. Wrong arguments throw (reject) `ERR_LOCK_OPTION` before any I/O. From redis-rwlock.
 *
 * @example
 * ```ts
 * const rw = new RWLock('catalogue', { redis: client });
 * await rw.read(() => work());
 * await rw.write({ timeout: 5000 }, (lease) => work(lease.fence));
 * ```
 */
export class RWLock {
  /** The key as it was given. */
  readonly key: string;
  readonly #settings: Settings;
  readonly #prefer: Mode['prefer'];
  readonly #readers: string;
  readonly #scope: Scope;

  /**
   * Makes an object that holds nothing yet; sends nothing.
   *
   * @param key     Redis key of 1 to 1024 bytes.
   * @param options As of the factory, `prefer` and `readers`; `redis` is required. Defaults here: lifetime 1000 ms (at least 100),
   *                maxRetries 200, retryTimeout 10 ms (at least 1), autoExtend on.
   */
  constructor(key: string, options: RWLockOptions) {
    const [{ prefer = 'writer', readers = '' }, settings] = settleObject(options, rwDefaults);
    this.#settings = settings;
    checkTimes(settings);
    this.#scope = scopeFor(this.#settings);
    this.#prefer = prefer;
    this.#readers = readers;
    this.#scope.fullKey(key, this.#settings);
    this.key = key;
  }

  /** Runs `fn` as a reader, like `withLock.run`. */
  read<T>(fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
  read<T>(options: Options, fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
  async read<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    return runUnder(await this.#acquire('shared', options), fn);
  }

  /** Runs `fn` as the writer, like `withLock.run`. */
  write<T>(fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
  write<T>(options: Options, fn: (lease: RWLease) => T | PromiseLike<T>): Promise<T>;
  async write<T>(...rest: unknown[]): Promise<T> {
    const [options, fn] = optionsThenFunction(rest, 'fn');
    return runUnder(await this.#acquire('exclusive', options), fn);
  }

  /**
   * Resolves with a lease once we may read. The lock is renewed until the lease is collected, unless `autoExtend` is false.
   *
   * @throws as `withLock.promise`. Nothing is held then, and no other caller is kept waiting.
   */
  async acquireRead(options?: Options): Promise<RWLease> {
    return this.#acquire('shared', options);
  }

  /** Resolves with a lease once we may write; otherwise as `acquireRead`. */
  async acquireWrite(options?: Options): Promise<RWLease> {
    return this.#acquire('exclusive', options);
  }

  /** As `withLock.close`: refuses new calls, rejects waiters, awaits holders. */
  async close(options?: CloseOptions): Promise<void> {
    return this.#scope.close(options);
  }

  async #acquire(kind: 'shared' | 'exclusive', options: unknown): Promise<RWLease> {
    const settings = settle(options, this.#settings);
    checkTimes(settings);
    const mode: Mode = { kind, prefer: this.#prefer, group: this.#readers, permits: 1, total: 0, step: 0 };
    const kindOfLease = { autoExtend: true, mode, methods: rwLeaseMethods };
    return (await acquireLease(this.key, settings, this.#scope, kindOfLease)) as RWLease;
  }
}

function checkTimes({ lifetimeMs, retryTimeoutMs }: Settings): void {
  checkMin('lifetime', lifetimeMs ?? Number.POSITIVE_INFINITY, 100);
  checkMin('retryTimeout', retryTimeoutMs, 1);
}

function checkMin(option: string, ms: number, minMs: number): void {
  if (ms < minMs) throw optionError(option, `at least ${minMs} ms in an RWLock`, ms, 'range');
}

async function upgrade(held: HeldLock, options: unknown): Promise<void> {
  return changeInPlace(held, 'exclusive', settle(options, held.context.settings, waitRules));
}

const rwLeaseMethods: object = Object.create(leaseMethods, {
  mode: getter((held) => (held.mode!.kind === 'shared' ? 'read' : 'write')),
  upgrade: method(upgrade),
  downgrade: method((held) => changeInPlace(held, 'shared', { ...held.context.settings, signal: undefined })),
});
