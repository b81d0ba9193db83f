// Waiting in a queue. All callers of one process that want the same key with the same lifetime, fencing and owner wait in one local
// queue, which has one entry in the Redis queue. The lock reaches the local queue in three ways:
//
// - The reply to its own request. Repeating a request is always safe, because the entry keeps its token and its first ticket: the next
//   request finds the same entry, or the lock that the token was granted meanwhile.
// - A message that the entry was granted. It counts if it carries the nonce of the last answered request: then the grant is younger
//   than that request. Such a grant is provisional until its holder confirms it.
// - A hand-off from the previous holder in the same local queue, without a command to Redis. Hand-offs are limited in number, and
//   are allowed only while Redis's last confirmation is young.
//
// Wake-ups may be lost and holders may die. So while there are waiters, at least one of three fields is set: `#isRequesting` (a
// request is in flight), `#timer` (the next request is scheduled) or `#holder` (a caller of this queue holds the lock).
import type { LockBackendError } from '../core/errors';
import { type Linked, LinkedList } from '../core/linked-list';
import { msSince, tooLate } from '../hold/validity';
import type { AcquireReply, Clock, Grant, GrantSource, Holder, Mode, Moment, ReleaseReply } from '../store/contract';
import { LateRequest } from '../store/late-request';
import { limits } from '../store/protocol';
import {
  fencesAtFirst,
  fencesInBlock,
  handOffsAfterGrant,
  handOffsAmongOthers,
  pauseWhileBusy,
  pauseWhileHeld,
} from './policy';

/** The terms that all waiters of one queue, or of one wait group, share. */
export interface WaitTerms {
  readonly key: string;
  readonly lifetimeMs: number;
  readonly fencing: boolean;
  readonly owner: string | undefined;
  /** The mode of a wait group; absent for a mutex. */
  readonly mode?: Mode | undefined;
}

/** True if callers on these terms for one key may wait together. */
export function mayShare(one: WaitTerms, { lifetimeMs, fencing, owner, mode }: WaitTerms): boolean {
  const { kind, prefer, group, permits } = one.mode ?? {};
  const isSameMode =
    kind === mode?.kind && prefer === mode?.prefer && group === mode?.group && permits === mode?.permits;
  return isSameMode && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner; // H75d H84c
}

export interface Waiter {
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs: number;
  granted(grant: Grant, source?: GrantSource): Holder;
  failed(error: LockBackendError): void;
  /** Reports that Redis could not be reached, or (undefined) that it can be reached again. The wait goes on. */
  troubled(error: LockBackendError | undefined): void;
}

/** The work of a caller so far. */
export interface Effort {
  /** Number of attempts; 1 for a caller that waited in a queue. */
  readonly count: number;
  /** True if the caller had to wait in a queue: the key was busy, or there were waiters before it. */
  readonly hasWaited: boolean;
}

/** The position of a caller in a queue, or in a wait group, which makes the attempts for it. */
export class Position<W extends Waiter = Waiter> implements Linked<Position<W>>, Effort {
  before: Position<W> | undefined;
  after: Position<W> | undefined;
  readonly queue: { join(position: Position<W>): void; leave(position: Position<W>): void };
  readonly waiter: W;
  hasWaited = false;
  readonly count = 1;
  readonly isPausing = false;
  readonly wasQueued = true;

  constructor(queue: Position<W>['queue'], waiter: W) {
    this.queue = queue;
    this.waiter = waiter;
  }

  begin(): void {
    this.queue.join(this);
  }

  giveUp(): void {
    this.queue.leave(this); // H36b
  }
}

