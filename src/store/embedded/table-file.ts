// One open table: a file of SQLite with a row for each lock. Nothing is synced to disk: what is written lives in the kernel,
// so it outlives every process, and need not outlive the kernel.
//
// Beside the file are its log (-wal) and that log's index (-shm). SQLite keeps all three for as long as anybody has the table
// open, so one that is not there was deleted underneath us.
import { rmSync, statSync } from 'node:fs';
import { LockBackendError } from '../../core/errors';
import { hostClock } from './clock';
import { isSpare, type LockRow, type Rows } from './row';
import { Database, type Statement } from './sqlite';

/** Of the rows' text. Another version's table is refused. */
const format = 3;
/** What the rows may take. */
const maxBytes = 32 * 2 ** 20;
const pageBytes = 4096;
/** Twice the space of the rows, for what a full table must still be able to do. */
const maxPages = (2 * maxBytes) / pageBytes;
const setUp = `PRAGMA page_size = ${pageBytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA max_page_count = ${maxPages}`;
/** So many new rows go by before the table is measured again; measuring costs more than a row. */
const measureEvery = 64;
/** Below that nothing is swept. */
const smallestSweepBytes = 2 ** 20;
/** A full table checks again this often for what it may drop. */
const fullSweepMs = 100;
const checkCompanionsMs = 100;

const companions = ['-wal', '-shm'];

export class TableFile {
  readonly path: string;
  /** Added to the host's clock: fences are about as large as those of Redis, and those of the next boot larger. */
  readonly baseMicros: number;
  readonly rows: TextRows;
  readonly #database: Database;
  readonly #pages: Statement;
  readonly #freePages: Statement;
  /** Of the file and its companions. */
  readonly #inodes: readonly (number | undefined)[];
  #companionsAtMs = 0;
  #newRows = 0;
  #isFull = false;
  #fullSweepAtMs = 0;
  #sweepAtBytes = smallestSweepBytes;

