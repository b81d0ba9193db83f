// The bank: accounts in a vault, and a transfer that reads, thinks and writes back what it computed.
// On its own that is the classic lost update. Nothing in this file protects it; a lock around `transfer` does.

import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_BALANCE = 1000;

export class Bank {
  #vault;
  #accounts;

  constructor(vault, { accounts }) {
    this.#vault = vault;
    this.#accounts = accounts;
  }

  /** Every account as on the first day. */
  open() {
    return this.#vault.open(this.#accounts, FIRST_BALANCE);
  }

  /** The balances, all read in one instant. */
  balances() {
    return this.#vault.balances(this.#accounts);
  }

  /** Reads, thinks, writes. Resolves with the balance that was read and the one that was written, for the ledger. */
  async transfer(fence) {
    const [from, to] = this.#twoAccounts();
    const amount = 1 + below(50);

    const { seen, accounts } = await this.#vault.read([from, to]);
    const [payer, payee] = accounts;
    await sleep(1 + below(4)); // anything worth a lock takes its time: a query, a request, a human

    const { place, versions } = await this.#vault.write(
      [
        { account: from, balance: payer.balance - amount },
        { account: to, balance: payee.balance + amount },
      ],
      fence,
    );

    return {
      seen,
      place,
      fence,
      updates: [
        { account: from, delta: -amount, read: payer.version, made: versions[0] },
        { account: to, delta: amount, read: payee.version, made: versions[1] },
      ],
    };
  }

  close() {
    return this.#vault.close();
  }

  #twoAccounts() {
    const from = below(this.#accounts);
    const to = (from + 1 + below(this.#accounts - 1)) % this.#accounts;
    return [from, to];
  }
}

/** A whole number from 0 to n − 1. */
export const below = (n) => Math.floor(Math.random() * n);
