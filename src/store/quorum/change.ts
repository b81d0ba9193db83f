// A change in place by a majority: a reader becomes the writer, or a writer becomes a reader, under its present token. A node
// that is not asked, or has no room, keeps the token as it was. So an extension of a writer counts only the nodes where the
// token is a writer; and a node that goes on excluding others for a reader only makes these wait longer.
//
// A change that a minority has made stays until it is made everywhere, or until the caller reverts it under a later number.

import { earlier } from '../../core/clock';
import type { AcquireReply, AcquireRequest, Moment } from '../contract';
import type { QuorumNode } from './node';
import type { Nodes, Tally } from './nodes';

export async function changeInPlace(nodes: Nodes, request: AcquireRequest, sent: Moment): Promise<AcquireReply> {
  const votes = await nodes.ask(
    request.keys,
    (node) => voteOf(node, request, nodes.longestMs),
    (tally) => decide(nodes, tally),
  );
  if ('granted' in votes) return votes;
  if (request.mode!.kind === 'exclusive' && request.fences > 0) await writeBack(nodes, request, votes); // H65d
  return { granted: true, fence: Math.max(...votes.values()), sent: earlier(sent, 1) };
}

async function voteOf(node: QuorumNode, request: AcquireRequest, longestMs: number): Promise<AcquireReply> {
  const reply = await node.acquire(request);
  if (!reply.granted || request.mode!.kind === 'shared' || node.guardedForMs(longestMs) <= 0) return reply;
  // A node without a vote has made the change, and will report it again when it has a vote.
  return { granted: false, leftMs: 0 };
}

/** The fences of a majority that has made the change, or the reply to the caller; undefined while neither is certain. */
function decide(
  nodes: Nodes,
  { replies, errors, open }: Tally<AcquireReply>,
): ReadonlyMap<QuorumNode, number> | AcquireReply | undefined {
  const granted = new Map<QuorumNode, number>();
  const impossible = { deadlock: 0, gone: 0 };
  let leftMs = Number.POSITIVE_INFINITY;
  for (const [node, reply] of replies) {
    if (reply.granted) granted.set(node, reply.fence);
    else if (reply.impossible !== undefined) impossible[reply.impossible] += 1;
    else leftMs = Math.min(leftMs, reply.leftMs);
  }
  const { deadlock, gone } = impossible;
  if (granted.size >= nodes.majority) return granted;
  if (nodes.isMinority(gone)) return refused('gone');
  if (deadlock > 0 && nodes.isMinority(gone + deadlock + errors.length)) return refused('deadlock');
  if (open > 0 || nodes.isMinority(gone + errors.length)) return undefined;
  return { granted: false, leftMs };
}

function refused(impossible: 'deadlock' | 'gone'): AcquireReply {
  return { granted: false, leftMs: Number.POSITIVE_INFINITY, impossible };
}

/** Writes the fence back, as with any grant: before the change counts, a majority must mint only larger fences. */
async function writeBack(nodes: Nodes, request: AcquireRequest, votes: ReadonlyMap<QuorumNode, number>): Promise<void> {
  const fence = Math.max(...votes.values());
  const raise = async (node: QuorumNode): Promise<boolean> =>
    votes.get(node) === fence || node.store.raise({ ...request, fence });
  const isKnown = ({ replies }: Tally<boolean>): true | undefined =>
    [...replies.values()].filter((isOurs) => isOurs).length >= nodes.majority || undefined;
  await nodes.ask(request.keys, raise, isKnown, [...votes.keys()]);
}
