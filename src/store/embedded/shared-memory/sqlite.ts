// The engine of shared memory: SQLite, as this runtime has it. Node from 22.13, Bun and Deno have it built in as `node:sqlite`;
// an older Node uses better-sqlite3, which its user installs. Both have the few methods that are used here.
//
// A transaction begins by taking the one write lock of the file. SQLite's own wait for this lock has no good bound and sleeps
// in steps that grow, so SQLite is told not to wait, and the bound is ours. A process that stands still in the middle of a
// write, or a thread that was ended there, costs every other thread one second, once: until that thread can write again, its
// calls hardly wait. The kernel and SQLite take the lock back from the dead.
//
// Invariant: an error of the engine never leaves this file; only a LockBackendError does, with the engine's error as its cause.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { LockBackendError } from '../../../core/errors';

type SqlValue = string | number | Uint8Array;
type SqlRow = Readonly<Record<string, SqlValue>>;

interface Engine {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  close(): unknown;
}

interface Statement {
  run(...values: readonly SqlValue[]): unknown;
  get(...values: readonly SqlValue[]): SqlRow | undefined;
  all(...values: readonly SqlValue[]): SqlRow[];
}

type Open = (file: string) => Engine;

/** The time for which a call blocks its thread for the write lock before it fails; and the time for a call that follows such a failure. */
const maxWaitMs = 1000;
const waitWhileStuckMs = 5;
/** The files whose write lock this thread has waited for in vain, and has not had since. */
const stuck = new Set<string>();
/** The number of attempts without a pause; after them this thread sleeps between the attempts. */
const spins = 8;
const napMs = { first: 0.05, longest: 1 };

/** The time of the real clock, even if a test replaces the clock. */
const nowMs = performance.now.bind(performance);
const napping = new Int32Array(new SharedArrayBuffer(4));

let engine: Open | undefined;

/** An open file of SQLite: one connection of this thread. */
export class Database {
  readonly #file: string;
  readonly #engine: Engine;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #rollBack: Statement;

  /** @throws {LockBackendError} this runtime has no SQLite, or the file cannot be opened. */
  constructor(file: string) {
    const open = sqliteEngine();
    this.#file = file;
    this.#engine = patiently(file, () => open(file));
    this.#engine.exec('PRAGMA busy_timeout = 0'); // H73
    this.#begin = this.#engine.prepare('BEGIN IMMEDIATE'); // H74
    this.#commit = this.#engine.prepare('COMMIT'); // H74b
    this.#rollBack = this.#engine.prepare('ROLLBACK'); // H74c
  }

