// run, once, elect: a command under a lock.

import { LockBackendError, type LockBusyError, LockLostError, TooManyLockAttemptsError } from '../../core/errors';
import type { Key } from '../../core/keys';
import type { CloseOptions, Options } from '../../core/options';
import { Election } from '../../election';
import type { Lease } from '../../hold/lease';
import { RWLock } from '../../rw-lock';
import { Semaphore } from '../../semaphore';
import { runCommand } from './child';
import { type CommandLine, integerOf, msOf, permitsOf } from './command-line';
import { placeOf } from './connect';
import { type Exit, exitCodes, exitOf, usage } from './exit';
import { label, type Session, within, withSession } from './session';
import { Signals } from './signals';
import { duration, note } from './text';

interface CommandTerms {
  readonly command: readonly string[];
  readonly ttlMs: number;
  readonly killAfterMs: number;
  readonly foreground: boolean;
}

const defaultTtlMs = 10_000;
const defaultKillAfterMs = 5000;
/** The pause before the next attempt if the key is held as another kind of lock. */
const otherKindMs = 100;

function termsOf(line: CommandLine): CommandTerms {
  const ttlMs = msOf(line, 'ttl') ?? defaultTtlMs;
  if (ttlMs < 100) throw usage('--ttl: at least 100ms');
  const killAfterMs = msOf(line, 'kill-after') ?? defaultKillAfterMs;
  if (ttlMs <= killAfterMs && !line.values.quiet) {
    const text = `${duration(ttlMs)} is not longer than --kill-after ${duration(killAfterMs)}`;
    note(`warning: --ttl ${text}: another may have the lock before a command that lost it is gone`);
  }
  return { command: line.command!, ttlMs, killAfterMs, foreground: line.values.foreground === true };
}

function optionsOf({ ttlMs }: CommandTerms): Options {
  return { lifetime: ttlMs, autoExtend: true, register: true, owner: label() };
}

function execute(
  terms: CommandTerms,
  signals: Signals,
  key: Key,
  fence: number,
  owner: string,
  lost: AbortSignal,
): Promise<number> {
  const { command, foreground, killAfterMs } = terms;
  const env = { LOCK_KEY: [key].flat().join('\n'), LOCK_FENCE: String(fence), LOCK_OWNER: owner };
  return runCommand({ command, env, foreground, killAfterMs, lost, signals });
}

/** Runs a command under a lock. @returns the exit code. */
export async function run(line: CommandLine): Promise<number> {
  const busyCode = integerOf(line, 'busy-code', 255) ?? exitCodes.busy;
  const kind = kindOf(line);
  const timeout = line.values['no-wait'] ? 0 : (msOf(line, 'wait') ?? Number.POSITIVE_INFINITY);
  if (line.values['no-wait'] && line.values.wait !== undefined) throw usage('run: -n does not wait, -w does');
  placeOf(line);
  const terms = termsOf(line);
  const signals = new Signals();
  try {
    const work = async (session: Session): Promise<number> => {
      stopIfSignalled(signals);
      const { lease, close } = await acquire({
        session,
        kind,
        keys: line.operands,
        timeout,
        signal: signals.wait,
        line,
      });
      try {
        stopIfSignalled(signals);
        if (line.values.verbose) note(`holding ${line.operands.join(', ')} (fence ${lease.fence})`);
        const key = line.operands.length === 1 ? line.operands[0]! : line.operands;
        const code = await execute(terms, signals, key, lease.fence, label(), lease.signal);
        return code === exitCodes.lost && lease.signal.aborted ? code : await released(lease, code);
      } finally {
        await within(lease.release());
        await within(close({ drain: false }));
      }
    };
    return await withSession(line, optionsOf(terms), work, signals.wait);
  } catch (error) {
    throw exitOf(error, busyCode);
  }
}

/** Releases the lock. Resolves with `code` if the lock was held to the end. */
async function released(lease: Lease, code: number): Promise<number> {
  try {
    if ((await lease.release()) && !lease.signal.aborted) return code;
  } catch (error) {
    note(`warning: ${(error as Error).message}; the lock ends with its ttl`);
    return code;
  }
  note('the lock was lost before the command ended');
  return exitCodes.lost;
}

function stopIfSignalled({ wait }: Signals): void {
  if (wait.aborted) throw wait.reason;
}

type CommandLockKind = 'exclusive' | 'write' | 'read' | readonly [wanted: number, most: number];

function kindOf(line: CommandLine): CommandLockKind {
  const permits = permitsOf(line);
  const isShared = line.values.shared === true;
  if (permits !== undefined && isShared) throw usage('run: --shared and --permits are two kinds of locks');
  if ((permits !== undefined || isShared) && line.operands.length > 1)
    throw usage('run: one key only with --shared or --permits');
  return permits ?? (isShared ? 'read' : 'exclusive');
}

interface Acquiring {
  readonly session: Session;
  readonly kind: CommandLockKind;
  readonly keys: readonly string[];
  readonly timeout: number;
  readonly signal: AbortSignal;
  readonly line: CommandLine;
}

interface CommandLock {
  readonly lease: Lease;
  close(options: CloseOptions): Promise<void>;
}

/**
 * Acquires the lock. A key is a mutex unless it is requested with `--shared`. A key that is held as the other kind is busy. A command
 * that wants the key exclusively then waits as a writer among the readers.
 */
