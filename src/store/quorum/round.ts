// One attempt to get the votes of a majority, from before its requests are sent until the last node has answered. The caller
// may have had the lock, and released it, long before that end: then a later grant is released too.
//
// A round asks, and then is granted. Or it fails, and releases its grants while it learns the reason. Or it is over: its token
// was released, or its caller gave up.
//
// A round asks a bare majority first. Nearly always that is enough, and a lock that is released at once costs the other nodes
// nothing. The others are asked if one of the first refuses, or after a moment, because a node is slow or because the lock is
// still held: then a majority holds the lock even if it loses a node.
import type { LockBackendError } from '../../core/errors';
import type { Linked } from '../../core/linked-list';
import { type AcquireRequest, type NodeVote, type ReleaseReply, type ReleaseRequest, unknownTicket } from '../contract';
import { LateRequest } from '../late-request';
import { FenceVotes } from './fence-votes';
import type { QuorumNode } from './node';
import { NodeMap } from './node-map';
import type { Nodes } from './nodes';

/** The end of a round. `wroteBack`: the nodes had minted different fences. */
export type Verdict =
  | { readonly is: 'granted'; readonly fence: number; readonly wroteBack: boolean }
  | { readonly is: 'busy'; readonly leftMs: number }
  | { readonly is: 'failed'; readonly errors: readonly LockBackendError[] }
  | { readonly is: 'over' };

/** The reply to the release at a node, if one was sent there. */
export type Releases = (node: QuorumNode) => Promise<ReleaseReply> | undefined;

const none: readonly QuorumNode[] = [];
/** The remaining nodes of all rounds that are due within this time are asked by one timer. */
const gridMs = 2;

/** A private copy that this round may modify. */
type Own<T> = { -readonly [name in keyof T]: T[name] };

export class Round implements Linked<Round> {
  before: Round | undefined = undefined;
  after: Round | undefined = undefined;
  readonly token: string;
  readonly #request: AcquireRequest;
  readonly #nodes: Nodes;
  readonly #onVerdict: (verdict: Verdict) => void;
  readonly #onDone: () => void;
  #phase: 'asking' | 'granted' | 'failed' | 'over' = 'asking';
  /** The fences of the nodes that voted for this round. */
  readonly #fences = new FenceVotes();
  /** Nodes that have not answered yet. */
  readonly #open = new NodeMap<true>();
  /** The nodes that are not asked yet, and the alarm that asks them. */
  #rest: readonly QuorumNode[] = none;
  #restAlarm: unknown;
  /** Nodes where the token may be, each with the late request that may still bring the token there. */
  readonly #holders = new NodeMap<LateRequest | undefined>();
  /** Nodes without room: the caller may be queued there. */
  readonly #queued = new NodeMap<true>();
  /** True once the queued caller has been granted the lock, which it may have released since. */
  #isServed = false;
  readonly #lefts: number[] = [];
  readonly #errors: LockBackendError[] = [];
  #votes = 0;
  #writing = 0;
  /** When the last nodes were asked, in monotonic ms. */
  #askedMs = 0;
  #releases: Releases | undefined;

