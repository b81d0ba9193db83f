// One attempt to get the votes of a majority, from before its requests are sent until the last node has answered. The caller
// may have had the lock, and released it, long before that end: then a later grant is released too.
//
// A round asks, and then is granted. Or it fails, and releases its grants while it learns the reason. Or it is over: its token
// was released, or its caller gave up.
//
// A round asks a bare majority first. Nearly always that is enough, and a lock that is released at once costs the other nodes
// nothing. The others are asked if one of the first refuses, or after a moment, because a node is slow or because the lock is
// still held: then a majority holds the lock even if it loses a node.
//
// Each node mints its own fence. The grant counts once a majority, all of whose nodes voted for it, knows the largest of these
// fences: none of its nodes will mint one that is not larger (H65). Nodes that are behind are raised to that fence.
import { type Alarm, clearAlarm } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { givenUp } from '../backend-errors';
import { type AcquireRequest, type NodeVote, type ReleaseReply, type ReleaseRequest, unknownTicket } from '../contract';
import { LateRequest } from '../late-request';
import type { QuorumNode } from './node';
import type { Nodes, Order } from './nodes';

/** The end of a round. `wroteBack`: the nodes had minted different fences. */
export type Verdict =
  | { readonly granted: true; readonly fence: number; readonly wroteBack: boolean }
  | { readonly granted: false; readonly leftMs: number }
  | LockBackendError;

/** The reply to the release at a node, if one was sent there. */
type Releases = (node: QuorumNode) => Promise<ReleaseReply> | undefined;

/** The state of a node that a round has asked. */
class AskedNode {
  readonly node: QuorumNode;
  /** `no vote`: it failed, or may have forgotten a lock; undefined: the node has not answered yet. */
  answer: 'granted' | 'busy' | 'no vote' | undefined = undefined;
  /** The last fence of the node, if the node voted for the round. */
  fence: number | undefined = undefined;
  /** True once the node was told the largest fence. */
  isRaised = false;
  /** The request that may still bring the token to the node. */
  late: LateRequest | undefined = undefined;

  constructor(node: QuorumNode) {
    this.node = node;
  }

  get mayHoldToken(): boolean {
    return this.answer === 'granted' || this.answer === 'no vote'; // H63c
  }
}

/** The remaining nodes of all rounds that are due within this time are asked by one timer. */
const gridMs = 2;

/** A copy of the caller's request that its round may modify. `commandTimeoutMs` is that of one node. */
export type RoundRequest = { -readonly [name in keyof AcquireRequest]: AcquireRequest[name] } & { lifetimeMs: number };

export class Round {
  readonly token: string;
  readonly #request: AcquireRequest;
  readonly #nodes: Nodes;
  readonly #onVerdict: (verdict: Verdict) => void;
  readonly #onDone: () => void;
  #phase: 'asking' | 'granted' | 'failed' | 'over' = 'asking';
  readonly #asked: AskedNode[] = [];
  /** The number of nodes that have not answered yet. */
  #open = 0;
  /** The nodes that are not asked yet, and the alarm that asks them. */
  #rest: readonly QuorumNode[] = [];
  #restAlarm: Alarm | undefined;
  /** The fence of the grant: the largest when a majority had voted. A later vote does not raise it. */
  #fence: number | undefined;
  /** The number of nodes that are being told the fence. */
  #writing = 0;
  /** True once the queued caller has been granted the lock, which it may have released since. */
  #isServed = false;
  /** The shortest time for which a node has no room. */
  #leftMs: number | undefined;
  readonly #errors: LockBackendError[] = [];
  /** When the last nodes were asked, in monotonic ms. */
  #askedMs = 0;
  #releases: Releases | undefined;

