// src to lib: programs without comments and needless spaces, with short names for what is local or private; files, functions,
// classes and their other methods keep theirs, so that a stack can be read, and lines are short, since a crash prints one.
// Declarations with comments, and only where the faces lead to them.
const { execFileSync } = require('node:child_process');
const { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { dirname, join, relative, resolve } = require('node:path');
const { transformSync } = require('esbuild');

const root = join(__dirname, '..');
const lib = join(root, 'lib');

/** Outermost names stay in CommonJS. Not `minifySyntax`: Node finds the exports of CommonJS by their plain statements. */
const small = { minifyWhitespace: true, minifyIdentifiers: true };

/** One line for each function and class, where no text is in between: without spaces it must be the same program. */
function shrink(program) {
  const { code } = transformSync(program, small);
  const lines = code.replace(/([;}])(?=(?:async )?function\*? \w+\(|class \w+)/g, '$1\n');
  if (transformSync(lines, { minifyWhitespace: true }).code !== code)
    throw new Error(`a line break changed ${code.slice(0, 200)}`);
  return lines;
}

/** Runs the program of a package that is installed here. */
function run(program, ...args) {
  execFileSync(process.execPath, [join(root, 'node_modules', program), ...args], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
}

/** The declarations that `file` leads to, itself included. */
function reachable(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const [, specifier] of readFileSync(file, 'utf8').matchAll(/(?:from|import\()\s*['"](\.[^'"]+)['"]/g)) {
    const path = resolve(dirname(file), specifier);
    const target = [`${path}.d.ts`, path.replace(/\.js$/, '.d.ts')].find(existsSync);
    if (target === undefined) throw new Error(`${file} names ${specifier}, which declares nothing`);
    reachable(target, seen);
  }
  return seen;
}

/** Every file below a folder, by its path in there. */
function filesIn(folder) {
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)));
}

const fresh = join(root, `.build-${process.pid}`);
try {
  run('typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', fresh, '--emitDeclarationOnly');
  run(
    'typescript/bin/tsc',
    '-p',
    'tsconfig.build.json',
    '--outDir',
    fresh,
    '--declaration',
    'false',
    '--removeComments',
  );

  const seen = new Set();
  for (const face of ['index', 'otel', 'page', 'prometheus', 'nestjs', 'redlock', 'redis-semaphore'])
    for (const extension of ['d.ts', 'd.mts']) reachable(join(fresh, `${face}.${extension}`), seen);
  for (const file of filesIn(fresh))
    if (/\.d\.m?ts$/.test(file) && !seen.has(join(fresh, file))) rmSync(join(fresh, file));

  const style = ['--indent-style=tab', '--line-width=320', '--semicolons=as-needed', '--log-level=error'];
  run('@biomejs/biome/bin/biome', 'format', '--write', '--vcs-enabled=false', ...style, fresh);

  for (const file of filesIn(fresh).filter((name) => /\.m?js$/.test(name))) {
    const path = join(fresh, file);
    writeFileSync(path, shrink(readFileSync(path, 'utf8')));
  }

  // Each file in one step: a program that uses lib meanwhile finds all of it there, and every file whole.
  const files = filesIn(fresh);
  for (const file of files) {
    mkdirSync(dirname(join(lib, file)), { recursive: true });
    renameSync(join(fresh, file), join(lib, file));
  }
  for (const file of filesIn(lib)) if (!files.includes(file)) rmSync(join(lib, file), { force: true });
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
