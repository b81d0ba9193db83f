// The things that this host's processes share besides the clock: a name for each boot, and a folder that only this user can
// enter.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { LockBackendError } from '../../../core/errors';

const folderName = 'redis-exp-lock';

let boot: string | undefined;

/** The name of this boot, which changes with each boot. @throws {LockBackendError} the system has none to give. */
export function bootId(): string {
  boot ??= createHash('sha256').update(readBootId()).digest('hex').slice(0, 16);
  return boot;
}

/** Reads the boot id from the kernel: one computed from the wall clock would split the processes when somebody sets that clock. */
function readBootId(): string {
  try {
    if (process.platform === 'linux') return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    if (process.platform === 'darwin')
      return execFileSync('sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'latin1' });
  } catch (cause) {
    throw new LockBackendError(`shared memory needs this boot's id: ${(cause as Error).message}`, { cause });
  }
  const message = `shared memory needs a boot id of the kernel, which ${process.platform} does not tell: Linux and macOS do`;
  throw new LockBackendError(message, { redisCode: 'PLATFORM', retryable: false });
}

/**
 * The folder of this user's tables, below XDG_RUNTIME_DIR or else in the temporary folder. Made if it does not exist.
 *
 * @throws {LockBackendError} the folder is not private, or cannot be made.
 */
export function privateFolder(): string {
  const runtime = process.env.XDG_RUNTIME_DIR;
  const uid = process.getuid!();
  const folder = runtime && isAbsolute(runtime) ? join(runtime, folderName) : join(tmpdir(), `${folderName}-${uid}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (cause) {
    // A different folder would be a different table.
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw new LockBackendError(`the folder for shared memory cannot be made: ${(cause as Error).message}`, { cause });
    }
  }
  const stat = lstatSync(folder); // a link could be redirected
  if (!stat.isDirectory())
    throw new LockBackendError(`${folder} is not a folder`, { redisCode: 'NOPERM', retryable: false });
  const { uid: owner, mode } = stat;
  if (owner !== uid || (mode & 0o077) !== 0) {
    const message = `${folder} is not private: expected a folder of user ${uid} with mode 0700; got user ${owner}, mode 0${(mode & 0o777).toString(8)}`;
    throw new LockBackendError(message, { redisCode: 'NOPERM', retryable: false });
  }
  return folder;
}
