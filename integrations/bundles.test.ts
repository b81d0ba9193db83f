// Programs that ship as one file: what each bundler makes of the packed library does what the library does, minified or not.
// None of them has anything to say about packages that are optional.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { expect } from 'chai';
import { build } from 'esbuild';
import { rollup } from 'rollup';
import webpack from 'webpack';
import { node, type Project, projectWith, write } from '../test/package/packed';

/** A wait in the queue, a loss, and an error that is known by its name. */
const program = `
  const store = memoryStore();
  const withLock = redisExpLock({ redis: store, lifetime: 60_000 });
  const said = [];

  const first = await withLock.promise('key');
  const second = withLock.promise('key', { timeout: 10_000 });
  await first.release();
  const lease = await second;
  said.push(lease.fence > first.fence);

  store.seize('key');
  await lease.extend();
  said.push(lease.signal.reason.name, lease.signal.reason.reason);

  const busy = await withLock.promise('key', { maxRetries: 0 }).catch((error) => error);
  said.push(busy.name, busy instanceof LockBusyError, LockError.is(busy), String(busy).split(':')[0], JSON.stringify(busy));
  console.log(JSON.stringify(said));
`;
const names = '{ LockBusyError, LockError, memoryStore }';
const expected = [
  true,
  ...['LockLostError', 'taken'],
  ...['TooManyLockAttemptsError', true, true, 'TooManyLockAttemptsError'],
  '{"code":"ERR_LOCK_ATTEMPTS","key":"key","retryable":true,"attempts":1}',
];

interface Job {
  readonly entry: string;
  readonly outfile: string;
  readonly minify: boolean;
}

/** The bundlers, each called in its own way; each call resolves with its warnings. */
const bundlers: Record<string, (job: Job) => Promise<string[]>> = {
  async esbuild({ entry, outfile, minify }) {
    const options = { bundle: true, platform: 'node', format: 'cjs', logLevel: 'silent' } as const;
    const { warnings } = await build({ ...options, entryPoints: [entry], outfile, minify });
    return warnings.map(({ text }) => text);
  },

  webpack({ entry, outfile, minify }) {
    const compiler = webpack({
      entry,
      mode: minify ? 'production' : 'development',
      devtool: false,
      target: 'node20',
      output: { path: dirname(outfile), filename: basename(outfile) },
      performance: { hints: false },
    });
    return new Promise((resolve, reject) => {
      compiler!.run((error, stats) => {
        compiler!.close(() => {});
        const { errors = [], warnings = [] } = stats?.toJson({ all: false, errors: true, warnings: true }) ?? {};
        if (error || errors.length > 0) reject(error ?? new Error(errors.map(({ message }) => message).join('\n')));
        else resolve(warnings.map(({ message }) => message));
      });
    });
  },

  async rollup({ entry, outfile }) {
    const commonjs = require('@rollup/plugin-commonjs');
    const { nodeResolve } = require('@rollup/plugin-node-resolve');
    const warnings: string[] = [];
    const bundle = await rollup({
      input: entry,
      plugins: [nodeResolve({ preferBuiltins: true }), commonjs()],
      onwarn: ({ message }) => void warnings.push(message),
    });
    await bundle.write({ file: outfile, format: 'cjs' });
    await bundle.close();
    return warnings;
  },
};

describe('a bundle of the packed library', function () {
  this.timeout(120_000);
  let project: Project;
  /** A folder in which no package can be found: a bundle has all that it needs. */
  let elsewhere: string;

  before(async () => {
    project = await projectWith(['uuid']);
    const entry = (file: string, head: string): void =>
      write(join(project.folder, file), `${head}\n(async () => {${program}})();`);
    entry('program.mjs', `import redisExpLock, ${names} from 'redis-exp-lock';`);
    entry('program.cjs', `const redisExpLock = require('redis-exp-lock');\nconst ${names} = redisExpLock;`);
    elsewhere = mkdtempSync(join(tmpdir(), 'redis-exp-lock-bundles-'));
  });

  after(() => {
    project?.remove();
    rmSync(elsewhere, { recursive: true, force: true });
  });

  for (const [bundler, minify] of [
    ['esbuild', false],
    ['esbuild', true],
    ['webpack', false],
    ['rollup', false],
  ] as const) {
    for (const written of ['program.mjs', 'program.cjs']) {
      it(`by ${bundler}${minify ? ', minified' : ''}, of ${written}: a queue, a loss, an error by its name; no warning`, async () => {
        const outfile = join(elsewhere, `${bundler}-${minify}-${written}.cjs`);
        const warnings = await bundlers[bundler]!({ entry: join(project.folder, written), outfile, minify });
        expect(warnings).to.deep.equal([]);
        expect(JSON.parse(await node(elsewhere, outfile))).to.deep.equal(expected);
      });
    }
  }
});
