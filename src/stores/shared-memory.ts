// The shared-memory store: the machine on a table that all processes of this host share, a memory-mapped file of `lmdb`.
//
// A command is one write transaction: the kernel lets one process at a time run one, and takes the turn back from a process
// that was killed in it, whose half-made changes nobody ever sees. Nothing is synced to disk: the pages live in the kernel,
// so they outlive every process, and need not outlive the kernel. Each boot has a file of its own, so that nothing of the last
// one is ever read.
//
// Time is the kernel's monotonic clock, which all processes share and nobody can set; the first to open a table writes down
// which wall-clock time belongs to it, and fences count from there.
//
// Invariant: a row is dropped only when nobody would miss it. A full table refuses.
import { createHash } from 'node:crypto';
import { readdirSync, unlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { LockBackendError, optionError } from '../errors';
import type { Listening } from '../store';
import { closedStore, type EmbeddedStore, standFor, type Table } from './embedded';
import { WakeUps } from './embedded/sockets';
import { bootId, machineMicros, privateFolder } from './host';
import { isSpare, limits, Machine, type Row, type Rows } from './machine';

/** Of the rows' text. Another version's table is refused. */
const format = 1;
/** What the rows may take. */
const mostBytes = 32 * 2 ** 20;
/** Half of the map stays free for what a full table must still be able to do. */
const mapBytes = 2 * mostBytes;
/** So many new rows go by before the table is measured again; measuring costs more than a row. */
const measureEvery = 64;
/** Below that nothing is swept. */
const smallestSweepBytes = 2 ** 20;
/** A full table looks again this often for what it may drop. */
const fullSweepMs = 100;
const longestName = 128;
const suffix = '.mdb';

/** What we use of lmdb. */
interface Lmdb {
  open(options: object): Database;
}

interface Database {
  transactionSync<T>(work: () => T): T;
  get(key: Buffer): string | undefined;
  putSync(key: Buffer, text: string): unknown;
  removeSync(key: Buffer): unknown;
  getRange(range: { start: Buffer; end: Buffer; snapshot: boolean }): Iterable<{ key: Buffer; value: string }>;
  getStats(): object;
  readerCheck(): number;
  close(): Promise<void>;
}

/** What a table remembers of itself. */
interface About {
  readonly format: number;
  /** Added to the machine's clock: fences are about as large as those of Redis, and those of the next boot larger. */
  readonly baseMicros: number;
}

/** Open tables of this process, by file. */
const open = new Map<string, SharedTable>();

/**
 * A place for locks that all processes of this host share which belong to the same user and give the same name. Each call is
 * a way in of its own, to be closed by its owner.
 *
 * @param name 1 to 128 characters; it must not be able to lead anywhere else.
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: no such name.
 * @throws {LockBackendError} `lmdb` is not installed, or the table cannot be opened: the message says what to do.
 */
export function sharedMemoryStore(name: string): EmbeddedStore {
  checkName(name);
  const table = openTable(name);
  let way: Table | undefined = table;
  let closing: Promise<void> | undefined;
  const through = (): Table => {
    if (way === undefined) throw closedStore();
    return way;
  };
  const handle: EmbeddedStore = {
    kind: 'shared-memory',
    close() {
      way = undefined;
      closing ??= table.part();
      return closing;
    },
  };
  return standFor(handle, {
    run: (work) => through().run(work),
    listen: async (channel, onMessage) => through().listen(channel, onMessage),
    keys: () => through().keys(),
  });
}

function checkName(name: unknown): asserts name is string {
  const expected = `a name of 1 to ${longestName} characters that stays where it is put: no slash, no control character, not "." or ".."`;
  if (typeof name !== 'string') throw optionError('name', expected, name);
  const leads = /[\p{Cc}/\\]/u.test(name) || name === '.' || name === '..' || !name.isWellFormed();
  if (name === '' || name.length > longestName || leads) throw optionError('name', expected, name, 'range');
}

function openTable(name: string): SharedTable {
  const lmdb = loadLmdb();
  const folder = privateFolder();
  const file = join(folder, fileOf(name));
  let table = open.get(file);
  if (table === undefined) {
    try {
      table = new SharedTable(lmdb, folder, file);
    } catch (error) {
      if (error instanceof LockBackendError) throw error;
      throw new LockBackendError(`the table ${file} cannot be opened: ${(error as Error).message}`, { cause: error });
    }
    open.set(file, table);
  }
  table.join();
  return table;
}

function loadLmdb(): Lmdb {
  try {
    // A bundler that does not follow this need not find the package either.
    return createRequire(typeof __filename === 'string' ? __filename : join(process.cwd(), 'index.js'))('lmdb');
  } catch (cause) {
    const message = 'sharedMemoryStore and HostLock need the package lmdb: npm install lmdb';
    throw new LockBackendError(message, { cause, retryable: false });
  }
}

/** The hash tells names apart that look alike in a file system; the boot id, tables of this boot from older ones. */
function fileOf(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return `${name.replace(/[^\w-]/g, '_').slice(0, 40)}-${hash}.${bootId()}${suffix}`;
}

/** MDB_BAD_TXN. */
const badTransaction = -30_782;
const mostTries = 3;

class SharedTable implements Table {
  readonly #file: string;
  readonly #database: Database;
  readonly #rows: TextRows;
  readonly #machine: Machine;
  readonly #wakeUps: WakeUps;
  readonly #baseMicros: number;
  #messages: [channel: string, text: string][] = [];
  #users = 0;
  #newRows = 0;
  #isFull = false;
  #fullSweepAtMs = 0;
  #sweepAtBytes = smallestSweepBytes;

  constructor(lmdb: Lmdb, folder: string, file: string) {
    removeOfOtherBoots(folder);
    this.#file = file;
    this.#database = lmdb.open({
      path: file,
      noSubdir: true,
      noSync: true,
      noMetaSync: true,
      overlappingSync: false,
      eventTurnBatching: false,
      mapSize: mapBytes,
      maxReaders: 1024,
      keyEncoding: 'binary',
      encoding: 'string',
    });
    this.#database.readerCheck(); // whoever was killed would keep old pages from being used again
    this.#baseMicros = this.#database.transactionSync(() => this.#introduce());
    this.#rows = new TextRows(this.#database);
    const publish = (channel: string, id: string, key: string) => this.#messages.push([channel, `${id} ${key}`]);
    this.#machine = new Machine(publish, limits, this.#rows);
    this.#wakeUps = new WakeUps(folder);
  }

  join(): void {
    this.#users += 1;
  }

  async part(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    open.delete(this.#file);
    this.#wakeUps.close();
    await this.#database.close();
  }

  run<T>(work: (machine: Machine, micros: number) => T): T {
    const result = this.#transact(() => {
      this.#messages = [];
      this.#rows.begin();
      const micros = this.#baseMicros + machineMicros(); // read here: waiting for our turn takes time
      const done = work(this.#machine, micros);
      if (this.#rows.write(micros)) this.#makeRoom(micros);
      return done;
    });
    // Only now can those who are told of a grant see it.
    for (const [channel, text] of this.#messages) this.#wakeUps.tell(channel, text);
    return result;
  }

  /** A transaction that lmdb has given up has changed nothing, so it is made again; seen once, with four processes at work. */
  #transact<T>(work: () => T): T {
    for (let tries = 1; ; tries++) {
      try {
        return this.#database.transactionSync(work);
      } catch (error) {
        if ((error as { code?: unknown }).code !== badTransaction || tries === mostTries) throw error;
      }
    }
  }

  listen(channel: string, onMessage: (text: string) => void): Promise<Listening> {
    return this.#wakeUps.listen(channel, onMessage);
  }

  keys(): string[] {
    return this.#database.transactionSync(() => this.#rows.keys());
  }

  #introduce(): number {
    const key = Buffer.from('about');
    const text = this.#database.get(key);
    if (text === undefined) {
      const about: About = { format, baseMicros: Date.now() * 1000 - machineMicros() };
      this.#database.putSync(key, JSON.stringify(about));
      return about.baseMicros;
    }
    const about: About = JSON.parse(text);
    if (about.format === format) return about.baseMicros;
    const message = `the table ${this.#file} is of format ${about.format}; this version of redis-exp-lock knows ${format}`;
    throw new LockBackendError(message, { redisCode: 'VERSION', retryable: false });
  }

  /** A new row was written. Drops what is spare when there is much of it; undoes the command when there is no room. */
  #makeRoom(micros: number): void {
    this.#newRows += 1;
    if (!this.#isFull && this.#newRows % measureEvery !== 0) return;
    let bytes = this.#bytes();
    this.#isFull = bytes >= mostBytes;
    const isDue = this.#isFull ? performance.now() >= this.#fullSweepAtMs : bytes >= this.#sweepAtBytes;
    if (isDue) {
      this.#rows.sweep(micros);
      bytes = this.#bytes();
      this.#isFull = bytes >= mostBytes;
      this.#fullSweepAtMs = performance.now() + fullSweepMs;
      this.#sweepAtBytes = Math.max(smallestSweepBytes, 2 * bytes);
    }
    if (!this.#isFull) return;
    const message = `the table ${this.#file} is full (${mostBytes / 2 ** 20} MiB): no lock was dropped, none is granted`;
    throw new LockBackendError(message, { redisCode: 'FULL' });
  }

  /** What the tree takes; pages that are free again do not count. */
  #bytes(): number {
    const stats = this.#database.getStats() as Record<string, number>;
    return stats.pageSize! * (stats.treeBranchPageCount! + stats.treeLeafPageCount! + stats.overflowPages!);
  }
}

