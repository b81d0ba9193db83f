// Readers of one process that share a member: Redis sees one holder. Readers that come within the window (policy.ts) join the member,
// before its grant or after. The last reader to leave releases it. The member ends one lifetime after its last extension, which counts
// for all its readers. A reader that needs another lifetime, or upgrades, gets a member of its own first.
//
// Invariant: no reader joins a member that is being released, that was lost, or whose window has closed. Each reader has its own
// validity, which never ends later than what Redis confirmed for the member.
import type { LossReason } from '../core/errors';
import { newToken } from '../core/token';
import type { Member, SharingHolder } from '../hold/kept-lock';
import { trustedMs } from '../hold/validity';
import type { ExtendReply, ExtendRequest, Grant, HeldMode, Moment, ReleaseReply } from '../store/contract';
import { LateRequest } from '../store/late-request';
import { type GroupPosition, WaitGroup } from './group';
import { maxJoins, turnMs, windowMs } from './policy';

export class Readers extends WaitGroup implements Member {
  token = '';
  fence = 0;
  readonly #holders = new Set<SharingHolder>();
  /** Tokens that a parting reader cannot use. */
  readonly #spent = new Set<string>();
  /** A moment just before the last confirmed request was sent; undefined before the grant. */
  #sent: Moment | undefined;
  #closesMs = this.nowMs() + Math.min(windowMs, this.terms.lifetimeMs / 3);
  #joinsLeft = maxJoins;
  #isClosed = false;
  /** An extension that has not been sent yet. */
  #extension: Promise<ExtendReply> | undefined;

  accepts(): boolean {
    if (this.#isClosed || this.#joinsLeft <= 0) return false;
    const isInTime = this.nowMs() < this.#closesMs;
    if (this.#sent !== undefined) return isInTime;
    const haveAllLeft = this.positions.size === 0 && this.#joinsLeft < maxJoins;
    return !haveAllLeft && (isInTime || !this.hasWaited);
  }

  override join(position: GroupPosition): void {
    this.#joinsLeft -= 1; // H84b
    if (this.#sent === undefined) super.join(position);
    else this.#give(position, this.#sent);
  }

  /** Ends the joins, unless the readers had to wait for the member: its window is their turn, also if a writer of another process waits. */
  close(): void {
    this.#isClosed ||= this.#sent === undefined || !this.hasWaited;
  }

  protected get wanted(): number {
    return this.#sent === undefined && this.positions.size > 0 ? 1 : 0;
  }

  protected fetched(grant: Grant): void {
    // An attempt with this token may still execute. Its late release is the task of a single holder, so the grant is not shared.
    if (grant.late !== undefined) {
      this.takeFirst().waiter.granted(grant);
      return this.fetch();
    }
    const { token, fence, sent } = grant;
    Object.assign(this, { token, fence });
    this.#spent.add(token);
    this.#sent = sent;
    while (this.positions.size > 0) this.#give(this.takeFirst(), sent);
    // The window opens now, because giving the member to many readers takes a while.
    this.#joinsLeft = maxJoins;
    const thirdMs = sent.monoMs + this.terms.lifetimeMs / 3;
    this.#closesMs = Math.min(this.nowMs() + (this.hasWaited ? turnMs : windowMs), thirdMs);
  }

  #give({ waiter }: GroupPosition, sent: Moment): void {
    const token = this.#holders.size === 0 ? this.token : newToken(this.terms.owner); // H41b
    const grant = { token, fence: this.fence, sent, member: this }; // H84d
    this.#holders.add(waiter.granted(grant) as SharingHolder);
  }

  release(held: SharingHolder): ReleaseReply | Promise<ReleaseReply> {
    const wasHeld = this.#holders.delete(held);
    // `check` finds a holder that was dropped without a release.
    for (const other of this.#holders) if (other.check()) return wasHeld ? 'released' : 'missing'; // H84
    this.#isClosed = true; // H84e
    return this.source.release(held);
  }

  lost(held: SharingHolder): void {
    this.#holders.delete(held);
    this.#isClosed ||= this.#holders.size === 0; // H84f
  }

  /** All readers that call this before the request is sent share one extension. */
  extend({ commandTimeoutMs }: ExtendRequest): Promise<ExtendReply> {
    this.#extension ??= this.#extend(commandTimeoutMs).finally(() => {
      this.#extension = undefined;
    });
    return this.#extension;
  }

  async #extend(commandTimeoutMs: number): Promise<ExtendReply> {
    const { key, lifetimeMs } = this.terms;
    const begin = (): boolean => {
      this.#extension = undefined;
      return this.#holders.size > 0;
    };
    const validUntilMs = this.#sent!.monoMs + trustedMs(lifetimeMs);
    const terms = { keys: key, lifetimeMs, exact: false, validUntilMs, commandTimeoutMs };
    const reply = await this.store.extend({ ...terms, token: this.token, held: this.#held, begin });
    if (reply.outcome === 'extended') {
      this.#sent = reply.sent;
      for (const held of [...this.#holders]) held.check();
    } else if (reply.outcome !== 'late') this.#lose(reply.outcome);
    return reply;
  }

  async part(held: SharingHolder): Promise<void> {
    if (!this.#holders.has(held)) return;
    if (this.#holders.size > 1) return this.#admit(held);
    this.#isClosed = true;
    this.#holders.delete(held);
    held.parted(this.token, this.fence, this.#sent!);
  }

  /** Acquires a member for a parting reader. Redis admits it beside this member, even while others wait. */
  async #admit(held: SharingHolder): Promise<void> {
    const { mode, terms } = this;
    const { key, lifetimeMs, fencing, owner } = terms;
    // The readers that stay keep the token of this member. A token that was abandoned is never used again.
    const token = this.#spent.has(held.token) ? newToken(owner) : held.token;
    this.#spent.add(token);
    const { commandTimeoutMs } = held.releaseRequest();
    const beside = { token: this.token, held: this.#held };
    const begin = (): boolean => this.#holders.has(held);
    const fences = fencing ? 1 : 0;
    const request = { keys: key, token, lifetimeMs, fences, minReplicas: 0, commandTimeoutMs, begin, mode, beside };
    const late = new LateRequest(this.nowMs(), commandTimeoutMs);
    const abandon = (which: string): void =>
      void this.store.abandon({ keys: key, token: which, commandTimeoutMs, held: { mode } }, late);
    const reply = await this.store.acquire(request).catch((error) => {
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

  #lose(reason: LossReason): void {
    this.#isClosed = true;
    for (const held of [...this.#holders]) if (held.check()) held.lose(reason); // H84g
  }

  get #held(): HeldMode {
    return { mode: this.mode, fence: this.fence };
  }
}
