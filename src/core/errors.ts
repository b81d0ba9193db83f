// Every way a lock can fail, each with its own class and `code`, so that "busy", "timed out", "lost" and "Redis is down"
// never look alike. What is still held afterwards stands with each class. Messages carry keys and numbers, never tokens.
import { inspect } from 'node:util';

/** One key, or several: all or nothing. */
export type Key = string | readonly string[];

/** What an error carries besides its message. */
export interface LockErrorDetails {
  key?: Key | undefined;
  cause?: unknown;
}

/** The `code` of every error of this package. */
export type LockErrorCode =
  | 'ERR_LOCK_ATTEMPTS'
  | 'ERR_LOCK_TIMEOUT'
  | 'ERR_LOCK_ALREADY_ACQUIRED'
  | 'ERR_LOCK_NOT_ACQUIRED'
  | 'ERR_LOCK_LOST'
  | 'ERR_LOCK_DEADLOCK'
  | 'ERR_LOCK_BACKEND'
  | 'ERR_LOCK_CLOSED';

/** On each prototype: what an instance of that class gets as its own. */
const defaults = Symbol('defaults');

/**
 * The common parent: `err instanceof LockError` is true for every error below. `code`, `key` and `retryable` are its own and
 * enumerable, so that they are in JSON and in logs.
 */
export class LockError extends Error {
  /** Stable name for programs, such as `ERR_LOCK_TIMEOUT`. */
  declare readonly code: LockErrorCode;
  /** The key as the caller gave it; `''` where there is none. */
  declare readonly key: Key;
  /**
   * Whether the same call may succeed later without anybody changing anything: true when somebody else has the lock, and by
   * the case for a LockBackendError. False where the program has to act first: it holds a lock already, or none; it lost one,
   * and what ran under that may be half done; it waits for itself; it called `close()`.
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

/** Somebody else has it: the parent of the two ways to find that out. Nothing is held. */
export class LockBusyError extends LockError {
  declare static readonly is: (error: unknown) => error is LockBusyError;
  declare readonly code: 'ERR_LOCK_ATTEMPTS' | 'ERR_LOCK_TIMEOUT';
}

/** `maxRetries` used up and somebody else still holds the key. Nothing is held. */
export class TooManyLockAttemptsError extends LockBusyError {
  declare static readonly is: (error: unknown) => error is TooManyLockAttemptsError;
  declare readonly code: 'ERR_LOCK_ATTEMPTS';
  /** Attempts made: 1 + the retries. */
  readonly attempts: number;

  /** Makes the error without a lock, such as for a test. */
  constructor(message?: string, details: LockErrorDetails & { attempts?: number } = {}) {
    super(message, details);
    this.attempts = details.attempts ?? 0;
  }
}

/** `timeout` is over. Nothing is held; an attempt still under way is handed back when it succeeds. */
export class LockTimeoutError extends LockBusyError {
  declare static readonly is: (error: unknown) => error is LockTimeoutError;
  declare readonly code: 'ERR_LOCK_TIMEOUT';
}

/** This object holds a lock already. It still does. */
export class AlreadyAcquiredLockError extends LockError {
  declare static readonly is: (error: unknown) => error is AlreadyAcquiredLockError;
  declare readonly code: 'ERR_LOCK_ALREADY_ACQUIRED';
}

/** Nothing was held that could be unlocked or renewed. */
export class NotAcquiredLockError extends LockError {
  declare static readonly is: (error: unknown) => error is NotAcquiredLockError;
  declare readonly code: 'ERR_LOCK_NOT_ACQUIRED';
}

/** Why a lock was lost. */
export type LossReason = 'expired' | 'taken' | 'missing' | 'unreachable' | 'stalled' | 'closed';

/** The lock may belong to somebody else now: stop writing. `reason` says why. */
export class LockLostError extends LockError {
  declare static readonly is: (error: unknown) => error is LockLostError;
  declare readonly code: 'ERR_LOCK_LOST';
  /**
   * Why the lock was lost. `expired`: its lifetime ended and nothing renewed it. `taken`: Redis says that somebody else holds it.
   * `missing`: Redis says that the key is gone. `unreachable`: no renewal got an answer in time. `stalled`: this process did not
   * run when it should have renewed (blocked event loop, SIGSTOP, sleep). `closed`: `close()` took it away.
   */
  readonly reason: LossReason;
  /** What the function given to `run` resolved to, although the lock was lost meanwhile. */
  declare readonly result?: unknown;

