// src to lib: programs without comments and needless spaces, with short names for what is local, private or a constant; functions,
// classes and their other methods keep theirs, so that a stack can be read, and lines are short, since a crash prints one. All that
// `index` leads to is one file, core.js: a process loads it in half the time of a hundred files, and its first 2,000 pairs take a
// third less of a processor, since names of one scope need not be looked up in modules. Declarations with comments, and only where
// the faces lead to them.
const { execFileSync } = require('node:child_process');
const { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { dirname, join, relative, resolve, sep } = require('node:path');
const { buildSync, transformSync } = require('esbuild');

const root = join(__dirname, '..');
const src = join(root, 'src');
const lib = join(root, 'lib');

/** Leaves the names at the top level: those of functions and classes are what a stack shows. */
const small = { minifyWhitespace: true, minifyIdentifiers: true };

/** What only other files of lib import: Node need not find its exports by their plain statements, so that syntax is shortened too. */
const smaller = { ...small, minifySyntax: true, define: { 'Number.POSITIVE_INFINITY': 'Infinity' } };

const faces = [
  'index',
  'tools/otel',
  'tools/page',
  'tools/prometheus',
  'tools/nestjs',
  'compat/redlock',
  'compat/redis-semaphore',
];

/** One line for each function and class, where no text is in between: without spaces it must be the same program. */
function shrink(program, isFace) {
  const { code } = isFace ? withShortConstants(program, small) : withShortConstants(withoutPreamble(program), smaller);
  return inLines(code);
}

function inLines(code) {
  const lines = code.replace(/([;}])(?=(?:async )?function\*? \w+\(|class \w+)/g, '$1\n');
  const parsed = (text) => transformSync(text, { minifyWhitespace: true }).code;
  if (parsed(lines) !== parsed(code)) throw new Error(`a line break changed ${code.slice(0, 200)}`);
  return lines;
}

/**
 * CommonJS as tsc writes it, without what it needs in circles (there are none: test/structure.test.ts) and for modules of others.
 * A function of another file is called as its member, since none uses `this`.
 */
function withoutPreamble(program) {
  const bare = program
    .replace(/^Object\.defineProperty\(exports, "__esModule".*\n/m, '')
    .replace(/^(?:exports\.\w+ = )+void 0;\n/m, '')
    .replace(/^var __(?:createBinding|setModuleDefault|importStar) = [\s\S]*?^\}\)+(?:\(\))?;\n/gm, '')
    .replace(/__importStar\((require\("\.[^"]+"\))\)/g, '$1')
    .replace(
      /^Object\.defineProperty\(exports, "(\w+)", \{ enumerable: true, get: function \(\) \{ return (.*); \} \}\);$/gm,
      'exports.$1 = $2;',
    );
  const own = [...bare.matchAll(/^exports\.(\w+) = /gm)].map(([, name]) => name);
  for (const [, name] of bare.matchAll(/\bexports\.(\w+)/g))
    if (!own.includes(name)) throw new Error(`export ${name} by a statement of its own`);
  const text = bare
    .replace(/^exports\.(\w+) = \1;\n/gm, '')
    .replace(/^exports\.(\w+) = /gm, 'const $1 = ')
    .replace(/\(0, ((?:\w+_1|exports)\.\w+)\)\(/g, '$1(')
    .replace(/\bexports\.(\w+)/g, (text, name) => (own.includes(name) ? name : text));
  if (/\bexports\./.test(text))
    throw new Error(`an export that is not one statement: ${text.match(/.*\bexports\..*/)[0]}`);
  return own.length > 0 ? `${text}module.exports = { ${own.join(', ')} };\n` : text;
}

/**
 * Constants of a file get short names too: a stack shows none of them, but for functions (which keep theirs). The declaration is
 * renamed here; esbuild then finds the old name declared nowhere, and knows what `define` says of it from what is local.
 */
function withShortConstants(program, options) {
  const define = { ...options.define };
  const free = freeNames(program);
  const renamed = program.replace(
    /^(const|let|var) (\w{3,})(?= = (?!(?:async )?(?:\(.*\)|\w+) =>|(?:async )?function|class\b))/gm,
    (text, kind, name) => {
      const uses = program.match(new RegExp(`(?<![\\w$.])${name}\\b`, 'g')).length;
      const isExported = new RegExp(`^module\\.exports = .*\\b${name}\\b`, 'm').test(program);
      if (uses < (isExported ? 4 : 2)) return text;
      define[name] = free.next().value;
      return `${kind} ${define[name]}`;
    },
  );
  return transformSync(renamed, { ...options, define });
}

/** Names of one capital letter, or with a number behind it, that a program does not have. */
function* freeNames(program) {
  const taken = new Set(program.match(/\b[A-Z]\d*\b/g));
  for (let number = -1; ; number += 1)
    for (const letter of 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') {
      const name = number < 0 ? letter : `${letter}${number}`;
      if (!taken.has(name)) yield name;
    }
}

const bundled = {
  absWorkingDir: root,
  bundle: true,
  format: 'cjs',
  platform: 'node',
  packages: 'external',
  logLevel: 'error',
};

/** The modules that `index` leads to, by their paths in src. */
function coreModules() {
  const { metafile } = buildSync({ ...bundled, entryPoints: [join(src, 'index.ts')], write: false, metafile: true });
  const names = Object.keys(metafile.inputs).map((file) => relative(src, join(root, file)).replace(/\.ts$/, ''));
  return new Set(names.filter((name) => name !== 'index'));
}

const nameOf = (module) => module.replace(/\W/g, '_');

/** What a file of lib requires of the core comes from core.js; `needed` is told which modules that are. */
function requiringCore(program, file, core, needed) {
  const up = '../'.repeat(file.split(sep).length - 1) || './';
  return program.replace(/require\("(\.[^"]+)"\)/g, (text, specifier) => {
    const module = join(dirname(file), specifier).replace(/\.js$/, '');
    if (!core.has(module)) return text;
    needed.add(module);
    return `require("${up}core.js").${nameOf(module)}`;
  });
}

/** All modules of the core in one scope, and those that other files need as an object each. */
function coreProgram(needed) {
  const lines = [...needed].sort().map((module) => {
    const name = nameOf(module);
    return `import * as all_${name} from './${module}';\nexport const ${name} = { ...all_${name} };`;
  });
  const stdin = { contents: lines.join('\n'), resolveDir: src, loader: 'ts' };
  const banner = { js: '"use strict";' };
  const { outputFiles } = buildSync({ ...bundled, stdin, banner, write: false, target: 'node20' });
  return outputFiles[0].text;
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
  const seen = new Set();
  for (const face of faces)
    for (const extension of ['d.ts', 'd.mts']) reachable(join(fresh, `${face}.${extension}`), seen);
  for (const file of filesIn(fresh))
    if (/\.d\.m?ts$/.test(file) && !seen.has(join(fresh, file))) rmSync(join(fresh, file));

  const style = ['--indent-style=tab', '--line-width=320', '--semicolons=as-needed', '--log-level=error'];
  run('@biomejs/biome/bin/biome', 'format', '--write', '--vcs-enabled=false', ...style, fresh);

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

  const core = coreModules();
  const needed = new Set();
  for (const file of filesIn(fresh).filter((name) => /\.m?js$/.test(name))) {
    const path = join(fresh, file);
    const text = readFileSync(path, 'utf8');
    rmSync(path);
    const isOnlyTypes = /^"use strict";\s*(?:Object\.defineProperty\(exports, "__esModule".*)?\s*$/.test(text);
    if (isOnlyTypes || core.has(file.replace(/\.js$/, ''))) continue;
    const program = shrink(text, faces.includes(file.replace(/\.m?js$/, '')));
    writeFileSync(path, requiringCore(program, file, core, needed));
  }
  writeFileSync(join(fresh, 'core.js'), inLines(withShortConstants(coreProgram(needed), smaller).code));

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