  /** Waits for others: only one connection may switch a new file to its mode, and the last one to close a file is alone as well. */
  exec(sql: string): void {
    patiently(this.#file, () => this.#engine.exec(sql));
  }

  /**
   * Runs `work` in a transaction: no other process or thread sees it half done, and if it throws, nothing of it remains.
   *
   * @throws {LockBackendError} others were writing for a second, or have been since a call that waited in vain for a second; or
   * the engine refused: nothing was changed.
   */
  transaction<T>(work: () => T): T {
    patiently(this.#file, () => this.#begin.run()); // H52
    stuck.delete(this.#file);
    // H52b
    try {
      const result = work();
      this.#commit.run();
      return result;
    } catch (error) {
      try {
        this.#rollBack.run();
      } catch {} // after some errors the engine has rolled back by itself, and there is nothing to undo
      throw isOfEngine(error) ? backendError(this.#file, error) : error;
    }
  }

  /** Prepares a statement, within a transaction; it may run in later transactions too. */
  prepare(sql: string): Statement {
    return this.#engine.prepare(sql);
  }

  /** Closes the connection and never fails: a connection that could not be closed is closed with this thread. */
  close(): void {
    try {
      this.#engine.close();
    } catch {}
  }
}

/** The engine, which is found when it is first used, and not before. @throws {LockBackendError} this runtime has none. */
export function sqliteEngine(): Open {
  engine ??= builtInSqlite() ?? installedSqlite();
  return engine;
}

function installedSqlite(): Open {
  // A bundler that does not follow this call need not find the package either.
  const requireHere = createRequire(typeof __filename === 'string' ? __filename : join(process.cwd(), 'index.js'));
  try {
    const { version } = requireHere('better-sqlite3/package.json');
    // Later versions are made for Node 22, and end a process of Node 20 with a segmentation fault.
    if (Number.parseInt(version, 10) > 12) throw new Error(`better-sqlite3 ${version} is not made for this Node`);
    const Sqlite = requireHere('better-sqlite3');
    return (file) => new Sqlite(file);
  } catch (cause) {
    const message =
      'sharedMemoryStore and HostLock need SQLite: use Node 22.13 or later, which has it, or npm install better-sqlite3@12';
    throw new LockBackendError(message, { cause, retryable: false });
  }
}

/** The built-in engine. Its warning that SQLite is experimental is suppressed: somebody who takes a lock cannot act on it. */
function builtInSqlite(): Open | undefined {
  const { emitWarning } = process;
  process.emitWarning = (...args: any[]) => {
    if (!/SQLite is an experimental feature/.test(String(args[0]))) Reflect.apply(emitWarning, process, args);
  };
  try {
    const builtIn = (process as { getBuiltinModule?(name: string): any }).getBuiltinModule?.('node:sqlite');
    return builtIn && ((file) => new builtIn.DatabaseSync(file));
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Tries again while another connection has the lock: at first without a pause, then after short sleeps of this thread. */
function patiently<T>(file: string, attempt: () => T): T {
  let untilMs = 0;
  let sleepMs = napMs.first;
  for (let tries = 1; ; tries++) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw backendError(file, error); // H74d
      untilMs ||= nowMs() + (stuck.has(file) ? waitWhileStuckMs : maxWaitMs);
      if (nowMs() >= untilMs) throw busyError(file, error); // H73b
      if (tries < spins) continue;
      Atomics.wait(napping, 0, 0, sleepMs);
      sleepMs = Math.min(2 * sleepMs, napMs.longest);
    }
  }
}

const results: Readonly<Record<number, string>> = {
  5: 'BUSY',
  6: 'LOCKED',
  11: 'CORRUPT',
  13: 'FULL',
  15: 'PROTOCOL',
  26: 'NOTADB',
};

/** SQLite's own name of the error, as far as it matters here: from its number in `node:sqlite`, from its name in better-sqlite3. */
function resultOf(error: unknown): string | undefined {
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === 'number') return results[errcode & 0xff];
  return /^SQLITE_([A-Z]+)/.exec(String(code))?.[1];
}

/** True for an error of the engine, which has a code. Errors of the machine have none. */
function isOfEngine(error: unknown): boolean {
  return !(error instanceof LockBackendError) && (error as { code?: unknown }).code !== undefined;
}

function isBusy(error: unknown): boolean {
  return ['BUSY', 'LOCKED', 'PROTOCOL'].includes(resultOf(error) ?? ''); // H52c
}

function busyError(file: string, cause: unknown): LockBackendError {
  stuck.add(file);
  const message = `the table ${file} was being written by another process or thread for ${maxWaitMs} ms, which may stand still: nothing was changed`;
  return new LockBackendError(message, { cause, redisCode: 'BUSY' });
}

function backendError(file: string, cause: unknown): LockBackendError {
  const { message } = cause as Error;
  const result = resultOf(cause);
  if (result === 'FULL') {
    return new LockBackendError(`the table ${file} has no room: ${message}`, { cause, redisCode: 'FULL' });
  }
  if (result === 'CORRUPT' || result === 'NOTADB') {
    const damaged = `the table ${file} is damaged (${message}): delete it, with every lock in it, to begin anew`;
    return new LockBackendError(damaged, { cause, redisCode: 'CORRUPT', retryable: false });
  }
  return new LockBackendError(`the table ${file} cannot be read or written: ${message}`, { cause });
}
