// Waiting for a key that several may hold: each waiter stands in Redis's line for itself, with what decides over its grant (who
// it is, how much it wants). Nothing is granted there: whoever may go in is told to ask, and asking grants. So a message that is
// lost costs a delay and nothing else: who hears nothing asks by itself, less often the further back it stands.
//
// Whoever counts stands in line too, but is told nothing: it says how long it will be silent, and is passed over after that.
import type { Hold } from '../lease';
import { type AcquireReply, type Mode, noChannel, type Place } from '../store';
import { askEveryMs } from '../stores/machine';
import type { Hint, Lines, Spot } from './lines';

/** Who counts may be late by so much, and by as much again as it pauses, before it is passed over. */
const latenessMs = 100;

export class Standing {
  /** How it is to be held. */
  readonly mode: Mode;
  /** What is held already, and is to be held in another way. */
  readonly changes: Hold | undefined;
  /** Whether its entry may be in the line. */
  stood = false;
  /** Told while a question was on its way, which may have been answered before. */
  hinted = false;
  #spot: Spot | undefined;
  #ticket = 0;
  #before = 0;
  #leftMs = 0;

  constructor(mode: Mode, changes: Hold | undefined) {
    this.mode = mode;
    this.changes = changes;
  }

  get hears(): boolean {
    return this.#spot !== undefined;
  }

  /** What it is queued with; -1 where that is not known. */
  get ticket(): number {
    return this.#ticket || -1;
  }

  /** From now on it is told when to ask. */
  hear(lines: Lines, key: string, hint: Hint): void {
    // Of what a writer gives back, a reader takes next to nothing, and a writer all.
    const { kind, permits } = this.mode;
    const takes = kind === 'counted' ? permits : kind === 'exclusive' ? Number.POSITIVE_INFINITY : 0;
    this.#spot ??= lines.spot(key, takes, hint);
  }

  /** For the question that is being asked. */
  place(pauseMs: number): Place {
    // What was sent without an answer may be queued; what was never sent need not be looked for.
    const ticket = this.stood ? this.ticket : 0;
    this.stood = true;
    this.hinted = false;
    if (this.#spot !== undefined) return { channel: this.#spot.channel, id: this.#spot.id, ticket };
    const patienceMs = Math.ceil(2 * pauseMs + latenessMs);
    return { channel: noChannel, id: '0', ticket, patienceMs };
  }

  busy({ leftMs, stand }: AcquireReply & { granted: false }): void {
    this.#leftMs = leftMs;
    this.#ticket = stand?.ticket ?? this.#ticket;
    this.#before = stand?.before ?? 0;
  }

  /** Ms after which it asks although it was told nothing. */
  askAgainMs(random: number): number {
    const everyMs = askEveryMs(this.#before) * (0.8 + 0.2 * random);
    return this.#leftMs > 0 ? Math.min(this.#leftMs + 1 + this.#before, everyMs) : everyMs;
  }

  leave(): void {
    this.#spot?.leave();
    this.#spot = undefined;
  }
}
