// One open table: a file of SQLite with a row for each lock. Nothing is synced to disk. The rows live in the kernel's memory:
// they outlive every process, and need not outlive the kernel.
//
// Beside the file are its log (-wal) and that log's index (-shm). SQLite keeps all three while anybody has the table open, so a
// missing one was deleted underneath us.
import { rmSync, statSync } from 'node:fs';
import { LockBackendError } from '../../../core/errors';
import type { Publish } from '../machine/command';
import { Machine } from '../machine/mutex-machine';
import { isSpare, type LockRow, newRow, type Rows } from '../machine/row';
import { hostClock } from './clock';
import { Database } from './sqlite';

/** The version of the rows' text. A table of another version is refused. */
const format = 3;
/** The space for the rows. */
const maxBytes = 32 * 2 ** 20;
const pageBytes = 4096;
/** Twice the space of the rows, for the writes that a full table must still be able to do. */
const maxPages = (2 * maxBytes) / pageBytes;
const setUp = `PRAGMA page_size = ${pageBytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA max_page_count = ${maxPages}`;
/** The number of new rows between two measurements of the table; measuring costs more than a row. */
const measureEvery = 64;
/** The size below which nothing is swept. */
const smallestSweepBytes = 2 ** 20;
/** The time after a sweep in which even a full table is not swept again. */
const sweepEveryMs = 100;
const checkCompanionsMs = 100;

const companions = ['-wal', '-shm'];

export class TableFile {
  readonly path: string;
  /** Added to the host's clock, so that fences are about as large as those of Redis, and those of the next boot are larger. */
  readonly baseMicros: number;
  readonly #database: Database;
  readonly #rows: TextRows;
  readonly #machine: Machine;
  /** The inodes of the file and its companions. */
  readonly #inodes: readonly (number | undefined)[];
  #companionsAtMs = 0;
  #newRows = 0;
  #bytes = 0;
  #sweepAtBytes = smallestSweepBytes;
  #sweepAtMs = 0;

  /**
   * @param baseMicros For a new table: the base of the table that it replaces.
   * @throws {LockBackendError} the table cannot be opened.
   */
  constructor(path: string, publish: Publish, baseMicros = Date.now() * 1000 - hostClock().micros()) {
    this.path = path;
    removeOrphans(path);
    const database = new Database(path);
    this.#database = database;
    try {
      database.exec(setUp);
      [this.baseMicros, this.#rows] = database.transaction(() => [this.#introduce(baseMicros), new TextRows(database)]);
      this.#machine = new Machine(publish, this.#rows);
      this.#inodes = ['', ...companions].map((each) => inodeOf(path + each));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /**
   * True while the file is there. False: the file was deleted, and other processes find another table under its name, or will.
   * If a table lost its log or index, the rest is removed, so that all its users begin anew together.
   */
  isThere(): boolean {
    const [file, ...others] = this.#inodes;
    if (inodeOf(this.path) !== file) return false;
    const nowMs = performance.now();
    if (nowMs < this.#companionsAtMs) return true;
    this.#companionsAtMs = nowMs + checkCompanionsMs;
    if (companions.every((each, n) => inodeOf(this.path + each) === others[n])) return true;
    remove(this.path);
    return false;
  }

  /** Runs `work` and keeps its changes. If `work` throws, or if there is no room, nothing is changed. */
  run<T>(work: (machine: Machine, micros: number) => T): T {
    // H50b
    return this.#database.transaction(() => {
      this.#rows.begin();
      const micros = this.baseMicros + hostClock().micros(); // read here: waiting for the write lock takes time
      const done = work(this.#machine, micros);
      if (this.#rows.write(micros)) this.#makeRoom(micros);
      return done;
    });
  }

  close(): void {
    this.#database.close();
  }

  #introduce(ours: number): number {
    this.#database
      .prepare('CREATE TABLE IF NOT EXISTS about (format INTEGER, baseMicros INTEGER, fence INTEGER)')
      .run();
    const about = this.#database.prepare('SELECT format, baseMicros FROM about').get();
    if (about === undefined) {
      this.#database.prepare('CREATE TABLE locks (key BLOB PRIMARY KEY, row TEXT NOT NULL) WITHOUT ROWID').run();
      this.#database.prepare('INSERT INTO about VALUES (?, ?, 0)').run(format, ours);
      return ours;
    }
    if (about.format === format) return about.baseMicros as number;
    const message = `the table ${this.path} is of format ${about.format}; this version of redis-exp-lock knows ${format}`;
    throw new LockBackendError(message, { redisCode: 'VERSION', retryable: false });
  }

  /** Sweeps spare rows after a new row was written, if the table is large. Throws if there is no room, which undoes the command. */
  #makeRoom(micros: number): void {
    this.#newRows += 1;
    if (this.#bytes < maxBytes && this.#newRows % measureEvery !== 0) return;
    this.#bytes = this.#rows.usedBytes();
    if (this.#bytes >= this.#sweepAtBytes && performance.now() >= this.#sweepAtMs) {
      this.#rows.sweep(micros);
      this.#bytes = this.#rows.usedBytes();
      this.#sweepAtBytes = Math.min(Math.max(smallestSweepBytes, 2 * this.#bytes), maxBytes);
      this.#sweepAtMs = performance.now() + sweepEveryMs;
    }
    if (this.#bytes < maxBytes) return;
    const message = `the table ${this.path} is full (${maxBytes / 2 ** 20} MiB): no lock was dropped, none is granted`;
    throw new LockBackendError(message, { redisCode: 'FULL' }); // H50
  }
}

/** The inode of a file; undefined if the file does not exist or may not be seen. */
function inodeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino;
  } catch {
    return undefined;
  }
}

/**
 * Removes a log or an index without its file, which belongs to a deleted table. SQLite makes the file first: so a companion
 * that was there before the file was found missing is an orphan, and a companion that another process makes meanwhile is not
 * touched.
 */
function removeOrphans(path: string): void {
  const orphans = companions.map((each) => ({ file: path + each, inode: inodeOf(path + each) }));
  if (inodeOf(path) !== undefined) return;
  for (const { file, inode } of orphans) if (inode !== undefined && inodeOf(file) === inode) remove(file);
}

/** Removes a file if that is possible. Never fails. */
export function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {} // opening a table will report the cause
}

/** The rows that one command touches, which are read as text, and written back if their text has changed. */
class TextRows implements Rows {
  readonly #statements: ReturnType<typeof statementsOn>;
  readonly #touched = new Map<string, { readonly row: LockRow; readonly text: string | undefined }>();
  #fence: number | undefined;

