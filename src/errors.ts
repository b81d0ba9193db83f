// Every way a lock can fail, each with its own class and `code`, so that "busy", "timed out", "lost" and "Redis is down"
// never look alike. What is still held afterwards stands with each class. Messages carry keys and numbers, never tokens.
import { inspect } from 'node:util';
import type { Key } from './keys';

/** What an error carries besides its message. */
export interface LockErrorDetails {
  key?: Key | undefined;
  cause?: unknown;
}

/** The common parent: `err instanceof LockError` is true for every error below. */
export class LockError extends Error {
  /** Stable name for programs, such as `ERR_LOCK_TIMEOUT`. */
  declare readonly code: string;
  /** The key as the caller gave it; `''` where there is none. */
  declare readonly key: Key;
  /** Whether the same call may succeed later without anybody changing anything. */
  declare readonly retryable: boolean;

  constructor(message?: string, details: LockErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.key = details.key ?? '';
  }
}

/** `maxRetries` used up and somebody else still holds the key. Nothing is held. */
export class TooManyLockAttemptsError extends LockError {
  declare readonly code: 'ERR_LOCK_ATTEMPTS';
  /** Attempts made: 1 + the retries. */
  readonly attempts: number;

  constructor(message?: string, details: LockErrorDetails & { attempts?: number } = {}) {
    super(message, details);
    this.attempts = details.attempts ?? 0;
  }
}

/** `timeout` is over. Nothing is held; an attempt still under way is handed back when it succeeds. */
export class LockTimeoutError extends LockError {
  declare readonly code: 'ERR_LOCK_TIMEOUT';
}

/** This object holds a lock already. It still does. */
export class AlreadyAcquiredLockError extends LockError {
  declare readonly code: 'ERR_LOCK_ALREADY_ACQUIRED';
}

/** Nothing was held that could be unlocked or renewed. */
export class NotAcquiredLockError extends LockError {
  declare readonly code: 'ERR_LOCK_NOT_ACQUIRED';
}

/** Why a lock was lost. */
export type LossReason = 'expired' | 'taken' | 'missing' | 'unreachable' | 'stalled' | 'closed';

/**
 * The lock may belong to somebody else now: stop writing.
 *
 * `expired`: its lifetime ended and nothing renewed it. `taken`: Redis says somebody else holds it. `missing`: Redis says
 * the key is gone. `unreachable`: no renewal got an answer in time. `stalled`: this process did not run when it should
 * have renewed (blocked event loop, SIGSTOP, sleep). `closed`: `close()` took it away.
 */
export class LockLostError extends LockError {
  declare readonly code: 'ERR_LOCK_LOST';
  readonly reason: LossReason;
  /** What the function given to `run` resolved to, although the lock was lost meanwhile. */
  declare readonly result?: unknown;

  constructor(message?: string, details: LockErrorDetails & { reason?: LossReason; result?: unknown } = {}) {
    super(message, details);
    this.reason = details.reason ?? 'expired';
    if ('result' in details) this.result = details.result;
  }
}

/** Waiting could never end. What was held before is still held. */
export class LockDeadlockError extends LockError {
  declare readonly code: 'ERR_LOCK_DEADLOCK';
}

/**
 * Redis refused, or could not be asked. From an acquire: nothing is held, a release was sent where the outcome is not
 * known, and at worst `lifetime` frees the key. From `extend`: the validity stays what it was. From a release: it can be
 * tried again.
 */
export class LockBackendError extends LockError {
  declare readonly code: 'ERR_LOCK_BACKEND';
  declare readonly retryable: boolean;
  /** The first word of Redis's own error, such as `WRONGTYPE` or `NOPERM`; absent where no answer came. */
  declare readonly redisCode?: string;
  /** @internal Whether the script may have run, or may still run, although we were told nothing. */
  declare readonly unknown: boolean;

  constructor(
    message?: string,
    details: LockErrorDetails & { redisCode?: string | undefined; retryable?: boolean; unknown?: boolean } = {},
  ) {
    super(message, details);
    if (details.redisCode !== undefined) this.redisCode = details.redisCode;
    Object.defineProperty(this, 'retryable', { value: details.retryable ?? true, enumerable: true });
    Object.defineProperty(this, 'unknown', { value: details.unknown ?? false });
  }
}

/** `close()` was called. Nothing is held. */
export class LockClosedError extends LockError {
  declare readonly code: 'ERR_LOCK_CLOSED';
}

const table: readonly [typeof LockError, code: string, retryable: boolean][] = [
  [LockError, 'ERR_LOCK', false],
  [TooManyLockAttemptsError, 'ERR_LOCK_ATTEMPTS', true],
  [LockTimeoutError, 'ERR_LOCK_TIMEOUT', true],
  [AlreadyAcquiredLockError, 'ERR_LOCK_ALREADY_ACQUIRED', false],
  [NotAcquiredLockError, 'ERR_LOCK_NOT_ACQUIRED', false],
  [LockLostError, 'ERR_LOCK_LOST', false],
  [LockDeadlockError, 'ERR_LOCK_DEADLOCK', false],
  [LockBackendError, 'ERR_LOCK_BACKEND', true],
  [LockClosedError, 'ERR_LOCK_CLOSED', false],
];
for (const [errorClass, code, retryable] of table) {
  Object.defineProperties(errorClass.prototype, {
    name: { value: errorClass.name, writable: true, configurable: true },
    code: { value: code, enumerable: true },
    retryable: { value: retryable, enumerable: true },
  });
}

/** @internal The same error, its `key` as the caller gave it: below, keys have their prefix. */
export function forKey(error: unknown, key: Key): unknown {
  return error instanceof LockError ? Object.assign(error, { key }) : error;
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
  return Object.assign(new TypeError(`${JSON.stringify(name)}: ${advice}`), { code: 'ERR_LOCK_OPTION' });
}
