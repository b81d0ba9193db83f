// Permits of one process. Callers that want as many of them on the same terms wait here, in order of arrival; members are fetched for
// them, no more than there are permits, and a permit that is released is handed off to the next, without a command to Redis: a few
// times, for a third of the lifetime from its grant at most, and only while Redis's last confirmation is young.
//
// Where others of the same lock object wait on other terms, all queue in Redis, each with its own entry: so nobody is passed.
import type { LockBackendError } from '../core/errors';
import { LinkedList } from '../core/linked-list';
import type { Member, SharingHolder } from '../hold/shared-member';
import type { ExtendReply, ExtendRequest, Grant, ReleaseReply } from '../store/contract';
import type { Fetch, Fetcher, MemberPort, MemberTerms, SharePosition, WaitGroup } from './group';
import { handOffsAlone, handOffsAmongOthers } from './queue';

export class Permits implements WaitGroup, Fetcher {
  readonly terms: MemberTerms;
  readonly #port: MemberPort;
  readonly #positions = new LinkedList<SharePosition>();
  readonly #fetches = new Set<Fetch>();
  /** Members that are held. */
  #held = 0;
  /** Others wait on other terms. */
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

  /** From now on each that waits has an entry of its own, before those that come after it. */
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

  /** Whether a member that is released can go to another caller. */
  get isAwaited(): boolean {
    return this.#positions.size > 0 && !this.#isMixed;
  }

  /** To the first that waits. */
  give(grant: Grant, member: PermitsMember): void {
    const first = this.#positions.first!;
    this.#positions.delete(first);
    member.holder = first.waiter.granted({ ...grant, member }) as SharingHolder;
    this.#giveUpSurplus();
  }

  /** A member is held no more. */
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

  /** The last ones to come are the first to leave. */
  #giveUpSurplus(): void {
    if (this.#fetches.size <= this.#positions.size) return;
    for (const fetch of [...this.#fetches].slice(this.#positions.size)) {
      this.#fetches.delete(fetch);
      fetch.giveUp(undefined);
    }
  }
}

/** A number of permits that this process has, for one holder at a time. */
class PermitsMember implements Member {
  readonly token: string;
  readonly fence: number;
  holder: SharingHolder | undefined;
  readonly #permits: Permits;
  readonly #port: MemberPort;
  /** Until then it may be handed off. */
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
    // In the same command, behind the release.
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

  /** It has no other holder. */
  async part(): Promise<void> {}

  #handOff(held: SharingHolder): boolean {
    const sent = held.confirmed();
    const mayGo = sent !== undefined && this.#handOffsLeft > 0 && this.#port.nowMs() < this.#untilMs;
    if (!mayGo || !this.#permits.isAwaited) return false; // S28
    this.#handOffsLeft -= 1;
    const fence = this.fence === 0 ? 0 : held.fence + 1; // H84j
    this.#permits.give({ token: this.token, fence, sent, mayExecuteUntilMs: 0 }, this);
    return true;
  }
}
