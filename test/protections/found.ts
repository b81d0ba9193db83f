/** H73 to H89: found in use and under attack. */
import type { Protection } from './protection';

export const found: readonly Protection[] = [];
