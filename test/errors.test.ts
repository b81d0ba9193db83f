// The content of an error, wherever it goes: a log line, JSON, a minified bundle, a second copy of this package.
import { inspect } from 'node:util';
import { expect } from 'chai';
import { buildSync } from 'esbuild';
import redisExpLock from '../src/index';
import { failure } from './contract/outcomes';

type ErrorClass = new (message?: string, details?: object) => redisExpLock.LockError;
type Row = [name: string, parent: string, code: string | undefined, retryable: boolean];

const rows: readonly Row[] = [
  ['LockBusyError', 'LockError', undefined, true],
  ['TooManyLockAttemptsError', 'LockBusyError', 'ERR_LOCK_ATTEMPTS', true],
  ['LockTimeoutError', 'LockBusyError', 'ERR_LOCK_TIMEOUT', true],
  ['AlreadyAcquiredLockError', 'LockError', 'ERR_LOCK_ALREADY_ACQUIRED', false],
  ['NotAcquiredLockError', 'LockError', 'ERR_LOCK_NOT_ACQUIRED', false],
  ['LockLostError', 'LockError', 'ERR_LOCK_LOST', false],
  ['LockDeadlockError', 'LockError', 'ERR_LOCK_DEADLOCK', false],
  ['LockBackendError', 'LockError', 'ERR_LOCK_BACKEND', true],
  ['LockClosedError', 'LockError', 'ERR_LOCK_CLOSED', false],
];

/** Another copy of the library, minified as a bundler does it. */
function anotherCopy(): typeof redisExpLock {
  const options = { bundle: true, write: false, minify: true, platform: 'node', format: 'cjs' } as const;
  const { outputFiles } = buildSync({ entryPoints: ['src/index.ts'], packages: 'external', ...options });
  const module = { exports: {} as typeof redisExpLock };
  new Function('module', 'exports', 'require', outputFiles[0]!.text)(module, module.exports, require);
  return module.exports;
}

describe('errors', () => {
  const classes = redisExpLock as unknown as Record<string, ErrorClass>;
  let copy: typeof redisExpLock;
  let copies: Record<string, ErrorClass>;

  before(() => {
    copy = anotherCopy();
    copies = copy as unknown as Record<string, ErrorClass>;
  });

  for (const [name, parent, code, retryable] of rows) {
    it(`${name}: its parent, its name, and code, key and retryable of its own`, () => {
      const error = new classes[name]!('why', { key: 'k' });
      expect(Object.getPrototypeOf(classes[name]!.prototype)).to.equal(classes[parent]!.prototype);
      expect(error.name).to.equal(name);
      expect(String(error.stack)).to.match(new RegExp(`^${name}: why\n`));
      const expected = { ...(code && { code }), key: 'k', retryable };
      expect(Object.getOwnPropertyDescriptors(error)).to.include.keys(...Object.keys(expected));
      expect(JSON.parse(JSON.stringify(error))).to.include(expected);
      expect({ ...error }).to.include(expected);
      const logged = inspect(error);
      expect(logged).to.contain(`retryable: ${retryable}`).and.to.contain("key: 'k'");
      if (code) expect(logged).to.contain(`code: '${code}'`);
    });

    it(`${name}: a minified copy gives it the same name`, () => {
      const error = new copies[name]!('why');
      expect(error).to.not.be.instanceOf(classes.LockError!);
      expect(error.name).to.equal(name);
      expect(String(error)).to.equal(`${name}: why`);
      expect(inspect(error)).to.match(new RegExp(`^${name}: why`));
    });

    it(`${name}: \`is\` knows it, and its parents know it, across copies`, () => {
      const is = (of: Record<string, ErrorClass>, each: string, error: unknown): boolean => (of[each] as any).is(error);
      for (const [theirs, ours] of [
        [copies, classes],
        [classes, copies],
        [classes, classes],
      ] as const) {
        const error = new theirs[name]!('why');
        const known = rows.map(([each]) => each).filter((each) => is(ours, each, error));
        expect(known.sort()).to.deep.equal([...new Set([name, parent])].filter((each) => each !== 'LockError').sort());
        expect(is(ours, 'LockError', error)).to.equal(true);
      }
    });
  }

  it('a subclass may have a `code` of its own, and a program may freeze the classes', () => {
    class Mine extends redisExpLock.LockBusyError {}
    Object.defineProperty(Mine.prototype, 'code', { get: () => 'MINE' });
    expect(new Mine('busy')).to.include({ code: 'MINE', retryable: true });
    const copy = anotherCopy();
    for (const each of [copy.LockError, copy.LockBusyError, copy.LockTimeoutError]) Object.freeze(each.prototype);
    expect(new copy.LockTimeoutError('late')).to.include({ code: 'ERR_LOCK_TIMEOUT', retryable: true });
  });

  it('`is` says no to everything else, and may be handed around', () => {
    const { is } = redisExpLock.LockError;
    for (const other of [
      undefined,
      null,
      5,
      'ERR_LOCK_TIMEOUT',
      {},
      new Error('x'),
      { code: 'ERR_LOCK_TIMEOUT' },
      is,
    ]) {
      expect(is(other)).to.equal(false);
    }
    const errors = [new Error('x'), new copy.LockTimeoutError('y')];
    expect(errors.filter(redisExpLock.LockBusyError.is)).to.deep.equal([errors[1]]);
  });

  it('a backend error says by itself whether it may be tried again; a loss keeps the result that came too late', () => {
    expect(JSON.parse(JSON.stringify(new redisExpLock.LockBackendError('x', { retryable: false })))).to.deep.equal({
      code: 'ERR_LOCK_BACKEND',
      key: '',
      retryable: false,
    });
    expect(new redisExpLock.LockLostError('x')).to.not.have.property('result');
    const late = new redisExpLock.LockLostError('x', { reason: 'taken', result: 5 });
    expect(JSON.parse(JSON.stringify(late))).to.include({ reason: 'taken', result: 5, retryable: false });
  });

  it('a real one: busy, and both ways to find that out are a LockBusyError', async () => {
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
    const lease = await withLock.promise('k');
    for (const [options, code] of [
      [{}, 'ERR_LOCK_ATTEMPTS'],
      [{ timeout: 0 }, 'ERR_LOCK_TIMEOUT'],
    ] as const) {
      const error = await failure(withLock.promise('k', options));
      expect(error).to.be.instanceOf(redisExpLock.LockBusyError);
      expect(JSON.parse(JSON.stringify(error))).to.include({ code, key: 'k', retryable: true });
    }
    await lease();
  });
});
