// Readers of one process that share a member. The first reader fetches the member with one entry in the Redis queue, and Redis sees
// one holder. Readers that come within the window (policy.ts) join the member, before its grant or after. The last reader to leave
// releases it. The member ends one lifetime after its last extension, and each extension counts for all its readers. A reader that
// needs another lifetime, or upgrades, gets a member of its own first.
//
// When a writer waits: in this process, no further reader joins (`close`), unless the readers had to wait themselves: then their window
// stays open, as it does when the writer waits in another process. For a new member, Redis decides (scripts/acquire-shared.lua).
//
// Invariant: no reader joins a member that is being released, that was lost, or whose window has closed. Each reader has a validity of
// its own, which never ends later than what Redis confirmed for the member.
import { clockOf } from '../core/clock';
import type { LossReason } from '../core/errors';
import { newToken } from '../core/token';
import type { Member, SharingHolder } from '../hold/kept-lock';
import { trustedMs } from '../hold/validity';
import type { ExtendReply, ExtendRequest, Grant, HeldMode, Moment, ReleaseReply, Store } from '../store/contract';
import { LateRequest } from '../store/late-request';
import { type GroupPosition, type MemberTerms, WaitGroup } from './group';
import { maxJoins, turnMs, windowMs } from './policy';

/** Readers that wait for one member or share it. */
export class Readers extends WaitGroup {
  readonly #startedMs = this.nowMs();
  #member: ReadersMember | undefined;
  #joinsLeft = maxJoins;
  #isClosed = false;