  /** Makes the error without a lock, such as for a test. */
  constructor(message?: string, details: LockErrorDetails & { reason?: LossReason; result?: unknown } = {}) {
    super(message, details);
    this.reason = details.reason ?? 'expired';
    if ('result' in details) this.result = details.result;
  }
}

/** Waiting could never end. What was held before is still held. */
export class LockDeadlockError extends LockError {
  declare static readonly is: (error: unknown) => error is LockDeadlockError;
  declare readonly code: 'ERR_LOCK_DEADLOCK';
}

/**
 * Redis refused, or could not be asked. From an acquire: nothing is held, a release was sent where the outcome is not
 * known, and at worst `lifetime` frees the key. From `extend`: the validity stays what it was. From a release: it can be
 * tried again.
 */
export class LockBackendError extends LockError {
  declare static readonly is: (error: unknown) => error is LockBackendError;
  declare readonly code: 'ERR_LOCK_BACKEND';
  /**
   * The first word of Redis's own error, such as `WRONGTYPE` or `NOPERM`; absent where no answer came. Or a code of this library:
   * `FOREIGN`: the key holds another library's data. `FENCE`: the fence counter is damaged. `CROSSSLOT`: the keys lie in different
   * slots, or a plain client is connected to a node of a cluster. `LIMIT`: a semaphore with another number of permits is in use.
   * `NOREPLICAS`: fewer than `minReplicas` replicas acknowledged. `VERSION`: another version of this library wrote the queue or the
   * table. Of shared memory: `FULL`: no room. `BUSY`: a paused process is writing. `CORRUPT`: damaged. `PLATFORM`: not on this platform.
   */
  declare readonly redisCode?: string;
  /** @internal Whether the script may have run, or may still run, although no reply came. */
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

/** `close()` was called. Nothing is held. */
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

/** Names as literals: a minifier renames the classes. */
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
  // Shared by all copies of this package.
  const brand = Symbol.for(`redis-exp-lock:${name}`);
  Object.defineProperties(errorClass.prototype, {
    name: { value: name, writable: true, configurable: true },
    [defaults]: { value: { ...(code && { code }), retryable } },
    [brand]: { value: true },
  });
  const is = (error: unknown): boolean => typeof error === 'object' && error !== null && brand in error;
  Object.defineProperties(errorClass, { name: { value: name }, is: { value: is } });
}

/** @internal The same error, its `key` as the caller gave it: below, keys have their prefix. */
export function forKey(error: unknown, key: Key): unknown {
  return error instanceof LockError ? Object.assign(error, { key }) : error;
}

/**
 * @internal Rejects with `error`, its stack that of the caller: the engine knows which `async` functions await the promise that
 * this one resolves, once they do. A timer or a socket made the error, whose own frames lead nowhere. Costs a failure 3 µs,
 * and a grant nothing.
 */
export async function rejectAtCaller(error: unknown): Promise<never> {
  await undefined;
  // By now the caller awaits; a promise is taken over by another one microtask later.
  await undefined;
  if (error instanceof LockError) Error.captureStackTrace?.(error, rejectAtCaller);
  throw error;
}

/** @internal A TypeError (wrong kind of value) or RangeError (right kind, impossible value) that says what was expected and what came. */
export function optionError(what: string, expected: string, got: unknown, kind: 'type' | 'range' = 'type'): Error {
  const message = `${what}: expected ${expected}; got ${shown(got)}`;
  return Object.assign(kind === 'type' ? new TypeError(message) : new RangeError(message), { code: 'ERR_LOCK_OPTION' });
}

/** What came may have an `inspect.custom`, a `toString` or a trap of its own that throws. */
function shown(got: unknown): string {
  try {
    const text = inspect(got, { depth: 0, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 60 });
    return String(text).slice(0, 100);
  } catch {
    return `${typeof got === 'object' ? 'an' : 'a'} ${typeof got} that cannot be shown`;
  }
}

/** @internal A name nobody knows, or one of another lock library's, with what it is called here. */
export function unknownOptionError(name: string, advice: string): Error {
  const shownName = /^[\w$]+$/.test(name) ? name : JSON.stringify(name);
  return Object.assign(new TypeError(`${shownName}: ${advice}`), { code: 'ERR_LOCK_OPTION' });
}
