// Imports point one way, from the face down to the scripts, and never in a circle, those of types included; files and classes
// stay small enough to be read in one go; the library brings no client of Redis.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { expect } from 'chai';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import { needed, noSqlite } from './support/missing';

const root = join(__dirname, '..');
const src = join(root, 'src');
const engine = 'store/embedded/shared-memory/sqlite.ts';

/** The layers of ARCHITECTURE.md's table, top to bottom: a file imports from layers below its own, and from its own folder. */
const layers: readonly (readonly string[])[] = [
  ...readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8').matchAll(/^\| (`src\/[^|]*`) \|/gm),
].map(([, folders]) => [...folders!.matchAll(/`src\/([\w-]*)\/?`/g)].map(([, folder]) => folder!));

/** The files that may name a package which is not installed with the library. */
const peers = [
  ['tools/otel.ts', '@opentelemetry/api'],
  ['tools/prometheus.ts', 'prom-client'],
  ['tools/nestjs.ts', '@nestjs/common'],
] as const;

const maxLines = 400;
const maxLinesOfClass = 250;
const maxFiles = 17;

/** The exceptions that are left: a commit that mends one takes it off the list, and none is added. */
const unfinished = {
  circles: [],
  upward: [],
  longFiles: [],
  longClasses: [],
};

/** The paths of all files below src/. */
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.m?ts$/.test(file))
  .map((file) => file.replaceAll('\\', '/'))
  .sort();

const textOf = (file: string): string => readFileSync(join(src, file), 'utf8');

/** The files that a file imports, types included. */
function importsOf(file: string): string[] {
  const text = textOf(file).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const statements = text.matchAll(/^(?:import|export)\b(?:[^'";]*?\bfrom\s*)?\s*['"]([^'"]+)['"]/gm);
  const calls = text.matchAll(/\b(?:require|import)\(\s*['"]([^'"]+)['"]\s*\)/g);
  return [...statements, ...calls].map(([, specifier]) => specifier!);
}

function target(file: string, specifier: string): string {
  const path = relative(src, resolve(dirname(join(src, file)), specifier)).replaceAll('\\', '/');
  const found = [path, `${path}.ts`, path.replace(/\.js$/, '.ts')].find((each) => files.includes(each));
  if (!found) throw new Error(`${file} imports ${specifier}, which is not there`);
  return found;
}

const needs = new Map(
  files.map((file) => {
    const own = importsOf(file).filter((specifier) => specifier.startsWith('.'));
    return [file, [...new Set(own.map((specifier) => target(file, specifier)))]];
  }),
);

/** Everything that a file needs, directly or not. */
function reach(file: string): Set<string> {
  const reached = new Set<string>();
  const visit = (from: string): void => {
    for (const next of needs.get(from)!) {
      if (reached.has(next)) continue;
      reached.add(next);
      visit(next);
    }
  };
  visit(file);
  return reached;
}

/** The files that import each other in a loop, loop by loop. */
function circles(): string[][] {
  const reached = new Map(files.map((file) => [file, reach(file)]));
  const circleOf = (file: string): string[] =>
    files.filter((other) => reached.get(file)!.has(other) && reached.get(other)!.has(file));
  const found = files.map(circleOf).filter((circle) => circle.length > 0);
  return [...new Map(found.map((circle) => [circle[0], circle])).values()];
}

/** Classes as the formatter leaves them: from `class` at the margin to `}` there. */
function classesOf(file: string): { name: string; lines: number }[] {
  const classes = textOf(file).matchAll(/^(?:export )?(?:abstract )?class (\w+)[\s\S]*?^}$/gm);
  return [...classes].map(([text, name]) => ({ name: name!, lines: text.split('\n').length }));
}

/** The folder of a file below src/; '' for those at the root. */
function folderOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : '';
}

function layerOf(file: string): number {
  const layer = layers.findIndex((folders) => folders.includes(folderOf(file)));
  if (layer < 0) throw new Error(`src/${file} is in no layer of ARCHITECTURE.md's table`);
  return layer;
}

