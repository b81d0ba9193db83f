// One attempt to get the votes of a majority, from before it is sent until the last node has answered. Its caller may have had
// the lock, and given it back, long before that: then a vote that comes later is given back too.
//
// It asks, and then is granted; or it failed, and gives back what it has while it learns why; or it is over: its token was
// released, or nobody waits any more.
import { LockBackendError } from '../../errors';
import { describe } from '../../keys';
import type { AcquireRequest, ReleaseReply } from '../../store';
import type { Member } from './node';

export interface Terms {
  readonly size: number;
  readonly majority: number;
  /** The largest lifetime in use. */
  readonly longestMs: number;
}

/** What became of it. `wroteBack`: the nodes had minted different fences. */
export type Verdict =
  | { readonly is: 'granted'; readonly fence: number; readonly wroteBack: boolean }
  | { readonly is: 'busy'; readonly leftMs: number }
  | { readonly is: 'failed'; readonly errors: readonly LockBackendError[] }
  | { readonly is: 'over' };

export class Round {
  readonly #request: AcquireRequest;
  readonly #terms: Terms;
  readonly #tell: (verdict: Verdict) => void;
  readonly #done: () => void;
  #phase: 'asking' | 'granted' | 'failed' | 'over' = 'asking';
  /** Who voted for us, and the last fence that it is known to have. */
  readonly #fences = new Map<Member, number>();
  /** Who has not answered yet. */
  readonly #open = new Set<Member>();
  readonly #raising = new Set<Member>();
  /** Where the token may be, and until when a lost request may still bring it there. */
  readonly #holders = new Map<Member, number>();
  readonly #lefts: number[] = [];
  readonly #errors: LockBackendError[] = [];
  #votes = 0;
  #writing = 0;
  #fence: number | undefined;
  #ghostUntilMs = 0;
  #releases: ReadonlyMap<Member, Promise<ReleaseReply>> | undefined;

  /** @param tell Hears the verdict, once; absent for votes that come after it. */
  constructor(request: AcquireRequest, terms: Terms, done: () => void, tell?: (verdict: Verdict) => void) {
    this.#request = { ...request, begin: () => this.#phase !== 'over' && request.begin() };
    this.#terms = terms;
    this.#done = done;
    this.#tell = tell ?? (() => {});
    if (tell === undefined) this.#phase = 'granted';
  }

  /** @param silent Why the others are not asked. */
  ask(members: readonly Member[], silent: readonly LockBackendError[], sentMs: number): void {
    const { commandTimeoutMs } = this.#request;
    this.#ghostUntilMs = sentMs + commandTimeoutMs;
    this.#errors.push(...silent);
    for (const member of members) this.#open.add(member);
    for (const member of members) {
      const met = member.meet(commandTimeoutMs);
      // Looked at with a grant; without one nobody needs it.
      met?.catch(() => {});
      member.node.acquire(this.#request).then(
        (reply) => {
          if (!reply.granted) this.#busy(member, reply.leftMs);
          else if (met === undefined && !member.isStrange) this.#granted(member, reply.fence);
          else this.#grantedBy(member, met, reply.fence);
        },
        (error) => this.#failed(member, error),
      );
    }
  }

  /** Whether its answer is still to come. */
  awaits(member: Member): boolean {
    return this.#open.has(member);
  }

  /** The token was released, as `releases` tell; or is given up, and released here. */
  end(releases?: ReadonlyMap<Member, Promise<ReleaseReply>>): void {
    const wasAsking = this.#phase === 'asking' || this.#phase === 'failed';
    this.#phase = 'over';
    this.#releases = releases;
    if (releases === undefined) this.#giveBack();
    if (wasAsking) this.#tell({ is: 'over' });
  }

  /** The server behind the connection may be another one than we know. */
  async #grantedBy(member: Member, met: Promise<void> | undefined, fence: number): Promise<void> {
    try {
      await met;
      if (member.isStrange) await member.meet(this.#request.commandTimeoutMs);
      this.#granted(member, fence);
    } catch (error) {
      this.#failed(member, error as LockBackendError);
    }
  }

