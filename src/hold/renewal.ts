// Keeps a held lock alive: extends it at a third of its lifetime, for as long as the lease is kept.
//
// Invariant: nothing here keeps the lease alive, nor the process: a lease that was collected can be released no more, and its
// renewal ends with it. After `stop`, and after the lock has ended, no timer runs.
import { warn } from '../core/events';
import { describe, type Key } from '../core/keys';
import { maxTimerMs, type Settings } from '../core/options';
import { setImmediate } from '../core/real-timers';
import { idle } from '../core/timers';
import type { Clock } from '../store/contract';
import { eventOf, type ObservedLock } from './observation';

/** The shortest deadline of one renewal, and the shortest pause after a failed one. */
export const minMs = 10;

/** What extends it. */
interface LockExtender {
  /** An extension is in flight; there is one at a time. */
  readonly isExtending: boolean;
  /** To its own lifetime. True: extended; false: no longer held. */
  renew(commandTimeoutMs: number): Promise<boolean>;
}

/** What is renewed: a held lock. */
interface RenewedLock extends Pick<ObservedLock, 'keys' | 'mode' | 'context'> {
  readonly key: Key;
  readonly clock: Clock;
  /** Whether it is still held. */
  check(): boolean;
  leftMs(): number;
}

export class Renewal {
  /** Monotonic ms at which it ends (`maxHold`). */
  readonly endsMs: number;
  /** Whether it goes on renewing. */
  isOn = true;
  /** Whether the last renewal got no answer. */
  hasFailed = false;
  readonly #extender: LockExtender;
  readonly #held: RenewedLock;
  readonly #lease: WeakRef<object>;
  readonly #lifetimeMs: number;
  readonly #commandTimeoutMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(extender: LockExtender, held: RenewedLock, lease: object, settings: Settings) {
    const { lifetimeMs, maxHoldMs, commandTimeoutMs } = settings;
    this.#extender = extender;
    this.#held = held;
    this.#lease = new WeakRef(lease);
    this.#lifetimeMs = lifetimeMs!;
    this.#commandTimeoutMs = commandTimeoutMs;
    this.endsMs = this.#held.clock.nowMs() + maxHoldMs;
    this.schedule();
  }

  /** Ms by which its end is past; Infinity where it has ended for another reason. */
  get overMs(): number {
    if (!this.isOn || this.#lease.deref() === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(this.#held.clock.nowMs() - this.endsMs, 0);
  }

  stop(): void {
    this.isOn = false;
    clearTimeout(this.#timer); // H16b
  }

  /** The next renewal when two thirds of the lifetime are left; many held locks share a tick, and so a command. */
  schedule(pauseMs = this.#pauseMs()): void {
    const gridMs = Math.max(1, Math.floor(this.#lifetimeMs / 30));
    const nowMs = this.#held.clock.nowMs();
    const dueMs = spread(Math.floor((nowMs + pauseMs) / gridMs) * gridMs, gridMs);
    // A pause that is shorter than a step of the grid must not become none.
    const waitMs = Math.max(dueMs - nowMs, pauseMs / 2, 1); // H15c
    clearTimeout(this.#timer);
    this.#timer = idle(this.#held.clock.later(() => renewSoon(this), timerMs(waitMs)));
  }

  #pauseMs(): number {
    const leftMs = this.#held.leftMs();
    const spareMs = leftMs - (this.#lifetimeMs * 2) / 3; // H15
    // Less is left than a renewal would give: it was shortened by hand, or its end is uncertain.
    return spareMs > 0 ? spareMs : leftMs / 3; // H15b
  }

  /** Now, if it is still to be renewed. */
  renew(): void {
    if (!this.isOn || !this.#held.check()) return;
    if (this.#held.clock.nowMs() >= this.endsMs || this.#lease.deref() === undefined) return this.stop(); // H21
    if (this.#extender.isExtending) return this.schedule(minMs);
    // Half of what is left, so that a renewal that is never answered leaves time for another.
    const halfMs = Math.max(minMs, Math.floor(this.#held.leftMs() / 2));
    // H17
    this.#extender.renew(Math.min(this.#commandTimeoutMs, halfMs)).then(
      (extended) => {
        this.hasFailed = false;
        if (extended && this.isOn) this.schedule(); // H16
      },
      (error) => this.#onFailure(error), // H20b
    );
  }

  #onFailure(error: unknown): void {
    this.hasFailed = true;
    const message = `${describe(this.#held.key)} could not be renewed; it is being tried again`;
    warn({ ...eventOf(this.#held), code: 'renewal-failed', message, error });
    if (this.isOn) this.schedule(Math.max(minMs, this.#lifetimeMs / 20)); // H14
  }
}

/** As a delay that a timer can keep. */
export function timerMs(ms: number): number {
  return Math.min(Math.max(Math.ceil(ms), 0), maxTimerMs);
}

/** Timers that fire in one ms; those of very many locks would hold up the event loop by themselves. */
const maxInMs = 256;
let crowd = { dueMs: 0, size: 0 };

/** Where more are due together than fill two batches, the others are due a ms later for each two batches, within their grid. */
function spread(dueMs: number, gridMs: number): number {
  if (crowd.dueMs !== dueMs) crowd = { dueMs, size: 0 };
  crowd.size += 1;
  return dueMs + (Math.floor(crowd.size / maxInMs) % gridMs);
}

/** What one turn of the event loop renews: a full batch. Ten thousand at once would stop it for a tenth of a second. */
const maxInTurn = 128;
let due: Renewal[] = [];

/** Together with all others that are due in this turn, or in a later one when those are too many. */
function renewSoon(renewal: Renewal): void {
  if (due.push(renewal) === 1) setImmediate(renewDue);
}

function renewDue(): void {
  const some = due.slice(0, maxInTurn);
  due = due.slice(maxInTurn);
  if (due.length > 0) setImmediate(renewDue);
  for (const renewal of some) renewal.renew();
}
