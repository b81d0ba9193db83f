// Waiting in a queue. All callers of one process that want the same key, for the same lifetime, wait in one queue here, and the
// process waits in Redis's queue with one entry. Three things bring it the lock:
//
// - The answer to its own request. Requesting again is always safe: the entry keeps its token and its first ticket, so a lost
//   request or answer is simply repeated, and a lock that was granted meanwhile is ours already.
// - A message: the entry was granted. It counts if it names the last request that was answered, by a nonce that only that one
//   was queued with: then the grant is younger than that request. The grant is provisional; the holder confirms it.
// - The holder before, in this same queue: the lock is handed off without a command to Redis, a few times, and only while
//   Redis's last confirmation is young.
//
// Wake-ups may be lost, and the holders of earlier entries may have died, so a queue with waiters always has a timer to request
// again. Its state is in three fields: `isRequesting` (a request is on its way), `timer` (the next one is due then), `holder`
// (the lock is held by a caller of this queue). While there are waiters, at least one of them is set.
import { LockBackendError } from '../core/errors';
import { describe, type Key } from '../core/keys';
import { type Linked, LinkedList } from '../core/linked-list';
import {
  type AcquireReply,
  type Grant,
  type GrantSource,
  type Holder,
  type Moment,
  type ReleaseReply,
  trustedMs,
} from '../store/contract';
import { limits } from '../store/protocol';
import { isBehindOthers, pauseWhileBusy, pauseWhileHeld } from './pauses';

/** What is the same for all waiters of one queue. */
export interface QueueKey {
  readonly key: string;
  readonly lifetimeMs: number;
  readonly fencing: boolean;
  readonly owner: string | undefined;
}

/** A caller that waits in a queue. */
export interface Waiter {
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  /** It is yours: what comes back is what holds it. */
  granted(grant: Grant, source?: GrantSource): Holder;
  failed(error: LockBackendError): void;
  /** Redis could not be reached just now (undefined: it could); the wait goes on. */
  troubled(error: LockBackendError | undefined): void;
}

/** Where a waiter is in its queue. */
export interface Position extends Linked<Position> {
  readonly queue: { leave(position: Position): void };
  readonly waiter: Waiter;
  /** It waited for others: the key was busy, or there were waiters before it. */
  hasWaited: boolean;
}

/** What waits in Redis's queue for one of ours: a new one, with a new token, for every grant. */
export interface OwnEntry {
  readonly token: string;
  readonly id: string;
  /** Of the last request: another one each time, so that no message about an earlier grant of this token is taken for its own. */
  nonce: string;
  /** Before the last request was sent, if it was answered. */
  answered: Moment | undefined;
  ticket: number;
  mayExecuteUntilMs: number;
  /** How many its grant reserves: the same in all its requests. 0: nothing was ever sent for it. */
  fences: number;
}

/** What a message says. */
export interface WakeUp {
  /** Of the request that its entry was queued by; undefined where the message names none. */
  readonly nonce: string | undefined;
  /** That it was granted under; undefined: it was not granted, and should request. */
  readonly fence: number | undefined;
}

/** Of no entry in particular. */
const plainWakeUp: WakeUp = { nonce: undefined, fence: undefined };

/** What a queue needs of its surroundings. Everything answers later, never within the call. */
export interface QueuePort {
  nowMs(): number;
  now(): Moment;
  random(): number;
  setTimer(work: () => void, ms: number): unknown;
  clearTimer(timer: unknown): void;
  /** Each queue requests no more often than this while it is at rest: there are many of them. */
  readonly minPollMs: number;
  newEntry(owner: string | undefined): OwnEntry;
  newNonce(): string;
  /** Requests the lock, and queues the entry where it is busy. */
  request(queue: Queue, entry: OwnEntry, commandTimeoutMs: number, answer: ReplyCallbacks<AcquireReply>): void;
  release(held: Holder, answer: ReplyCallbacks<ReleaseReply>): void;
  /** Releases the lock, and requests the next grant for `waiter`. */
  releaseAndRequest(
    queue: Queue,
    token: string,
    entry: OwnEntry,
    waiter: Waiter,
    answer: ReplyCallbacks<ReleaseAndRequest>,
  ): void;
  /** The entry was granted, and its token is held from now on. */
  granted(entry: OwnEntry): void;
  /** Makes sure that the entry is neither queued nor holds anything, without a caller waiting for that. */
  abandon(queue: Queue, entry: OwnEntry, commandTimeoutMs: number): void;
  /** The queue has neither waiters nor a holder any more. */
  empty(queue: Queue): void;
}

