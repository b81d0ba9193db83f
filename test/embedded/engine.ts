/** The check that this Node has the engine of shared memory; without the engine, the suites here are pending and say why. */
import { sqliteEngine } from '../../src/store/embedded/shared-memory/sqlite';

/** Why shared memory cannot be tried here; undefined: it can. */
export const noEngine = hasEngine()
  ? undefined
  : `pending: Node ${process.version} has no SQLite and better-sqlite3@12 is not installed; newer ones run it in integrations`;

function hasEngine(): boolean {
  try {
    sqliteEngine();
    return true;
  } catch {
    return false;
  }
}

/** A suite that needs the engine. */
export function describeWithEngine(title: string, suite: (this: Mocha.Suite) => void): void {
  if (noEngine === undefined) describe(title, suite);
  else describe(title, () => it(noEngine));
}
