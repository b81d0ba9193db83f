// Where the bank keeps its accounts: in Redis, or, on a machine without one, in a file that its processes share.
//
// An account is its `balance`, its `version` (one higher with every write) and the `fence` of the lock its last writer held.
// Each write is done in one piece; that nobody writes between somebody's reading and writing is what no vault sees to.

import { createRequire } from 'node:module';

const KEPT_MS = 3_600_000; // should even the clean-up be killed, no key outlives the hour

export class RedisVault {
  #client;
  #prefix;

  constructor(client, { prefix }) {
    this.#client = client;
    this.#prefix = prefix;
  }

  async open(accounts, balance) {
    const opening = this.#client.multi().set(this.#counter, 0, { PX: KEPT_MS });
    for (const key of this.#keys(accounts)) {
      opening.del(key).hSet(key, { balance, version: 0, fence: 0 }).pExpire(key, KEPT_MS);
    }
    await opening.exec();
  }

  async balances(accounts) {
    const reading = this.#client.multi();
    for (const key of this.#keys(accounts)) reading.hGet(key, 'balance');
    return (await reading.exec()).map(Number);
  }

  /** The accounts, and how many transfers were written before. */
  async read(accounts) {
    const [seen, ...rows] = await Promise.all([
      this.#client.get(this.#counter),
      ...accounts.map((account) => this.#client.hmGet(this.#key(account), ['balance', 'version'])),
    ]);
    return {
      seen: Number(seen),
      accounts: rows.map(([balance, version]) => ({ balance: Number(balance), version: Number(version) })),
    };
  }

  /** Resolves the version that each account has now, and the place of this transfer in the order in which they were written. */
  async write(updates, fence) {
    const writing = this.#client.multi();
    for (const { account, balance } of updates) {
      writing.hSet(this.#key(account), { balance, fence }).hIncrBy(this.#key(account), 'version', 1);
    }
    const replies = await writing.incr(this.#counter).exec();
    return { versions: updates.map((_, index) => replies[2 * index + 1]), place: replies.at(-1) };
  }

  /** Removes every key below the prefix by its name, the lock's own ones too. Never more than that. */
  async close() {
    for await (const keys of this.#client.scanIterator({ MATCH: `${this.#prefix}*`, COUNT: 1000 })) {
      if (keys.length > 0) await this.#client.unlink(keys);
    }
  }

  get #counter() {
    return `${this.#prefix}transfers`;
  }

  #keys(accounts) {
    return Array.from({ length: accounts }, (_, account) => this.#key(account));
  }

  #key(account) {
    return `${this.#prefix}account:${account}`;
  }
}

/** A file of SQLite, by the engine that the library found too. A process that made it removes it. */
export class FileVault {
  #file;
  #run = new Map();

  constructor(path) {
    // Node has it from 22.13; without it the library has taken better-sqlite3, or none of this is reached.
    const Sqlite =
      process.getBuiltinModule?.('node:sqlite')?.DatabaseSync ?? createRequire(import.meta.url)('better-sqlite3');
    this.#file = new Sqlite(path);
    this.#file.exec('PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
    this.#file.exec(
      'CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER, version INTEGER, fence INTEGER)',
    );
    this.#file.exec('CREATE TABLE IF NOT EXISTS transfers (id INTEGER PRIMARY KEY, count INTEGER)');
  }

  async open(accounts, balance) {
    this.#inOnePiece(() => {
      this.#do('INSERT OR REPLACE INTO transfers VALUES (1, 0)').run();
      for (let account = 0; account < accounts; account++) {
        this.#do('INSERT OR REPLACE INTO account VALUES (?, ?, 0, 0)').run(account, balance);
      }
    });
  }

  async balances(accounts) {
    return this.#inOnePiece(() => Array.from({ length: accounts }, (_, account) => this.#account(account).balance));
  }

  async read(accounts) {
    return this.#inOnePiece(() => ({
      seen: this.#transfers,
      accounts: accounts.map((account) => this.#account(account)),
    }));
  }

  async write(updates, fence) {
    return this.#inOnePiece(() => {
      for (const { account, balance } of updates) {
        const update = 'UPDATE account SET balance = ?, fence = ?, version = version + 1 WHERE id = ?';
        this.#do(update).run(balance, fence, account);
      }
      this.#do('UPDATE transfers SET count = count + 1').run();
      return { versions: updates.map(({ account }) => this.#account(account).version), place: this.#transfers };
    });
  }

  async close() {
    this.#file.close();
  }

  get #transfers() {
    return this.#do('SELECT count FROM transfers').get().count;
  }

  #account(account) {
    return this.#do('SELECT balance, version FROM account WHERE id = ?').get(account);
  }

  #inOnePiece(work) {
    this.#do('BEGIN IMMEDIATE').run();
    try {
      const result = work();
      this.#do('COMMIT').run();
      return result;
    } catch (error) {
      this.#do('ROLLBACK').run();
      throw error;
    }
  }

  #do(sql) {
    if (!this.#run.has(sql)) this.#run.set(sql, this.#file.prepare(sql));
    return this.#run.get(sql);
  }
}
