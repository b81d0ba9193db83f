/**
 * Copies of the tree in which the sources are altered: broken on purpose, or without their short cuts.
 *
 * Invariant: the tree itself is never written to.
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Alteration, altered, fileOf, filesByMarker } from './alteration';

export interface Ran {
  readonly code: number | null;
  readonly output: string;
}

const { findBinary } = require('../../scripts/redis-binary.cjs');

const root = join(__dirname, '../..');
/** The files that a run of a copy needs. */
const needed = [
  'src',
  'test',
  'torture',
  'scripts',
  'docs',
  'examples',
  'package.json',
  'tsconfig.json',
  '.mocharc.json',
];

/** A copy, with links to our packages, and a folder of its own for what is built there. */
export class AlteredTree {
  readonly #folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-altered-'));

  constructor() {
    const isOwn = (path: string): boolean => !path.includes('node_modules');
    for (const name of needed) cpSync(join(root, name), join(this.#folder, name), { recursive: true, filter: isOwn });
    for (const folder of ['node_modules', 'test/runtimes/node_modules']) {
      mkdirSync(join(this.#folder, folder), { recursive: true });
      for (const name of packagesIn(join(root, folder))) {
        symlinkSync(join(root, folder, name), join(this.#folder, folder, name));
      }
    }
  }

  /** Every file of src/ as it is in the tree, but for these. @returns the files that are altered. */
  async alter(alterations: readonly Alteration[]): Promise<string[]> {
    rmSync(join(this.#folder, 'src'), { recursive: true });
    cpSync(join(root, 'src'), join(this.#folder, 'src'), { recursive: true });
    const byMarker = filesByMarker(join(root, 'src'));
    const files = new Set(alterations.map((each) => fileOf(each, byMarker)));
    for (const file of files) {
      const path = join(this.#folder, 'src', file);
      writeFileSync(path, altered(file, readFileSync(path, 'utf8'), alterations));
    }
    // Generated files are among the sources, as they are.
    if (![...files].some((file) => file.endsWith('.lua'))) return [...files];
    const { code, output } = await this.run(['--import', 'tsx', 'scripts/generate-scripts.ts']);
    if (code !== 0) throw new Error(`the scripts could not be generated:\n${output}`);
    return [...files];
  }

  /**
   * Runs Node there. `maxMs`: after which it is ended. `isShown`: its output is ours, too. `node`: the program of another Node. `isOver`:
   * all that is wanted was said. What was taken out may be what lets a process end, so that it is then ended in ten seconds.
   */
  run(
    args: readonly string[],
    { maxMs = 600_000, isShown = false, node = process.execPath, isOver = (_: string): boolean => false } = {},
  ): Promise<Ran> {
    // A copy has no cache, where ours may have its server.
    const env = { ...process.env, REDISMS_SYSTEM_BINARY: findBinary() };
    const child = spawn(node, args, { cwd: this.#folder, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    // With those that it started: mocha starts a Node of its own.
    const end = (): boolean => child.exitCode === null && process.kill(-child.pid!, 'SIGTERM');
    process.once('exit', end);
    let output = '';
    const collect = (data: unknown): void => {
      output += String(data);
      if (isShown) process.stdout.write(String(data));
      if (!isOver(output)) return;
      clearTimeout(late);
      late = setTimeout(end, 10_000);
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    let late = setTimeout(end, maxMs);
    return new Promise((resolve) => {
      child.once('close', (code) => {
        clearTimeout(late);
        process.off('exit', end);
        resolve({ code, output });
      });
    });
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function packagesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name !== '.cache');
  } catch {
    return []; // runtimes that are not installed
  }
}
