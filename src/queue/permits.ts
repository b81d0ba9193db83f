// Permits of one process. Callers that want the same number of permits on the same terms wait here, in order of arrival. The group
// fetches no more members for them than the permits allow, and hands a released member off to the next caller without a command to Redis.
// Hand-offs of a member are limited in number (policy.ts), end a third of the lifetime after its grant, and need a confirmed lease.
//
// If callers of the same lock object wait on other terms, each caller queues in Redis with its own entry, so that none is overtaken.
import type { Member, SharingHolder } from '../hold/kept-lock';
import type { ExtendReply, ExtendRequest, Grant, ReleaseReply } from '../store/contract';
import { WaitGroup } from './group';
import { fencesInBlock, handOffsAfterGrant } from './policy';

export class Permits extends WaitGroup {
  /** Each hand-off of a member has a fence of its own. */
  override readonly fences = fencesInBlock;
  #held = 0;
  /** True once other callers wait on other terms: then each has an entry of its own in the Redis queue. */
  #isMixed = false;

  accepts(): boolean {
    return !this.#isMixed;
  }

  close(): void {
    this.#isMixed = true;
    this.fetch();
  }

  protected get wanted(): number {
    const { total, permits } = this.mode;
    const room = this.#isMixed ? Number.POSITIVE_INFINITY : Math.floor(total / permits) - this.#held;
    return Math.min(this.positions.size, room);
  }

  protected fetched(grant: Grant, others: number): void {
    this.#held += 1;
    this.#give(grant, new PermitsMember(grant, this, handOffsAfterGrant(others)));
  }

  handOff(held: SharingHolder, member: PermitsMember): boolean {
    const sent = held.confirmed();
    const mayGo = sent !== undefined && member.handOffsLeft > 0 && this.nowMs() < member.untilMs;
    if (!mayGo || this.positions.size === 0 || this.#isMixed) return false; // S28
    member.handOffsLeft -= 1;
    const fence = member.fence === 0 ? 0 : held.fence + 1; // H84j
    this.#give({ token: member.token, fence, sent }, member);
    return true;
  }

  ended(): void {
    this.#held -= 1;
    this.fetch();
  }

  #give(grant: Grant, member: PermitsMember): void {
    member.holder = this.takeFirst().waiter.granted({ ...grant, member }) as SharingHolder;
    this.fetch();
  }
}

/** Permits that this process holds in Redis as one member, for one caller at a time. */
class PermitsMember implements Member {
  readonly token: string;
  readonly fence: number;
  holder: SharingHolder | undefined;
  handOffsLeft: number;
  /** The end of the time in which the member may be handed off. */
  readonly untilMs: number;
  readonly #permits: Permits;

  constructor({ token, fence, sent }: Grant, permits: Permits, handOffs: number) {
    this.token = token;
    this.fence = fence;
    this.handOffsLeft = handOffs;
    this.untilMs = sent.monoMs + permits.terms.lifetimeMs / 3;
    this.#permits = permits;
  }

  release(held: SharingHolder): ReleaseReply | Promise<ReleaseReply> {
    const { source } = this.#permits;
    if (held !== this.holder) return source.release(held);
    this.holder = undefined;
    if (this.#permits.handOff(held, this)) return 'released';
    const reply = source.release(held);
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
    return this.#permits.store.extend(request);
  }

  /** Does nothing: the member has no other holder. */
  async part(): Promise<void> {}
}
