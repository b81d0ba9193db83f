/** The library without any short cut, as a module of its own beside the one that has them. */
import { mkdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { generate } from '../../scripts/generate-scripts';
import { altered } from '../support/alteration';
import { withoutShortCuts } from './short-cuts';

const src = join(__dirname, '../../src');
/** The folder of the copies, in which packages are found. */
const folder = join(__dirname, '../../node_modules/.cache/redis-exp-lock');

const slowSources: Plugin = {
  name: 'without short cuts',
  setup(building) {
    building.onLoad({ filter: /[/\\]src[/\\].*\.ts$/ }, ({ path }) => {
      const file = relative(src, path).replaceAll('\\', '/');
      if (file !== 'store/redis/scripts/generated.ts') {
        return { loader: 'ts', contents: altered(file, readFileSync(path, 'utf8'), withoutShortCuts) };
      }
      return { loader: 'ts', contents: generate((lua, text) => altered(`scripts/${lua}`, text, withoutShortCuts)) };
    });
  },
};

/** Loads a module of src/, and all that it imports there. */
export async function withoutAnyShortCut(file: string): Promise<any> {
  mkdirSync(folder, { recursive: true });
  const outfile = join(folder, `slow-${basename(file)}.${process.pid}.cjs`);
  await build({
    entryPoints: [join(src, file)],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    packages: 'external',
    plugins: [slowSources],
    logLevel: 'error',
  });
  return require(outfile);
}
