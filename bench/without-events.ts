// The built library as it would be without events: a copy of it whose two files of events publish nothing. What events cost where nobody
// listens is the difference.
import { appendFileSync, cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const silent = {
  trace: 'exports.tracesAcquires = () => false;',
  observation: `exports.holdsAreObserved = () => false;
exports.observedRun = (held, fn) => fn;
exports.tellChanged = exports.tellRelease = exports.tellLost = exports.tellExtension = exports.tellEnd = () => {};`,
};

/** @returns The entry of the copy, which is this process's own and goes with it. */
export function copyWithoutEvents(lib: string): string {
  const copy = join(lib, '../node_modules/.cache/redis-exp-lock', `without-events-${process.pid}`);
  if (!existsSync(copy)) {
    cpSync(lib, copy, { recursive: true });
    for (const [file, text] of Object.entries(silent)) appendFileSync(join(copy, `${file}.js`), `\n${text}\n`);
    process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  }
  return join(copy, 'index');
}
