/** Compiles what is written against the library, in consumers/, with one compiler or another, under each module system and strictness. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import { node, repository, write } from './packed';

export const strictness = {
  'not strict': { strict: false },
  strict: { strict: true },
  exactOptionalPropertyTypes: { strict: true, exactOptionalPropertyTypes: true },
};
export const moduleSystems: { [name: string]: { files: string[]; options: object; before7?: object } } = {
  commonjs: {
    files: ['ts', 'cts'],
    options: { module: 'commonjs', moduleResolution: 'bundler' },
    before7: { module: 'commonjs', moduleResolution: 'node10' }, // TypeScript 6 and 7 no longer have it
  },
  node16: { files: ['cts', 'mts'], options: { module: 'node16', moduleResolution: 'node16' } },
  nodenext: { files: ['cts', 'mts'], options: { module: 'nodenext', moduleResolution: 'nodenext' } },
  bundler: { files: ['ts'], options: { module: 'esnext', moduleResolution: 'bundler' } },
};

/** Writes each program in consumers/ twice, against the library and against the face, and under every extension. */
export function writePrograms(project: string): void {
  const face = join(project, 'node_modules/the-face');
  write(join(face, 'package.json'), JSON.stringify({ name: 'the-face', version: '1.0.0', types: './index.d.ts' }));
  write(join(face, 'index.d.ts'), readFileSync(join(__dirname, 'face.d.ts'), 'utf8'));

  const consumers = readdirSync(join(__dirname, 'consumers')).map((file) => join(__dirname, 'consumers', file));
  for (const library of ['redis-exp-lock', 'the-face']) {
    for (const file of library === 'the-face'
      ? consumers
      : [...consumers, join(__dirname, 'assignable.cts'), join(__dirname, 'shims.ts')]) {
      const { name, ext } = parse(file);
      const program = readFileSync(file, 'utf8')
        .replace(/'[./]+\/src\/index'/, `'${library}'`)
        .replace(/'[./]+\/src\/compat\/(redlock|redis-semaphore)'/g, "'redis-exp-lock/$1'")
        .replace("'./face'", "'the-face'");
      for (const extension of ext === '.ts' ? ['.ts', '.cts', '.mts'] : [ext]) {
        write(join(project, library, name + extension), program);
      }
    }
  }
}

export async function compile(project: string, compiler: string, moduleSystem: string, options: object): Promise<void> {
  const { files, options: forAll, before7 } = moduleSystems[moduleSystem]!;
  const config = {
    compilerOptions: {
      ...{ target: 'es2022', lib: ['es2022'], types: ['node'], esModuleInterop: true, noEmit: true },
      ...(compiler === 'typescript' ? forAll : (before7 ?? forAll)),
      ...options,
    },
    include: files.map((extension) => `*/*.${extension}`),
    exclude: compiler === 'typescript-5.0' ? ['*/disposed.*'] : [],
  };
  // "using" came with 5.2
  const configFile = join(project, `tsconfig.${compiler}.json`);
  write(configFile, JSON.stringify(config));
  const thrifty = compiler === 'typescript' ? ['--singleThreaded'] : []; // 7 checks on four threads, which costs a fifth more
  await node(project, join(repository, 'node_modules', compiler, 'bin/tsc'), ...thrifty, '--project', configFile);
}
