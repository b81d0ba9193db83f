// Where the bank keeps its accounts: in Redis, or, on a machine without one, in a file that its processes share.
//
// An account is its `balance`, its `version` (one higher with every write) and the `fence` of the lock its last writer held.
// Each write is done in one piece; that nobody writes between somebody's reading and writing is what no vault sees to.

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

/** A memory-mapped table, by lmdb. Who made its file removes it. */
export class FileVault {
  #table;

  static async at(path) {
    const { open } = await import('lmdb');
    return new FileVault(open({ path, noSubdir: true, noSync: true }));
  }

  constructor(table) {
    this.#table = table;
  }

  async open(accounts, balance) {
    this.#table.transactionSync(() => {
      this.#table.putSync('transfers', 0);
      for (let account = 0; account < accounts; account++) {
        this.#table.putSync(account, { balance, version: 0, fence: 0 });
      }
    });
  }

  async balances(accounts) {
    return this.#table.transactionSync(() =>
      Array.from({ length: accounts }, (_, account) => this.#table.get(account).balance),
    );
  }

  async read(accounts) {
    return this.#table.transactionSync(() => ({
      seen: this.#table.get('transfers'),
      accounts: accounts.map((account) => this.#table.get(account)),
    }));
  }

  async write(updates, fence) {
    return this.#table.transactionSync(() => {
      const versions = updates.map(({ account, balance }) => {
        const version = this.#table.get(account).version + 1;
        this.#table.putSync(account, { balance, version, fence });
        return version;
      });
      const place = this.#table.get('transfers') + 1;
      this.#table.putSync('transfers', place);
      return { versions, place };
    });
  }

  async close() {
    await this.#table.close();
  }
}
