// The package as users install it, not as it lies here: the tarball of `npm pack`, unpacked into a project that has nothing
// else. Both module systems, both compilers, and nobody's client within reach.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import { expect } from 'chai';
import { type BuildOptions, build } from 'esbuild';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { track, waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis } from '../support/redis';
import { compile, moduleSystems, strictness, writePrograms } from './compile';
import { node, type Project, projectWith, repository, saidByInstall, write } from './packed';

/** The shims, and what they export besides a default. */
const shims: { [entry: string]: string[] } = {
  'redis-exp-lock/redlock': ['ExecutionError', 'Lock', 'Redlock', 'ResourceLockedError'],
  'redis-exp-lock/redis-semaphore': [
    'LostLockError',
    'MultiSemaphore',
    'Mutex',
    'RedlockMultiSemaphore',
    'RedlockMutex',
    'RedlockSemaphore',
    'Semaphore',
    'TimeoutError',
    'defaultTimeoutOptions',
  ],
};
/** Names of the face that a later version brings, and names of ours that the face lacks. */
const laterNames: string[] = [];
const ownNames = [
  ...[
    'AcquireEvent',
    'EventChannel',
    'ExtendEvent',
    'LockChannels',
    'eventChannel',
    'LockEvent',
    'LockEvents',
    'LockKind',
    'LossReason',
    'LostEvent',
  ],
  ...['MemoryStoreOptions', 'ReleaseEvent', 'WarningEvent'],
  ...['redisExpLock'],
];

const compareNames = (entry: string): string => `
  import { createRequire } from 'node:module';
  import * as names from '${entry}';
  const required = createRequire(process.cwd() + '/')('${entry}');
  console.log(JSON.stringify({
    kind: typeof required,
    itself: [names.default, required.default, required.redisExpLock, names.redisExpLock].map((each) => each === required),
    required: Object.keys(required).sort(),
    imported: Object.keys(names).sort(),
    different: Object.keys(required).filter((name) => required[name] !== names[name]),
  }));`;

