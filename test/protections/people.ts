/** H68 to H72: what people expect. */
import type { Protection } from './protection';

export const people: readonly Protection[] = [];
