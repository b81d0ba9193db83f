/** H90 to H98: found in use and under attack: other hosts, processes that stand still, and signals with many listeners. */
import { drop, piece, write } from '../support/alteration';
import type { Protection } from './protection';

export const foundEdges: readonly Protection[] = [
  {
    hazard: 'H90',
    without: 'each timer is told to let the process end, also where it is a number',
    changes: [piece('H90', '?.()', '()')],
    test: 'process/other-hosts.test.ts',
  },
  {
    hazard: 'H90',
    without: 'a storage that cannot be disabled makes `run` reject after its function ran',
    changes: [write('H90b', '  unused.disable();')],
    test: 'process/other-hosts.test.ts',
  },
  {
    hazard: 'H90',
    without: 'a grant that cannot be handed over is kept, and its call never settles',
    changes: [drop('H90c'), write('H90d', '        throw error;')],
    test: 'process/other-hosts.test.ts',
  },
];
