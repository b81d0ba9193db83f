// A release by a majority. The lock is released once a majority says so; the release is sent to all nodes that may hold the
// token.
import type { ReleaseReply, ReleaseRequest } from '../contract';
import type { QuorumNode } from './node';
import type { Nodes } from './nodes';
import type { Round } from './round';

/**
 * @param round The round of the acquire, if a node has not replied to it yet, or was not asked.
 * @throws {LockBackendError} (rejects) no majority replied. The release is sent again to each silent node until that node has
 * replied.
 */
export function releaseByMajority(
  nodes: Nodes,
  request: ReleaseRequest,
  round: Round | undefined,
): Promise<ReleaseReply> {
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