/** Imports from a layer above, or from another folder of the same layer. */
function isUpward(file: string, target: string): boolean {
  const isBeside = layerOf(target) === layerOf(file) && folderOf(target) !== folderOf(file);
  return layerOf(target) < layerOf(file) || isBeside;
}

/** Packages that some of the files import. */
function foreign(some: readonly string[]): string[] {
  const packages = some.flatMap(importsOf);
  return [...new Set(packages.filter((name) => !name.startsWith('.') && !name.startsWith('node:')))];
}

describe('structure', () => {
  it('imports and classes were found at all', () => {
    expect(needs.get('with-lock.ts')).to.include.members(['acquire/run.ts', 'hold/lease.ts', 'core/options.ts']);
    expect(needs.get('hold/async-context.ts'), 'import type').to.include('hold/held-lock.ts');
    expect(needs.get('store/redis/commands.ts')).to.include('store/redis/scripts/generated.ts');
    expect(reach('index.ts')).to.include('store/redis/scripts/generated.ts');
    expect(classesOf('hold/scope.ts').map(({ name }) => name)).to.deep.equal(['Scope']);
  });

  it('ARCHITECTURE.md has at most 30 ideas on the path of lock and unlock, each with the files that have it', () => {
    const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    const [section] = /^## Ideas on the path[\s\S]*?(?=^## )/m.exec(page)!;
    const rows = [...section.matchAll(/^\| [^|]+ \| (`[^|]+) \| [^|]+ \|$/gm)].map(([, names]) => names!);
    expect(rows.length).to.be.within(20, 30);
    for (const names of rows) {
      let folder = '';
      for (const [, name] of names.matchAll(/`([^`]+)`/g)) {
        if (name!.includes('/')) folder = dirname(name!);
        const path = join(src, name!.includes('/') ? name! : join(folder, name!));
        expect([path, `${path}.ts`].some(existsSync), name).to.equal(true);
      }
    }
  });

  it('imports never go in a circle, those of types included', () => {
    expect(circles()).to.deep.equal(unfinished.circles);
  });

  it('imports point one way: no file needs a layer above its own, and no folder one beside it', () => {
    const upward = [...needs].flatMap(([file, targets]) =>
      targets.filter((each) => isUpward(file, each)).map((each) => `${file} → ${each}`),
    );
    expect(upward).to.deep.equal(unfinished.upward);
  });

  it('stores know nothing of each other, and only what makes a store knows its inside', () => {
    const insideOf = (file: string): string | undefined => /^store\/(\w+)\//.exec(file)?.[1];
    const mayMake = (file: string): boolean =>
      file === 'store/open.ts' || ['', 'tools', 'compat'].includes(folderOf(file));
    const leaks = [...needs].flatMap(([file, targets]) =>
      targets
        .filter((each) => insideOf(each) !== undefined && insideOf(each) !== insideOf(file) && !mayMake(file))
        .map((each) => `${file} → ${each}`),
    );
    expect(leaks).to.deep.equal([]);
  });

  it('every folder of the table is there, at most eight files are at the root, and no folder has many', () => {
    const sizes = new Map<string, number>();
    for (const file of files) sizes.set(dirname(file), (sizes.get(dirname(file)) ?? 0) + 1);
    expect(new Set(files.map(folderOf))).to.deep.equal(new Set(layers.flat()));
    expect(sizes.get('.')).to.be.at.most(8);
    expect([...sizes].filter(([, size]) => size > maxFiles)).to.deep.equal([]);
  });

  it(`no file has more than ${maxLines} lines, no class more than ${maxLinesOfClass}`, () => {
    const written = files.filter((file) => file !== 'store/redis/scripts/generated.ts');
    const longFiles = written.filter((file) => textOf(file).trimEnd().split('\n').length > maxLines);
    const longClasses = written.flatMap((file) =>
      classesOf(file)
        .filter(({ lines }) => lines > maxLinesOfClass)
        .map(({ name }) => `${name} in ${file}`),
    );
    expect(longFiles).to.deep.equal(unfinished.longFiles);
    expect(longClasses).to.deep.equal(unfinished.longClasses);
  });

  it('no two types have one name', () => {
    const declaration = /^(?:export )?(?:declare )?(?:abstract )?(?:interface|class|type|enum) (\w+)/gm;
    // `index.mts` names the types of `index.ts` again.
    const declaring = files.filter((file) => file !== 'index.mts');
    const names = declaring.flatMap((file) => [...textOf(file).matchAll(declaration)].map(([, name]) => name!));
    expect(names.length).to.be.above(300);
    expect(names.filter((name, n) => names.indexOf(name) !== n)).to.deep.equal([]);
  });

  it('nothing is imported but Node’s own modules and uuid, and no client of Redis, not even its types', () => {
    expect(foreign(files.filter((file) => !peers.some(([own]) => own === file)))).to.deep.equal(['uuid']);
  });

  it('what redis-exp-lock/edge leads to imports no module of Node but for its types', () => {
    const needsFiles = /^(?:host-lock\.ts|store\/embedded\/shared-memory\/)/;
    const portable = [...reach('index.ts')].filter((file) => !needsFiles.test(file));
    expect(portable).to.include.members(['core/runtime.ts', 'store/redis/store.ts']);
    const imported = portable.filter((file) => /^import (?!type )[^;]*'node:/m.test(textOf(file)));
    expect(imported).to.deep.equal([]);
  });

  for (const [file, peer] of peers) {
    it(`${file} imports the types of ${peer}, and nothing else of others; nothing else leads there`, () => {
      expect(foreign([file])).to.deep.equal([peer]);
      const types = new RegExp(`^import type .* from '${peer}';$`, 'm');
      expect(types.test(textOf(file)), 'its types').to.equal(file !== 'tools/nestjs.ts');
      expect(textOf(file)).not.to.match(new RegExp(`^import (?!type).*'${peer}'`, 'm'));
      expect(files.filter((each) => needs.get(each)!.includes(file))).to.deep.equal([file.replace(/ts$/, 'mts')]);
    });
  }

  it('SQLite is loaded in one place, when it is used and not before, and no bundler sees it', () => {
    const loading = files.filter((file) =>
      /['"](?:better-sqlite3|node:sqlite)/.test(readFileSync(join(src, file), 'utf8')),
    );
    expect(loading).to.deep.equal([engine]);
    const program = `require('tsx/cjs'); const { sharedMemoryStore } = require(${JSON.stringify(join(src, 'index.ts'))});
      const loaded = () => process.moduleLoadList.some((each) => /sqlite/i.test(each)) || Object.keys(require.cache).some((each) => each.includes('better-sqlite3'));
      const before = loaded(); try { sharedMemoryStore('structure').close(); } catch {} console.log(before, loaded());`;
    const env = { ...process.env, XDG_RUNTIME_DIR: mkdtempSync(join(tmpdir(), 'redis-exp-lock-')) };
    const said = execFileSync(needed(nodeWithSqlite(), noSqlite), ['--eval', program], {
      cwd: root,
      env,
      encoding: 'utf8',
    });
    rmSync(env.XDG_RUNTIME_DIR, { recursive: true });
    expect(said).to.equal('false true\n');
  });

  it('the one dependency at run time is uuid', () => {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(Object.keys(manifest.dependencies)).to.deep.equal(['uuid']);
    expect(manifest.optionalDependencies).to.equal(undefined);
    for (const [name, { optional }] of Object.entries<{ optional?: boolean }>(manifest.peerDependenciesMeta ?? {})) {
      expect(optional, name).to.equal(true);
    }
    expect(Object.keys(manifest.peerDependenciesMeta ?? {})).to.include.members(
      Object.keys(manifest.peerDependencies ?? {}),
    );
  });
});
