// Imports point one way, from the face down to the scripts, and never in a circle; the library brings no client of Redis.
// `import type` leaves no trace at run time and is not followed.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect } from 'chai';

const root = join(__dirname, '..');
const src = join(root, 'src');

/** Top to bottom; a room imports from rooms below it, and from its own. */
const rooms: readonly (readonly string[])[] = [
  // The shims for other libraries' programs, and what they share: the library needs nothing of them.
  ['redlock', 'redis-semaphore'],
  ['compat/'],
  ['index'],
  ['lock', 'rw-lock', 'semaphore', 'host-lock', 'cached', 'with-lock', 'run'],
  ['acquire'],
  ['scope', 'lease', 'flow', 'wait/'],
  ['stores/'],
  ['scripts/', 'options', 'keys', 'store', 'state', 'events', 'token'],
  ['errors'],
];

interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
}

/** Without extension, from src: `stores/redis`. */
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.m?ts$/.test(file))
  .map((file) => file.replaceAll('\\', '/'));

function importsOf(file: string): Import[] {
  const text = readFileSync(join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const statements = text.matchAll(/^(?:import|export)\b(?:[^'";]*?\bfrom\s*)?\s*['"]([^'"]+)['"]/gm);
  const calls = text.matchAll(/\b(?:require|import)\(\s*['"]([^'"]+)['"]\s*\)/g);
  return [
    ...[...statements].map(([statement, specifier]) => ({
      specifier: specifier!,
      typeOnly: /^(?:import|export)\s+type\b/.test(statement) || onlyTypes(statement),
    })),
    ...[...calls].map(([, specifier]) => ({ specifier: specifier!, typeOnly: false })),
  ];
}

/** `import { type A, type B } from …` */
function onlyTypes(statement: string): boolean {
  const names = /^import\s*\{([^}]*)\}/.exec(statement)?.[1];
  if (names === undefined) return false;
  return names
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean)
    .every((name) => name.startsWith('type '));
}

function target(file: string, specifier: string): string {
  const path = relative(src, resolve(dirname(join(src, file)), specifier)).replaceAll('\\', '/');
  const found = [path, `${path}.ts`, path.replace(/\.js$/, '.ts')].find((each) => files.includes(each));
  if (!found) throw new Error(`${file} imports ${specifier}, which is not there`);
  return found;
}

/** file → what it needs at run time. */
const needs = new Map(
  files.map((file) => [
    file,
    importsOf(file)
      .filter(({ specifier, typeOnly }) => specifier.startsWith('.') && !typeOnly)
      .map(({ specifier }) => target(file, specifier)),
  ]),
);

function roomOf(file: string): number {
  const name = file.replace(/\.m?ts$/, '');
  const room = rooms.findIndex((names) =>
    names.some((each) => (each.endsWith('/') ? name.startsWith(each) : name === each)),
  );
  if (room < 0) throw new Error(`src/${file} belongs to no room: say where it stands, here and in ARCHITECTURE.md`);
  return room;
}

/** Packages that some of the files import. */
function foreign(some: readonly string[]): string[] {
  const packages = some.flatMap((file) => importsOf(file).map(({ specifier }) => specifier));
  return [...new Set(packages.filter((name) => !name.startsWith('.') && !name.startsWith('node:')))];
}

describe('structure', () => {
  it('the imports were found at all', () => {
    expect(needs.get('with-lock.ts')).to.include.members(['acquire.ts', 'lease.ts', 'options.ts']);
    expect(needs.get('stores/redis.ts')).to.include('scripts/generated.ts');
    expect([...needs.values()].flat()).to.have.length.greaterThan(20);
  });

  it('imports never go in a circle', () => {
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) throw new Error([...path.slice(path.indexOf(file)), file].join(' → '));
      if (done.has(file)) return;
      for (const next of needs.get(file)!) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
  });

  it('imports point one way: no room needs one above it', () => {
    const upward = [...needs].flatMap(([file, targets]) =>
      targets.filter((each) => roomOf(each) < roomOf(file)).map((each) => `${file} → ${each}`),
    );
    expect(upward).to.deep.equal([]);
  });

  it('nothing is imported but Node’s own modules and uuid, and no client of Redis, not even its types', () => {
    expect(foreign(files.filter((file) => file !== 'stores/shared-memory.ts'))).to.deep.equal(['uuid']);
  });

  it('lmdb is asked for in one place, when it is used and not before', () => {
    expect(foreign(['stores/shared-memory.ts'])).to.deep.equal(['lmdb']);
    const text = readFileSync(join(src, 'stores/shared-memory.ts'), 'utf8');
    expect(text.match(/^.*\(['"]lmdb['"]\).*$/gm)).to.deep.equal(["    return require('lmdb');"]);
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
