/** H27 to H36: callers wait. */
import type { Protection } from './protection';

export const waiting: readonly Protection[] = [];
