// Waiting by place. All callers of one process that want the same key, for the same lifetime, stand in one line here, and
// the process stands in Redis's line with one entry. Three things bring it the lock:
//
// - The answer to its own question. Asking again is always safe: the entry keeps its token and its first ticket, so a lost
//   question or answer is simply repeated, and a lock that was granted meanwhile is ours already.
// - A message that the entry was granted. The grant is provisional; the next question confirms it, and only its answer counts.
// - The holder before, in this same line: the lock is passed on without a word to Redis, a few times, and only while Redis's
//   last confirmation is young.
//
// Messages may be lost, and whoever stands before may have died, so a line that waits always has a timer to ask again. Its
// state is in three fields: `asking` (a question is on its way), `timer` (the next one is due then), `holder` (the lock is
// held in this line). Whenever somebody waits here, at least one of them is set.
import { LockBackendError } from '../errors';
import { describe, type Key } from '../keys';
import { type AcquireReply, type Moment, type ReleaseReply, trustedMs } from '../store';
import { askEveryMs } from '../stores/machine';

/** What is the same for everybody in one line. */
export interface Claim {
  readonly key: string;
  readonly lifetimeMs: number;
  readonly fencing: boolean;
  readonly owner: string | undefined;
}

/** Somebody who waits in a line. */
export interface Waiter {
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  /** It is yours: the answer is what you hold it by. */
  granted(grant: Grant): Holder;
  failed(error: LockBackendError): void;
  /** Redis could not be asked just now; the wait goes on. */
  troubled(error: LockBackendError | undefined): void;
}

export interface Grant {
  readonly token: string;
  readonly fence: number;
  /** Before what Redis confirmed was sent: from then on the lifetime counts. */
  readonly sent: Moment;
  /** Monotonic ms until which a question of this token, of unknown outcome, may still take effect. */
  readonly ghostUntilMs: number;
}

/** A lock that is held in a line. */
export interface Holder {
  readonly token: string;
  readonly fence: number;
  /** Ms of validity left. */
  leftMs(): number;
  /** When Redis last confirmed the line's own lifetime; undefined when it is lost, or in doubt. */
  confirmed(): Moment | undefined;
}

/** Where a line stands in Redis: a new one, with a new token, for every grant. */
export interface Entry {
  readonly token: string;
  readonly id: string;
  ticket: number;
  ghostUntilMs: number;
  /** Whether anything was ever sent for it. */
  sent: boolean;
}

/** What a line needs of the world. Everything answers later, never within the call. */
export interface World {
  nowMs(): number;
  random(): number;
  later(work: () => void, ms: number): unknown;
  never(timer: unknown): void;
  newEntry(owner: string | undefined): Entry;
  /** Asks for the lock, and stands in line where it is busy. */
  ask(line: Line, entry: Entry, commandTimeoutMs: number, answer: Answer<AcquireReply>): void;
  /** Gives the lock back, and stands in line again. */
  releaseAndStand(line: Line, token: string, entry: Entry, waiter: Waiter, answer: Answer<ReleaseAndStand>): void;
  /** Makes sure that the entry neither stands in line nor holds anything, with nobody waiting for that. */
  leave(line: Line, entry: Entry, commandTimeoutMs: number): void;
  /** Nobody is in the line any more. */
  empty(line: Line): void;
}

export interface Answer<T> {
  readonly resolve: (reply: T) => void;
  readonly reject: (error: LockBackendError) => void;
}

export interface ReleaseAndStand {
  readonly result: ReleaseReply;
  readonly next: AcquireReply;
}

/** Passed on within a process at most so many times: with others in Redis's line, and alone. */
export const passesAmongOthers = 8;
export const passesAlone = 64;
/** Fences that a grant reserves, for the first holder and for those that the lock is passed on to. */
export const fencesInBlock = passesAlone + 1;

export class Line {
  readonly claim: Claim;
  readonly #world: World;
  readonly #waiters = new Set<Waiter>();
  #entry: Entry;
  #asking = false;
  /** A message came while a question was on its way, which may have been answered before. */
  #hint = false;
  #timer: unknown;
  #holder: Holder | undefined;
  #passesLeft = 0;
  /** The patience of the last question. */
  #commandTimeoutMs = 0;

