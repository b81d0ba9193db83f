/** Parts that a test needs and this machine may lack: `npm test` installs them beforehand, a file that is run alone does not. */
/** Thrown by a test, or by a hook for the tests behind it: they are pending, with the reason on the console. */
export class Missing extends Error {}

/** For who needs a Node with SQLite: scripts/runtimes.cjs. */
export const noSqlite = 'no Node with SQLite: npm ci in test/runtimes';

export function needed<T>(found: T | undefined, reason: string): T {
  if (found === undefined) throw new Missing(reason);
  return found;
}