/** The rows that one command touches, read as text and written back where they are another text then. */
class TextRows implements Rows {
  readonly #database: Database;
  readonly #touched = new Map<string, { readonly row: Row; readonly text: string | undefined }>();

  constructor(database: Database) {
    this.#database = database;
  }

  begin(): void {
    this.#touched.clear();
  }

  get(key: string): Row | undefined {
    const touched = this.#touched.get(key);
    if (touched !== undefined) return touched.row;
    const text = this.#database.get(idOf(key));
    if (text === undefined) return undefined;
    const row: Row = { token: undefined, ...JSON.parse(text) };
    this.#touched.set(key, { row, text });
    return row;
  }

  set(key: string, row: Row): void {
    this.#touched.set(key, { row, text: undefined });
  }

  /** True: the table has more rows than before. */
  write(micros: number): boolean {
    let isMore = false;
    for (const [key, { row, text }] of this.#touched) {
      if (row.fence === 0 && isSpare(row, micros)) {
        if (text !== undefined) this.#database.removeSync(idOf(key));
        continue;
      }
      const newText = JSON.stringify(row);
      if (newText === text) continue;
      this.#database.putSync(idOf(key), newText);
      isMore ||= text === undefined;
    }
    return isMore;
  }

  keys(): string[] {
    return Array.from(this.#database.getRange(everyRow), ({ key }) => key.toString().slice(rowPrefix.length));
  }

  sweep(micros: number): void {
    const spare: Buffer[] = [];
    for (const { key, value } of this.#database.getRange(everyRow)) {
      if (isSpare({ token: undefined, ...JSON.parse(value) }, micros)) spare.push(Buffer.from(key));
    }
    for (const key of spare) this.#database.removeSync(key);
  }
}

const rowPrefix = 'k';
const everyRow = { start: Buffer.from('k'), end: Buffer.from('l'), snapshot: false };

function idOf(key: string): Buffer {
  return Buffer.from(rowPrefix + key);
}

/** Their kernel is gone, and with it every process that used them. */
function removeOfOtherBoots(folder: string): void {
  const ours = `.${bootId()}${suffix}`;
  for (const file of readdirSync(folder)) {
    if (!file.includes(suffix) || file.includes(ours)) continue;
    try {
      unlinkSync(join(folder, file));
    } catch {} // somebody else was faster
  }
}