export interface ReplyCallbacks<T> {
  readonly resolve: (reply: T) => void;
  readonly reject: (error: LockBackendError) => void;
}

export interface ReleaseAndRequest {
  readonly result: ReleaseReply;
  readonly next: AcquireReply;
}

/** Handed off within a process at most so many times: while other processes are queued, and alone. */
export const handOffsAmongOthers = 8; // S14
export const handOffsAlone = 64; // S15
/** Fences that a grant reserves at most, for the first holder and for those that the lock is handed off to. */
export const fencesInBlock = handOffsAlone + 1;
/**
 * Fences that it reserves where the grant before handed off less often: of what is reserved in vain, the counter of the server would
 * run ahead of the clock, at 15,000 grants of 65 in a second; a server cannot make as many grants as that takes with 9.
 */
export const fencesAtFirst = handOffsAmongOthers + 1;

export class Queue implements GrantSource {
  readonly key: QueueKey;
  readonly #port: QueuePort;
  readonly #positions = new LinkedList<Position>();
  #entry: OwnEntry;
  #isRequesting = false;
  /** Came while a request was on its way, which may have been answered before. */
  #wakeUp: WakeUp | undefined;
  #timer: unknown;
  #holder: Holder | undefined;
  #handOffsLeft = 0;
  /** Since the last grant. */
  #handOffs = 0;
  /** Whether its waiters know that Redis cannot be reached. */
  #isTroubled = false;
  /** Of the last request. */
  #commandTimeoutMs = 0;
  /** When that was sent, by the clock of the port. */
  #requestedMs = 0;
  /** One function for all its requests: of thousands of queues at rest, the collector would have to move so many. */
  readonly #onTimer = (): void => this.#request(); // H28

  constructor(key: QueueKey, port: QueuePort) {
    this.key = key;
    this.#port = port;
    this.#entry = port.newEntry(key.owner);
  }

