// The engine of shared memory: SQLite, as this runtime brings it. Node from 22.13, Bun and Deno have it built in as
// `node:sqlite`; an older Node takes better-sqlite3, which its user installs. Both have the same few methods that are used here.
//
// A transaction begins by taking the one write lock of the file. SQLite's own wait for it knows no good bound and sleeps in
// steps that grow, so it is told not to wait, and the bound is ours: a process that stands still in the middle of a write, or
// a thread that was ended there, costs every other thread a second, once: until it can write again, its calls hardly wait. The
// kernel and SQLite take the lock back from the dead.
//
// Invariant: an error of the engine never leaves this file, only a LockBackendError with the engine's as its cause.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { LockBackendError } from '../../core/errors';

export type SqlValue = string | number | Uint8Array;
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** What is used of an engine. */
interface Engine {
  exec(sql: string): unknown;
  prepare(sql: string): EngineStatement;
  close(): unknown;
}

interface EngineStatement {
  run(...values: readonly SqlValue[]): unknown;
  get(...values: readonly SqlValue[]): unknown;
  all(...values: readonly SqlValue[]): unknown[];
}

type Open = (file: string) => Engine;

/** How long a call blocks its thread for the write lock before it fails; and how long one that follows such a call. */
const maxWaitMs = 1000;
const waitWhileStuckMs = 5;
/** The files whose write lock this thread has waited for in vain, and not had since. */
const stuck = new Set<string>();
/** So often it is asked for at once; then this thread sleeps between the attempts. */
const spins = 8;
const napMs = { first: 0.05, longest: 1 };

/** Of the real clock, whatever a test puts in its place. */
const nowMs = performance.now.bind(performance);
const napping = new Int32Array(new SharedArrayBuffer(4));

let engine: Open | undefined;

/** An open file of SQLite: one connection of this thread. */
export class Database {
  readonly #file: string;
  readonly #engine: Engine;
  readonly #begin: EngineStatement;
  readonly #commit: EngineStatement;
  readonly #rollBack: EngineStatement;

  /**
   * @param setUp SQL that each connection runs first.
   * @throws {LockBackendError} this runtime has no SQLite, or the file cannot be opened.
   */
  constructor(file: string, setUp: string) {
    engine ??= findEngine();
    const open = engine;
    this.#file = file;
    this.#engine = guarded(file, () => open(file));
    try {
      // Only one connection may turn a new file to its mode; the last to close one is alone as well.
      patiently(file, () => this.#engine.exec(`PRAGMA busy_timeout = 0; ${setUp}`)); // H73
      [this.#begin, this.#commit, this.#rollBack] = guarded(file, () => [
        this.#engine.prepare('BEGIN IMMEDIATE'), // H74
        this.#engine.prepare('COMMIT'), // H74b
        this.#engine.prepare('ROLLBACK'), // H74c
      ]);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /**
   * Does some work that no other process or thread sees half done, and none of it where it throws.
   *
   * @throws {LockBackendError} others were writing for a second, or since a call that waited so long; or the engine refused:
   *         nothing was changed.
   */
  transaction<T>(work: () => T): T {
    patiently(this.#file, () => this.#begin.run()); // H52
    stuck.delete(this.#file);
    // H52b
    try {
      const result = work();
      guarded(this.#file, () => this.#commit.run());
      return result;
    } catch (error) {
      this.#undo();
      throw error;
    }
  }

  prepare(sql: string): Statement {
    return new Statement(
      this.#file,
      guarded(this.#file, () => this.#engine.prepare(sql)),
    );
  }

  /** Never fails: what could not be closed is closed with this thread. */
  close(): void {
    try {
      this.#engine.close();
    } catch {}
  }

  /** After some errors the engine has done so by itself, and says that there is nothing to undo. */
  #undo(): void {
    try {
      this.#rollBack.run();
    } catch {}
  }
}

export class Statement {
  readonly #file: string;
  readonly #statement: EngineStatement;

  constructor(file: string, statement: EngineStatement) {
    this.#file = file;
    this.#statement = statement;
  }

  run(...values: readonly SqlValue[]): void {
    guarded(this.#file, () => this.#statement.run(...values));
  }

  get(...values: readonly SqlValue[]): SqlRow | undefined {
    return guarded(this.#file, () => this.#statement.get(...values)) as SqlRow | undefined;
  }

  all(...values: readonly SqlValue[]): SqlRow[] {
    return guarded(this.#file, () => this.#statement.all(...values)) as SqlRow[];
  }
}

/** Why this runtime has no engine; undefined: it has one. */
export function missingEngine(): LockBackendError | undefined {
  try {
    engine ??= findEngine();
    return undefined;
  } catch (error) {
    return error as LockBackendError;
  }
}

/** When it is used, and not before. */
function findEngine(): Open {
  const builtIn = builtInSqlite();
  if (builtIn !== undefined) return (file) => new builtIn.DatabaseSync(file);
  // A bundler that does not follow this need not find the package either.
  const requireHere = createRequire(typeof __filename === 'string' ? __filename : join(process.cwd(), 'index.js'));
  try {
    const { version } = requireHere('better-sqlite3/package.json');
    // Later ones are made for Node 22, and end a process of Node 20 with a segmentation fault.
    if (Number.parseInt(version, 10) > 12) throw new Error(`better-sqlite3 ${version} is not made for this Node`);
    const Sqlite = requireHere('better-sqlite3');
    return (file) => new Sqlite(file);
  } catch (cause) {
    const message =
      'sharedMemoryStore and HostLock need SQLite: use Node 22.13 or later, which has it, or npm install better-sqlite3@12';
    throw new LockBackendError(message, { cause, retryable: false });
  }
}

/** Where it is called experimental, loading it warns of that. Nobody who takes a lock can do anything about it. */
function builtInSqlite(): { DatabaseSync: new (file: string) => Engine } | undefined {
  const { emitWarning } = process;
  process.emitWarning = (...args: any[]) => {
    if (!/SQLite is an experimental feature/.test(String(args[0]))) Reflect.apply(emitWarning, process, args);
  };
  try {
    return (process as { getBuiltinModule?(name: string): any }).getBuiltinModule?.('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Tries again while another connection has the lock: at once, then after short sleeps of this thread. */
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

function guarded<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw backendError(file, error);
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

/** SQLite's own name of what went wrong, as far as it matters here: by number in `node:sqlite`, by name in better-sqlite3. */
function resultOf(error: unknown): string | undefined {
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === 'number') return results[errcode & 0xff];
  return /^SQLITE_([A-Z]+)/.exec(String(code))?.[1];
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
  switch (resultOf(cause)) {
    case 'FULL':
      return new LockBackendError(`the table ${file} has no room: ${message}`, { cause, redisCode: 'FULL' });
    case 'CORRUPT':
    case 'NOTADB': {
      const remedy = 'delete it, with every lock in it, to begin anew';
      const details = { cause, redisCode: 'CORRUPT', retryable: false };
      return new LockBackendError(`the table ${file} is damaged (${message}): ${remedy}`, details);
    }
    default:
      return new LockBackendError(`the table ${file} cannot be read or written: ${message}`, { cause });
  }
}
