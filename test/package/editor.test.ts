// The library as an editor shows it: the compiler's own reading of the doc comments, from the entries that users import.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import ts from 'typescript-5.9';
import { repository } from './packed';

const entries = [
  'index',
  'tools/otel',
  'tools/prometheus',
  'tools/page',
  'tools/nestjs',
  'compat/redlock',
  'compat/redis-semaphore',
];
/** The names that an example may use without an import. */
const prelude = `
  declare const client: any, client2: any, client3: any;
  declare const work: (...given: unknown[]) => Promise<string>;
  type WithLock = import('redis-exp-lock').WithLock;
`;
const imports = `
  import redisExpLock, { Election, eventChannel, HostLock, Lock, memoryStore, RWLock, Semaphore, sharedMemoryStore } from 'redis-exp-lock';
`;
/** Made by a Redlock; and two classes whose constructors throw. */
const notMade = [
  'compat/redlock: Lock',
  'compat/redis-semaphore: RedlockSemaphore',
  'compat/redis-semaphore: RedlockMultiSemaphore',
];

describe('what an editor shows', function () {
  this.timeout(120_000); // a compiler without a cache reads all declarations
  let host: ts.CompilerHost;
  let options: ts.CompilerOptions;
  let program: ts.Program;
  let checker: ts.TypeChecker;

  before(() => {
    const config = ts.readConfigFile(join(repository, 'tsconfig.json'), (file) => readFileSync(file, 'utf8'));
    ({ options } = ts.parseJsonConfigFileContent(config.config, ts.sys, repository, { noEmit: true }));
    options.experimentalDecorators = true;
    options.noUnusedLocals = false;
    options.noUnusedParameters = false;
    options.paths = {
      'redis-exp-lock': [join(repository, 'src/index.mts')],
      'redis-exp-lock/*': [join(repository, 'src/tools/*.mts'), join(repository, 'src/compat/*.mts')],
    };
    host = ts.createCompilerHost(options);
    program = ts.createProgram(
      entries.map((entry) => join(repository, 'src', `${entry}.mts`)),
      options,
      host,
    );
    checker = program.getTypeChecker();
  });

  it('a summary on each class, function and constructor of each entry', () => {
    const silent = [...exported()].flatMap(([name, symbol]) => {
      const made = constructorsOf(symbol)
        .filter((each) => text(each) === '')
        .map(() => `new ${name}`);
      return text(symbol) === '' ? [name, ...made] : made;
    });
    expect(silent).to.deep.equal([]);
  });

  it('one example on each class and function that a program begins with, and on each call of `withLock`', () => {
    const begins = [...exported()].filter(([name, symbol]) => !isError(symbol) && !notMade.includes(name));
    const without = begins.filter(([, symbol]) => examplesOf(symbol).length !== 1);
    expect(without.map(([name]) => name)).to.deep.equal([]);
    const calls = membersOf('WithLock').filter((call) => !call.name.startsWith('__@') && examplesOf(call).length !== 1);
    expect(calls.map(({ name }) => name)).to.deep.equal([]);
  });

  it('the examples compile', () => {
    const examples = [...[...exported()].map(([, symbol]) => symbol), ...membersOf('WithLock')].flatMap(examplesOf);
    const files = new Map(
      examples.map((code, n) => [join(repository, 'test/package', `example-${n}.mts`), asProgram(code)]),
    );
    const { getSourceFile, fileExists } = host;
    host.fileExists = (file) => files.has(file) || fileExists(file);
    host.getSourceFile = (file, ...rest) =>
      files.has(file) ? ts.createSourceFile(file, files.get(file)!, rest[0]) : getSourceFile(file, ...rest);
    const written = ts.createProgram([...files.keys()], options, host, program);
    const wrong = [...files.keys()].flatMap((file) => ts.getPreEmitDiagnostics(written, written.getSourceFile(file)));
    const told = wrong.map(({ file, messageText }) => [ts.flattenDiagnosticMessageText(messageText, ' '), file?.text]);
    expect(files.size).to.be.greaterThan(20);
    expect(told).to.deep.equal([]);
  });

  it('each option, with its default where there is one; each property of errors and leases', () => {
    const shown = ['Options', 'RWLockOptions', 'PermitOptions', 'OnceOptions', 'ElectionOptions', 'CachedOptions'];
    const read = [
      'HostLockOptions',
      'CloseOptions',
      'ListOptions',
      'FreeOptions',
      'Lease',
      'LockState',
      'LockBackendError',
    ];
    const properties = [...shown, ...read, 'LockLostError', 'TooManyLockAttemptsError'].flatMap((name) =>
      membersOf(name)
        .filter((each) => isOurs(each) && text(each) === '')
        .map((each) => `${name}.${each.name}`),
    );
    expect(properties).to.deep.equal([]);
  });

  it('no tag that the compiler took an `@` in a text for', () => {
    const known = ['param', 'throws', 'returns', 'example', 'internal', 'see', 'deprecated'];
    const symbols = [...[...exported()].map(([, symbol]) => symbol), ...membersOf('WithLock'), ...membersOf('Options')];
    const tags = symbols.flatMap((symbol) => symbol.getJsDocTags(checker).map(({ name }) => name));
    expect(tags.filter((tag) => !known.includes(tag))).to.deep.equal([]);
  });

  it('`autoExtend` says where it is on; `redis` names every client', () => {
    const [autoExtend, redis] = [text(member('Options', 'autoExtend')), text(member('Options', 'redis'))];
    for (const on of [
      'run',
      'tryRun',
      'once',
      'cached',
      'read',
      'write',
      'acquireRead',
      'acquireWrite',
      'Semaphore.run',
    ]) {
      expect(autoExtend).to.contain(`\`${on}\``);
    }
    expect(autoExtend).to.match(/off/);
    const clients = [
      'node-redis 4 to 6',
      'ioredis 5 and 6',
      'iovalkey',
      'Valkey GLIDE',
      '@upstash/redis',
      'RedisClient',
    ];
    for (const client of [...clients, 'memoryStore', 'sharedMemoryStore', 'quorum']) expect(redis).to.contain(client);
  });

  it('`redisCode` lists every code of our own, as docs/options.md does; `reason` every value', () => {
    const redisCode = text(member('LockBackendError', 'redisCode'));
    const docs = readFileSync(join(repository, 'docs/options.md'), 'utf8');
    expect(ownCodes()).to.include.keys('FOREIGN', 'FENCE', 'LIMIT', 'PLATFORM');
    for (const code of ownCodes()) {
      expect(redisCode).to.contain(`\`${code}\``);
      expect(docs).to.match(new RegExp(`^\\|[^|]*\`${code}\``, 'm'));
    }
    const reason = member('LockLostError', 'reason');
    const type = checker.getTypeOfSymbol(reason) as ts.UnionType;
    expect(type.types).to.have.length(6);
    for (const each of type.types) expect(text(reason)).to.contain(`\`${(each as ts.StringLiteralType).value}\`:`);
  });

  /** The classes and functions that are exported, by entry and name. */
  function* exported(): Generator<[string, ts.Symbol]> {
    for (const entry of entries) {
      const module = checker.getSymbolAtLocation(program.getSourceFile(join(repository, 'src', `${entry}.mts`))!)!;
      for (const alias of checker.getExportsOfModule(module)) {
        const symbol = alias.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(alias) : alias;
        if (symbol.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Function)) yield [`${entry}: ${alias.name}`, symbol];
      }
    }
  }

  function text(of: ts.Symbol | ts.Signature): string {
    return ts.displayPartsToString(of.getDocumentationComment(checker));
  }

  function constructorsOf(symbol: ts.Symbol): readonly ts.Signature[] {
    if (!(symbol.flags & ts.SymbolFlags.Class)) return [];
    const signatures = checker.getTypeOfSymbol(symbol).getConstructSignatures();
    return signatures.filter(({ declaration }) => declaration?.getSourceFile().fileName.includes('/src/'));
  }

  function isError(symbol: ts.Symbol): boolean {
    return symbol.name.endsWith('Error');
  }

  function examplesOf(symbol: ts.Symbol): string[] {
    const tags = symbol.getJsDocTags(checker).filter(({ name }) => name === 'example');
    return tags.map((tag) => ts.displayPartsToString(tag.text).replace(/^(```ts\n|`)|(\n```|`)$/g, ''));
  }

  function typeOf(name: string): ts.Type {
    const module = checker.getSymbolAtLocation(program.getSourceFile(join(repository, 'src/index.mts'))!)!;
    const alias = checker.getExportsOfModule(module).find((each) => each.name === name)!;
    return checker.getDeclaredTypeOfSymbol(
      alias.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(alias) : alias,
    );
  }

  function membersOf(name: string): ts.Symbol[] {
    return typeOf(name).getProperties();
  }

  function member(name: string, property: string): ts.Symbol {
    return typeOf(name).getProperty(property)!;
  }

  function isInternal(symbol: ts.Symbol): boolean {
    return symbol.getJsDocTags(checker).some(({ name }) => name === 'internal');
  }

  function isOurs(symbol: ts.Symbol): boolean {
    const inSource = symbol.declarations!.some((each) => each.getSourceFile().fileName.includes('/src/'));
    return inSource && !symbol.name.startsWith('__@') && !isInternal(symbol);
  }
});

/**
 * Examples import what is of another entry; what is of the main one, the client and the work are there already. Those with decorators are
 * one line in backquotes, because an editor ends an example at an `@` after a blank.
 */
function asProgram(example: string): string {
  const decorated = "import { InjectLock, Locked, Once } from 'redis-exp-lock/nestjs';";
  const given = example.startsWith('import') ? '' : example.startsWith('class') ? decorated : imports;
  const withLock = example.includes('const withLock') ? '' : 'declare const withLock: WithLock;';
  return `${given}${prelude}${withLock}\n${example}\nexport {};`;
}

/** Codes that the library gives an error by itself, in TypeScript or Lua. */
function ownCodes(): Set<string> {
  const codes = new Set<string>();
  const ofRedis = ['NOPERM', 'WRONGTYPE'];
  const files = readdirSync(join(repository, 'src'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((each) => /\.(ts|lua)$/.test(each) && !each.includes('generated'))) {
    const source = readFileSync(join(repository, 'src', file), 'utf8');
    for (const [, code] of source.matchAll(/(?:redisCode: '|\berror\('|error_reply\(')([A-Z]{4,})\b/g))
      if (!ofRedis.includes(code!)) codes.add(code!);
  }
  return codes;
}
