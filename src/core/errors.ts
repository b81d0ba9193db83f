// The errors. Every way in which a lock can fail has its own class and `code`, so that "busy", "timed out", "lost" and "Redis is
// down" never look alike. Each class says what is still held afterwards. Messages carry keys and numbers, never tokens.
import { inspect } from './runtime';

/** One key, or a list of keys that are locked all or none. */
export type Key = string | readonly string[];

/** The details of an error, besides its message. */
export interface LockErrorDetails {
  key?: Key | undefined;
  cause?: unknown;
}

/** The `code` of every error of this package. */
export type LockErrorCode = AnyLockError['code'];

/** The property of each prototype that has the default `code` and `retryable` of its instances. A frozen prototype may have it. */
const defaults = Symbol('defaults');

/**
 * The common parent: `err instanceof LockError` is true for every error below. `code`, `key` and `retryable` are own and
 * enumerable properties, so that JSON and logs have them.
 */
export class LockError extends Error {
  /** Stable name for programs, such as `ERR_LOCK_TIMEOUT`. */
  declare readonly code: LockErrorCode;
  /** The key as the caller gave it; `''` if there is none. */
  declare readonly key: Key;
  /**
   * True if the same call may succeed later without a change of the program: another holder has the lock; for a LockBackendError
   * it depends on the case. False if the program has to act first: it holds a lock already, or none; it lost a lock, and the
   * work under that lock may be half done; it waits for itself; it called `close()`.
   */
  declare readonly retryable: boolean;
  /** @internal */
  declare readonly [defaults]: { readonly code?: LockErrorCode; readonly retryable: boolean };

  /** Makes the error without a lock, such as for a test. */
  constructor(message?: string, details: LockErrorDetails & { retryable?: boolean } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    const { code, retryable } = this[defaults];
    if (code !== undefined) this.code = code;
    this.key = details.key ?? '';
    this.retryable = details.retryable ?? retryable;
  }

  /** Tells whether `error` is of this class or a subclass, also if another copy of this package made it; narrows its type. */
  declare static readonly is: (error: unknown) => error is LockError;
}

/** Another holder has the lock: the parent of TooManyLockAttemptsError and LockTimeoutError. Nothing is held. */
export class LockBusyError extends LockError {
  declare static readonly is: (error: unknown) => error is LockBusyError;
  declare readonly code: 'ERR_LOCK_ATTEMPTS' | 'ERR_LOCK_TIMEOUT';
}

/** `maxRetries` is used up, and another holder still has the key. Nothing is held. */
export class TooManyLockAttemptsError extends LockBusyError {
  declare static readonly is: (error: unknown) => error is TooManyLockAttemptsError;
  declare readonly code: 'ERR_LOCK_ATTEMPTS';
  /** The number of attempts made: 1 + the retries. */
  readonly attempts: number;

  /** Makes the error without a lock, such as for a test. */
  constructor(message?: string, details: LockErrorDetails & { attempts?: number } = {}) {
    super(message, details);
    this.attempts = details.attempts ?? 0;
  }
}

/** `timeout` is over. Nothing is held: if an attempt under way is granted later, that grant is released. */
export class LockTimeoutError extends LockBusyError {
  declare static readonly is: (error: unknown) => error is LockTimeoutError;
  declare readonly code: 'ERR_LOCK_TIMEOUT';
}

/** This object holds a lock already, and still holds it. */
export class AlreadyAcquiredLockError extends LockError {
  declare static readonly is: (error: unknown) => error is AlreadyAcquiredLockError;
  declare readonly code: 'ERR_LOCK_ALREADY_ACQUIRED';
}

/** No lock was held that could be unlocked or renewed. */
export class NotAcquiredLockError extends LockError {
  declare static readonly is: (error: unknown) => error is NotAcquiredLockError;
  declare readonly code: 'ERR_LOCK_NOT_ACQUIRED';
}

/** The reason of a loss; see `LockLostError.reason`. */
export type LossReason = 'expired' | 'taken' | 'missing' | 'unreachable' | 'stalled' | 'closed';

/** The lock may belong to somebody else now: stop writing. `reason` says why. */
export class LockLostError extends LockError {
  declare static readonly is: (error: unknown) => error is LockLostError;
  declare readonly code: 'ERR_LOCK_LOST';
  /**
   * The reason of the loss. `expired`: the lifetime ended and nothing renewed the lock. `taken`: Redis says that another holder
   * has the key. `missing`: Redis says that the key is gone. `unreachable`: no renewal got an answer in time. `stalled`: this
   * process did not run when it should have renewed (blocked event loop, SIGSTOP, sleep). `closed`: `close()` took the lock away.
   */
  readonly reason: LossReason;
  /** The result of the function given to `run`, which resolved although the lock was lost meanwhile. */
  declare readonly result?: unknown;

  /** Makes the error without a lock, such as for a test. */
  constructor(message?: string, details: LockErrorDetails & { reason?: LossReason; result?: unknown } = {}) {
    super(message, details);
    this.reason = details.reason ?? 'expired';
    if ('result' in details) this.result = details.result;
  }
}

/** The wait could never end. Locks that were held before are still held. */
export class LockDeadlockError extends LockError {
  declare static readonly is: (error: unknown) => error is LockDeadlockError;
  declare readonly code: 'ERR_LOCK_DEADLOCK';
}

/**
 * Redis refused, or could not be reached. From an acquire: nothing is held; if the outcome is unknown, a release was sent, and at
 * worst `lifetime` frees the key. From `extend`: the validity stays what it was. From a release: the release can be tried
 * again.
 */
