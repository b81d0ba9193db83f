// The built library as it would be without events: a copy of it whose functions of events publish nothing. What events cost where nobody
// listens is the difference.
import { appendFileSync, cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Set anew behind the program of the library, in whose scope they are. */
const silent = `
tracesAcquires = holdsAreObserved = () => false;
observedRun = (held, fn) => fn;
tellChanged = tellRelease = tellLost = tellExtension = tellEnd = () => {};
`;

/** @returns The entry of the copy, which is this process's own and goes with it. */
export function copyWithoutEvents(lib: string): string {
  const copy = join(lib, '../node_modules/.cache/redis-exp-lock', `without-events-${process.pid}`);
  if (!existsSync(copy)) {
    cpSync(lib, copy, { recursive: true });
    appendFileSync(join(copy, 'core.js'), silent);
    process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  }
  return join(copy, 'index');
}