/** Our entry in the Redis queue; a new entry with a new token follows every grant. */
export class OwnEntry {
  readonly queue: Queue;
  readonly token: string;
  readonly id: string;
  /** The waiter whose timeouts the last request has. */
  head: Waiter | undefined;
  /** Each request gets a new nonce, so that a message about an earlier grant of this token is ignored. */
  nonce = '';
  /** A moment just before the last request was sent, once it was answered. */
  answered: Moment | undefined;
  ticket = 0;
  /** The time by the port's clock at which its first request was sent. */
  sinceMs = 0;
  /** The shortest pause between its requests, as the last one announced it. */
  minPollMs = 0;
  /** A request of this entry whose outcome is unknown. */
  late: LateRequest | undefined;
  /** The number of fences that its grant reserves, the same in all its requests; 0 before the first request. */
  fences = 0;

  constructor(queue: Queue, token: string, id: string) {
    this.queue = queue;
    this.token = token;
    this.id = id;
  }

  get key(): string {
    return this.queue.terms.key;
  }

  wake(wakeUp: WakeUp): void {
    this.queue.wake(this.id, wakeUp);
  }
}

export interface WakeUp {
  /** The nonce of the request that queued the entry; undefined if the message carries none. */
  readonly nonce: string | undefined;
  /** The fence of the grant; undefined if nothing was granted and the entry should request. */
  readonly fence: number | undefined;
}

/** The time that must be left of a grant by message for its confirmation; half of the grant if it is shorter than twice that. */
const confirmationMs = 500;

/** Everything that a queue uses. Replies never arrive within the call that requested them. */
export interface QueuePort {
  readonly clock: Pick<Clock, 'nowMs' | 'wallMs'>;
  random(): number;
  /** The shortest pause between two requests of a queue at rest. It grows with the number of queues. */
  readonly minPollMs: number;
  setTimer(work: () => void, ms: number): unknown;
  clearTimer(timer: unknown): void;
  newEntry(queue: Queue): OwnEntry;
  newNonce(): string;
  /** Requests the lock, and queues the entry if the lock is busy. */
  request(entry: OwnEntry): Promise<AcquireReply>;
  release(held: Holder): Promise<ReleaseReply>;
  releaseAndRequest(held: Holder, entry: OwnEntry): Promise<[ReleaseReply, AcquireReply]>;
  /** Reports that the entry's token is now held. */
  granted(entry: OwnEntry): void;
  /** Removes the entry from the Redis queue and releases its lock, in the background. */
  abandon(entry: OwnEntry): void;
  /** Reports that the queue has neither waiters nor a holder. */
  empty(queue: Queue): void;
}

export class Queue implements GrantSource {
  readonly terms: WaitTerms;
  readonly #port: QueuePort;
  readonly #positions = new LinkedList<Position>();
  #entry: OwnEntry;
  #isRequesting = false;
  /** A wake-up that arrived while a request was in flight, and that may be the later of the two. */
  #wakeUp: WakeUp | undefined;
  #timer: unknown;
  #holder: Holder | undefined;
  #handOffsLeft = 0;
  /** Hand-offs since the last grant. */
  #handOffs = 0;
  /** Set while the waiters know that Redis cannot be reached. */
  #isTroubled = false;
  /** One function for all requests: with thousands of queues at rest, the garbage collector would move as many closures. */
  readonly #onTimer = (): void => this.#request(); // H28

  constructor(terms: WaitTerms, port: QueuePort) {
    this.terms = terms;
    this.#port = port;
    this.#entry = port.newEntry(this);
  }

