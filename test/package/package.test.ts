// What users install, not what lies here: the tarball that `npm pack` makes, unpacked into a project that has nothing
// else. Both module systems, both compilers, and nobody's client within reach.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, parse } from 'node:path';
import { expect } from 'chai';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { node, type Project, projectWith, repository, write } from './packed';

const compilers = ['typescript', 'typescript-5.9', 'typescript-5.0'];

const strictness = {
  'not strict': { strict: false },
  strict: { strict: true },
  exactOptionalPropertyTypes: { strict: true, exactOptionalPropertyTypes: true },
};
const moduleSystems: { [name: string]: { files: string[]; options: object; before7?: object } } = {
  commonjs: {
    files: ['ts', 'cts'],
    options: { module: 'commonjs', moduleResolution: 'bundler' },
    before7: { module: 'commonjs', moduleResolution: 'node10' }, // TypeScript 6 and 7 have it no more
  },
  node16: { files: ['cts', 'mts'], options: { module: 'node16', moduleResolution: 'node16' } },
  nodenext: { files: ['cts', 'mts'], options: { module: 'nodenext', moduleResolution: 'nodenext' } },
  bundler: { files: ['ts'], options: { module: 'esnext', moduleResolution: 'bundler' } },
};

/** What the face names and a later version brings; and what the face has no name for. */
const laterNames = [
  'FreeOptions',
  ...['LockList', 'ListOptions', 'ListedLock', 'HolderState', 'WaiterState', 'UpstashLike', 'BunRedisLike'],
];
const ownNames = [
  ...['AcquireEvent', 'LockEvents', 'LossReason', 'LostEvent', 'MemoryStoreOptions', 'ReleaseEvent', 'WarningEvent'],
  ...['redisExpLock'],
];

const compareNames = `
  import { createRequire } from 'node:module';
  import redisExpLock, * as names from 'redis-exp-lock';
  const required = createRequire(process.cwd() + '/')('redis-exp-lock');
  console.log(JSON.stringify({
    kind: typeof required,
    itself: [redisExpLock, required.default, required.redisExpLock, names.redisExpLock].map((each) => each === required),
    required: Object.keys(required).sort(),
    imported: Object.keys(names).sort(),
    different: Object.keys(required).filter((name) => required[name] !== names[name]),
  }));`;

