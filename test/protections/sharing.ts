/** H37 to H47: readers and writers. */
import type { Protection } from './protection';

export const sharing: readonly Protection[] = [];
