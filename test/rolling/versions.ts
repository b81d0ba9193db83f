/**
 * The two builds that run beside each other during a rolling upgrade: `before.tgz`, packed from commit 6eb5183, and the sources.
 *
 * Invariant: `before.tgz` is never replaced while the wire has version 1: it stands for the processes that are deployed.
 */
import { join } from 'node:path';
import redisExpLock from '../../src/index';
import { projectWith } from '../package/packed';
import { bundled } from '../support/bundle';

/** The modules of one build, by the path of each: a child process loads them from there. */
export interface Paths {
  readonly index: string;
  readonly redlock: string;
  readonly redisSemaphore: string;
}

export interface Build {
  readonly library: typeof redisExpLock;
  readonly redlock: typeof import('../../src/compat/redlock');
  readonly redisSemaphore: typeof import('../../src/compat/redis-semaphore');
}

export interface Version extends Build {
  readonly paths: Paths;
}

export interface Versions {
  readonly old: Version;
  readonly new: Version;
}

/** A rolling upgrade, and its way back. */
export const directions = [
  ['old', 'new'],
  ['new', 'old'],
] as const;

/** The modules at `paths`. */
export function loaded({ index, redlock, redisSemaphore }: Paths): Build {
  return { library: require(index), redlock: require(redlock), redisSemaphore: require(redisSemaphore) };
}

/** Unpacks the old build before the tests of a suite, and removes it after them. */
export function bothVersions(unpacked: (versions: Versions) => void): void {
  let remove = (): void => {};

  before(async () => {
    const project = await projectWith(['uuid'], join(__dirname, 'before.tgz'));
    remove = project.remove;
    const inPackage = (file: string): string => join(project.installed, 'lib', file);
    const inSources = (file: string): string => join(__dirname, '../../src', file);
    const old = {
      index: inPackage('index.js'),
      redlock: inPackage('redlock.js'),
      redisSemaphore: inPackage('redis-semaphore.js'),
    };
    const sources = {
      index: inSources('index.ts'),
      redlock: inSources('compat/redlock.ts'),
      redisSemaphore: inSources('compat/redis-semaphore.ts'),
    };
    const bundles = {
      index: bundled(sources.index),
      redlock: bundled(sources.redlock),
      redisSemaphore: bundled(sources.redisSemaphore),
    };
    unpacked({
      old: { ...loaded(old), paths: old },
      new: { ...loaded(sources), library: redisExpLock, paths: bundles },
    });
  });

  after(() => remove());
}
