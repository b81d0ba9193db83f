/** H62 to H67: a quorum. */
import type { Protection } from './protection';

export const quorum: readonly Protection[] = [];