  constructor(claim: Claim, world: World) {
    this.claim = claim;
    this.#world = world;
    this.#entry = world.newEntry(claim.owner);
  }

  /** Whether nobody waits or holds here. */
  get isEmpty(): boolean {
    return this.#waiters.size === 0 && this.#holder === undefined;
  }

  join(waiter: Waiter): void {
    this.#waiters.add(waiter);
    if (this.#asking || this.#timer !== undefined) return;
    if (this.#holder === undefined) this.#ask();
    else this.#lookLater(this.#holder);
  }

  /** The waiter is not told anything any more. The last one to go takes the entry with it. */
  giveUp(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter) || this.#waiters.size > 0) return;
    this.#leave(waiter.commandTimeoutMs);
    if (this.#holder === undefined) this.#world.empty(this);
  }

  /** Redis says that the entry was granted, or should ask. */
  hint(id: string): boolean {
    if (id !== this.#entry.id) return false;
    if (this.#asking) this.#hint = true;
    else if (this.#waiters.size > 0) this.#ask();
    return true;
  }

  /** Messages may have been missed. */
  gap(): void {
    this.hint(this.#entry.id);
  }

  /**
   * Passes the lock on to the next in this line, without a word to Redis. Only while Redis's last confirmation is young: who
   * gets it counts its validity from there. Not for ever either: others wait elsewhere.
   */
  passOn(holder: Holder): boolean {
    if (holder !== this.#holder) return false;
    const sent = holder.confirmed();
    const next = first(this.#waiters);
    if (next === undefined || sent === undefined || this.#passesLeft === 0) return false;
    if (this.#world.nowMs() - sent.monoMs >= this.claim.lifetimeMs / 3) return false;
    this.#passesLeft -= 1;
    this.#waiters.delete(next);
    const fence = this.claim.fencing ? holder.fence + 1 : 0;
    this.#holder = next.granted({ token: holder.token, fence, sent, ghostUntilMs: 0 });
    if (this.#waiters.size === 0 && !this.#asking) this.#leave(next.commandTimeoutMs);
    return true;
  }

  /** The holder was lost. */
  forget(holder: Holder): void {
    if (holder !== this.#holder) return;
    this.#holder = undefined;
    if (this.#waiters.size === 0) this.#world.empty(this);
    else if (!this.#asking) this.#ask();
  }

  /** `holder` is being given back. True: the answer will tell, and this line stands in Redis's line again. */
  giveBack(holder: Holder, answer: Answer<ReleaseReply>): boolean {
    if (holder !== this.#holder) return false;
    this.#holder = undefined;
    const next = first(this.#waiters);
    if (next === undefined) {
      this.#world.empty(this);
      return false;
    }
    // A question that is on its way stands in line for us.
    if (this.#asking) return false;
    const entry = this.#begin(next);
    this.#world.releaseAndStand(this, holder.token, entry, next, {
      resolve: (reply) => {
        answer.resolve(reply.result);
        this.#onReply(entry, reply.next);
      },
      reject: (error) => {
        answer.reject(error);
        this.#onFailure(entry, error);
      },
    });
    return true;
  }

  #ask(): void {
    const head = first(this.#waiters)!;
    const entry = this.#begin(head);
    this.#world.ask(this, entry, head.commandTimeoutMs, {
      resolve: (reply) => this.#onReply(entry, reply),
      reject: (error) => this.#onFailure(entry, error),
    });
  }

  #begin(head: Waiter): Entry {
    this.#stopTimer();
    this.#commandTimeoutMs = head.commandTimeoutMs;
    this.#asking = true;
    this.#hint = false;
    this.#entry.sent = true;
    return this.#entry;
  }

  #onReply(entry: Entry, reply: AcquireReply): void {
    if (entry !== this.#entry) return; // left meanwhile: what it was granted is on its way back
    this.#asking = false;
    const head = first(this.#waiters);
    // The lock was passed on to the last of us while this was asked.
    if (head === undefined) return this.#leave(this.#commandTimeoutMs);
    for (const waiter of this.#waiters) waiter.troubled(undefined);
    if (reply.granted) return this.#onGrant(entry, reply, head);
    entry.ticket = reply.stand?.ticket ?? entry.ticket;
    const { before = 0, outside = false } = reply.stand ?? {};
    if (before > 0) this.#passesLeft = Math.min(this.#passesLeft, passesAmongOthers);
    if (this.#hint) return this.#ask();
    const everyMs = askEveryMs(before) * (0.8 + 0.2 * this.#world.random());
    // Who came by another door wakes nobody: the first in line looks, the others behind it need not.
    if (outside && before === 0) this.#askLater(Math.min(Math.max(head.retryTimeoutMs, 1), everyMs));
    else this.#askLater(Math.min(reply.leftMs < 0 ? everyMs : reply.leftMs + 1 + before, everyMs));
  }

  #onGrant(entry: Entry, { fence, sent, others = 0 }: AcquireReply & { granted: true }, head: Waiter): void {
    this.#entry = this.#world.newEntry(this.claim.owner);
    const tookMs = this.#world.nowMs() - sent.monoMs;
    if (tookMs >= trustedMs(this.claim.lifetimeMs)) {
      this.#world.leave(this, entry, head.commandTimeoutMs);
      for (const waiter of this.#waiters) waiter.troubled(tooLate(this.claim.key, tookMs, this.claim.lifetimeMs));
      return this.#askLater(Math.max(head.retryTimeoutMs, 1));
    }
    this.#passesLeft = others > 0 ? passesAmongOthers : passesAlone;
    this.#waiters.delete(head);
    // Whoever held it before has lost it, and may be noticed to only while this one is being told.
    this.#holder = undefined;
    this.#holder = head.granted({ token: entry.token, fence, sent, ghostUntilMs: entry.ghostUntilMs });
    if (this.#waiters.size > 0) this.#lookLater(this.#holder);
  }

  #onFailure(entry: Entry, error: LockBackendError): void {
    if (entry !== this.#entry) return;
    this.#asking = false;
    const head = first(this.#waiters);
    if (error.unknown) entry.ghostUntilMs = this.#world.nowMs() + this.#commandTimeoutMs;
    if (head === undefined) return this.#leave(this.#commandTimeoutMs);
    for (const waiter of this.#waiters) waiter.troubled(error);
    if (error.retryable) return this.#askLater(Math.max(head.retryTimeoutMs, 1));
    const all = [...this.#waiters];
    this.#waiters.clear();
    this.#leave(head.commandTimeoutMs);
    if (this.#holder === undefined) this.#world.empty(this);
    for (const waiter of all) waiter.failed(error);
  }

  #leave(commandTimeoutMs: number): void {
    this.#stopTimer();
    const entry = this.#entry;
    if (!entry.sent) return;
    if (this.#asking) entry.ghostUntilMs = this.#world.nowMs() + commandTimeoutMs;
    this.#asking = false;
    this.#entry = this.#world.newEntry(this.claim.owner);
    this.#world.leave(this, entry, commandTimeoutMs);
  }

  /** A holder of our own may never give it back; and whoever waits long gets its own place in Redis's line. */
  #lookLater(holder: Holder): void {
    this.#askLater(Math.min(Math.max(holder.leftMs(), 0) + 1, askEveryMs(0)));
  }

  #askLater(ms: number): void {
    this.#stopTimer();
    this.#timer = this.#world.later(() => {
      this.#timer = undefined;
      this.#ask();
    }, ms);
  }

  #stopTimer(): void {
    if (this.#timer !== undefined) this.#world.never(this.#timer);
    this.#timer = undefined;
  }
}

/** A grant that nobody can use any more. */
export function tooLate(key: Key, tookMs: number, lifetimeMs: number | null): LockBackendError {
  const message = `the grant of ${describe(key)} took ${tookMs.toFixed(0)} ms, its lifetime is ${lifetimeMs} ms`;
  return new LockBackendError(message, { key });
}

function first(waiters: ReadonlySet<Waiter>): Waiter | undefined {
  for (const waiter of waiters) return waiter;
  return undefined;
}