  /**
   * @param request A request that the round may modify: the round replaces its `begin`.
   * @param onDone Called when the last node has answered.
   * @param onVerdict Called once; absent for an acquire that only adds nodes to a held lock.
   */
  constructor(request: Own<AcquireRequest>, nodes: Nodes, onDone: () => void, onVerdict?: (verdict: Verdict) => void) {
    // A granted round may always ask the other nodes too; before the grant the caller may have given up.
    const { begin } = request;
    request.begin = () => this.#phase === 'granted' || (this.#phase !== 'over' && begin());
    this.token = request.token;
    this.#request = request;
    this.#nodes = nodes;
    this.#onDone = onDone;
    this.#onVerdict = onVerdict ?? (() => {});
    this.#isServed = onVerdict === undefined;
    if (this.#isServed) this.#phase = 'granted';
  }

  /** Asks `first` now, and `rest` after `restAfterMs` or when one of the first refuses. `skipped` has the errors of skipped nodes. */
  start(
    first: readonly QuorumNode[],
    rest: readonly QuorumNode[],
    skipped: readonly LockBackendError[],
    restAfterMs: number,
  ): void {
    for (const error of skipped) this.#errors.push(error);
    this.#rest = rest;
    if (rest.length > 0)
      this.#restAlarm = this.#nodes.clock.setTimer(() => this.#onLate(), restAfterMs + gridMs, gridMs);
    this.#ask(first);
  }

  /** Asks the nodes that are not asked yet. */
  askAll(): void {
    if (this.#rest.length > 0) this.#ask(this.#takeRest());
  }

  #takeRest(): readonly QuorumNode[] {
    const rest = this.#rest;
    if (rest.length > 0) this.#nodes.clock.clearTimer(this.#restAlarm);
    this.#rest = none;
    return rest;
  }

  #onLate(): void {
    if (this.#phase === 'asking') for (const node of this.#open.keys()) node.wasLate(this.#nodes.clock.now().monoMs);
    this.askAll();
  }

  #ask(nodes: readonly QuorumNode[]): void {
    const { commandTimeoutMs } = this.#request;
    this.#askedMs = this.#nodes.clock.now().monoMs;
    for (const node of nodes) this.#open.set(node, true);
    for (const node of nodes) {
      const identified = node.identify(commandTimeoutMs);
      // The identification is awaited with a grant, and not needed without one.
      identified?.catch(() => {});
      node.store.acquire(this.#request).then(
        (reply) => {
          if (!reply.granted) return this.#busy(node, reply.leftMs);
          const confirmed = node.confirm(identified, commandTimeoutMs);
          if (confirmed === undefined) return this.#granted(node, reply.fence);
          confirmed.then(
            () => this.#granted(node, reply.fence),
            (error) => this.#failed(node, error),
          );
        },
        (error) => this.#failed(node, error),
      );
    }
  }

  /** True if the node's reply is still to come. */
  awaits(node: QuorumNode): boolean {
    return this.#open.has(node);
  }

  /** The nodes that were not asked, and will not be. */
  settle(): readonly QuorumNode[] {
    const rest = this.#takeRest();
    this.#checkDone();
    return rest;
  }

  /** Ends the round: its token was released, with these replies to come, or is given up and released here. */
  end(releases?: Releases): void {
    const wasAsking = this.#phase === 'asking' || this.#phase === 'failed';
    this.#phase = 'over';
    this.#releases = releases;
    if (releases === undefined) this.#releaseAll();
    if (wasAsking) this.#onVerdict({ is: 'over' });
    this.#checkDone();
  }

  #granted(node: QuorumNode, fence: number): void {
    this.#holders.set(node, undefined);
    const guard = this.#phase === 'asking' && node.restartGuard(this.#nodes.longestMs, this.#request.keys);
    if (guard) {
      this.#errors.push(guard);
      node.wasLate(this.#nodes.clock.now().monoMs);
    } else {
      this.#votes += 1;
      this.#fences.set(node, fence);
    }
    this.#answered(node, node.voteFor(this.#nodes.longestMs));
  }

  #busy(node: QuorumNode, leftMs: number): void {
    this.#votes += 1;
    this.#lefts.push(leftMs);
    if (this.#isServed) this.#leaveQueue(node);
    else this.#queued.set(node, true);
    this.#answered(node, 0);
  }

  #failed(node: QuorumNode, error: LockBackendError): void {
    // A request that was not sent, because its caller gave up, says nothing about the node.
    if (error.unknown || this.#request.begin()) node.failed(error);
    this.#errors.push(error);
    this.#holders.set(node, new LateRequest(this.#askedMs, this.#request.commandTimeoutMs)); // H63c
    this.#answered(node, error);
  }

  #answered(node: QuorumNode, vote: NodeVote): void {
    this.#request.votes?.voted(this.#nodes.all.indexOf(node), vote);
    this.#open.delete(node);
    if (this.#phase === 'over' || this.#phase === 'failed') this.#releaseLate(node); // H62d
    this.#decide();
  }