describe('the packed library', function () {
  this.timeout(180_000); // packing, and a compiler for each kind of module
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
      'dashboards',
      'docs',
      'lib',
      'llms.txt',
      'package.json',
    ]);
  });

  it('was built as it was packed: each source in core.js or in the file of an entry, nothing of an older build', () => {
    const sources = filesIn(join(repository, 'src')).filter((file) => /\.m?ts$/.test(file));
    const packed = filesIn(join(installed, 'lib'));
    expect(filesIn(join(repository, 'lib'))).to.deep.equal(packed);
    const programs = packed.filter((file) => /js$/.test(file) && !/^(?:core|edge)\.m?js$/.test(file));
    expect(sources.map((file) => file.replace(/ts$/, 'js'))).to.include.members(programs);
    const built = ['core.js', ...programs].map((file) => readFileSync(join(installed, 'lib', file), 'utf8')).join('\n');
    let found = 0;
    for (const source of sources.filter((file) => !programs.includes(file.replace(/ts$/, 'js')))) {
      const text = readFileSync(join(repository, 'src', source), 'utf8');
      const names = [...text.matchAll(/^export (?:async )?(?:function|class) (\w+)/gm)].map(([, name]) => name);
      const here = names.filter((name) =>
        new RegExp(`\\b(?:function ${name}\\d*\\(|${name}\\d* = class\\b)`).test(built),
      );
      // Members of a source that only tests use are left out.
      expect(here.length > 0, source).to.equal(names.length > 0);
      found += here.length;
    }
    expect(found).to.be.greaterThan(200);
  });

  it('has every name that one of its files takes from another', async () => {
    const program = `
      const { readdirSync, readFileSync } = require('node:fs');
      const { dirname, join } = require('node:path');
      const lib = join(process.cwd(), 'node_modules/redis-exp-lock/lib');
      let taken = 0;
      for (const file of readdirSync(lib, { recursive: true }).filter((each) => each.endsWith('.js'))) {
        const text = readFileSync(join(lib, file), 'utf8');
        for (const [, name, from] of text.matchAll(/^var (\\w+) = require\\("(\\.[^"]+)"\\);$/gm)) {
          const there = require(join(lib, dirname(file), from));
          for (const [, member] of text.matchAll(new RegExp('(?<![\\\\w$.-])' + name + '\\\\.(\\\\w+)', 'g'))) {
            taken += 1;
            if (!(member in there)) console.log(file, from, member);
          }
        }
      }
      console.log(taken > 150);`;
    expect(await node(project, '--eval', program)).to.equal('true\n');
  });

  it('has each module once, under a banner with its path in src, in lines that a person can read', () => {
    // edge.js is index.js once more.
    const programs = filesIn(join(installed, 'lib')).filter((file) => file.endsWith('.js') && file !== 'edge.js');
    const texts = programs.map((file) => readFileSync(join(installed, 'lib', file), 'utf8'));
    const banners = texts.flatMap((text) => [
      ...new Set([...text.matchAll(/^\/\/ (src\/\S+\.ts)$/gm)].map(([, path]) => path!)),
    ]);
    expect(banners).to.include.members(['src/with-lock.ts', 'src/store/redis/store.ts', 'src/compat/redlock.ts']);
    expect(banners.filter((path, i) => banners.indexOf(path) !== i)).to.deep.equal([]);
    for (const path of banners.filter((each) => each !== 'src/core.ts')) statSync(join(repository, path));
    // The live page is one text.
    const lines = texts.filter((_, i) => programs[i] !== 'tools/page.js').flatMap((text) => text.split('\n'));
    // Tables are one statement, and so one line each. esbuild's `lineLimit` would break texts in two, which rollup then indents.
    expect(lines.filter((line) => line.length > 300).length).to.be.below(30);
    expect(Math.max(...lines.map((line) => line.length))).to.be.below(2000);
    expect(lines.filter((line) => line.endsWith('\\'))).to.deep.equal([]);
  });

  it('a stack trace names functions and lines of it as they are in src', async () => {
    const program = `
      const redisExpLock = require('redis-exp-lock');
      try { redisExpLock({ redis: redisExpLock.memoryStore(), lifetime: 'long' }); } catch (err) { console.log(err.stack); }`;
    expect(await node(project, '--eval', program)).to.match(/\n +at optionError \(.*lib.core\.js:\d+:\d{1,2}\)\n/);
  });

  it('declares what its faces lead to, and nothing else', () => {
    const declared = filesIn(join(installed, 'lib')).filter((file) => file.endsWith('ts'));
    expect(declared).to.include.members(['index.d.ts', 'index.d.mts', 'hold/lease.d.ts', 'with-lock.d.ts']);
    expect(declared).to.include.members(['compat/redlock.d.mts', 'tools/otel.d.mts', 'tools/page.d.mts']);
    expect(declared).to.not.include.members(['acquire/acquisition.d.ts', 'store/redis/store.d.ts', 'queue/queue.d.ts']);
    // `Settings` is redlock's own name for its options.
    const ours = declared.filter((file) => !/^compat\/redlock(?:\.|\/attempts\.)/.test(file));
    const internals = ours.filter((file) =>
      /\b(?:Hold|Settings|Table)\b/.test(readFileSync(join(installed, 'lib', file), 'utf8')),
    );
    expect(internals).to.deep.equal([]);
  });

  it('is installed without a script, and without a warning about scripts', async () => {
    const atInstall = ['preinstall', 'install', 'postinstall', 'prepare'];
    expect(atInstall.filter((name) => name in manifest.scripts)).to.deep.equal([]);
    const said = await saidByInstall(tarball);
    expect(said).to.contain('added ').and.to.not.contain('script');
  });

  it('unpacks to less than 900 kB; the README says to how much', () => {
    const sizes = filesIn(installed).map((file) => statSync(join(installed, file)).size);
    const unpacked = sizes.reduce((sum, size) => sum + size, 0);
    expect(unpacked).to.be.below(900_000);
    const readme = readFileSync(join(installed, 'README.md'), 'utf8');
    const [, packedKb, unpackedKb] = /(\d+) kB gzipped, (\d+) kB unpacked/.exec(readme)!.map(Number) as number[];
    expect(unpackedKb! / (unpacked / 1000)).to.be.closeTo(1, 0.02);
    expect(packedKb! / (statSync(tarball).size / 1000)).to.be.closeTo(1, 0.02);
  });

  it('needs uuid at run time, and nothing else', () => {
    const programs = filesIn(installed).filter((file) => /\.m?js$/.test(file));
    const imported = programs.flatMap((file) => importedBy(readFileSync(join(installed, file), 'utf8')));
    const packages = imported.filter((name) => !name.startsWith('.') && !name.startsWith('node:'));
    // Those that are no dependency by subpaths of their own, when they are used.
    const peers = ['@nestjs/common', '@opentelemetry/api', 'prom-client'];
    expect([...new Set(packages)].sort()).to.deep.equal([...peers, 'uuid']);
    expect(Object.keys(manifest.dependencies)).to.deep.equal(['uuid']);
  });

  it('redis-exp-lock/edge needs no module of Node, is what bundlers for Workers and browsers get, and shares core.js with Node', async () => {
    const lib = (file: string): string => readFileSync(join(installed, 'lib', file), 'utf8');
    const reached = ['edge.mjs', 'edge.js', 'core.js', 'store/embedded/no-shared-memory.js'];
    const imported = [...new Set(reached.flatMap((file) => importedBy(lib(file))))].sort();
    expect(imported).to.deep.equal(['../../core.js', ...reached.slice(1).map((file) => `./${file}`), 'uuid'].sort());
    for (const condition of ['workerd', 'edge-light', 'browser']) {
      expect(manifest.exports['.'][condition], condition).to.deep.equal(manifest.exports['./edge']);
      const program =
        "import('redis-exp-lock').then(async ({ memoryStore, redisExpLock, HostLock }) => { const withLock = redisExpLock({ redis: memoryStore() }); console.log(await withLock.run('key', () => 'ran')); new HostLock('name'); }).catch((error) => console.log(error.message));";
      expect(await node(project, `--conditions=${condition}`, '--eval', program)).to.match(
        /^ran\nHostLock needs files and sockets, /,
      );
    }
    const shared = `
      const [node, edge] = [require('redis-exp-lock'), require('redis-exp-lock/edge')];
      console.log(Object.keys(node).filter((name) => node[name] !== edge[name]).join());`;
    expect(await node(project, '--eval', shared)).to.equal('sharedMemoryStore,HostLock,default,redisExpLock\n');
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
    const answer = JSON.parse(await node(project, '--input-type=module', '--eval', compareNames('redis-exp-lock')));
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

  for (const [entry, names] of Object.entries(shims)) {
    it(`${entry}: what require gives, import gives, by every name`, async () => {
      const answer = JSON.parse(await node(project, '--input-type=module', '--eval', compareNames(entry)));
      const different = answer.different.filter((name: string) => name !== 'default');
      expect(different, 'not the same object by require and by import').to.deep.equal([]);
      expect(answer.required.filter((name: string) => name !== 'default')).to.deep.equal(names);
      expect(answer.imported.filter((name: string) => name !== 'default')).to.deep.equal(names);
    });

    it(`${entry}: loads nothing of the library that it stands for, nor the library anything of it`, async () => {
      const program = (name: string): string =>
        `require('${name}'); console.log(JSON.stringify(Object.keys(require.cache)))`;
      const loaded = async (name: string): Promise<string[]> =>
        JSON.parse(await node(project, '--eval', program(name)));
      const outside = (await loaded(entry)).filter((file) => !file.startsWith(installed) && !file.includes('/uuid/'));
      expect(outside).to.deep.equal([]);
      expect(await loaded(entry)).to.include(join(installed, 'lib/compat', `${parse(entry).base}.js`));
      const others = (await loaded('redis-exp-lock')).filter((file) => /compat|redlock|redis-semaphore/.test(file));
      expect(others).to.deep.equal([]);
    });
  }

  it('redis-exp-lock/redlock: its class is the default export, as it is there', async () => {
    const program = `
      import { createRequire } from 'node:module';
      import Redlock, { Lock } from 'redis-exp-lock/redlock';
      const { default: Required } = createRequire(process.cwd() + '/')('redis-exp-lock/redlock');
      console.log(Redlock === Required, typeof Redlock.prototype.using, typeof Lock.prototype.extend);`;
    expect(await node(project, '--input-type=module', '--eval', program)).to.equal('true function function\n');
  });

  describe('in an ESM bundle by esbuild', () => {
    const page = readFileSync(join(repository, 'docs/integrations.md'), 'utf8');
    const [, js] = /^const banner = \{ js: "(.*)" \};$/m.exec(page)!;

    async function runBundle(name: string, options: BuildOptions): Promise<string> {
      const contents = `import redisExpLock, { memoryStore } from 'redis-exp-lock';
        const withLock = redisExpLock({ redis: memoryStore() });
        console.log(await withLock.run('key', async (lease) => lease.fence > 0));`;
      const outfile = join(project, name);
      const common = { bundle: true, platform: 'node', format: 'esm', logLevel: 'silent', outfile } as const;
      await build({ ...common, stdin: { contents, resolveDir: project }, ...options });
      return node(project, outfile);
    }

    it('works with the banner of docs/integrations.md, or with external packages', async () => {
      expect(await runBundle('banner.mjs', { banner: { js: js! } })).to.equal('true\n');
      expect(await runBundle('external.mjs', { packages: 'external' })).to.equal('true\n');
    });

    it('fails as it loads without them, with the error that the page names', async () => {
      const error = await runBundle('bare.mjs', {}).catch((caught) => caught);
      expect(error.message).to.match(/Dynamic require of "crypto" is not supported/);
      expect(page).to.include('Dynamic require of "crypto" is not supported');
    });
  });

  it('loads where no client is installed', async () => {
    const resolveClient = "try { require.resolve('redis') } catch (err) { console.log(err.code) }";
    const printed = await node(project, '--eval', `require('redis-exp-lock'); ${resolveClient}`);
    expect(printed).to.equal('MODULE_NOT_FOUND\n');
  });

  it('has a subpath for NestJS, by require and by import; without its package a decorator says what to install', async () => {
    const use = `
      console.log(Object.keys(subpath).filter((name) => name !== 'default').sort().join());
      console.log(typeof subpath.LockModule.forRoot({}).module, subpath.currentLease());
      try { subpath.InjectLock(); } catch (err) { console.log(err.code, err.message); }`;
    const told = `InjectLock,LockModule,Locked,Once,currentLease
function undefined
MODULE_NOT_FOUND redis-exp-lock/nestjs needs a package: npm install @nestjs/common @nestjs/core
`;
    const load = (how: string): string => `const subpath = ${how}('redis-exp-lock/nestjs');${use}`;
    expect(await node(project, '--eval', load('require'))).to.equal(told);
    expect(await node(project, '--input-type=module', '--eval', load('await import'))).to.equal(told);
  });

  it('has subpaths for OpenTelemetry and Prometheus, by require and by import; without their packages they say what to install', async () => {
    const use = (load: (name: string) => string): string => `
      for (const [name, face, argument] of [['otel', 'instrument'], ['prometheus', 'collect', { registerMetric() {} }]]) {
        const subpath = ${load("'redis-exp-lock/' + name")};
        console.log(Object.keys(subpath).includes(face), typeof subpath[face]);
        try { subpath[face](argument); } catch (err) { console.log(err.code, err.message); }
      }`;
    const told = `true function
MODULE_NOT_FOUND redis-exp-lock/otel needs a package: npm install @opentelemetry/api@1
true function
MODULE_NOT_FOUND redis-exp-lock/prometheus needs a package: npm install prom-client@15
`;
    expect(
      await node(
        project,
        '--eval',
        use((name) => `require(${name})`),
      ),
    ).to.equal(told);
    const imported = use((name) => `await import(${name})`);
    expect(await node(project, '--input-type=module', '--eval', imported)).to.equal(told);
  });

  it('has the live page, by require and by import, the same function; the library loads nothing of it', async () => {
    const program = `
      import { createRequire } from 'node:module';
      const require = createRequire(process.cwd() + '/');
      require('redis-exp-lock');
      const before = Object.keys(require.cache);
      const { lockPage } = await import('redis-exp-lock/page');
      const { memoryStore } = require('redis-exp-lock');
      const answer = await lockPage({ redis: memoryStore(), authorize: () => true }).fetch(new Request('http://localhost/'));
      console.log(before.filter((file) => /lib.page/.test(file)).length, lockPage === require('redis-exp-lock/page').lockPage);
      console.log(answer.status, (await answer.text()).slice(0, 15));`;
    const printed = await node(project, '--input-type=module', '--eval', program);
    expect(printed).to.equal('0 true\n200 <!doctype html>\n');
  });

  it('measures by require what was locked by import, and the other way round', async () => {
    const others = ['uuid', 'prom-client', '@opentelemetry/api', 'tdigest', 'bintrees'];
    const { folder, remove } = await projectWith(others, tarball);
    const program = `
      import { createRequire } from 'node:module';
      import { memoryStore, redisExpLock } from 'redis-exp-lock';
      import { collect } from 'redis-exp-lock/prometheus';
      import { instrument } from 'redis-exp-lock/otel';
      import { Registry } from 'prom-client';
      const require = createRequire(process.cwd() + '/');
      const [imported, required] = [new Registry(), new Registry()];
      const offs = [collect(imported), require('redis-exp-lock/prometheus').collect(required)];
      offs.push(instrument(), require('redis-exp-lock/otel').instrument());
      await redisExpLock({ redis: memoryStore() }).run('k', () => {});
      await require('redis-exp-lock')({ redis: memoryStore() }).run('k', () => {});
      for (const registry of [imported, required]) {
        console.log(/_acquire_duration_seconds_count\\{.*\\} (\\d+)/.exec(await registry.metrics())[1]);
      }
      for (const off of offs) off();`;
    expect(await node(folder, '--input-type=module', '--eval', program)).to.equal('2\n2\n');
    remove();
  });

  it('works where there is no SQLite; a caller of shared memory gets one line that says what to install', async () => {
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

  describe('its command line, where one client of Redis is installed', () => {
    let server: RedisServer;
    let client: Client;

    before(async () => {
      server = await startRedis({ appendonly: 'everysec' });
      client = await connect(server.url);
    });
    after(() => server.discard());

    /** @param until Once it resolves, the command reads the end of its input. */
    const type = async (until: () => Promise<unknown>, ...args: string[]): Promise<unknown> => {
      const env = { ...process.env, REDIS_URL: server.url };
      const child = spawn(process.execPath, [join(installed, 'lib/tools/cli.js'), ...args], { cwd: project, env });
      track(child);
      const said = { out: '', err: '' };
      child.stdout.on('data', (chunk) => {
        said.out += chunk;
      });
      child.stderr.on('data', (chunk) => {
        said.err += chunk;
      });
      const closed = once(child, 'close');
      await Promise.race([until(), closed]);
      child.stdin.end();
      const [code] = await closed;
      return { code, ...said };
    };
    const atOnce = async (): Promise<void> => {};

    it('--version is the version of the package', async () => {
      const out = `${manifest.version}\n`;
      expect(await type(atOnce, '--version')).to.deep.equal({ code: 0, out, err: '' });
    });

    it('none: it says in one line what to install', async () => {
      const err = 'redis-exp-lock: no client of Redis is installed: npm install redis (or ioredis, or iovalkey)\n';
      expect(await type(atOnce, 'ls')).to.deep.equal({ code: 69, out: '', err });
    });

    for (const name of ['redis', 'ioredis', 'iovalkey']) {
      it(`${name}: run under a lock that is renewed, in it a shared one and a permit; ls; doctor`, async () => {
        const link = join(project, 'node_modules', name);
        symlinkSync(join(repository, 'node_modules', name), link, 'junction');
        const run = (...args: string[]) => [
          process.execPath,
          join(installed, 'lib/tools/cli.js'),
          'run',
          ...args,
          '--',
        ];
        const inner = [...run('--shared', `${name}-s`), ...run('--permits', '1/2', `${name}-p`)];
        const renewed = async (): Promise<void> => {
          const lefts: number[] = [];
          const isRenewed = async () => lefts.push(await client.pTTL(name)) > 1 && lefts.at(-1)! > lefts.at(-2)!;
          await waitFor(async () => (await client.exists(`${name}-p`)) === 1, { what: 'the innermost lock' });
          await waitFor(isRenewed, { what: 'a renewal' });
        };
        const args = ['run', '--ttl', '6s', name, '--', ...inner, 'sh', '-c', 'cat; exit 7'];
        expect(await type(renewed, ...args)).to.deep.equal({ code: 7, out: '', err: '' });
        const [listed, examined] = await Promise.all([
          type(atOnce, 'ls', '--scan', '--json', name),
          type(atOnce, 'doctor', '--json'),
        ]);
        expect(listed).to.deep.equal({ code: 0, out: '{"coverage":{"processes":0,"scanned":true}}\n', err: '' });
        expect(examined).to.include({ code: 0, err: '' });
        rmSync(link);
      });
    }

    it('ioredis before 5.3, which exports its class alone: ls', async () => {
      const folder = join(project, 'node_modules/ioredis');
      const redis = JSON.stringify(join(repository, 'node_modules/ioredis-5'));
      mkdirSync(folder);
      writeFileSync(join(folder, 'package.json'), '{ "name": "ioredis", "version": "5.2.4" }');
      writeFileSync(
        join(folder, 'index.js'),
        `const { Redis } = require(${redis}); module.exports = function (...args) { return new Redis(...args); };`,
      );
      const out = '{"coverage":{"processes":0,"scanned":true}}\n';
      expect(await type(atOnce, 'ls', '--scan', '--json', 'none')).to.deep.equal({ code: 0, out, err: '' });
      rmSync(folder, { recursive: true });
    });
  });

  describe('compiles with what is written against it, as face.d.ts does, by TypeScript 7 (by 5.0 and 5.9 in integrations)', () => {
    for (const moduleSystem of Object.keys(moduleSystems)) {
      for (const [name, options] of Object.entries(strictness))
        it(`${moduleSystem}, ${name}`, () => compile(project, 'typescript', moduleSystem, options));
    }
  });
});

/** The names that a type file exports, its default left out. */
function namesIn(types: string): string[] {
  const declarations = [...types.matchAll(/^(?:\s+|export )(?:export )?(?:import|type) (\w+)(?:<\w+>)? =/gm)].map(
    (match) => match[1]!,
  );
  const lists = [...types.matchAll(/^\s*export \{(.*)\}/gm)].flatMap((match) => match[1]!.split(','));
  const listed = lists.map((each) => each.trim().replace(/^\w+ as /, ''));
  return [...declarations, ...listed].filter((name) => name !== 'default').sort();
}

/** The declarations in the namespace of the face. */
function declarationsIn(face: string): { kind: string; name: string }[] {
  const declarations = face.matchAll(/^ {2}(interface|type|class|function) (\w+)/gm);
  return [...declarations].map(([, kind, name]) => ({ kind: kind!, name: name! }));
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return entries.filter((entry) => statSync(join(folder, entry)).isFile()).sort();
}

/** The packages and files that a compiled program imports, whatever its comments say. */
function importedBy(program: string): string[] {
  const imports = /\b(?:require\(|import\(|from ?|import ?)["']([^"']+)["']/g;
  return [...program.matchAll(imports)].map((match) => match[1]!);
}