  /**
   * @param request The round replaces its `begin`.
   * @param onDone Called when the last node has answered.
   * @param onVerdict Called once; absent for an acquire that only adds nodes to a held lock.
   */
  constructor(request: RoundRequest, nodes: Nodes, onDone: () => void, onVerdict?: (verdict: Verdict) => void) {
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

  /** Asks the first nodes now, and the rest after `restAfterMs` or when one of the first refuses. */
  start([first, rest]: Order, restAfterMs: number): void {
    this.#errors.push(...this.#nodes.skipped([...first, ...rest]));
    this.#rest = rest;
    if (rest.length > 0)
      this.#restAlarm = this.#nodes.clock.setIdleAlarm(() => this.#onLate(), restAfterMs + gridMs, gridMs);
    this.#ask(first);
  }

  askAll(): void {
    if (this.#rest.length > 0) this.#ask(this.#takeRest());
  }

  #takeRest(): readonly QuorumNode[] {
    const rest = this.#rest;
    if (rest.length > 0) clearAlarm(this.#restAlarm);
    this.#rest = [];
    return rest;
  }

  #onLate(): void {
    if (this.#phase === 'asking') for (const { node, answer } of this.#asked) if (answer === undefined) node.wasLate();
    this.askAll();
  }

  #ask(nodes: readonly QuorumNode[]): void {
    this.#askedMs = this.#nodes.clock.nowMs();
    this.#open += nodes.length;
    for (const node of nodes) {
      const asked = new AskedNode(node);
      this.#asked.push(asked);
      const vote = node.acquire(this.#request).then(
        (reply) => (reply.granted ? this.#granted(asked, reply.fence) : this.#busy(asked, reply.leftMs)),
        (error) => this.#failed(asked, error),
      );
      this.#request.votes?.asked(this.#nodes.all.indexOf(node), vote);
    }
  }

  /** True if the node's reply is still to come. */
  awaits(node: QuorumNode): boolean {
    return this.#asked.some((each) => each.node === node && each.answer === undefined);
  }

  /** The nodes that were not asked, and will not be. */
  settle(): readonly QuorumNode[] {
    const rest = this.#takeRest();
    this.#checkDone();
    return rest;
  }

  /** Ends the round, whose token was released or abandoned. `releases` has the replies that are to come. */
  end(releases?: Releases): void {
    const wasAsking = this.#phase === 'asking' || this.#phase === 'failed';
    this.#phase = 'over';
    this.#releases = releases;
    if (wasAsking) this.#onVerdict(givenUp(this.#request.keys));
    this.#checkDone();
  }

  #granted(asked: AskedNode, fence: number): NodeVote {
    const { node } = asked;
    const guardedForMs = node.guardedForMs(this.#nodes.longestMs);
    const hasVote = this.#phase !== 'asking' || guardedForMs <= 0;
    if (hasVote) asked.fence = fence;
    else {
      const message = `${node.name} was started less than a lifetime ago: it has no vote for another ${Math.ceil(guardedForMs)} ms`;
      this.#errors.push(new LockBackendError(message, { key: this.#request.keys }));
      node.wasLate();
    }
    this.#answered(asked, hasVote ? 'granted' : 'no vote');
    return guardedForMs > 0 ? { guardedForMs } : true;
  }

  #busy(asked: AskedNode, leftMs: number): NodeVote {
    this.#leftMs = Math.min(this.#leftMs ?? leftMs, leftMs);
    if (this.#isServed) this.#leaveQueue(asked.node);
    this.#answered(asked, 'busy');
    return 0;
  }

  #failed(asked: AskedNode, error: LockBackendError): NodeVote {
    // A request that was not sent, because its caller gave up, says nothing about the node.
    if (error.unknown || this.#request.begin()) asked.node.failed(error);
    this.#errors.push(error);
    asked.late = new LateRequest(this.#askedMs, this.#request.commandTimeoutMs);
    this.#answered(asked, 'no vote');
    return error;
  }

  #answered(asked: AskedNode, answer: AskedNode['answer']): void {
    asked.answer = answer;
    this.#open -= 1;
    if (this.#phase === 'over' || this.#phase === 'failed') this.#releaseLate(asked); // H62d
    this.#decide();
  }

  #decide(): void {
    if (this.#phase === 'asking') {
      const voters = this.#asked.filter(({ fence }) => fence !== undefined);
      if (voters.length >= this.#nodes.majority) this.#agreeOnFence(voters);
      else if (voters.length + this.#open + this.#rest.length < this.#nodes.majority) {
        this.#phase = 'failed';
        for (const each of this.#asked) if (each.mayHoldToken) this.#release(each); // H62c
      }
    }
    if (this.#phase === 'failed') this.#explain();
    // Undecided: the first nodes are not enough.
    const isUndecided = this.#phase === 'asking' || this.#phase === 'failed';
    if (isUndecided && this.#open + this.#writing === 0) this.askAll();
    this.#checkDone();
  }

  #checkDone(): void {
    if (this.#phase === 'over') this.#takeRest();
    if (this.#open + this.#writing + this.#rest.length === 0) this.#onDone();
  }

  /** Grants once a majority that has voted for this round will mint only larger fences than ours. */
  #agreeOnFence(voters: readonly AskedNode[]): void {
    const fences = voters.map((each) => each.fence!);
    this.#fence ??= Math.max(...fences); // H65b
    const fence = this.#fence;
    // H65
    if (fences.filter((each) => each >= fence).length < this.#nodes.majority) {
      for (const each of voters) if (each.fence! < fence && !each.isRaised) this.#raise(each, fence);
      return;
    }
    this.#phase = 'granted';
    this.#isServed = true;
    // An entry may be at nodes that had no room now, and at nodes that had no room before and were not asked again.
    const isNew = (this.#request.queueAs?.ticket ?? 0) === 0;
    for (const node of this.#nodes.all) {
      const asked = this.#asked.find((each) => each.node === node);
      if (isNew ? asked?.answer === 'busy' : asked?.fence === undefined) this.#leaveQueue(node);
    }
    this.#onVerdict({ granted: true, fence, wroteBack: this.#asked.some(({ isRaised }) => isRaised) });
  }

  #raise(asked: AskedNode, fence: number): void {
    asked.isRaised = true;
    this.#writing += 1;
    const raised = (isOurs: boolean): void => {
      this.#writing -= 1;
      asked.fence = isOurs ? fence : undefined; // H65c
      this.#decide();
    };
    asked.node.store.raise({ ...this.#request, fence }).then(raised, (error) => {
      asked.node.failed(error);
      this.#errors.push(error);
      asked.answer = 'no vote';
      raised(false);
    });
  }

  /** Explains a failure: no majority can be won. The reason, a busy key or unreachable nodes, may not be known yet. */
  #explain(): void {
    const votes = this.#asked.filter(({ answer }) => answer === 'granted' || answer === 'busy');
    const isBusy = votes.length >= this.#nodes.majority;
    if (!isBusy && !this.#nodes.isMinority(this.#errors.length)) return;
    this.#phase = 'over';
    if (isBusy) this.#onVerdict({ granted: false, leftMs: this.#leftMs ?? 0 });
    else this.#onVerdict(this.#nodes.noMajority(this.#errors, this.#request.keys));
  }

  #releaseLate(asked: AskedNode): void {
    if (!asked.mayHoldToken) return;
    const release = asked.late === undefined ? this.#releases?.(asked.node) : undefined;
    // A release that was sent behind the request has found the token at this node.
    if (release === undefined) return this.#release(asked);
    release.then(
      (reply) => reply !== 'released' && this.#release(asked),
      () => {},
    );
  }

  #release({ node, late }: AskedNode): void {
    node.abandon(releaseOf(this.#request, this.token), late);
  }

  #leaveQueue(node: QuorumNode): void {
    const whose = this.#request.queueAs?.token;
    if (whose !== undefined) node.abandon(releaseOf(this.#request, whose, unknownTicket));
  }
}

function releaseOf({ keys, mode, commandTimeoutMs }: AcquireRequest, token: string, ticket = 0): ReleaseRequest {
  return { keys, token, commandTimeoutMs, ticket, held: mode && { mode } };
}
