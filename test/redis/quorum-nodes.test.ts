/** What so many replies of a quorum's nodes come to, where there is none to wait for. */
import { expect } from 'chai';
import type { Node } from '../../src/store';
import { type Clock, QuorumNode } from '../../src/stores/quorum/node';
import { Nodes } from '../../src/stores/quorum/nodes';

it('H62: when every node that was asked for a lock has fallen silent, its release settles with an error', async () => {
  const three = ['a', 'b', 'c'].map((name) => new QuorumNode({} as Node, name, {} as Clock));
  const nodes = new Nodes(three);
  const releasing = nodes.ask(
    () => Promise.reject(new Error('is not asked')),
    ({ open, errors }) => {
      if (open === 0) throw nodes.noMajority(errors, 'k', true);
      return undefined;
    },
    [],
  );
  const error = await releasing.catch((reason) => reason);
  expect(error).to.include({ code: 'ERR_LOCK_BACKEND', unknown: true });
});