  constructor(database: Database) {
    this.#statements = statementsOn(database);
  }

  begin(): void {
    this.#touched.clear();
    this.#fence = undefined;
  }

  get fence(): number {
    this.#fence ??= this.#statements.getFence.get()!.fence as number;
    return this.#fence;
  }

  set fence(fence: number) {
    this.#fence = fence;
    this.#statements.putFence.run(fence);
  }

  row(key: string): LockRow {
    const touched = this.#touched.get(key);
    if (touched !== undefined) return touched.row;
    const text = this.#statements.get.get(Buffer.from(key))?.row as string | undefined;
    const row: LockRow = text === undefined ? newRow(key) : JSON.parse(text);
    this.#touched.set(key, { row, text });
    return row;
  }

  /** Writes the changed rows. True: the table has more rows than before. */
  write(micros: number): boolean {
    const { put, remove } = this.#statements;
    let isMore = false;
    for (const [key, { row, text }] of this.#touched) {
      const newText = isSpare(row, micros) ? undefined : JSON.stringify(row);
      if (newText === text) continue;
      if (newText === undefined) remove.run(Buffer.from(key));
      else put.run(Buffer.from(key), newText);
      isMore ||= text === undefined;
    }
    return isMore;
  }

  keys(): string[] {
    return this.#statements.keys.all().map(({ key }) => Buffer.from(key as Uint8Array).toString());
  }

  /** The space of the rows, without pages that are free again. */
  usedBytes(): number {
    return (this.#statements.usedPages.get()!.used as number) * pageBytes;
  }

  /** Removes spare rows, in pieces: nobody wants to hold a full table in memory twice. */
  sweep(micros: number): void {
    let last: Uint8Array | undefined = Buffer.alloc(0);
    while (last !== undefined) {
      const piece = this.#statements.after.all(last);
      for (const { key, row } of piece) {
        if (isSpare(JSON.parse(row as string), micros)) this.#statements.remove.run(key!);
      }
      last = piece.at(-1)?.key as Uint8Array | undefined;
    }
  }
}

function statementsOn(database: Database) {
  return {
    get: database.prepare('SELECT row FROM locks WHERE key = ?'),
    put: database.prepare('INSERT INTO locks VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row'),
    remove: database.prepare('DELETE FROM locks WHERE key = ?'),
    keys: database.prepare('SELECT key FROM locks'),
    after: database.prepare('SELECT key, row FROM locks WHERE key > ? ORDER BY key LIMIT 256'),
    getFence: database.prepare('SELECT fence FROM about'),
    putFence: database.prepare('UPDATE about SET fence = ?'),
    usedPages: database.prepare(
      'SELECT page_count - freelist_count AS used FROM pragma_page_count, pragma_freelist_count',
    ),
  };
}
