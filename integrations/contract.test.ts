// The whole contract suite on the clients that npm cit tries in part or not at all: Upstash over HTTP, older majors, Valkey GLIDE, and
// on Bun, Bun's RedisClient.
import { mkdirSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';
import { bun, node } from '../scripts/runtimes.cjs';
import { mochaOn, testOf } from '../test/embedded/other-node';

const root = resolve(__dirname, '..');
const contract = join(root, 'test/contract');
const env = { REDIS_EXP_LOCK_CONTRACT: 'whole', NODE_OPTIONS: '' };

/** The stacks of JavaScriptCore name other lines, and its timers cannot be counted from outside. */
const ofV8 = [
  'the stack of a rejection',
  'a warning says where the lock was taken',
  'has no timer; a release leaves none',
  'no entry, no channel, no connection, no timer',
  '`retryTimeout` lies between',
];

/** Bun does not load a CommonJS module in TypeScript that ends in `export =`: all of the suite in one file, with Node's `gc()`. */
function bundle(): string {
  const outfile = join(root, 'node_modules/.cache/redis-exp-lock/contract.cjs');
  const files = readdirSync(contract).filter((file) => file.endsWith('.test.ts'));
  const imports = files.map((file) => `import './${file.slice(0, -3)}';`);
  mkdirSync(join(outfile, '..'), { recursive: true });
  buildSync({
    stdin: {
      contents: `export { mochaHooks } from '../support/hooks';\n${imports.join('\n')}`,
      resolveDir: contract,
      loader: 'ts',
    },
    outfile,
    banner: { js: 'globalThis.gc = () => Bun.gc(true);' },
    bundle: true,
    platform: 'node',
    target: 'node20',
    packages: 'external',
    define: { __dirname: JSON.stringify(contract) },
    ignoreAnnotations: true,
    logLevel: 'error',
  });
  return outfile;
}

function describeRun(title: string, run: () => ReturnType<typeof mochaOn>): void {
  describe(title, function () {
    this.timeout(900_000);
    before(async function () {
      for (const outcome of await run()) this.test!.parent!.addTest(testOf(outcome));
    });
    // A suite without a test would not run its hook.
    it('runs', function () {
      if (this.test!.parent!.tests.length < 300) throw new Error('it ran only a part of the contract');
    });
  });
}

/** Fetch of Node 20 throws out of its parser now and then, beside whatever test runs; later ones do not. */
const withFetch = node(24) ?? node(22) ?? process.execPath;

for (const [title, program, names] of [
  ['the contract over HTTP', withFetch, 'Upstash'],
  ['the contract on other clients', process.execPath, 'node-redis 4|ioredis 5|iovalkey|GLIDE'],
] as const) {
  describeRun(title, () =>
    mochaOn(program, ['--parallel', '--jobs', '3', '--grep', names, 'test/contract/*.test.ts'], env),
  );
}

const program = bun();
if (program === undefined) {
  it(`pending: Bun has no package for ${process.platform} on ${process.arch}, or it is not installed`);
} else {
  describeRun('the contract on Bun', () => {
    const grep = `^(?!.*(${ofV8.map((title) => title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|')})).*on Bun’s`;
    return mochaOn(program, ['--no-config', '--timeout', '20000', '--grep', grep, bundle()], env);
  });
}