  join(position: Position): void {
    const isBehind = this.#isRequesting || this.#timer !== undefined;
    position.hasWaited = isBehind || this.#holder !== undefined;
    this.#positions.add(position);
    if (isBehind) return;
    if (this.#holder === undefined) this.#request();
    else this.#waitBehind(this.#holder);
  }

  /** Removes a waiter, which is then never called again. The last one abandons the entry. */
  leave(position: Position): void {
    if (!this.#positions.delete(position) || this.#positions.size > 0) return;
    this.#abandonEntry(); // H29c
    if (this.#holder === undefined) this.#port.empty(this);
  }

  /** Handles a message that the entry was granted or should request. False if the id is not that of the current entry. */
  wake(id: string, wakeUp: WakeUp): boolean {
    if (id !== this.#entry.id) return false;
    // H27c
    if (this.#isRequesting) this.#wakeUp = wakeUp;
    else if (this.#positions.size > 0) this.#onWakeUp(wakeUp);
    return true;
  }

  /** Hands the lock off, or releases it in Redis and requests it for the next waiter in the same command. */
  release(held: Holder): ReleaseReply | Promise<ReleaseReply> {
    if (this.#handOff(held)) return 'released';
    if (!this.#endHolder(held)) return this.#port.release(held); // S25
    const entry = this.#begin();
    const replies = this.#port.releaseAndRequest(held, entry);
    const released = replies.then(([reply]) => reply);
    replies.then(
      ([, reply]) => this.#onReply(entry, reply),
      (error) => this.#onFailure(entry, error),
    );
    return released;
  }

  lost(held: Holder): void {
    if (this.#endHolder(held)) this.#request();
  }

  /**
   * Hands the lock off to the next waiter of this queue, without a command to Redis. Hand-offs need a young confirmation by Redis,
   * because the next holder's validity counts from that confirmation. Hand-offs are limited, because other processes may be waiting.
   */
  #handOff(held: Holder): boolean {
    if (held !== this.#holder) return false;
    const sent = held.confirmed();
    const next = this.#positions.first;
    if (next === undefined || sent === undefined || this.#handOffsLeft === 0) return false; // H30
    if (this.#port.clock.nowMs() - sent.monoMs >= this.terms.lifetimeMs / 3) return false;
    this.#handOffsLeft -= 1; // H32d
    this.#handOffs += 1;
    this.#positions.delete(next);
    const fence = this.terms.fencing ? held.fence + 1 : 0; // B3
    this.#holder = next.waiter.granted({ token: held.token, fence, sent }, this);
    if (this.#positions.size === 0 && !this.#isRequesting) this.#abandonEntry();
    return true;
  }

  /** Ends the hold of `held`. True if `held` was the holder of this queue, and a waiter is next for which no request is in flight. */
  #endHolder(held: Holder): boolean {
    if (held !== this.#holder) return false;
    this.#holder = undefined;
    if (this.#positions.size === 0) this.#port.empty(this);
    return this.#positions.size > 0 && !this.#isRequesting;
  }

  #request(): void {
    const entry = this.#begin();
    this.#port.request(entry).then(
      (reply) => this.#onReply(entry, reply),
      (error) => this.#onFailure(entry, error),
    );
  }

  #begin(): OwnEntry {
    this.#stopTimer();
    this.#isRequesting = true;
    this.#wakeUp = undefined;
    this.#entry.head = this.#positions.first!.waiter;
    this.#entry.nonce = this.#port.newNonce(); // H83b
    this.#entry.answered = undefined;
    this.#entry.minPollMs = this.#port.minPollMs;
    if (this.#entry.fences === 0) {
      this.#entry.sinceMs = this.#port.clock.nowMs();
      this.#entry.fences = this.#handOffs < handOffsAmongOthers ? fencesAtFirst : fencesInBlock;
    }
    return this.#entry;
  }

  #onReply(entry: OwnEntry, reply: AcquireReply): void {
    if (entry !== this.#entry) return; // It was abandoned meanwhile, and its grant is being released.
    this.#isRequesting = false;
    const head = this.#positions.first;
    // The lock was handed off to the last waiter while this request was in flight.
    if (head === undefined) return this.#abandonEntry();
    this.#report(undefined);
    if (reply.granted) return this.#onGrant(reply, head);
    head.hasWaited = true;
    entry.answered = reply.sent;
    entry.ticket = reply.position?.ticket ?? entry.ticket;
    if (reply.position?.before) this.#handOffsLeft = Math.min(this.#handOffsLeft, handOffsAmongOthers);
    if (this.#wakeUp !== undefined) return this.#onWakeUp(this.#wakeUp);
    const nowMs = this.#port.clock.nowMs();
    this.#requestAfter(pauseWhileBusy(reply, nowMs, head.waiter.retryTimeoutMs, entry.minPollMs, this.#port.random()));
  }

  #onWakeUp({ nonce, fence }: WakeUp): void {
    const { answered } = this.#entry;
    if (fence === undefined || nonce !== this.#entry.nonce || answered === undefined) return this.#request(); // H83 S16
    // The grant lasts at least from the answered request on. Time must be left for the confirmation.
    const provisionalMs = Math.min(this.terms.lifetimeMs, limits.provisionalMs);
    if (provisionalMs - msSince(answered, this.#port.clock) < Math.min(provisionalMs / 2, confirmationMs))
      return this.#request(); // H83c
    this.#stopTimer();
    const { token, late } = this.#endEntry();
    this.#give({ token, fence, sent: answered, late, provisionalMs }, handOffsAmongOthers); // H83d
  }

  #onGrant({ fence, sent, others = 0 }: AcquireReply & { granted: true }, head: Position): void {
    const entry = this.#endEntry();
    const error = tooLate(this.terms.key, sent, this.terms.lifetimeMs, this.#port.clock);
    if (error !== undefined) {
      this.#port.abandon(entry);
      this.#report(error);
      return this.#requestAfter(Math.max(head.waiter.retryTimeoutMs, 1));
    }
    const { token, late, fences } = entry;
    this.#give({ token, fence, sent, late }, handOffsAfterGrant(others, fences));
  }

  #endEntry(): OwnEntry {
    const entry = this.#entry;
    this.#port.granted(entry);
    this.#entry = this.#port.newEntry(this);
    return entry;
  }

  #give(grant: Grant, handOffs: number): void {
    const head = this.#positions.first!;
    this.#positions.delete(head);
    this.#handOffsLeft = handOffs;
    this.#handOffs = 0;
    // An earlier holder has lost the lock, and may notice the loss only during the call below.
    this.#holder = undefined;
    this.#holder = head.waiter.granted(grant, this);
    if (this.#positions.size > 0) this.#waitBehind(this.#holder);
  }

  /** Lets the holder of this queue hand off to a waiter, and requests in case it never does. */
  #waitBehind(holder: Holder): void {
    holder.confirmNow();
    this.#requestAfter(pauseWhileHeld(holder.leftMs(), this.#port.minPollMs));
  }

  #onFailure(entry: OwnEntry, error: LockBackendError): void {
    if (entry !== this.#entry) return;
    this.#isRequesting = false;
    const head = this.#positions.first;
    if (error.unknown) this.#mayExecute(entry);
    if (head === undefined) return this.#abandonEntry();
    if (!error.retryable) return this.#failAll(error);
    this.#report(error);
    this.#requestAfter(Math.max(head.waiter.retryTimeoutMs, 1));
  }

  #report(error: LockBackendError | undefined): void {
    if (error === undefined && !this.#isTroubled) return;
    this.#isTroubled = error !== undefined;
    for (const { waiter } of this.#positions) waiter.troubled(error);
  }

  #failAll(error: LockBackendError): void {
    const all = [...this.#positions];
    for (const position of all) this.leave(position);
    for (const { waiter } of all) waiter.failed(error);
  }

  #abandonEntry(): void {
    this.#stopTimer();
    const entry = this.#entry;
    if (entry.head === undefined) return;
    if (this.#isRequesting) this.#mayExecute(entry);
    this.#isRequesting = false;
    this.#entry = this.#port.newEntry(this);
    this.#port.abandon(entry);
  }

  #mayExecute(entry: OwnEntry): void {
    entry.late = new LateRequest(this.#port.clock.nowMs(), entry.head!.commandTimeoutMs);
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