  /**
   * @param baseMicros For a table that is new: that of the one it replaces.
   * @throws {LockBackendError} it cannot be opened.
   */
  constructor(path: string, baseMicros = Date.now() * 1000 - hostClock().micros()) {
    this.path = path;
    removeOrphans(path);
    this.#database = new Database(path, setUp);
    try {
      this.baseMicros = this.#database.transaction(() => this.#introduce(baseMicros));
      this.#pages = this.#database.prepare('PRAGMA page_count');
      this.#freePages = this.#database.prepare('PRAGMA freelist_count');
      this.rows = new TextRows(this.#database);
      this.#inodes = ['', ...companions].map((each) => inodeOf(path + each));
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  /** Microseconds, base included. */
  micros(): number {
    return this.baseMicros + hostClock().micros();
  }

  /**
   * False: the table was deleted, and what another process finds under its name is another one, or will be. Of a table that
   * lost its log or index the rest is removed, so that all who have it open begin anew together.
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

  /** Does some work on the rows and keeps what it changed; nothing of it where it throws, or where there is no room. */
  write<T>(work: (micros: number) => T): T {
    // H50b
    return this.#database.transaction(() => {
      this.rows.begin();
      const micros = this.micros(); // read here: waiting for our turn takes time
      const done = work(micros);
      if (this.rows.write(micros)) this.#makeRoom(micros);
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

  /** A new row was written. Drops what is spare when there is much of it; undoes the command when there is no room. */
  #makeRoom(micros: number): void {
    this.#newRows += 1;
    if (!this.#isFull && this.#newRows % measureEvery !== 0) return;
    let bytes = this.#bytes();
    this.#isFull = bytes >= maxBytes;
    const isDue = this.#isFull ? performance.now() >= this.#fullSweepAtMs : bytes >= this.#sweepAtBytes;
    if (isDue) {
      this.rows.sweep(micros);
      bytes = this.#bytes();
      this.#isFull = bytes >= maxBytes;
      this.#fullSweepAtMs = performance.now() + fullSweepMs;
      this.#sweepAtBytes = Math.max(smallestSweepBytes, 2 * bytes);
    }
    if (!this.#isFull) return;
    const message = `the table ${this.path} is full (${maxBytes / 2 ** 20} MiB): no lock was dropped, none is granted`;
    throw new LockBackendError(message, { redisCode: 'FULL' }); // H50
  }

  /** What the rows take; pages that are free again do not count. */
  #bytes(): number {
    const used = (this.#pages.get()!.page_count as number) - (this.#freePages.get()!.freelist_count as number);
    return used * pageBytes;
  }
}

/** undefined: it is not there, or may not be seen. */
function inodeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino;
  } catch {
    return undefined;
  }
}

/**
 * A log or an index without its file is of a table that was deleted. The file is made first: what was there before the file
 * was missing is an orphan, and what another process makes meanwhile is not touched.
 */
function removeOrphans(path: string): void {
  const inodes = companions.map((each) => inodeOf(path + each));
  if (inodeOf(path) !== undefined) return;
  for (const [n, each] of companions.entries()) {
    if (inodes[n] !== undefined && inodeOf(path + each) === inodes[n]) remove(path + each);
  }
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {} // opening the table will say why
}

/** The rows that one command touches, read as text and written back where they are another text then. */
class TextRows implements Rows {
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #remove: Statement;
  readonly #keys: Statement;
  readonly #after: Statement;
  readonly #getFence: Statement;
  readonly #putFence: Statement;
  #fence: number | undefined;
  #isFenceNew = false;
  readonly #touched = new Map<string, { readonly row: LockRow; readonly text: string | undefined }>();

  constructor(database: Database) {
    this.#get = database.prepare('SELECT row FROM locks WHERE key = ?');
    this.#put = database.prepare('INSERT INTO locks VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row');
    this.#remove = database.prepare('DELETE FROM locks WHERE key = ?');
    this.#keys = database.prepare('SELECT key FROM locks');
    this.#getFence = database.prepare('SELECT fence FROM about');
    this.#putFence = database.prepare('UPDATE about SET fence = ?');
    this.#after = database.prepare('SELECT key, row FROM locks WHERE key > ? ORDER BY key LIMIT 256');
  }

  begin(): void {
    this.#touched.clear();
    this.#fence = undefined;
    this.#isFenceNew = false;
  }

  get fence(): number {
    this.#fence ??= this.#getFence.get()!.fence as number;
    return this.#fence;
  }

  set fence(fence: number) {
    this.#fence = fence;
    this.#isFenceNew = true;
  }

  get(key: string): LockRow | undefined {
    const touched = this.#touched.get(key);
    if (touched !== undefined) return touched.row;
    const text = this.#get.get(Buffer.from(key))?.row as string | undefined;
    if (text === undefined) return undefined;
    const row = rowOf(text);
    this.#touched.set(key, { row, text });
    return row;
  }

  set(key: string, row: LockRow): void {
    this.#touched.set(key, { row, text: undefined });
  }

  /** True: the table has more rows than before. */
  write(micros: number): boolean {
    let isMore = false;
    if (this.#isFenceNew) this.#putFence.run(this.#fence!);
    for (const [key, { row, text }] of this.#touched) {
      if (isSpare(row, micros)) {
        if (text !== undefined) this.#remove.run(Buffer.from(key));
        continue;
      }
      const newText = JSON.stringify(row);
      if (newText === text) continue;
      this.#put.run(Buffer.from(key), newText);
      isMore ||= text === undefined;
    }
    return isMore;
  }

  keys(): string[] {
    return this.#keys.all().map(({ key }) => Buffer.from(key as Uint8Array).toString());
  }

  /** In pieces: a full table is larger than anybody wants to hold twice. */
  sweep(micros: number): void {
    let last: Uint8Array = Buffer.alloc(0);
    for (;;) {
      const piece = this.#after.all(last);
      if (piece.length === 0) return;
      for (const { key, row } of piece) if (isSpare(rowOf(row as string), micros)) this.#remove.run(key!);
      last = piece.at(-1)!.key as Uint8Array;
    }
  }
}

function rowOf(text: string): LockRow {
  return { token: undefined, ...JSON.parse(text) };
}
