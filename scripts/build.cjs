// src to lib. All that `index` leads to, but for shared memory, is core.js: one file loads in half the time of a hundred. Each other entry
// has the modules of its folder, and requires core.js and what it shares with another entry: no class exists twice. edge.js is index.js with
// a stand-in for shared memory. Names are those of src, and a banner names each module. Declarations are what the entries lead to.
const { execFileSync } = require('node:child_process');
const { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } = require('node:fs');
const { dirname, join, relative, resolve, sep } = require('node:path');
const { build, transformSync } = require('esbuild');

const root = join(__dirname, '..');
const [src, lib, fresh] = ['src', 'lib', `.build-${process.pid}`].map((folder) => join(root, folder));

const shims = ['compat/redlock', 'compat/redis-semaphore'];
const entries = ['index', ...shims, 'tools/nestjs', 'tools/otel', 'tools/page', 'tools/prometheus'];
const standIn = 'store/embedded/no-shared-memory';
const programs = [...entries, standIn, 'tools/cli'];
const sharedMemory = ['host-lock', 'store/embedded/shared-memory'];

/** Without comments each program is ASCII, which loads faster; an editor shows the doc comments of the declarations. */
const withoutComments = {
  name: 'without comments',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: transformSync(readFileSync(path, 'utf8'), { loader: 'ts', minifyWhitespace: true }).code,
    })),
};
const options = {
  ...{ absWorkingDir: root, outbase: src, outdir: fresh, logLevel: 'warning' },
  ...{ bundle: true, format: 'cjs', platform: 'node', target: 'node20', packages: 'external' },
  plugins: [withoutComments],
};
const sources = (names, extension = 'ts') => names.map((name) => join(src, `${name}.${extension}`));
const pathFrom = (folder, file) => relative(folder, file).replaceAll(sep, '/');
const filesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => statSync(join(folder, file)).isFile());
const withoutExtension = (file) => file.slice(0, file.lastIndexOf('.'));

/** The modules in src that `names` lead to, each with its imports. A file of types is none. */
async function importsFrom(names) {
  const { metafile } = await build({ ...options, entryPoints: sources(names), write: false, metafile: true });
  const nameOf = (file) => withoutExtension(pathFrom('src', file));
  const found = Object.entries(metafile.inputs);
  return new Map(found.map(([file, { imports }]) => [nameOf(file), imports.map(({ path }) => nameOf(path))]));
}

/** Writes a module, with those that are neither of the core nor a file of their own. @returns What it needs of the core. */
async function writeModule(name, core, files) {
  const needed = [];
  const setup = ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
      const module = pathFrom(src, resolve(resolveDir, path.endsWith('.js') ? withoutExtension(path) : path));
      if (core.has(module)) needed.push(module);
      else if (!files.has(module)) return undefined;
      const target = pathFrom(dirname(name), core.has(module) ? 'core' : module);
      return { path: `${target.startsWith('.') ? '' : './'}${target}.js`, external: true };
    });
  const plugins = [withoutComments, { name: 'each module once', setup }];
  await build({ ...options, entryPoints: sources([name]), plugins });
  return needed;
}

async function writePrograms() {
  const ownerOf = (name) => [...programs, ...sharedMemory].find((each) => name.startsWith(`${each}/`)) ?? name;
  const core = await importsFrom(['index']);
  for (const name of core.keys()) if (['index', ...sharedMemory].includes(ownerOf(name))) core.delete(name);
  const all = [...(await importsFrom(programs))].filter(([name]) => !core.has(name));
  const isShared = (name) => all.some(([by, names]) => names.includes(name) && ownerOf(by) !== ownerOf(name));
  const files = new Set(all.map(([name]) => name).filter((name) => programs.includes(name) || isShared(name)));
  const needed = await Promise.all([...files].map((name) => writeModule(name, core, files)));
  const lines = [...new Set(needed.flat())].sort().map((name) => `export * from './${name}';`);
  const stdin = { contents: lines.join('\n'), resolveDir: src, sourcefile: 'core.ts' };
  const file = { outdir: undefined, outfile: join(fresh, 'core.js'), platform: 'neutral' };
  await build({ ...options, stdin, ...file, banner: { js: '"use strict";' } });
  const esm = { format: 'esm', bundle: false, packages: undefined, outExtension: { '.js': '.mjs' } };
  await build({ ...options, ...esm, entryPoints: sources(entries, 'mts') });
  for (const extension of ['js', 'mjs']) {
    const text = readFileSync(join(fresh, `index.${extension}`), 'utf8').replace('./index.js', './edge.js');
    const edge = text.replace(/(?<="\.\/)(?:host-lock|\S+memory)(?=\.js")/g, standIn);
    writeFileSync(join(fresh, `edge.${extension}`), edge);
  }
}

function run(program, ...args) {
  const file = join(root, 'node_modules', program);
  return execFileSync(process.execPath, [file, ...args], { cwd: root, encoding: 'utf8' });
}

function writeDeclarations() {
  run('typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', fresh, '--emitDeclarationOnly');
  const faces = entries.flatMap((name) => [join(fresh, `${name}.d.ts`), join(fresh, `${name}.d.mts`)]);
  const listing = ['--ignoreConfig', '--module', 'nodenext', '--types', 'node', '--listFilesOnly'];
  const listed = run('typescript/bin/tsc', ...listing, ...faces).split('\n');
  const reached = listed.map((file) => resolve(file));
  for (const file of filesIn(fresh)) if (!reached.includes(join(fresh, file))) rmSync(join(fresh, file));
  const style = ['--indent-style=tab', '--line-width=320', '--semicolons=as-needed'];
  run('@biomejs/biome/bin/biome', 'format', '--write', '--vcs-enabled=false', ...style, fresh);
}

/** Puts each file into lib in one step: a program that uses lib meanwhile finds all of it there, and every file whole. */
function replaceLib() {
  const files = filesIn(fresh);
  for (const file of files) mkdirSync(dirname(join(lib, file)), { recursive: true });
  for (const file of files) renameSync(join(fresh, file), join(lib, file));
  for (const file of filesIn(lib)) if (!files.includes(file)) rmSync(join(lib, file), { force: true });
}

(async () => {
  writeDeclarations();
  await writePrograms();
  replaceLib();
})().finally(() => rmSync(fresh, { recursive: true, force: true }));
