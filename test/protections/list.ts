/** Every hazard of docs/hazards.md, in order: what protects from it, or why there is nothing to take out. */
import { acquire } from './acquire';
import { found } from './found';
import { foundCallers } from './found-callers';
import { foundEdges } from './found-edges';
import { foundQueues } from './found-queues';
import { held } from './held';
import { people } from './people';
import type { NoProtection, Protection } from './protection';
import { quorum } from './quorum';
import { servers } from './servers';
import { sharedMemory } from './shared-memory';
import { sharing } from './sharing';
import { waiting } from './waiting';

const numberOf = ({ hazard }: Protection): number => Number(hazard.slice(1));

export const protections: readonly Protection[] = [
  ...acquire,
  ...held,
  ...waiting,
  ...sharing,
  ...sharedMemory,
  ...servers,
  ...quorum,
  ...people,
  ...found,
  ...foundQueues,
  ...foundCallers,
  ...foundEdges,
].toSorted((one, other) => numberOf(one) - numberOf(other));

export const without: readonly NoProtection[] = [];