  #granted(member: Member, fence: number): void {
    this.#holders.set(member, 0);
    const youth = this.#phase === 'asking' && member.youth(this.#terms.longestMs, this.#request.keys);
    if (youth) this.#errors.push(youth);
    else {
      this.#votes += 1;
      this.#fences.set(member, fence);
    }
    this.#answered(member);
  }

  #busy(member: Member, leftMs: number): void {
    this.#votes += 1;
    this.#lefts.push(leftMs);
    this.#answered(member);
  }

  #failed(member: Member, error: LockBackendError): void {
    // A request that was not sent, because nobody waits any more, says nothing of the node.
    if (error.unknown || this.#request.begin()) member.failed(error);
    this.#errors.push(error);
    this.#holders.set(member, this.#ghostUntilMs);
    this.#answered(member);
  }

  #answered(member: Member): void {
    this.#open.delete(member);
    if (this.#phase === 'over' || this.#phase === 'failed') this.#giveBackLate(member);
    this.#look();
  }

  #look(): void {
    if (this.#phase === 'asking') {
      if (this.#fences.size >= this.#terms.majority) this.#agree();
      else if (this.#fences.size + this.#open.size < this.#terms.majority) {
        this.#phase = 'failed';
        this.#giveBack();
      }
    }
    if (this.#phase === 'failed') this.#explain();
    if (this.#open.size + this.#writing === 0) this.#done();
  }

  /** Granted once a majority that has voted for us will mint no fence that is not larger than ours. */
  #agree(): void {
    this.#fence ??= Math.max(...this.#fences.values());
    let agreed = 0;
    for (const fence of this.#fences.values()) if (fence >= this.#fence) agreed += 1;
    if (agreed >= this.#terms.majority) {
      this.#phase = 'granted';
      return this.#tell({ is: 'granted', fence: this.#fence, wroteBack: this.#raising.size > 0 });
    }
    for (const [member, fence] of this.#fences) {
      if (fence < this.#fence && !this.#raising.has(member)) this.#raise(member, this.#fence);
    }
  }

  #raise(member: Member, fence: number): void {
    const { keys, token, commandTimeoutMs } = this.#request;
    this.#raising.add(member);
    this.#writing += 1;
    const raised = (isOurs: boolean): void => {
      this.#writing -= 1;
      if (isOurs) this.#fences.set(member, fence);
      else this.#fences.delete(member);
      this.#look();
    };
    member.node.raise({ keys, token, fence, commandTimeoutMs }).then(raised, (error) => {
      member.failed(error);
      this.#errors.push(error);
      this.#votes -= 1;
      raised(false);
    });
  }

  /** It is known that there will be no majority for us; whether there is one for somebody else, or none at all, may not be. */
  #explain(): void {
    const { size, majority } = this.#terms;
    const isBusy = this.#votes >= majority;
    if (!isBusy && this.#errors.length <= size - majority) return;
    this.#phase = 'over';
    const leftMs = this.#lefts.length > 0 ? Math.min(...this.#lefts) : 0;
    this.#tell(isBusy ? { is: 'busy', leftMs } : { is: 'failed', errors: this.#errors });
  }

  #giveBack(): void {
    for (const member of this.#holders.keys()) this.#free(member);
  }

  #giveBackLate(member: Member): void {
    if (!this.#holders.has(member)) return;
    const release = this.#holders.get(member) === 0 ? this.#releases?.get(member) : undefined;
    // A release that was sent behind the request has found the token there.
    if (release === undefined) return this.#free(member);
    release.then(
      (reply) => reply !== 'released' && this.#free(member),
      () => {},
    );
  }

  #free(member: Member): void {
    const { keys, token, commandTimeoutMs } = this.#request;
    member.free({ keys, token, commandTimeoutMs }, this.#holders.get(member)!);
  }
}

export function nobodyWaits({ keys }: AcquireRequest): LockBackendError {
  return new LockBackendError(`nobody waits for ${describe(keys)} any more`, { key: keys });
}