  join(waiter: Waiter): Position {
    const isBehind = this.#isRequesting || this.#timer !== undefined;
    const hasWaited = isBehind || this.#holder !== undefined;
    const position = { queue: this, waiter, hasWaited, before: undefined, after: undefined };
    this.#positions.add(position);
    if (isBehind) return position;
    if (this.#holder === undefined) this.#request();
    else this.#requestLater(this.#holder);
    return position;
  }

  /** The waiter is called no more. When the last one leaves, the entry is abandoned. */
  leave(position: Position): void {
    if (!this.#positions.delete(position) || this.#positions.size > 0) return;
    this.#abandonEntry(position.waiter.commandTimeoutMs); // H29c
    if (this.#holder === undefined) this.#port.empty(this);
  }

  /** Redis says that the entry was granted, or should request. False: it is no entry of this queue. */
  wake(id: string, wakeUp = plainWakeUp): boolean {
    if (id !== this.#entry.id) return false;
    // H27c
    if (this.#isRequesting) this.#wakeUp = wakeUp;
    else if (this.#positions.size > 0) this.#onWakeUp(wakeUp);
    return true;
  }

  /** Wake-ups may have been missed. */
  gap(): void {
    this.wake(this.#entry.id);
  }

  release(held: Holder): ReleaseReply | Promise<ReleaseReply> {
    if (this.handOff(held)) return 'released';
    return new Promise((resolve, reject) => this.releaseAndRequest(held, { resolve, reject }));
  }

  lost(held: Holder): void {
    if (held !== this.#holder) return;
    this.#holder = undefined;
    if (this.#positions.size === 0) this.#port.empty(this);
    else if (!this.#isRequesting) this.#request();
  }

  /**
   * Hands the lock off to the next waiter of this queue, without a command to Redis. Only while Redis's last confirmation is
   * young: the validity of the next holder counts from there. And not for ever: other processes wait elsewhere.
   */
  handOff(held: Holder): boolean {
    if (held !== this.#holder) return false;
    const sent = held.confirmed();
    const next = this.#positions.first;
    if (next === undefined || sent === undefined || this.#handOffsLeft === 0) return false; // H30
    if (this.#port.nowMs() - sent.monoMs >= this.key.lifetimeMs / 3) return false;
    this.#handOffsLeft -= 1; // H32d
    this.#handOffs += 1;
    this.#positions.delete(next);
    const fence = this.key.fencing ? held.fence + 1 : 0; // B3
    this.#holder = next.waiter.granted({ token: held.token, fence, sent, mayExecuteUntilMs: 0 }, this);
    if (this.#positions.size === 0 && !this.#isRequesting) this.#abandonEntry(next.waiter.commandTimeoutMs);
    return true;
  }

  /** Releases the lock in Redis, and requests it for the next waiter in the same command. */
  releaseAndRequest(held: Holder, answer: ReplyCallbacks<ReleaseReply>): void {
    const next = this.#endHolder(held);
    // A request that is on its way queues us.
    if (next === undefined || this.#isRequesting) return this.#port.release(held, answer); // S25
    const entry = this.#begin(next);
    this.#port.releaseAndRequest(this, held.token, entry, next, {
      resolve: (reply) => {
        answer.resolve(reply.result);
        this.#onReply(entry, reply.next);
      },
      reject: (error) => {
        answer.reject(error);
        this.#onFailure(entry, error);
      },
    });
  }

  /** The waiter that is next, if `held` was the holder of this queue. */
  #endHolder(held: Holder): Waiter | undefined {
    if (held !== this.#holder) return undefined;
    this.#holder = undefined;
    if (this.#positions.size === 0) this.#port.empty(this);
    return this.#positions.first?.waiter;
  }

  #request(): void {
    const head = this.#positions.first!.waiter;
    const entry = this.#begin(head);
    this.#port.request(this, entry, head.commandTimeoutMs, {
      resolve: (reply) => this.#onReply(entry, reply),
      reject: (error) => this.#onFailure(entry, error),
    });
  }

  #begin(head: Waiter): OwnEntry {
    this.#stopTimer();
    this.#commandTimeoutMs = head.commandTimeoutMs;
    this.#requestedMs = this.#port.nowMs();
    this.#isRequesting = true;
    this.#wakeUp = undefined;
    this.#entry.nonce = this.#port.newNonce(); // H83b
    this.#entry.answered = undefined;
    if (this.#entry.fences === 0) {
      this.#entry.fences = this.#handOffs < handOffsAmongOthers ? fencesAtFirst : fencesInBlock;
    }
    return this.#entry;
  }

  #onReply(entry: OwnEntry, reply: AcquireReply): void {
    if (entry !== this.#entry) return; // abandoned meanwhile: what it was granted is being released
    this.#isRequesting = false;
    const head = this.#positions.first;
    // The lock was handed off to the last waiter while this was on its way.
    if (head === undefined) return this.#abandonEntry(this.#commandTimeoutMs);
    this.#report(undefined);
    if (reply.granted) return this.#onGrant(entry, reply, head);
    head.hasWaited = true;
    entry.answered = reply.sent;
    entry.ticket = reply.position?.ticket ?? entry.ticket;
    if (isBehindOthers(reply)) this.#handOffsLeft = Math.min(this.#handOffsLeft, handOffsAmongOthers);
    if (this.#wakeUp !== undefined) return this.#onWakeUp(this.#wakeUp);
    const tookMs = this.#port.nowMs() - this.#requestedMs;
    this.#requestAfter(pauseWhileBusy(reply, tookMs, head.waiter.retryTimeoutMs, this.#port));
  }

  #onWakeUp({ nonce, fence }: WakeUp): void {
    const { answered } = this.#entry;
    if (fence === undefined || nonce !== this.#entry.nonce || answered === undefined) return this.#request(); // H83 S16
    // The grant came after that request, and so lasts at least from there on; what is left must do for the confirmation.
    const provisionalMs = Math.min(this.key.lifetimeMs, limits.provisionalMs);
    const { monoMs, wallMs } = this.#port.now();
    const ageMs = Math.max(monoMs - answered.monoMs, wallMs - answered.wallMs);
    if (ageMs > provisionalMs / 2) return this.#request(); // H83c
    const { token, mayExecuteUntilMs } = this.#entry;
    this.#stopTimer();
    this.#port.granted(this.#entry);
    this.#entry = this.#port.newEntry(this.key.owner);
    this.#handOffsLeft = handOffsAmongOthers;
    this.#handOffs = 0;
    this.#give(this.#positions.first!, { token, fence, sent: answered, mayExecuteUntilMs, provisionalMs }); // H83d
  }

  #onGrant(entry: OwnEntry, { fence, sent, others = 0 }: AcquireReply & { granted: true }, head: Position): void {
    this.#port.granted(entry);
    this.#entry = this.#port.newEntry(this.key.owner);
    const tookMs = this.#port.nowMs() - sent.monoMs;
    if (tookMs >= trustedMs(this.key.lifetimeMs)) {
      this.#port.abandon(this, entry, head.waiter.commandTimeoutMs);
      const error = tooLate(this.key.key, tookMs, this.key.lifetimeMs);
      this.#report(error);
      return this.#requestAfter(Math.max(head.waiter.retryTimeoutMs, 1));
    }
    const { token, mayExecuteUntilMs, fences } = entry;
    this.#handOffsLeft = others > 0 ? handOffsAmongOthers : fences - 1;
    this.#handOffs = 0;
    this.#give(head, { token, fence, sent, mayExecuteUntilMs });
  }

  #give(head: Position, grant: Grant): void {
    this.#positions.delete(head);
    // An earlier holder has lost it, and may notice that only while this one is called.
    this.#holder = undefined;
    this.#holder = head.waiter.granted(grant, this);
    if (this.#positions.size > 0) this.#requestLater(this.#holder);
  }

  #onFailure(entry: OwnEntry, error: LockBackendError): void {
    if (entry !== this.#entry) return;
    this.#isRequesting = false;
    const head = this.#positions.first;
    if (error.unknown) entry.mayExecuteUntilMs = this.#port.nowMs() + this.#commandTimeoutMs;
    if (head === undefined) return this.#abandonEntry(this.#commandTimeoutMs);
    if (!error.retryable) return this.#failAll(error, head.waiter.commandTimeoutMs);
    this.#report(error);
    this.#requestAfter(Math.max(head.waiter.retryTimeoutMs, 1));
  }

  /** Redis cannot be reached, or can be again: nothing to report while all goes well. */
  #report(error: LockBackendError | undefined): void {
    if (error === undefined && !this.#isTroubled) return;
    this.#isTroubled = error !== undefined;
    for (const { waiter } of this.#positions) waiter.troubled(error);
  }

  #failAll(error: LockBackendError, commandTimeoutMs: number): void {
    const all = [...this.#positions];
    for (const position of all) this.#positions.delete(position);
    this.#abandonEntry(commandTimeoutMs);
    if (this.#holder === undefined) this.#port.empty(this);
    for (const { waiter } of all) waiter.failed(error);
  }

  #abandonEntry(commandTimeoutMs: number): void {
    this.#stopTimer();
    const entry = this.#entry;
    if (entry.fences === 0) return;
    if (this.#isRequesting) entry.mayExecuteUntilMs = this.#port.nowMs() + commandTimeoutMs;
    this.#isRequesting = false;
    this.#entry = this.#port.newEntry(this.key.owner);
    this.#port.abandon(this, entry, commandTimeoutMs);
  }

  /** A holder of our own may never release it; and a queue that waits long gets its own position in Redis's queue. */
  #requestLater(holder: Holder): void {
    this.#requestAfter(pauseWhileHeld(holder.leftMs(), this.#port));
  }

  #requestAfter(ms: number): void {
    this.#stopTimer();
    this.#timer = this.#port.setTimer(this.#onTimer, ms);
  }

  #stopTimer(): void {
    if (this.#timer !== undefined) this.#port.clearTimer(this.#timer);
    this.#timer = undefined;
  }
}

/** A grant that is of no use any more. */
export function tooLate(key: Key, tookMs: number, lifetimeMs: number | null): LockBackendError {
  const message = `the grant of ${describe(key)} took ${tookMs.toFixed(0)} ms, its lifetime is ${lifetimeMs} ms`;
  return new LockBackendError(message, { key });
}
