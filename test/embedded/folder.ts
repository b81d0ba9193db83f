/** A runtime folder of the test's own, so that its tables are nobody else's and gone afterwards. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export function ownRuntimeFolder(): () => string {
  let folder = '';
  let given: string | undefined;
  before(() => {
    given = process.env.XDG_RUNTIME_DIR;
    folder = process.env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
  });
  after(() => {
    if (given === undefined) delete process.env.XDG_RUNTIME_DIR;
    else process.env.XDG_RUNTIME_DIR = given;
    rmSync(folder, { recursive: true, force: true });
  });
  return () => folder;
}