  #decide(): void {
    if (this.#phase === 'asking') {
      if (this.#fences.size >= this.#nodes.majority) this.#agreeOnFence();
      else if (this.#fences.size + this.#open.size + this.#rest.length < this.#nodes.majority) {
        this.#phase = 'failed';
        this.#releaseAll(); // H62c
      }
    }
    if (this.#phase === 'failed') this.#explain();
    // Undecided: the first nodes are not enough.
    const isUndecided = this.#phase === 'asking' || this.#phase === 'failed';
    if (isUndecided && this.#open.size + this.#writing === 0) this.askAll();
    this.#checkDone();
  }

  #checkDone(): void {
    if (this.#phase === 'over') this.#takeRest();
    if (this.#open.size + this.#writing + this.#rest.length === 0) this.#onDone();
  }

  /** Grants once a majority that has voted for this round will mint only larger fences than ours. */
  #agreeOnFence(): void {
    const { fence } = this.#fences;
    // H65
    if (!this.#fences.isKnownTo(this.#nodes.majority)) {
      for (const node of this.#fences.takeBehind()) this.#raise(node, fence);
      return;
    }
    this.#phase = 'granted';
    this.#isServed = true;
    const isNew = (this.#request.queueAs?.ticket ?? 0) === 0;
    // An entry may be at nodes that had no room now, and at nodes that had no room before and were not asked again.
    const mayQueue = isNew ? this.#queued.keys() : this.#nodes.all.filter((node) => !this.#fences.has(node));
    for (const node of mayQueue) this.#leaveQueue(node);
    this.#onVerdict({ is: 'granted', fence, wroteBack: this.#fences.wroteBack });
  }

  #raise(node: QuorumNode, fence: number): void {
    const { keys, token, mode, commandTimeoutMs } = this.#request;
    this.#writing += 1;
    const raised = (isOurs: boolean): void => {
      this.#writing -= 1;
      // H65c
      if (isOurs) this.#fences.set(node, fence);
      else this.#fences.delete(node);
      this.#decide();
    };
    node.store.raise({ keys, token, mode, fence, commandTimeoutMs }).then(raised, (error) => {
      node.failed(error);
      this.#errors.push(error);
      this.#votes -= 1;
      raised(false);
    });
  }

  /** Explains a failure: no majority can be won. The reason, a busy key or unreachable nodes, may not be known yet. */
  #explain(): void {
    const isBusy = this.#votes >= this.#nodes.majority;
    if (!isBusy && !this.#nodes.isMinority(this.#errors.length)) return;
    this.#phase = 'over';
    const leftMs = this.#lefts.length > 0 ? Math.min(...this.#lefts) : 0;
    this.#onVerdict(isBusy ? { is: 'busy', leftMs } : { is: 'failed', errors: this.#errors });
  }

  #releaseAll(): void {
    for (const node of this.#holders.keys()) this.#release(node);
  }

  #releaseLate(node: QuorumNode): void {
    if (!this.#holders.has(node)) return;
    const release = this.#holders.get(node) === undefined ? this.#releases?.(node) : undefined;
    // A release that was sent behind the request has found the token at this node.
    if (release === undefined) return this.#release(node);
    release.then(
      (reply) => reply !== 'released' && this.#release(node),
      () => {},
    );
  }

  #release(node: QuorumNode): void {
    node.abandon(releaseOf(this.#request, this.token), this.#holders.get(node));
  }

  #leaveQueue(node: QuorumNode): void {
    const whose = this.#request.queueAs?.token;
    if (whose !== undefined) node.abandon(releaseOf(this.#request, whose, unknownTicket));
  }
}

function releaseOf({ keys, mode, commandTimeoutMs }: AcquireRequest, token: string, ticket = 0): ReleaseRequest {
  return { keys, token, commandTimeoutMs, ticket, held: mode && { mode } };
}
