// run, once, elect: a command under a lock.
import { setTimeout as pause } from 'node:timers/promises';
import { LockBackendError, LockBusyError, LockLostError } from '../../core/errors';
import type { WaitOptions } from '../../core/option-types';
import { Election } from '../../election';
import type { Lease } from '../../hold/lease';
import type { Term } from '../../jobs/term';
import { RWLock } from '../../rw-lock';
import { Semaphore } from '../../semaphore';
import { runCommand } from './child';
import type { CommandLine } from './command-line';
import { type Exit, exitCodes, exitOf, usage } from './exit';
import { label, type Session, withSession } from './session';
import { Signals } from './signals';
import { duration, note } from './text';

const defaultTtlMs = 10_000;
const defaultKillAfterMs = 5000;
/** The pause before the next attempt if the key is held as another kind of lock. */
const otherKindMs = 100;

/** Runs the command under a lease or in a term. Resolves with its exit code; with 76 if the lock was lost. */
type Execute = (held: Pick<Lease, 'fence' | 'signal'>) => Promise<number>;

/** Opens a session for work that runs the command under a lock. Signals end the work while the command does not run. */
async function underLock(
  line: CommandLine,
  work: (session: Session, execute: Execute, signals: Signals) => Promise<number>,
): Promise<number> {
  const { values } = line;
  const lifetime = values.ttl ?? defaultTtlMs;
  if (lifetime < 100) throw usage('--ttl: at least 100ms');
  const killAfterMs = values['kill-after'] ?? defaultKillAfterMs;
  if (lifetime <= killAfterMs && !values.quiet) {
    const text = `${duration(lifetime)} is not longer than --kill-after ${duration(killAfterMs)}`;
    note(`warning: --ttl ${text}: another may have the lock before a command that lost it is gone`);
  }
  const signals = new Signals();
  const execute: Execute = ({ fence, signal: lost }) => {
    const env = { LOCK_KEY: line.operands.join('\n'), LOCK_FENCE: String(fence), LOCK_OWNER: label() };
    return runCommand({ command: line.command!, env, foreground: values.foreground, killAfterMs, lost, signals });
  };
  const options = { lifetime, autoExtend: true, register: true, owner: label() };
  return withSession(line, options, (session) => work(session, execute, signals), signals.wait).catch((error) => {
    if (error instanceof LockLostError) return exitCodes.lost; // A loss during the command is noted already.
    throw exitOf(error, values['busy-code']);
  });
}

export async function run(line: CommandLine): Promise<number> {
  const { values, operands: keys } = line;
  const { permits, shared, verbose } = values;
  if (permits !== undefined && shared) throw usage('run: --shared and --permits are two kinds of locks');
  if ((permits !== undefined || shared) && keys.length > 1) throw usage('run: one key only with --shared or --permits');
  if (values['no-wait'] && values.wait !== undefined) throw usage('run: -n does not wait, -w does');
  const timeoutMs = values['no-wait'] ? 0 : (values.wait ?? Number.POSITIVE_INFINITY);
  return underLock(line, async (session, execute, { wait }) => {
    if (verbose) await tellHolder(session, keys);
    const lease = await acquire(session, line, timeoutMs, wait);
    wait.throwIfAborted();
    if (verbose) note(`holding ${keys.join(', ')} (fence ${lease.fence})`);
    const code = await execute(lease);
    return code === exitCodes.lost && lease.signal.aborted ? code : released(lease, code);
  });
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

type WayToAcquire = (wait: WaitOptions) => Promise<Lease>;

/**
 * The ways to acquire the lock. A key is a mutex unless it is requested with `--shared` or `--permits`. If a single key is held as an
 * RWLock, a command that wants the key exclusively waits as a writer among the readers.
 */
function waysToAcquire(
  { withLock, options, closing }: Session,
  { operands: keys, values }: CommandLine,
): readonly WayToAcquire[] {
  const [key] = keys as [string];
  if (values.permits !== undefined) {
    const [wanted, max] = values.permits;
    const semaphore = closing(new Semaphore(key, max, options));
    return [(wait) => semaphore.acquire(wanted, wait)];
  }
  if (keys.length > 1) return [(wait) => withLock.promise(keys, wait)];
  const lock = closing(new RWLock(key, options));
  if (values.shared) return [(wait) => lock.acquireRead(wait)];
  return [(wait) => withLock.promise(key, wait), (wait) => lock.acquireWrite(wait)];
}

/** Acquires the lock in one of these ways. A key that is held as another kind of lock is busy, and the next way is tried. */
async function acquire(session: Session, line: CommandLine, timeoutMs: number, signal: AbortSignal): Promise<Lease> {
  const ways = waysToAcquire(session, line);
  const endMs = performance.now() + timeoutMs;
  for (let n = 0; ; n += 1) {
    const leftMs = Math.max(endMs - performance.now(), 0);
    try {
      return await ways[n % ways.length]!(leftMs === 0 ? { maxRetries: 0, signal } : { timeout: leftMs, signal });
    } catch (error) {
      if (!(await isOtherKind(error, session, line.operands))) throw error;
      if (performance.now() >= endMs) {
        throw new LockBusyError(`${JSON.stringify(line.operands[0])} is held as another kind of lock`);
      }
      await pause(otherKindMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** Tells if the key is a lock of another kind, and not a list or a hash of another program. */
async function isOtherKind(error: unknown, { withLock }: Session, keys: readonly string[]): Promise<boolean> {
  if (!(error instanceof LockBackendError) || error.redisCode !== 'WRONGTYPE') return false;
  const states = await Promise.all(keys.map((key) => withLock.inspect(key).catch(() => undefined)));
  return states.every((state) => state !== undefined);
}

async function tellHolder({ withLock }: Session, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    const { holders } = await withLock.inspect(key);
    for (const { owner, id } of holders) note(`${key} is held by ${owner ?? 'a holder without a label'} (${id})`);
  }
}

/** Runs a command once a slot. @returns the exit code: 0 if the job of the slot is done or running elsewhere. */
export async function once(line: CommandLine): Promise<number> {
  const { every, offset = 0, quiet } = line.values;
  if (every === undefined || every < 1000) throw usage('once: --every takes a duration of at least 1s, and is needed');
  const [key] = line.operands as [string];
  return underLock(line, async ({ withLock }, execute, { wait }) => {
    const result = await withLock.once(key, { every, offset }, async (lease) => {
      wait.throwIfAborted();
      return execute(lease);
    });
    if (result.ran) return result.value;
    const until = new Date(result.slot.end).toISOString();
    const how = result.reason === 'done' ? 'has run in this slot' : 'is running';
    if (!quiet) note(`${key} ${how}: the next slot begins at ${until}`);
    return 0;
  });
}

/** Runs a command in each term of leadership. @returns the exit code of the first command that ends without a loss of its term. */
export async function elect(line: CommandLine): Promise<number> {
  const [name] = line.operands as [string];
  return underLock(line, async ({ options, closing }, execute, { wait }) => {
    const election = closing(new Election(name, { ...options, id: label() }));
    const lead = async (term: Term): Promise<number> => {
      if (wait.aborted) return (wait.reason as Exit).code;
      if (line.values.verbose) note(`leading ${name} (term ${term.fence})`);
      // While the command runs, signals reach it alone, so that only a loss aborts the term.
      return execute(term);
    };
    return (await election.lead(lead, { signal: wait })) ?? exitCodes.lost;
  });
}
