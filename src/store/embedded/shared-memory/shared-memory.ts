// The shared-memory store: the machine on a table that all processes of this host share, a file of SQLite.
//
// A command is one write transaction, of which a single connection at a time runs one. If a process or thread is killed, nobody
// ever sees its half-done command. Each boot has a file of its own, so that nothing of the last boot is ever read.
//
// If the file of a table is deleted, the next command notices that and goes on in a new one, as after a FLUSHALL: all locks are
// gone, their holders find out at their next extension, and fences still rise.
//
// Invariant: a row is dropped only if nothing is lost with it. A full table refuses.
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemClock } from '../../../core/clock';
import { checkValue, type Rule } from '../../../core/options';
import type { EmbeddedStore } from '../../../core/redis-like';
import { changedChannel, freedChannel } from '../../operator';
import type { Publish } from '../machine/command';
import type { Machine } from '../machine/mutex-machine';
import { closedStore, standFor } from '../store';
import { hostClock } from './clock';
import { bootId, privateFolder } from './host';
import { SocketWakeUps } from './sockets';
import { sqliteEngine } from './sqlite';
import { remove, TableFile } from './table-file';

const longestName = 128;
const nameRule: Rule = {
  expected: `a name of 1 to ${longestName} characters that stays where it is put: no slash, no control character, not "." or ".."`,
  kind: (name) => typeof name === 'string',
  possible: (name: string) =>
    name !== '' && name.length <= longestName && !/[\p{Cc}/\\]|^\.\.?$/u.test(name) && name.isWellFormed(),
};
const suffix = '.sqlite';

/** The open tables of this thread, by file. */
const open = new Map<string, SharedTable>();

/**
 * A place for locks that this user's processes on this host share under one name. Each call makes a handle of its own, which
 * its owner closes. The first command opens the table. A command blocks its thread while another one writes: for microseconds,
 * and for a second at most.
 *
 * @param name 1 to 128 characters; it must not be able to lead anywhere else.
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: no such name.
 * @throws {LockBackendError} this runtime has no SQLite, or there is no folder for the table: the message says what to do.
 * @example
 * ```ts
 * const withLock = redisExpLock({ redis: sharedMemoryStore('my_locks') });
 * ```
 */
export function sharedMemoryStore(name: string): EmbeddedStore {
  checkValue('name', nameRule, name);
  sqliteEngine();
  const path = join(privateFolder(), fileOf(name));
  let table: SharedTable | undefined = (open.get(path) ?? new SharedTable(path)).join();
  const opened = (): SharedTable => {
    if (table === undefined) throw closedStore();
    return table;
  };
  const handle: EmbeddedStore = {
    kind: 'shared-memory',
    async close() {
      table?.part();
      table = undefined;
    },
  };
  return standFor(handle, {
    clock: systemClock,
    open: () => opened().open(),
    run: (work) => opened().run(work),
    lagMs: () => hostClock().lagMs,
    listen: async (channel, onMessage) => opened().wakeUps.listen(channel, onMessage),
    listensAlone: true,
  });
}

/** The file of a name. The hash separates names that look alike in a file system; the boot id separates this boot's tables. */
function fileOf(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return `${name.replace(/[^\w-]/g, '_').slice(0, 40)}-${hash}.${bootId()}${suffix}`;
}

class SharedTable {
  readonly wakeUps: SocketWakeUps;
  readonly #path: string;
  #file: TableFile | undefined;
  #baseMicros: number | undefined;
  #messages: [channel: string, text: string][] = [];
  #users = 0;

  constructor(path: string) {
    this.#path = path;
    removeOfOtherBoots(dirname(path));
    this.wakeUps = new SocketWakeUps(dirname(path)); // H93
  }

  join(): this {
    open.set(this.#path, this);
    this.#users += 1;
    return this;
  }

  part(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    open.delete(this.#path);
    this.wakeUps.close();
    this.#file?.close();
  }

  open(): TableFile {
    if (this.#file !== undefined) return this.#file;
    const publish: Publish = (channel, id, key) => this.#messages.push([channel, `${id} ${key}`]);
    this.#file = new TableFile(this.#path, publish, this.#baseMicros);
    this.#baseMicros = this.#file.baseMicros;
    return this.#file;
  }

  run<T>(work: (machine: Machine, micros: number) => T): T {
    const file = this.#present();
    this.#messages = [];
    const done = file.run(work);
    // Messages leave only now, after the commit: a process that is notified of a grant can see it.
    for (const [channel, text] of this.#messages) {
      if (channel === freedChannel) this.wakeUps.tellAll(text);
      else if (channel !== changedChannel) this.wakeUps.tell(channel, text);
    }
    return done;
  }

  /** The table that every process finds under this name now. */
  #present(): TableFile {
    if (this.#file?.isThere()) return this.#file;
    this.#file?.close();
    this.#file = undefined;
    privateFolder(); // the folder may be gone as well
    const file = this.open();
    this.wakeUps.renew();
    return file;
  }
}

/** Removes the files of other boots: their kernel is gone, and with it every process that used them. */
function removeOfOtherBoots(folder: string): void {
  const ours = `.${bootId()}${suffix}`;
  for (const file of readdirSync(folder)) {
    if (file.includes(suffix) && !file.includes(ours)) remove(join(folder, file));
  }
}
