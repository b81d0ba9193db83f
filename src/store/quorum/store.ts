// A store made of stores, each of them a Redis that knows nothing of the others: a lock is held while a majority of them holds
// our token. A round asks its nodes and is decided as soon as it can be; a later reply is processed in the background.
//
// Grants are exclusive because two majorities have a node in common, and a node grants one token at a time. So a grant counts
// from before its own round was sent. Each attempt has a token of its own, because the releases of a failed one may still be on
// their way. An extension counts only nodes that have held the token all the time. A node that may have forgotten a grant in a
// restart does not vote until every lifetime given before has passed.
//
// Fences rise because, before a grant returns, a majority that still holds our token has a last fence at least as large as
// ours. The next majority includes a node of that one, which mints a larger fence. Each round proposes a fence just ahead of
// all clocks, so that the nodes nearly always mint the same one, and nothing has to be written back.

import { type Clock, earlier, now } from '../../core/clock';
import { LockBackendError, optionError } from '../../core/errors';
import { noLock, warn } from '../../core/events';
import { listOf } from '../../core/keys';
import { givenUp } from '../backend-errors';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  Moment,
  Node,
  ReleaseReply,
  ReleaseRequest,
  Store,
} from '../contract';
import type { LateRequest } from '../late-request';
import type { Operator } from '../operator';
import { changeInPlace } from './change';
import { extendByMajority, releaseByMajority } from './majority';
import type { QuorumNode } from './node';
import { Nodes, type Order } from './nodes';
import { inspectMajority, quorumOperator } from './operator';
import { Places } from './places';
import { Round, type RoundRequest, type Verdict } from './round';
import { Rounds } from './rounds';

/** The timeout of one node, as a share of the lifetime. */
const timeoutShare = 1 / 8;
const minTimeoutMs = 10;
/** Bounds of the pause after which the remaining nodes are asked: four times the duration of a grant. */
const minRestMs = 5;
const maxRestMs = 100;
/** Bounds of the lead of a proposed fence over all clocks: the lead grows after nodes minted different fences, and shrinks while they agree. */
const nearestLeadMs = 1;
const farthestLeadMs = 100;

export class Quorum implements Store {
  readonly kind = 'quorum';
  readonly clock: Clock;
  readonly keyPrefix: string;
  readonly isQuorum = true;
  readonly operator: Operator;
  readonly #nodes: Nodes;
  readonly #places: Places;
  /** The rounds, by token, in which a node has not replied yet. */
  readonly #rounds = new Rounds();
  #identifying: Promise<unknown> | undefined;
  #isIdentified = false;
  #leadMs = 2 * nearestLeadMs;
  #proposed = 0;
  /** The average duration of a grant. */
  #tookMs = 0;
  /** True once a lock with a fence was requested. */
  #mintsFences = false;
  #scopes = 0;
  /** Called when no round is under way. */
  readonly #onIdle: (() => void)[] = [];

