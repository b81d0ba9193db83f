// One term of a leader, which its function receives. The term ends when the function has settled or the lock is lost, whichever comes
// first. The signal of the term may abort long before; the lock is then still held and renewed.
//
// The leader's record is written beside the lock, under the lock's token: at the beginning, with each proclamation, and every 45
// minutes.

import { type Alarm, clearAlarm, systemClock } from '../core/clock';
import { LockLostError, optionError } from '../core/errors';
import { warn } from '../core/events';
import { describe } from '../core/keys';
import { type Rule, textRule } from '../core/options';
import { byteLength } from '../core/runtime';
import type { HeldLock } from '../hold/held-lock';
import { eventOf } from '../hold/observation';
import { channelOf, keptMs, textOf } from './leaders';

/** The maximum length of an id or a value, in bytes of UTF-8. */
const maxBytes = 4096;
/** Ms between two writes of the record. A record outlives the lease by an hour, so a quarter of an hour is left for a failing write. */
const againMs = 2_700_000;

/** @internal */
export const valueRule: Rule = {
  ...textRule,
  expected: `well-formed text of at most ${maxBytes} bytes`,
  possible: (value: string) => byteLength(value) <= maxBytes && value.isWellFormed(),
};

/** The term of a leader, which its function receives. */
export interface Term {
  /** The id of the candidate that leads. */
  readonly id: string;
  /** The number of the term, larger with each one: the fencing token for what the leader writes to. */
  readonly fence: number;
  /** The time at which the term began, in ms of the epoch by this process's clock. */
  readonly since: number;
  /**
   * Aborts when the function should end. A LockLostError says that the leadership may be lost: stop writing. After an abort by the
   * signal given to `lead`, by `resign()` or by `close()`, the lock is held and renewed until the function has settled.
   */
  readonly signal: AbortSignal;
  /**
   * Changes the value that `leader` and observers see.
   *
   * @param value Text of at most 4 KiB.
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: not such a text. Nothing changed.
   * @throws {LockLostError} the term is over. Nothing changed.
   * @throws {LockBackendError} Redis gave no usable reply: observers may see the value or not.
   */
  proclaim(value: string): Promise<void>;
}

/** @internal */
export class HeldTerm implements Term {
  readonly id: string;
  readonly since = Date.now();
  readonly #held: HeldLock;
  readonly #aborter = new AbortController();
  #value: string;
  #alarm: Alarm | undefined;
  #isOver = false;

  constructor(held: HeldLock, id: string, value: string) {
    this.#held = held;
    this.id = id;
    this.#value = value;
    void this.#writeAndKeep();
  }

  get fence(): number {
    return this.#held.fence;
  }

  get signal(): AbortSignal {
    return this.#aborter.signal;
  }

  async proclaim(value: string): Promise<void> {
    if (!valueRule.kind(value)) throw optionError('value', valueRule.expected, typeof value);
    if (!valueRule.possible(value)) {
      throw optionError('value', valueRule.expected, `${byteLength(value)} bytes`, 'range');
    }
    if (this.#isOver || !this.#held.check()) throw this.#over();
    this.#value = value;
    if (!(await this.#write(this.#text()))) throw this.#over();
  }

  /** @internal Asks the function to end. */
  abort(reason: unknown): void {
    this.#aborter.abort(reason);
  }

  /** @internal Ends the term after the function has settled. Clears the record, in the same tick as the release and before it. */
  end(): void {
    this.#isOver = true;
    clearAlarm(this.#alarm);
    this.#write('').catch(() => {});
  }

  /** Writes the record now and every 45 minutes. The function starts without waiting for the first write. */
  async #writeAndKeep(): Promise<void> {
    const { lifetimeMs } = this.#held.context.settings;
    const againInMs = await this.#write(this.#text()).then(
      () => againMs,
      (error) => {
        const message = `who leads ${describe(this.#held.key)} could not be written down; it is being tried again`;
        if (!this.#isOver) warn({ ...eventOf(this.#held), code: 'proclaim-failed', message, error });
        return lifetimeMs! / 3;
      },
    );
    if (this.#isOver || this.#held.ended) return;
    this.#alarm = systemClock.setIdleAlarm(() => void this.#writeAndKeep(), againInMs);
  }

  #write(text: string): Promise<boolean> {
    const { keys, token, context } = this.#held;
    const key = keys as string;
    const { commandTimeoutMs, lifetimeMs } = context.settings;
    const ttlMs = text === '' ? 0 : lifetimeMs! + keptMs;
    return context.store.values!.write({ key, token, text, ttlMs, channel: channelOf(key), commandTimeoutMs });
  }

  #text(): string {
    const { id, fence: term, since } = this;
    return textOf({ id, value: this.#value, term, since }, this.#held.token);
  }

  #over(): LockLostError {
    const { key, loss } = this.#held;
    return loss ?? new LockLostError(`this term of ${describe(key)} is over`, { key, reason: 'missing' });
  }
}
