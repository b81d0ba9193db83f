/** H13 to H26: a lock is held, renewed, lost and released. */
import type { Protection } from './protection';

export const held: readonly Protection[] = [];