describe('the packed library', function () {
  this.timeout(180_000);
  let packed: Project;
  let project: string;
  let installed: string;
  let tarball: string;
  let manifest: any;
  /** The names that the type files declare. */
  let declared: { commonJS: string[]; esm: string[]; face: { kind: string; name: string }[] };

  before(async () => {
    write(join(repository, 'lib/left-over-from-an-older-build.js'), '');
    packed = await projectWith(['uuid', '@types/node']);
    ({ folder: project, installed, tarball } = packed);
    manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    writePrograms(project);
    const typesOf = (file: string): string => readFileSync(join(installed, 'lib', file), 'utf8');
    declared = {
      commonJS: namesIn(typesOf('index.d.ts')),
      esm: namesIn(typesOf('index.d.mts')),
      face: declarationsIn(readFileSync(join(__dirname, 'face.d.ts'), 'utf8')),
    };
  });

  after(() => packed?.remove());

  it('holds the library and its papers, nothing else', () => {
    expect(readdirSync(installed).sort()).to.deep.equal([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'docs',
      'lib',
      'package.json',
    ]);
  });

  it('was built as it was packed: one program for each source, nothing of an older build', () => {
    const sources = filesIn(join(repository, 'src')).filter((file) => /\.m?ts$/.test(file));
    const expected = sources.map((file) => file.replace(/ts$/, 'js')).sort();
    const packed = filesIn(join(installed, 'lib'));
    expect(packed.filter((file) => /js$/.test(file))).to.deep.equal(expected);
    expect(filesIn(join(repository, 'lib'))).to.deep.equal(packed);
  });

  it('declares what its faces lead to, and no more', () => {
    const declared = filesIn(join(installed, 'lib')).filter((file) => file.endsWith('ts'));
    expect(declared).to.include.members(['index.d.ts', 'index.d.mts', 'lease.d.ts', 'with-lock.d.ts']);
    expect(declared).to.not.include.members(['acquire.d.ts', 'store.d.ts', 'wait/queue.d.ts']);
    const internals = declared.filter((file) =>
      /\b(?:Hold|Settings|Table)\b/.test(readFileSync(join(installed, 'lib', file), 'utf8')),
    );
    expect(internals).to.deep.equal([]);
  });

  it('unpacks to less than 500 kB', () => {
    const sizes = filesIn(installed).map((file) => statSync(join(installed, file)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).to.be.below(500_000);
  });

  it('needs uuid at run time, and nothing else', () => {
    const programs = filesIn(installed).filter((file) => /\.m?js$/.test(file));
    const imported = programs.flatMap((file) => importedBy(readFileSync(join(installed, file), 'utf8')));
    const packages = imported.filter((name) => !name.startsWith('.') && !name.startsWith('node:'));
    expect([...new Set(packages)]).to.deep.equal(['uuid']);
    expect(Object.keys(manifest.dependencies)).to.deep.equal(['uuid']);
  });

  it('passes publint', async () => {
    const { messages } = await publint({ pkgDir: installed, pack: false });
    expect(messages.map((message) => formatMessage(message, manifest))).to.deep.equal([]);
  });

  it('passes attw: node10, node16 from CommonJS and from ESM, bundler', async () => {
    const attw = join(repository, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    await node(project, attw, tarball, '--profile', 'strict', '--no-definitely-typed');
  });

  it('is one library: what require gives, import gives, the function itself and every name', async () => {
    const answer = JSON.parse(await node(project, '--input-type=module', '--eval', compareNames));
    expect(answer).to.deep.include({ kind: 'function', itself: [true, true, true, true] });
    expect(answer.different, 'not the same object by require and by import').to.deep.equal([]);
    expect(answer.imported).to.deep.equal(answer.required);
    const values = declared.face.filter(({ kind }) => kind === 'class' || kind === 'function').map(({ name }) => name);
    expect(answer.required).to.include.members([...values.filter((name) => !laterNames.includes(name)), 'default']);
  });

  it('declares the same names for require and for import: those of the face that are built', () => {
    const { commonJS, esm, face } = declared;
    expect(esm).to.deep.equal(commonJS);
    const built = face.map(({ name }) => name).filter((name) => !laterNames.includes(name));
    expect(commonJS).to.deep.equal([...built, ...ownNames].sort());
    expect(face.map(({ name }) => name)).to.include.members(laterNames);
  });

  it('loads where no client is installed', async () => {
    const resolveClient = "try { require.resolve('redis') } catch (err) { console.log(err.code) }";
    const printed = await node(project, '--eval', `require('redis-exp-lock'); ${resolveClient}`);
    expect(printed).to.equal('MODULE_NOT_FOUND\n');
  });

  it('works where there is no SQLite; a caller that asks for shared memory is told in one line what to install', async () => {
    const program = `
      process.getBuiltinModule = undefined; // a Node that has it loses it
      const redisExpLock = require('redis-exp-lock');
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      withLock.run('key', (lease) => console.log(lease.fence > 0)).then(() => {
        for (const ask of [() => redisExpLock.sharedMemoryStore('name'), () => new redisExpLock.HostLock('name')]) {
          try { ask(); } catch (err) { console.log(err.code, err.retryable, err.message); }
        }
      });`;
    const told =
      'ERR_LOCK_BACKEND false sharedMemoryStore and HostLock need SQLite: use Node 22.13 or later, which has it, or npm install better-sqlite3@12\n';
    expect(await node(project, '--eval', program)).to.equal(`true\n${told}${told}`);
  });

  describe('compiles with what is written against it, as face.d.ts does, by TypeScript 5.0, 5.9 and 7', () => {
    for (const [row, moduleSystem] of Object.keys(moduleSystems).entries()) {
      for (const [column, [name, options]] of Object.entries(strictness).entries()) {
        // Those before 7 take ten times as long: each module system once there, and each strictness once.
        const by = row % 3 === column ? compilers : compilers.slice(0, 1);
        it(`${moduleSystem}, ${name}, by ${by.join(' and ')}`, () =>
          Promise.all(by.map((compiler) => compile(project, compiler, moduleSystem, options))));
      }
    }
  });
});

/** What a type file exports by name, its default left out. */
function namesIn(types: string): string[] {
  const declarations = [...types.matchAll(/^(?:\s+|export )(?:export )?(?:import|type) (\w+)(?:<\w+>)? =/gm)].map(
    (match) => match[1]!,
  );
  const lists = [...types.matchAll(/^\s*export \{(.*)\}/gm)].flatMap((match) => match[1]!.split(','));
  const listed = lists.map((each) => each.trim().replace(/^\w+ as /, ''));
  return [...declarations, ...listed].filter((name) => name !== 'default').sort();
}

/** What the namespace of the face declares. */
function declarationsIn(face: string): { kind: string; name: string }[] {
  const declarations = face.matchAll(/^ {2}(interface|type|class|function) (\w+)/gm);
  return [...declarations].map(([, kind, name]) => ({ kind: kind!, name: name! }));
}

/** Writes each program in consumers/ twice, against the library and against the face, and under every extension. */
function writePrograms(project: string): void {
  const face = join(project, 'node_modules/the-face');
  write(join(face, 'package.json'), JSON.stringify({ name: 'the-face', version: '1.0.0', types: './index.d.ts' }));
  write(join(face, 'index.d.ts'), readFileSync(join(__dirname, 'face.d.ts'), 'utf8'));

  const consumers = readdirSync(join(__dirname, 'consumers')).map((file) => join(__dirname, 'consumers', file));
  for (const library of ['redis-exp-lock', 'the-face']) {
    for (const file of library === 'the-face' ? consumers : [...consumers, join(__dirname, 'assignable.cts')]) {
      const { name, ext } = parse(file);
      const program = readFileSync(file, 'utf8')
        .replace(/'[./]+\/src\/index'/, `'${library}'`)
        .replace("'./face'", "'the-face'");
      for (const extension of ext === '.ts' ? ['.ts', '.cts', '.mts'] : [ext]) {
        write(join(project, library, name + extension), program);
      }
    }
  }
}

async function compile(project: string, compiler: string, moduleSystem: string, options: object): Promise<void> {
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
  await node(project, join(repository, 'node_modules', compiler, 'bin/tsc'), '--project', configFile);
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return entries.filter((entry) => statSync(join(folder, entry)).isFile()).sort();
}

/** The packages and files that a compiled program imports, whatever its comments say. */
function importedBy(program: string): string[] {
  const imports = /^(?!\s*(?:\*|\/\/)).*?\b(?:require\(|import\(|from |import )["']([^"']+)["']/gm;
  return [...program.matchAll(imports)].map((match) => match[1]!);
}
