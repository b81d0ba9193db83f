// The build that a rolling upgrade replaces (test/rolling/before.tgz), unpacked once for all processes that ask for it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

const root = join(__dirname, '..');

/** @returns The folder of its package, inside node_modules: it finds its dependencies there. */
export function buildBefore(): string {
  const archive = join(root, 'test/rolling/before.tgz');
  const cache = join(root, 'node_modules/.cache/redis-exp-lock');
  const folder = join(cache, `before-${statSync(archive).size}`);
  if (!existsSync(folder)) {
    mkdirSync(cache, { recursive: true });
    const own = mkdtempSync(join(cache, 'before-'));
    execFileSync('tar', ['xzf', archive, '-C', own]);
    try {
      renameSync(own, folder);
    } catch {
      rmSync(own, { recursive: true }); // another process was faster
    }
  }
  return join(folder, 'package');
}