  constructor(stores: readonly Node[]) {
    this.keyPrefix = stores[0]!.keyPrefix;
    this.#nodes = new Nodes(stores);
    this.clock = this.#nodes.clock;
    this.#places = new Places(this.#nodes);
    this.operator = quorumOperator(this.#nodes);
    const { size, majority } = this.#nodes;
    if (size > 2 && size % 2 === 1) return;
    const survives = size - majority;
    const message = `a quorum of ${size} survives the loss of ${survives}, as one of ${2 * survives + 1} does; use 3, 5 or 7`;
    warn({ code: 'quorum-size', message, ...noLock('quorum') });
  }

  acquire(given: AcquireRequest): Promise<AcquireReply> {
    const { lifetimeMs } = given;
    if (lifetimeMs === null) {
      return Promise.reject(optionError('lifetime', 'a number: a node of a quorum may forget', lifetimeMs));
    }
    this.#nodes.longestMs = Math.max(this.#nodes.longestMs, lifetimeMs);
    this.#mintsFences ||= given.fences > 0;
    const commandTimeoutMs = nodeTimeout(lifetimeMs, given.commandTimeoutMs);
    const request = { ...given, lifetimeMs, commandTimeoutMs };
    if (this.#isIdentified) return this.#attempt(request);
    this.#identifying ??= this.#identifyAll(commandTimeoutMs);
    return this.#identifying.then(() => this.#attempt(request));
  }

  #attempt(request: RoundRequest): Promise<AcquireReply> {
    const { mode } = request;
    if (mode === undefined) return this.#round(request);
    if (mode.step > 0) return this.#change(request);
    if (mode.kind !== 'counted') return this.#round(request); // H67
    return this.#places
      .choose(request)
      .then((chosen) => (chosen ? this.#round(chosen) : { granted: false, leftMs: 0 }));
  }

  #change(request: RoundRequest): Promise<AcquireReply> {
    const sent = now(this.clock);
    if (!request.begin()) return Promise.reject(givenUp(request.keys));
    this.#rounds.get(request.token)?.settle();
    request.minFence = this.#minFence(sent);
    return changeInPlace(this.#nodes, request, sent);
  }

  async #identifyAll(timeoutMs: number): Promise<void> {
    await Promise.all(this.#nodes.all.map((node) => node.identify(timeoutMs)?.catch((error) => node.failed(error))));
    this.#isIdentified = true;
  }

  #round(request: RoundRequest): Promise<AcquireReply> {
    const duplicate = this.#nodes.refuses(request.keys);
    if (duplicate !== undefined) return Promise.reject(duplicate);
    const sent = now(this.clock);
    if (!request.begin()) return Promise.reject(givenUp(request.keys));
    return new Promise((resolve, reject) => {
      const onVerdict = (verdict: Verdict): void => {
        if (verdict instanceof LockBackendError) return reject(verdict);
        if (!verdict.granted) return resolve(verdict);
        if (verdict.wroteBack) this.#leadMs = Math.min(2 * this.#leadMs, farthestLeadMs);
        else this.#leadMs = Math.max(0.99 * this.#leadMs, nearestLeadMs);
        this.#tookMs += (this.clock.nowMs() - sent.monoMs - this.#tookMs) / 16;
        const { mode } = request;
        resolve({ granted: true, fence: verdict.fence, sent: mode === undefined ? sent : earlier(sent, 1), mode });
      };
      const inOrder = this.#nodes.inOrder(listOf(request.keys)[0]!, sent.monoMs);
      const order: Order = request.votes ? [inOrder.flat(), []] : inOrder;
      this.#start(request, sent, order, onVerdict);
    });
  }

  #start(request: RoundRequest, sent: Moment, order: Order, onVerdict?: (verdict: Verdict) => void): void {
    request.minFence = request.fences > 0 || request.mode ? this.#minFence(sent) : undefined;
    const onDone = (): void => {
      this.#rounds.delete(round);
      if (this.#rounds.size === 0) for (const onIdle of this.#onIdle.splice(0)) onIdle();
    };
    const round = new Round(request, this.#nodes, onDone, onVerdict);
    this.#rounds.add(round);
    const restAfterMs = Math.min(Math.max(minRestMs, 4 * this.#tookMs), maxRestMs, request.lifetimeMs * timeoutShare);
    round.start(order, restAfterMs);
  }

  /** The minimum fence of a round: ahead of every clock when it arrives there, if all goes well. */
  #minFence({ monoMs }: Moment): number {
    let offsetMs = Number.NEGATIVE_INFINITY;
    for (const { store } of this.#nodes.all) offsetMs = Math.max(offsetMs, store.operator.offsetMs);
    // Each round has a fence of its own: of many rounds sent together, a node gets only some.
    this.#proposed = Math.max(this.#proposed + 1, Math.floor((monoMs + offsetMs + this.#leadMs) * 1000));
    return this.#proposed;
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    const { token, lifetimeMs, held } = request;
    if (!request.begin()) return { outcome: 'late' };
    this.#nodes.longestMs = Math.max(this.#nodes.longestMs, lifetimeMs!);
    const sent = now(this.clock);
    const each = { ...request, commandTimeoutMs: nodeTimeout(lifetimeMs!, request.commandTimeoutMs) };
    this.#rounds.get(token)?.askAll();
    const { outcome, missing } = await extendByMajority(this.#nodes, each, sent);
    if (outcome === 'late') return { outcome };
    if (outcome !== 'extended') {
      void this.abandon(request); // H64c
      return { outcome };
    }
    // After a change in place a late request may still revert it: those nodes get the token back with the next lock.
    const isFirst = (held?.mode.step ?? 0) === 0;
    if (missing.length > 0 && isFirst && this.#rounds.get(token) === undefined) this.#addNodes(each, missing, sent);
    return { outcome, sent: held === undefined ? sent : earlier(sent, 1) };
  }

  /**
   * Requests our token at nodes that had no vote or have forgotten the token, while a majority is known to hold it. Such a node
   * counts only from the next extension on: its present hold does not prove that no other token held the lock there a moment
   * ago.
   */
  #addNodes(request: ExtendRequest, missing: readonly QuorumNode[], sent: Moment): void {
    const { keys, token, lifetimeMs, commandTimeoutMs, begin, held } = request;
    const added = { lifetimeMs: lifetimeMs!, fences: this.#mintsFences ? 1 : 0, minReplicas: 0 };
    this.#start({ keys, token, commandTimeoutMs, begin, mode: held?.mode, ...added }, sent, [missing, []]);
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    return releaseByMajority(this.#nodes, request, this.#rounds.get(request.token));
  }

  async abandon(request: ReleaseRequest, late?: LateRequest): Promise<void> {
    const round = this.#rounds.get(request.token);
    const unasked = round?.settle() ?? [];
    for (const node of this.#nodes.all) {
      if (!round?.awaits(node) && !unasked.includes(node)) node.abandon(request, late);
    }
    round?.end();
  }

  inspect(key: string, commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    return inspectMajority(this.#nodes, key, commandTimeoutMs, token);
  }

  join(): void {
    this.#scopes += 1;
    for (const { store } of this.#nodes.all) store.join();
  }

  async leave(): Promise<void> {
    this.#scopes -= 1;
    if (this.#rounds.size > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
    if (this.#scopes === 0) for (const node of this.#nodes.all) node.reset();
    await Promise.all(this.#nodes.all.map(({ store }) => store.leave()));
  }
}

function nodeTimeout(lifetimeMs: number, commandTimeoutMs: number): number {
  return Math.min(commandTimeoutMs, Math.max(minTimeoutMs, Math.floor(lifetimeMs * timeoutShare))); // H66c
}
