/** The library as users install it: what `npm pack` makes, unpacked into a project that has nothing else. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

export const repository = resolve(__dirname, '../..');

export interface Project {
  readonly folder: string;
  /** The package, unpacked. */
  readonly installed: string;
  readonly tarball: string;
  remove(): void;
}

/** A project that has the library and `others` of our own packages, linked. @param packed A tarball of now: it spares a build. */
export async function projectWith(others: readonly string[], packed?: string): Promise<Project> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'redis-exp-lock-package-')));
  const installed = join(folder, 'node_modules/redis-exp-lock');
  const tarball = packed ?? (await pack(folder));
  await install(tarball, installed, others);
  return { folder, installed, tarball, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Packs the repository as `npm publish` would. Building is part of that. */
async function pack(destination: string): Promise<string> {
  await run(repository, 'npm', ['pack', '--ignore-scripts=false', '--pack-destination', destination]);
  return join(destination, readdirSync(destination).find((file) => file.endsWith('.tgz'))!);
}

/** Does what `npm install` does, without asking a registry: the tarball, and packages that are here already. */
async function install(tarball: string, installed: string, others: readonly string[]): Promise<void> {
  mkdirSync(installed, { recursive: true });
  await run(repository, 'tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  for (const name of others) {
    const link = join(dirname(installed), name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(repository, 'node_modules', name), link, 'junction');
  }
}

/** The output of `npm install` in a fresh project that has a uuid already: no registry is asked. */
export async function saidByInstall(tarball: string): Promise<string> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'redis-exp-lock-install-')));
  const { version } = require('uuid/package.json');
  write(join(folder, 'uuid/package.json'), JSON.stringify({ name: 'uuid', version }));
  write(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: { uuid: 'file:uuid' } }));
  try {
    return await run(
      folder,
      'npm',
      ['install', '--offline', '--no-audit', '--loglevel=notice', tarball],
      (out, err) => out + err,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

export function node(cwd: string, ...args: string[]): Promise<string> {
  return run(cwd, process.execPath, args);
}

/** Resolves with what the command printed; rejects with it when the command fails. */
function run(cwd: string, command: string, args: string[], read = (out: string, _err: string) => out): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, args, { cwd, maxBuffer: 2 ** 26 }, (err, stdout, stderr) => {
      if (err) reject(new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: err }));
      else resolve(read(stdout, stderr));
    });
    child.stdin?.end();
  });
}
