// The renewal of a held lock: extends the lock at a third of its lifetime, until its lease is collected.
//
// Invariant: nothing here keeps the lease or the process alive. A collected lease can no longer be released, and its renewal ends
// with it. After `stop`, and after the lock has ended, no timer runs.
import { warn } from '../core/events';
import { describe, type Key } from '../core/keys';
import { maxTimerMs, type Settings } from '../core/options';
import { setImmediate } from '../core/real-timers';
import { idle } from '../core/timers';
import type { Clock } from '../store/contract';
import { eventOf, type ObservedLock } from './observation';

/** The shortest deadline of one renewal, and the shortest pause after a failed one. */
export const minMs = 10;

/** The keeper, as its renewal sees it. */
interface LockExtender {
  /** True while an extension is in flight. There is only one at a time. */
  readonly isExtending: boolean;
  /** Extends the lock to its own lifetime. False if the lock is no longer held. */
  renew(commandTimeoutMs: number): Promise<boolean>;
}

/** A held lock, as its renewal sees it. */
interface RenewedLock extends Pick<ObservedLock, 'keys' | 'mode' | 'context'> {
  readonly key: Key;
  readonly clock: Clock;
  /** True while the lock is held. */
  check(): boolean;
  leftMs(): number;
}

export class Renewal {
  /** Monotonic ms at which renewing ends (`maxHold`). */
  readonly endsMs: number;
  /** False once renewing has stopped. */
  isOn = true;
  /** True if the last renewal got no answer. */
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

  /** Ms since `endsMs`, at least 0; Infinity if renewing has ended for another reason. */
  get overMs(): number {
    if (!this.isOn || this.#lease.deref() === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(this.#held.clock.nowMs() - this.endsMs, 0);
  }

  stop(): void {
    this.isOn = false;
    clearTimeout(this.#timer); // H16b
  }

  /** Schedules the next renewal for when two thirds of the lifetime are left. Many locks share a tick, and so one command. */
  schedule(pauseMs = this.#pauseMs()): void {
    const gridMs = Math.max(1, Math.floor(this.#lifetimeMs / 30));
    const nowMs = this.#held.clock.nowMs();
    const dueMs = spread(Math.floor((nowMs + pauseMs) / gridMs) * gridMs, gridMs);
    // A pause that is shorter than a step of the grid must not become 0.
    const waitMs = Math.max(dueMs - nowMs, pauseMs / 2, 1); // H15c
    clearTimeout(this.#timer);
    this.#timer = idle(this.#held.clock.later(() => renewSoon(this), timerMs(waitMs)));
  }

  #pauseMs(): number {
    const leftMs = this.#held.leftMs();
    const spareMs = leftMs - (this.#lifetimeMs * 2) / 3; // H15
    // If less than two thirds is left, the lock was shortened by hand, or its end is uncertain.
    return spareMs > 0 ? spareMs : leftMs / 3; // H15b
  }

  /** Renews the lock now, unless renewing has ended. */
  renew(): void {
    if (!this.isOn || !this.#held.check()) return;
    if (this.#held.clock.nowMs() >= this.endsMs || this.#lease.deref() === undefined) return this.stop(); // H21
    if (this.#extender.isExtending) return this.schedule(minMs);
    // Half of the time left, so that a renewal that is never answered leaves time for another one.
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
    // Less may be left than a twentieth of the lifetime, because it was shortened by hand or its end is uncertain.
    const pauseMs = Math.min(this.#lifetimeMs / 20, this.#held.leftMs() / 4);
    if (this.isOn) this.schedule(Math.max(minMs, pauseMs)); // H14
  }
}

/** Turns ms into a delay that a timer can keep. */
export function timerMs(ms: number): number {
  return Math.min(Math.max(Math.ceil(ms), 0), maxTimerMs);
}

/** Most timers that fire in one ms: those of very many locks would block the event loop. */
const maxInMs = 256;
let crowd = { dueMs: 0, size: 0 };

/** Spreads renewals that fall due together: each two further batches are due one ms later, within their grid. */
function spread(dueMs: number, gridMs: number): number {
  if (crowd.dueMs !== dueMs) crowd = { dueMs, size: 0 };
  crowd.size += 1;
  return dueMs + (Math.floor(crowd.size / maxInMs) % gridMs);
}

/** Most renewals in one turn of the event loop: a full batch. Ten thousand at once would block it for a tenth of a second. */
const maxInTurn = 128;
let due: Renewal[] = [];

/** Renews together with all locks that are due in this turn, or in a later turn if there are too many. */
function renewSoon(renewal: Renewal): void {
  if (due.push(renewal) === 1) setImmediate(renewDue);
}

function renewDue(): void {
  const some = due.slice(0, maxInTurn);
  due = due.slice(maxInTurn);
  if (due.length > 0) setImmediate(renewDue);
  for (const renewal of some) renewal.renew();
}
