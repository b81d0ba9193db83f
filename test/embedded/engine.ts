/** The check that this Node has the engine of shared memory; without the engine, the suites here are pending and say why. */
import { missingEngine } from '../../src/store/embedded/shared-memory/sqlite';

const missing = missingEngine();

/** Why shared memory cannot be tried here; undefined: it can. */
export const noEngine =
  missing &&
  `pending: Node ${process.version} has no SQLite and better-sqlite3@12 is not installed; newer ones run it in integrations`;

/** A suite that needs the engine. */
export function describeWithEngine(title: string, suite: (this: Mocha.Suite) => void): void {
  if (noEngine === undefined) describe(title, suite);
  else describe(title, () => it(noEngine));
}
