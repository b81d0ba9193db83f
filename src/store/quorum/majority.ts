// An extension and a release by a majority. An extension counts only the nodes that have held the token all the time, and for a writer
// only those where the token is a writer. A lock is released once a majority says so; the release is sent to all nodes that may hold
// the token.
import type { Clock } from '../../core/clock';
import type { LockBackendError } from '../../core/errors';
import type { ExtendReply, ExtendRequest, Moment, ReleaseReply, ReleaseRequest } from '../contract';
import type { QuorumNode } from './node';
import type { Nodes, Tally } from './nodes';
import type { Round } from './round';

interface ExtensionVote {
  readonly outcome: ExtendReply['outcome'];
  /** Nodes that have replied that the token is not there. */
  readonly missing: readonly QuorumNode[];
}

/** @throws {LockBackendError} (rejects) no majority replied: the lock may have been extended. */
export async function extendByMajority(nodes: Nodes, request: ExtendRequest, sent: Moment): Promise<ExtensionVote> {
  const { exact, commandTimeoutMs } = request;
  // An end that was set by hand must not be set late, behind a renewal that another majority confirms. So all nodes are waited
  // for, and after that wait no request can still run.
  const validUntilMs = exact ? Math.min(request.validUntilMs, sent.monoMs + commandTimeoutMs) : request.validUntilMs;
  const each = { ...request, validUntilMs, strictly: true };
  return nodes.ask(
    request.keys,
    (node) => {
      const reply = node.store.extend(each);
      nodes.report(node, request.votes, reply, ({ outcome }) => outcome === 'extended' || 0);
      return exact ? orTooLate(reply, validUntilMs, nodes.clock) : reply;
    },
    (tally) => decide(nodes, request, tally),
  );
}

/** Delays an error until its request can no longer execute: if the connection broke, the request may still execute. */
function orTooLate(reply: Promise<ExtendReply>, untilMs: number, clock: Clock): Promise<ExtendReply> {
  return reply.catch(async (error: LockBackendError) => {
    const leftMs = untilMs - clock.nowMs();
    if (error.unknown && leftMs > 0) await new Promise<void>((resolve) => clock.setIdleAlarm(resolve, leftMs));
    throw error;
  });
}

function decide(nodes: Nodes, request: ExtendRequest, tally: Tally<ExtendReply>): ExtensionVote | undefined {
  const { replies, errors, open } = tally;
  if (request.exact && open > 0) return undefined;
  const outcomes = Array.from(replies.values(), ({ outcome }) => outcome);
  const missing = Array.from(replies.keys()).filter((_, n) => outcomes[n] === 'missing');
  const outcome = nodes.decided('extended', outcomes);
  if (outcome !== undefined) return { outcome, missing };
  const isLate = open === 0 && outcomes.includes('late') && (errors.length === 0 || !request.begin());
  return isLate ? { outcome: 'late', missing } : undefined;
}

/**
 * @param round The round of the acquire, if a node has not replied to it yet, or was not asked.
 * @throws {LockBackendError} (rejects) no majority replied. The release is sent again to each silent node until that node has
 * replied.
 */
export function releaseByMajority(nodes: Nodes, request: ReleaseRequest, round?: Round): Promise<ReleaseReply> {
  const unasked = round?.settle() ?? [];
  const asked = nodes.responsive.filter((node) => !unasked.includes(node)); // H66f
  const replies = asked.map((node) => release(nodes, node, request));
  round?.end((node) => replies[asked.indexOf(node)]);
  for (const node of nodes.all) if (!asked.includes(node) && !unasked.includes(node)) node.abandon(request);
  const neverAsked = unasked.map(() => 'missing');
  return nodes.ask(
    request.keys,
    (node) => replies[asked.indexOf(node)]!,
    (tally) => nodes.decided('released', [...tally.replies.values(), ...neverAsked]),
    asked,
    (node) => node.abandon(request),
  );
}

function release(nodes: Nodes, node: QuorumNode, request: ReleaseRequest): Promise<ReleaseReply> {
  let applied = 0;
  const counted = (released: number): void => {
    applied = released;
  };
  const reply = node.store.release(request.votes ? { ...request, counted } : request);
  nodes.report(node, request.votes, reply, (known) => known === 'released' || applied);
  return reply;
}
