// `npm run site`: the pages of the repository, the reference of the shipped declarations and the pages of this folder, in one folder that
// VitePress makes dist/ of. The tree in generated/ is that of the repository, so that a link means the same in both.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const site = dirname(fileURLToPath(import.meta.url));
const root = dirname(site);
const generated = join(site, 'generated');
const entries = join(generated, '.entries');
const declarations = join(entries, 'lib');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Ends this program if the other one fails. */
function run(command, ...args) {
  const { status, error } = spawnSync(command, args, { cwd: site, stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

const program = (name, file) => join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), file);

/** Again only when the lock file is another. */
function install() {
  const installed = join(site, 'node_modules/.installed-lock.json');
  const lock = readFileSync(join(site, 'package-lock.json'), 'utf8');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return;
  console.log('Installing the packages of site/ (npm ci) ...');
  run('npm', 'ci', '--ignore-scripts', '--loglevel=error', '--no-fund', '--no-audit');
  writeFileSync(installed, lock);
}

/** The package by its name, as its users import it. */
function linkLibrary() {
  const link = join(site, 'node_modules/redis-exp-lock');
  if (!existsSync(link)) symlinkSync('../..', link);
}

function copyPages() {
  rmSync(generated, { recursive: true, force: true });
  mkdirSync(entries, { recursive: true });
  for (const each of ['README.md', 'CHANGELOG.md', 'docs', 'bench/RESULTS.md', 'bench/plots'])
    cpSync(join(root, each), join(generated, each), { recursive: true });
  cpSync(join(site, 'pages'), generated, { recursive: true });
}

/** The shipped declarations, where each error that is thrown is a link: TypeDoc drops the braces of `@throws {LockLostError} …`. */
function copyDeclarations() {
  cpSync(join(root, 'lib'), declarations, { recursive: true, filter: (file) => !/\.m?js$/.test(file) });
  cpSync(join(root, 'package.json'), join(declarations, 'package.json')); // its "type" says how they are resolved
  for (const file of readdirSync(declarations, { recursive: true }).filter((each) => each.endsWith('ts'))) {
    const text = readFileSync(join(declarations, file), 'utf8');
    writeFileSync(
      join(declarations, file),
      text.replace(/@throws \{([^}]+)\} /g, (_, types) => `@throws ${links(types)}: `),
    );
  }
}

/** Makes each type a link, to the main entry from the other entries too. */
function links(types) {
  const link = (name) =>
    /^(?:Lock|TooMany|Already|NotAcquired)/.test(name) ? `redis-exp-lock!${name} | ${name}` : name;
  return types.replace(/\w+/g, (name) =>
    /^(?:Type|Range|Abort)?Error$/.test(name) ? `\`${name}\`` : `{@link ${link(name)}}`,
  );
}

/**
 * The main entry names each type through a namespace, which TypeDoc shows as an alias without members. Here each is taken from the file that
 * declares it, under the name that users import.
 */
function mainEntry() {
  const text = readFileSync(join(declarations, 'index.d.ts'), 'utf8');
  const imports = text.matchAll(/^import (?:type \* as )?(\w+) (?:from|= require\()\s*'\.\/([^']+)'/gm);
  const files = new Map(Array.from(imports, ([, name, file]) => [name, file]));
  const named = [...text.matchAll(/^\t(?:export import|type) (\w+)(?:<\w+>)? = (\w+)\.(\w+)/gm)];
  const lines = named.map(
    ([, name, file, original]) => `export { ${original} as ${name} } from './lib/${files.get(file)}.js';`,
  );
  return ["export { redisExpLock } from './lib/with-lock.js';", ...lines].join('\n');
}

/** A module for each entry of the package, under the name that users import. One with the declarations of the main entry refers to that. */
function writeReference() {
  copyDeclarations();
  const modules = Object.entries(exports).filter(([, targets]) => targets.import?.types);
  const files = modules.map(([path, { import: target }]) => {
    const name = path.replace('.', 'redis-exp-lock');
    const isMain = target.types === exports['.'].import.types;
    const source = isMain ? './redis-exp-lock.mjs' : target.types.replace('.d.mts', '.mjs');
    const text = path === '.' ? mainEntry() : `export * from '${source}';`;
    const file = join(entries, `${name.replaceAll('/', '-')}.mts`);
    writeFileSync(file, `/** @module ${name} */\n${text}\n`);
    return file;
  });
  run(process.execPath, program('typedoc', 'bin/typedoc'), ...files.flatMap((file) => ['--entryPoints', file]));
}

install();
linkLibrary();
copyPages();
writeReference();
run(process.execPath, program('vue-tsc', 'bin/vue-tsc.js'), '--noEmit');
run(process.execPath, program('vitepress', 'bin/vitepress.js'), 'build', '.');