export class LockBackendError extends LockError {
  declare static readonly is: (error: unknown) => error is LockBackendError;
  declare readonly code: 'ERR_LOCK_BACKEND';
  /**
   * The first word of Redis's own error, such as `WRONGTYPE` or `NOPERM`; absent if no answer came. Or a code of this library:
   * `FOREIGN`: the key holds another library's data. `FENCE`: the fence counter is damaged. `CROSSSLOT`: the keys lie in different
   * slots, a plain client is connected to a node of a cluster, or `minReplicas` was given for shards behind one endpoint. `LIMIT`: a
   * semaphore with another number of permits is in use. `NOREPLICAS`: fewer than `minReplicas` replicas acknowledged. `VERSION`:
   * another version of this library wrote the queue or the table. Shared memory: `FULL`: no room. `BUSY`: a paused process is writing.
   * `CORRUPT`: damaged. `PLATFORM`: not supported here.
   */
  declare readonly redisCode?: string;
  /** @internal True if the script may have run, or may still run, although no reply came. */
  declare readonly unknown: boolean;

  /** Makes the error without a lock, such as for a test. */
  constructor(
    message?: string,
    details: LockErrorDetails & { redisCode?: string | undefined; retryable?: boolean; unknown?: boolean } = {},
  ) {
    super(message, details);
    if (details.redisCode !== undefined) this.redisCode = details.redisCode;
    Object.defineProperty(this, 'unknown', { value: details.unknown ?? false });
  }
}

/** `close()` was called before. Nothing is held. */
export class LockClosedError extends LockError {
  declare static readonly is: (error: unknown) => error is LockClosedError;
  declare readonly code: 'ERR_LOCK_CLOSED';
}

/** Every error of this package, so that a switch on `code` narrows. */
export type AnyLockError =
  | TooManyLockAttemptsError
  | LockTimeoutError
  | AlreadyAcquiredLockError
  | NotAcquiredLockError
  | LockLostError
  | LockDeadlockError
  | LockBackendError
  | LockClosedError;

/** The classes with the defaults of their instances, and with their names as literals, because a minifier renames classes. */
const table: readonly [typeof LockError, name: string, retryable: boolean, code?: LockErrorCode][] = [
  [LockError, 'LockError', false],
  [LockBusyError, 'LockBusyError', true],
  [TooManyLockAttemptsError, 'TooManyLockAttemptsError', true, 'ERR_LOCK_ATTEMPTS'],
  [LockTimeoutError, 'LockTimeoutError', true, 'ERR_LOCK_TIMEOUT'],
  [AlreadyAcquiredLockError, 'AlreadyAcquiredLockError', false, 'ERR_LOCK_ALREADY_ACQUIRED'],
  [NotAcquiredLockError, 'NotAcquiredLockError', false, 'ERR_LOCK_NOT_ACQUIRED'],
  [LockLostError, 'LockLostError', false, 'ERR_LOCK_LOST'],
  [LockDeadlockError, 'LockDeadlockError', false, 'ERR_LOCK_DEADLOCK'],
  [LockBackendError, 'LockBackendError', true, 'ERR_LOCK_BACKEND'],
  [LockClosedError, 'LockClosedError', false, 'ERR_LOCK_CLOSED'],
];
for (const [errorClass, name, retryable, code] of table) {
  // `Symbol.for` makes the brand common to all copies of this package.
  const brand = Symbol.for(`redis-exp-lock:${name}`);
  Object.defineProperties(errorClass.prototype, {
    name: { value: name, writable: true, configurable: true },
    [defaults]: { value: { ...(code && { code }), retryable } },
    [brand]: { value: true },
  });
  const is = (error: unknown): boolean => typeof error === 'object' && error !== null && brand in error;
  Object.defineProperties(errorClass, { name: { value: name }, is: { value: is } });
}

/** @internal Sets the error's `key` to the key as the caller gave it: layers below know keys with their prefix. */
export function forKey(error: unknown, key: Key): unknown {
  return error instanceof LockError ? Object.assign(error, { key }) : error;
}

/**
 * @internal Rejects with `error` and gives it the caller's stack. A timer or a socket made the error, and their frames lead nowhere.
 * Once the `async` functions of the caller await the promise, the engine knows them. Costs a failure 3 µs, and a grant
 * nothing.
 */
export async function rejectAtCaller(error: unknown): Promise<never> {
  await undefined;
  // The caller awaits by now. One microtask later its promise has taken this promise over.
  await undefined;
  if (error instanceof LockError) Error.captureStackTrace?.(error, rejectAtCaller);
  throw error;
}

/** @internal A TypeError (wrong kind of value) or RangeError (impossible value) that says what was expected and what was given. */
export function optionError(what: string, expected: string, got: unknown, kind: 'type' | 'range' = 'type'): Error {
  const message = `${what}: expected ${expected}; got ${shown(got)}`;
  return Object.assign(kind === 'type' ? new TypeError(message) : new RangeError(message), { code: 'ERR_LOCK_OPTION' });
}

/** A value as text. Its own `inspect.custom`, `toString` or trap may throw. */
function shown(got: unknown): string {
  try {
    const text = inspect(got, { depth: 0, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 60 });
    return String(text).slice(0, 100);
  } catch {
    return `${typeof got === 'object' ? 'an' : 'a'} ${typeof got} that cannot be shown`;
  }
}

/** @internal The error for an unknown option. The advice names our option if another lock library has that name. */
export function unknownOptionError(name: string, advice: string): Error {
  const shownName = /^[\w$]+$/.test(name) ? name : JSON.stringify(name);
  return Object.assign(new TypeError(`${shownName}: ${advice}`), { code: 'ERR_LOCK_OPTION' });
}