  accepts(): boolean {
    if (this.#isClosed) return false;
    if (this.#member !== undefined) return this.#member.isOpen;
    // All callers have given up, or have failed.
    if (this.positions.size === 0 && this.#joinsLeft < maxJoins) return false;
    const isOpen = !this.hasWaited || this.nowMs() - this.#startedMs < windowOf(this.terms, windowMs);
    return isOpen && this.#joinsLeft > 0;
  }

  override join(position: GroupPosition): void {
    if (this.#member !== undefined) return this.#member.join(position);
    this.#joinsLeft -= 1;
    super.join(position);
  }

  close(): void {
    this.#isClosed ||= this.#member === undefined || !this.hasWaited;
  }

  protected get wanted(): number {
    return this.#member === undefined && this.positions.size > 0 ? 1 : 0;
  }

  protected fetched(grant: Grant): void {
    // An attempt with this token may still execute. Its late release is the task of a single holder, so the grant is not shared.
    if (grant.late !== undefined) {
      const first = this.positions.first!;
      this.positions.delete(first);
      first.waiter.granted(grant);
      return this.fetch();
    }
    this.#member = new ReadersMember(grant, this.terms, this.store);
    for (let each = this.positions.first; each !== undefined; each = this.positions.first) {
      this.positions.delete(each);
      this.#member.give(each);
    }
    this.#member.open(this.hasWaited ? turnMs : windowMs);
  }
}

function windowOf({ lifetimeMs }: MemberTerms, maxMs: number): number {
  return Math.min(maxMs, lifetimeMs / 3);
}

class ReadersMember implements Member {
  readonly token: string;
  readonly fence: number;
  readonly #terms: MemberTerms;
  readonly #store: Store;
  readonly #holders = new Set<SharingHolder>();
  #closesMs = 0;
  /** A moment just before the last confirmed request was sent. */
  #sent: Moment;
  #joinsLeft = maxJoins;
  #isClosed = false;
  /** Tokens that a parting reader cannot use. */
  readonly #spent: Set<string>;
  /** The extension that has not been sent yet, if there is one. */
  #extension: Promise<ExtendReply> | undefined;

  constructor({ token, fence, sent }: Grant, terms: MemberTerms, store: Store) {
    this.token = token;
    this.fence = fence;
    this.#terms = terms;
    this.#store = store;
    this.#sent = sent;
    this.#spent = new Set([token]);
  }

  /** Opens the window. Called after the waiting readers have the member, because giving it to many readers takes a while. */
  open(forMs: number): void {
    const thirdMs = this.#sent.monoMs + this.#terms.lifetimeMs / 3;
    this.#closesMs = Math.min(this.#nowMs() + windowOf(this.#terms, forMs), thirdMs);
  }

  #nowMs(): number {
    return clockOf(this.#store).nowMs();
  }

  get isOpen(): boolean {
    return !this.#isClosed && this.#joinsLeft > 0 && this.#nowMs() < this.#closesMs;
  }

  join(position: GroupPosition): void {
    this.#joinsLeft -= 1; // H84b
    this.give(position);
  }

  /** Gives the member to another reader, with a token of its own. */
  give({ waiter }: GroupPosition): void {
    const token = this.#holders.size === 0 ? this.token : newToken(this.#terms.owner); // H41b
    const grant = { token, fence: this.fence, sent: this.#sent, member: this }; // H84d
    this.#holders.add(waiter.granted(grant) as SharingHolder);
  }

  release(held: SharingHolder, send: () => ReleaseReply | Promise<ReleaseReply>): ReleaseReply | Promise<ReleaseReply> {
    const wasHeld = this.#holders.delete(held);
    // `check` finds a holder that was dropped without a release.
    for (const other of this.#holders) if (other.check()) return wasHeld ? 'released' : 'missing'; // H84
    this.#isClosed = true; // H84e
    return send();
  }

  lost(held: SharingHolder): void {
    this.#holders.delete(held);
    this.#isClosed ||= this.#holders.size === 0; // H84f
  }

  /** Extends the member. All readers that call this before the request is sent share one extension. */
  extend({ commandTimeoutMs }: ExtendRequest): Promise<ExtendReply> {
    if (this.#extension === undefined) {
      const extension = this.#extend(commandTimeoutMs).finally(() => this.#sentOut(extension));
      this.#extension = extension;
    }
    return this.#extension;
  }

  async #extend(commandTimeoutMs: number): Promise<ExtendReply> {
    const { key, lifetimeMs } = this.#terms;
    const begin = (): boolean => {
      this.#sentOut(this.#extension);
      return this.#holders.size > 0;
    };
    const validUntilMs = this.#sent.monoMs + trustedMs(lifetimeMs);
    const terms = { keys: key, lifetimeMs, exact: false, validUntilMs, commandTimeoutMs };
    const reply = await this.#store.extend({ ...terms, token: this.token, held: this.#held, begin });
    if (reply.outcome === 'extended') this.#extended(reply.sent);
    else if (reply.outcome !== 'late') this.#lose(reply.outcome);
    return reply;
  }

  /** Marks the extension as sent: later calls start a new one. */
  #sentOut(extension: Promise<ExtendReply> | undefined): void {
    if (this.#extension === extension) this.#extension = undefined;
  }

  async part(held: SharingHolder): Promise<void> {
    if (!this.#holders.has(held)) return;
    if (this.#holders.size > 1) return this.#admit(held);
    this.#isClosed = true;
    this.#holders.delete(held);
    held.parted(this.token, this.fence, this.#sent);
  }

  /** Acquires a member for a parting reader. Redis admits it beside this member, even while others wait. */
  async #admit(held: SharingHolder): Promise<void> {
    const { key, lifetimeMs, fencing, owner, mode } = this.#terms;
    // The readers that stay keep the token of this member. A token that was abandoned is never used again.
    const token = this.#spent.has(held.token) ? newToken(owner) : held.token;
    this.#spent.add(token);
    const { commandTimeoutMs } = held.releaseRequest();
    const beside = { token: this.token, held: this.#held };
    const begin = (): boolean => this.#holders.has(held);
    const fences = fencing ? 1 : 0;
    const request = { keys: key, token, lifetimeMs, fences, minReplicas: 0, commandTimeoutMs, begin, mode, beside };
    const late = new LateRequest(this.#nowMs(), commandTimeoutMs);
    const abandon = (which: string): void => this.#abandon(which, commandTimeoutMs, late);
    const reply = await this.#store.acquire(request).catch((error) => {
      abandon(token);
      throw error;
    });
    if (!reply.granted) return this.#lose('missing'); // Redis no longer had this member.
    // The reader was released or lost meanwhile.
    if (!this.#holders.delete(held)) return abandon(token);
    held.parted(token, reply.fence, reply.sent);
    if (this.#holders.size > 0) return;
    this.#isClosed = true;
    abandon(this.token);
  }

  #extended(sent: Moment): void {
    this.#sent = sent;
    for (const held of [...this.#holders]) held.check();
  }

  /** Reports the loss of the member to all its readers. */
  #lose(reason: LossReason): void {
    this.#isClosed = true;
    for (const held of [...this.#holders]) if (held.check()) held.lose(reason); // H84g
  }

  get #held(): HeldMode {
    return { mode: this.#terms.mode, fence: this.fence };
  }

  #abandon(token: string, commandTimeoutMs: number, late: LateRequest): void {
    const { key, mode } = this.#terms;
    void this.#store.abandon({ keys: key, token, commandTimeoutMs, held: { mode, fence: -1 } }, late);
  }
}
