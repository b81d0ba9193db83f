// A release by a majority. The lock is released once a majority says so; the release is sent to all nodes that may hold the
// token.
import type { LockBackendError } from '../../core/errors';
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
  const asked =
    unasked.length === 0 ? nodes.responsive : nodes.all.filter((node) => !unasked.includes(node) && !node.isSilent);
  const replies = asked.map((node) => node.store.release(request));
  round?.end((node) => replies[asked.indexOf(node)]);
  if (asked.length + unasked.length < nodes.size) {
    for (const node of nodes.all) if (!asked.includes(node) && !unasked.includes(node)) node.abandon(request);
  }
  return new Promise((resolve, reject) => {
    const count = { released: 0, missing: unasked.length, taken: 0 };
    const errors: LockBackendError[] = [];
    let open = asked.length;
    const decide = (): void => {
      if (count.released >= nodes.majority) resolve('released');
      else if (nodes.isMinority(count.missing + count.taken)) resolve(count.taken > 0 ? 'taken' : 'missing');
      else if (open === 0) reject(nodes.noMajority([...nodes.skipped(asked), ...errors], request.keys, true));
    };
    const replied = (reply: ReleaseReply): void => {
      open -= 1;
      count[reply] += 1;
      decide();
    };
    const failed = (node: QuorumNode, error: LockBackendError): void => {
      open -= 1;
      errors.push(error);
      node.failed(error);
      node.abandon(request);
      decide();
    };
    if (open === 0) decide(); // H62b
    for (const [n, node] of asked.entries()) replies[n]!.then(replied, (error) => failed(node, error));
  });
}
