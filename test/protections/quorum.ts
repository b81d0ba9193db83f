/** H62 to H67: a quorum. */
import { drop, operand, piece, value, when } from '../support/alteration';
import type { Protection } from './protection';

export const quorum: readonly Protection[] = [
  {
    hazard: 'H62',
    without: 'a question or a release of which no node can be asked never ends',
    changes: [drop('H62')],
    test: 'redis/quorum-nodes.test.ts',
  },
  {
    hazard: 'H62',
    without: 'the votes of a minority are left to their lifetime',
    changes: [drop('H62c'), when('H62d', false)],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H62',
    without: 'callers whose votes were split pause equally long',
    changes: [piece('H62e', 'jitter: 1', '')],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H62',
    without: 'a caller uses the token again whose votes are being released',
    changes: [drop('H62f')],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H62',
    without: 'the entry of a caller that has given up stays in the queues',
    changes: [drop('H62g')],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a reader that stands for others counts although it took longer than the validity',
    changes: [when('H63', true)],
    test: 'acquire-shared.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a majority counts although it took longer than the validity',
    changes: [when('H63', true)],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a server whose reply was lost is not released',
    changes: [operand('H63c', 2, false)],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H64',
    without: 'it is renewed where any server has renewed it',
    changes: [when('H64', 'count.won > 0'), when('H64b', 'count.missing + count.taken === this.size')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H64',
    without: 'what a minority has renewed stays there',
    changes: [drop('H64c')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the largest fence is granted, and not written back',
    changes: [piece('H65', 'this.#nodes.majority', '1')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the fence is that of the first server to reply',
    changes: [value('H65b', 'fences[0]!')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'a server counts that has lost the lock before the fence was written back',
    changes: [when('H65c', true)],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the fence of an upgrade is not written back',
    changes: [drop('H65d')],
    test: 'redis/quorum-holders.test.ts',
  },
  {
    hazard: 'H66',
    without: 'one server under two names has two votes',
    changes: [value('H66', 'undefined')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a list may name a client twice',
    changes: [value('H66b', '() => true')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a server may take as long as a whole call',
    changes: [value('H66c', 'commandTimeoutMs')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a silent server is asked each time',
    changes: [when('H66d', false), drop('H66e')],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'what a server granted while it counted as silent is not released there',
    changes: [value('H66f', 'nodes.all.filter((node) => !unasked.includes(node) && node.silence === undefined)')],
    test: 'redis/quorum-nodes.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a server that has granted a lock counts as silent until a probe says otherwise',
    changes: [drop('H66g')],
    test: 'redis/quorum-nodes.test.ts',
  },
  {
    hazard: 'H67',
    without: 'each server counts the permits that it has given',
    changes: [when('H67', true)],
    test: 'redis/quorum-holders.test.ts',
  },
  {
    hazard: 'H67',
    without: 'a place may have several holders',
    changes: [drop('H67b'), operand('H67c', 1, true)],
    test: 'redis/quorum-holders.test.ts',
  },
];
