// Permits of one process. Callers that want the same number of permits on the same terms wait here, in order of arrival. The group
// fetches members for them, and never more members than the permits allow. A released member is handed off to the next caller without
// a command to Redis. Hand-offs of a member are limited in number, end a third of the lifetime after its grant, and need a confirmed
// lease.
//
// If callers of the same lock object wait on other terms, each caller queues in Redis with its own entry, so that none is overtaken.
import type { LockBackendError } from '../core/errors';
import { LinkedList } from '../core/linked-list';
import type { Member, SharingHolder } from '../hold/kept-lock';
import type { ExtendReply, ExtendRequest, Grant, ReleaseReply } from '../store/contract';
import type { Fetch, Fetcher, MemberPort, MemberTerms, SharePosition, WaitGroup } from './group';
import { handOffsAlone, handOffsAmongOthers } from './queue';

export class Permits implements WaitGroup, Fetcher {
  readonly terms: MemberTerms;
  readonly #port: MemberPort;
  readonly #positions = new LinkedList<SharePosition>();
  readonly #fetches = new Set<Fetch>();
  /** The number of members that are held. */
  #held = 0;
  /** Set when other callers wait on other terms. */
  #isMixed = false;

  constructor(terms: MemberTerms, port: MemberPort) {
    this.terms = terms;
    this.#port = port;
  }

  accepts(): boolean {
    return !this.#isMixed;
  }

  join(position: SharePosition): void {
    this.#positions.add(position);
    this.#fetch();
  }

  leave(position: SharePosition): void {
    if (this.#positions.delete(position)) this.#giveUpSurplus();
  }

  /** Fetches one member for each waiting caller, so that each has an entry of its own in the Redis queue. */
  close(): void {
    this.#isMixed = true;
    this.#fetch();
  }

  granted(fetch: Fetch, grant: Grant, others: number): void {
    if (!this.#fetches.delete(fetch)) return;
    const handOffs = others > 0 ? handOffsAmongOthers : handOffsAlone;
    this.#held += 1;
    this.give(grant, new PermitsMember(grant, this, this.#port, handOffs));
  }

  failed(fetch: Fetch, error: LockBackendError): void {
    if (!this.#fetches.delete(fetch)) return;
    for (let each = this.#positions.first; each !== undefined; each = this.#positions.first) {
      this.#positions.delete(each);
      each.waiter.failed(error);
    }
    this.#giveUpSurplus();
  }

  busy(error: LockBackendError | undefined): void {
    for (const position of this.#positions) {
      position.hasWaited ||= error === undefined;
      position.waiter.troubled(error);
    }
  }

  /** Tells if a released member can go to another caller. */
  get isAwaited(): boolean {
    return this.#positions.size > 0 && !this.#isMixed;
  }

  /** Gives the member to the first caller that waits. */
  give(grant: Grant, member: PermitsMember): void {
    const first = this.#positions.first!;
    this.#positions.delete(first);
    member.holder = first.waiter.granted({ ...grant, member }) as SharingHolder;
    this.#giveUpSurplus();
  }

  /** Reports that a member is no longer held. */
  ended(): void {
    this.#held -= 1;
    this.#fetch();
  }

  #fetch(): void {
    const { most, permits } = this.terms.mode;
    const room = this.#isMixed ? Number.POSITIVE_INFINITY : Math.floor(most / permits) - this.#held;
    const wanted = Math.min(this.#positions.size, room);
    while (this.#fetches.size < wanted) this.#fetches.add(this.#positions.first!.waiter.fetch(this));
  }

  /** Gives up the newest fetches when there are more fetches than callers. */
  #giveUpSurplus(): void {
    if (this.#fetches.size <= this.#positions.size) return;
    for (const fetch of [...this.#fetches].slice(this.#positions.size)) {
      this.#fetches.delete(fetch);
      fetch.giveUp(undefined);
    }
  }
}

/** Permits that this process holds in Redis as one member, for one caller at a time. */
class PermitsMember implements Member {
  readonly token: string;
  readonly fence: number;
  holder: SharingHolder | undefined;
  readonly #permits: Permits;
  readonly #port: MemberPort;
  /** The end of the time in which the member may be handed off. */
  readonly #untilMs: number;
  #handOffsLeft: number;

  constructor({ token, fence, sent }: Grant, permits: Permits, port: MemberPort, handOffs: number) {
    this.token = token;
    this.fence = fence;
    this.#permits = permits;
    this.#port = port;
    this.#untilMs = sent.monoMs + permits.terms.lifetimeMs / 3;
    this.#handOffsLeft = handOffs;
  }

  release(held: SharingHolder, send: () => ReleaseReply | Promise<ReleaseReply>): ReleaseReply | Promise<ReleaseReply> {
    if (held !== this.holder) return send();
    this.holder = undefined;
    if (this.#handOff(held)) return 'released';
    const reply = send();
    // The next fetch is sent in the same command, behind the release.
    this.#permits.ended();
    return reply;
  }

  lost(held: SharingHolder): void {
    if (held !== this.holder) return;
    this.holder = undefined;
    this.#permits.ended();
  }

  extend(request: ExtendRequest): Promise<ExtendReply> {
    return this.#port.extend(request);
  }

  /** Does nothing: the member has no other holder. */
  async part(): Promise<void> {}

  #handOff(held: SharingHolder): boolean {
    const sent = held.confirmed();
    const mayGo = sent !== undefined && this.#handOffsLeft > 0 && this.#port.nowMs() < this.#untilMs;
    if (!mayGo || !this.#permits.isAwaited) return false; // S28
    this.#handOffsLeft -= 1;
    const fence = this.fence === 0 ? 0 : held.fence + 1; // H84j
    this.#permits.give({ token: this.token, fence, sent }, this);
    return true;
  }
}