async function acquire(acquiring: Acquiring): Promise<CommandLock> {
  const { session, keys, timeout, signal, line } = acquiring;
  const endMs = performance.now() + timeout;
  if (line.values.verbose) await tellHolder(session, keys);
  for (let kind = acquiring.kind; ; ) {
    const leftMs = Math.max(endMs - performance.now(), 0);
    try {
      return await acquireAs(
        kind,
        session,
        keys,
        leftMs === 0 ? { maxRetries: 0, signal } : { timeout: leftMs, signal },
      );
    } catch (error) {
      if (!(await isOtherKind(error, session, keys))) throw error;
      if (performance.now() >= endMs) throw busyAsOther(keys[0]!, error);
      if (kind === 'exclusive' || kind === 'write') kind = kind === 'exclusive' ? 'write' : 'exclusive';
      await pause(otherKindMs, signal);
    }
  }
}

async function acquireAs(
  kind: CommandLockKind,
  session: Session,
  keys: readonly string[],
  wait: Options,
): Promise<CommandLock> {
  const [key] = keys as [string];
  if (kind === 'exclusive') {
    const lease = await session.withLock.promise(keys.length === 1 ? key : keys, wait);
    return { lease, close: async () => {} };
  }
  if (kind === 'read' || kind === 'write') {
    const lock = new RWLock(key, session.options);
    const lease = kind === 'read' ? lock.acquireRead(wait) : lock.acquireWrite(wait);
    return orClosed(lock, lease);
  }
  const [wanted, most] = kind;
  const semaphore = new Semaphore(key, most, session.options);
  return orClosed(semaphore, semaphore.acquire(wanted, wait));
}

async function orClosed(lock: RWLock | Semaphore, acquiring: Promise<Lease>): Promise<CommandLock> {
  try {
    return { lease: await acquiring, close: (options) => lock.close(options) };
  } catch (error) {
    await within(lock.close({ drain: false }));
    throw error;
  }
}

/** Tells if the key is a lock of another kind, and not a list or a hash of another program. */
async function isOtherKind(error: unknown, { withLock }: Session, keys: readonly string[]): Promise<boolean> {
  if (!(error instanceof LockBackendError) || error.redisCode !== 'WRONGTYPE') return false;
  const states = await Promise.all(keys.map((key) => withLock.inspect(key).catch(() => undefined)));
  return states.every((state) => state !== undefined);
}

function busyAsOther(key: string, cause: unknown): LockBusyError {
  const message = `${JSON.stringify(key)} is held as another kind of lock`;
  return new TooManyLockAttemptsError(message, { key, attempts: 1, cause });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function tellHolder({ withLock }: Session, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    const { holders } = await withLock.inspect(key);
    for (const { owner, id } of holders) note(`${key} is held by ${owner ?? 'a holder without a label'} (${id})`);
  }
}

/** Runs a command once a slot. @returns the exit code: 0 if the job of the slot is done or running elsewhere. */
export async function once(line: CommandLine): Promise<number> {
  const every = msOf(line, 'every');
  if (every === undefined || every < 1000) throw usage('once: --every takes a duration of at least 1s, and is needed');
  const offset = msOf(line, 'offset') ?? 0;
  placeOf(line);
  const terms = termsOf(line);
  const signals = new Signals();
  const [key] = line.operands as [string];
  const work = async ({ withLock }: Session): Promise<number> => {
    stopIfSignalled(signals);
    try {
      const result = await withLock.once(key, { every, offset }, async (lease) => {
        stopIfSignalled(signals);
        return execute(terms, signals, key, lease.fence, label(), lease.signal);
      });
      if (result.ran) return result.value;
      const until = new Date(result.slot.end).toISOString();
      const how = result.reason === 'done' ? 'has run in this slot' : 'is running';
      if (!line.values.quiet) note(`${key} ${how}: the next slot begins at ${until}`);
      return 0;
    } catch (error) {
      if (error instanceof LockLostError) return exitCodes.lost;
      throw error;
    }
  };
  return withSession(line, optionsOf(terms), work, signals.wait);
}

/** Runs a command in each term of leadership. @returns the exit code of the first command that ends without a loss of its term. */
export async function elect(line: CommandLine): Promise<number> {
  placeOf(line);
  const terms = termsOf(line);
  const signals = new Signals();
  const [name] = line.operands as [string];
  const work = async ({ options }: Session): Promise<number> => {
    stopIfSignalled(signals);
    const { redis, lifetime, prefix, register } = options;
    const election = new Election(name, { redis, lifetime, prefix, register, id: label(), owner: label() });
    try {
      const code = await election.lead(
        async (term) => {
          if (signals.wait.aborted) return (signals.wait.reason as Exit).code;
          if (line.values.verbose) note(`leading ${name} (term ${term.fence})`);
          const lost = new AbortController();
          // A signal to this process has already reached the command, which may end in its own time.
          const onAbort = (): void =>
            void (term.signal.reason instanceof LockLostError && lost.abort(term.signal.reason));
          term.signal.addEventListener('abort', onAbort);
          if (term.signal.aborted) onAbort();
          return execute(terms, signals, name, term.fence, label(), lost.signal);
        },
        { signal: signals.wait },
      );
      return code ?? exitCodes.lost;
    } finally {
      await within(election.close({ drain: false }));
    }
  };
  return withSession(line, optionsOf(terms), work, signals.wait);
}
