// The bank: accounts in Redis, and a transfer that reads, thinks and writes back what it computed.
// On its own that is the classic lost update. Nothing in this file protects it; a lock around `transfer` does.
//
// An account is a hash: `balance`, `version` (one higher with every write) and `fence` (of the lock its last writer held).

import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_BALANCE = 1000;
const KEPT_MS = 3_600_000; // should even the clean-up be killed, no key outlives the hour

export class Bank {
  #client;
  #prefix;
  #accounts;

  constructor(client, { prefix, accounts }) {
    this.#client = client;
    this.#prefix = prefix;
    this.#accounts = accounts;
  }

  /** Every account as on the first day. */
  async open() {
    const opening = this.#client.multi().set(this.#counter, 0, { PX: KEPT_MS });
    for (const key of this.#keys()) {
      opening.del(key).hSet(key, { balance: FIRST_BALANCE, version: 0, fence: 0 }).pExpire(key, KEPT_MS);
    }
    await opening.exec();
  }

  /** The balances, all read in one instant. */
  async balances() {
    const reading = this.#client.multi();
    for (const key of this.#keys()) reading.hGet(key, 'balance');
    return (await reading.exec()).map(Number);
  }

  /** Read, think, write. Resolves what was read and what was made of it, for the ledger. */
  async transfer(fence) {
    const [from, to] = this.#twoAccounts();
    const amount = 1 + below(50);

    const [seen, payer, payee] = await Promise.all([this.#client.get(this.#counter), this.#read(from), this.#read(to)]);
    await sleep(1 + below(4)); // anything worth a lock takes its time: a query, a request, a human

    const [, payerMade, , payeeMade, place] = await this.#client
      .multi()
      .hSet(this.#key(from), { balance: payer.balance - amount, fence })
      .hIncrBy(this.#key(from), 'version', 1)
      .hSet(this.#key(to), { balance: payee.balance + amount, fence })
      .hIncrBy(this.#key(to), 'version', 1)
      .incr(this.#counter) // the place of this transfer in the order in which Redis wrote them
      .exec();

    return {
      seen: Number(seen),
      place,
      fence,
      updates: [
        { account: from, delta: -amount, read: payer.version, made: payerMade },
        { account: to, delta: amount, read: payee.version, made: payeeMade },
      ],
    };
  }

  /** Removes every key below the prefix by its name, the lock's own ones too. Never more than that. */
  async close() {
    for await (const keys of this.#client.scanIterator({ MATCH: `${this.#prefix}*`, COUNT: 1000 })) {
      if (keys.length > 0) await this.#client.unlink(keys);
    }
  }

  async #read(account) {
    const [balance, version] = await this.#client.hmGet(this.#key(account), ['balance', 'version']);
    return { balance: Number(balance), version: Number(version) };
  }

  #twoAccounts() {
    const from = below(this.#accounts);
    const to = (from + 1 + below(this.#accounts - 1)) % this.#accounts;
    return [from, to];
  }

  get #counter() {
    return `${this.#prefix}transfers`;
  }

  #keys() {
    return Array.from({ length: this.#accounts }, (_, account) => this.#key(account));
  }

  #key(account) {
    return `${this.#prefix}account:${account}`;
  }
}

/** A whole number from 0 to n − 1. */
export const below = (n) => Math.floor(Math.random() * n);
