/** H48 to H52: shared memory. */
import type { Protection } from './protection';

export const sharedMemory: readonly Protection[] = [];
