/** H53 to H61: states of the server. */
import type { Protection } from './protection';

export const servers: readonly Protection[] = [];
