/** lib, as the sources are now, for the tests of what is built. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { sharedRedis } from './redis';

/** A build takes a minute and more on a machine with other things to do. */
export const buildMs = 240_000;

/** Builds where a source is newer. With a Redis named, nothing else is installed for want of one. */
export async function built(): Promise<void> {
  const env = { ...process.env, REDIS_URL: (await sharedRedis()).url };
  await promisify(execFile)(process.execPath, [join(__dirname, '../../scripts/prepare-demo.cjs')], { env });
}
