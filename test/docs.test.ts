// README.md, docs/ and the site's own pages: every code block is run as printed. Programs run against a real Redis, shell commands are known or are
// sent to it, SQL runs in SQLite, diagrams are read line by line. A block in a language that nobody runs here fails the test.
// Rights (plain blocks) are in test/redis/rights.test.ts.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import initSqlJs from 'sql.js';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import redisExpLock from '../src/index';
import { commands as tools } from '../src/tools/cli/commands';
import { vectorsUpTo } from '../wire/check';
import { buildMs, built } from './support/built';
import { needed, noSqlite } from './support/missing';
import { exited, track, waitFor } from './support/processes';
import { type Client, connect, sharedRedis, startRedis } from './support/redis';

const root = join(__dirname, '..');
const scratch = join(root, 'test', '.docs');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

interface Page {
  /** The path from the root, such as `docs/safety.md`. */
  readonly file: string;
  readonly text: string;
}

interface Block {
  readonly language: string;
  readonly text: string;
}

const inFolder = (folder: string): string[] => readdirSync(join(root, folder)).filter((file) => file.endsWith('.md'));
const pageAt = (file: string, path = file): Page => ({ file, text: readFileSync(join(root, path), 'utf8') });
/** The site puts pages of its own beside the README. */
const pages: readonly Page[] = [
  ...['README.md', ...inFolder('docs').map((file) => `docs/${file}`)].map((file) => pageAt(file)),
  ...inFolder('site/pages').map((file) => pageAt(file, `site/pages/${file}`)),
];
const readme = pages[0]!.text;

function blocksOf(page: Page): Block[] {
  const found = page.text.matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return Array.from(found, ([, language, text]) => ({ language: language!, text: text! }));
}

/** The declarations that the docs leave to their reader. */
const yours = `
import { createClient } from 'redis';
const work = async () => {};
const print = async () => {};
const transfer = async ({ fence }) => { if (!(fence > 0)) throw new Error('no fence'); };
const readAndUpdate = async () => 100;
const makeReport = async () => 'all is well';
const fetchPage = async () => {};
`;
const withClient = `
import redisExpLock from 'redis-exp-lock';
const client = createClient({ url: process.env.REDIS_URL });
client.on('error', () => {});
await client.connect();
const withLock = redisExpLock({ redis: client, prefix: 'docs:' });
`;

let runtime: string;

describe('docs', () => {
  before(async function () {
    this.timeout(buildMs); // a build
    rmSync(scratch, { recursive: true, force: true }); // of a run that was killed
    mkdirSync(scratch, { recursive: true });
    runtime = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
    await built();
  });

  after(() => {
    for (const folder of [scratch, runtime]) rmSync(folder, { recursive: true, force: true });
  });

  for (const page of pages) {
    describe(`${page.file}: every code block works as printed`, () => {
      const blocks = blocksOf(page);
      let outcomes: ReadonlyMap<number, string>;

      before(async () => {
        outcomes = await runPrograms(page, blocks);
      });

      for (const [index, { language, text }] of blocks.entries()) {
        it(`block ${index + 1} (${language || 'plain'}): ${text.trim().split('\n')[0]!.slice(0, 60)}`, async () => {
          if (isProgram(language)) expect(outcomes.get(index)).to.equal('done');
          else if (language === 'sh') await runCommands(text.trim());
          else if (language === 'sql') await checkFencedUpdate(text);
          else if (language === 'mermaid') checkDiagram(text.trim());
          else if (page.file === 'docs/wire.md') checkFormat(text.trim());
          else expect(text).to.match(/^ACL SETUSER /);
        });
      }
    });
  }

  describe('README.md and docs/', () => {
    it('the README compares with the words and figures of docs/compare.md', () => {
      const compared = readFileSync(join(root, 'docs/compare.md'), 'utf8');
      const rows = [...readme.matchAll(/^\|[^|]+\|([^|]+)\|([^|]+)\|([^|]+)\| `([a-z-]+)` \|$/gm)];
      expect(rows).to.have.length(5);
      for (const [, redlock, semaphore, ours, fault] of rows) {
        const [section] = compared.split('\n## ').filter((each) => each.includes(`--fault ${fault}`));
        for (const [library, cell] of Object.entries({
          redlock,
          'redis-semaphore': semaphore,
          'redis-exp-lock': ours,
        })) {
          const seen = section!.split('\n').find((line) => line.startsWith(`| ${library} |`))!;
          const said = cell!.trim().replace(/: refused$/, '');
          const facts = /\d/.test(said) ? said.match(/[\d.]+/g)! : [said];
          for (const fact of facts) expect(seen, `${fault}, ${library}`).to.contain(fact);
        }
      }
    });

    it('the README has at most 250 lines, and the first program at most ten', () => {
      expect(readme.trimEnd().split('\n').length).to.be.at.most(250);
      expect(tenLines().split('\n').filter(Boolean).length).to.be.at.most(10);
    });

    it('links of what is in the package lead to what is in there too, links of other pages to files that exist', () => {
      expect(readme).to.not.match(/\]\(\w+:/);
      const broken = pages.flatMap((page) => {
        const links = page.text.replace(/^```.*?^```$/gms, '').matchAll(/\]\((?!\w+:)([^)#]*)(?:#([^)]+))?\)/g);
        return [...links].filter(([, file, anchor]) => !leadsSomewhere(page, file!, anchor)).map(([link]) => link);
      });
      expect(broken).to.deep.equal([]);
    });

    it('files of the repository that they name are there', () => {
      const named = /(?<=`)(?:src|test|examples|bench|docs|integrations)\/[^`*]*(?=`)|[A-Z]{5,}\.md/g;
      const names = pages.flatMap(({ text }) => text.match(named) ?? []);
      expect(names).to.include('src/acquire/acquisition.ts');
      expect(names.filter((name) => !existsSync(join(root, name)))).to.deep.equal([]);
    });

    it('each answer of docs/questions.md has a link, and a test with the title that it names', () => {
      const [, ...answers] = pages.find(({ file }) => file === 'docs/questions.md')!.text.split(/^## /m);
      expect(answers).to.have.length.above(8);
      for (const answer of answers) {
        expect(answer).to.match(/\]\([\w-]+\.md(?:#[\w-]+)?\)/);
        const [, file, title] = /^Test: `([^`]+)`, “([^”]+)”\.$/m.exec(answer)!;
        expect(readFileSync(join(root, file!), 'utf8')).to.include(`${title}'`);
      }
    });

    it('what they import from ioredis is its named export, which compiles under NodeNext as well', async () => {
      const folders = ['examples', 'integrations/examples', 'demo', 'src'];
      const programs = folders.flatMap((folder) =>
        readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
          .filter((file) => /\.(?:[cm]?[jt]s)$/.test(file))
          .map((file) => readFileSync(join(root, folder, file), 'utf8')),
      );
      const texts = [...pages.map(({ text }) => text), readFileSync(join(root, 'llms.txt'), 'utf8'), ...programs];
      expect(texts.flatMap((text) => text.match(/import \w+ from ["']ioredis["']/g) ?? [])).to.deep.equal([]);

      const blocks = pages.flatMap(blocksOf).filter(({ text }) => text.includes("from 'ioredis'"));
      expect(blocks).to.have.length.above(2);
      await compileUnderNodeNext(blocks.map(({ text }) => text));
    });

    it('every node-redis client has a listener for errors, in the docs, the examples and the demo', () => {
      const blocks = pages.flatMap((page) => blocksOf(page).map(({ text }) => text));
      const programs = ['examples', 'demo'].flatMap((folder) =>
        readdirSync(join(root, folder)).map((file) => readFileSync(join(root, folder, file), 'utf8')),
      );
      const samples = [...blocks, ...programs].filter((text) => text.includes('createClient('));
      expect(samples).to.have.length.above(3);
      expect(samples.filter((text) => !text.includes(".on('error', "))).to.deep.equal([]);
    });
  });

  describe('the ten lines of the README, while Redis restarts', () => {
    // Takes the lock again and again until that goes well on a new connection.
    const goOn = `
    let reconnected = false;
    client.on('ready', () => { reconnected = true; });
    console.log('once');
    for (let done = false; !done; ) {
      const isNew = reconnected;
      try {
        await withLock.run('bankAccount', async () => { done = isNew; });
      } catch (err) {
        // A lock that was held while Redis restarted, or for longer than its second, is lost.
        if (err.code !== 'ERR_LOCK_BACKEND' && err.code !== 'ERR_LOCK_LOST') throw err;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    console.log('again');
    client.destroy();`;

    /** The outcome of the process: its exit code and all that it printed. */
    async function throughRestart(lines: string): Promise<{ code: number | null; output: string }> {
      const server = await startRedis();
      const child = start(program(lines, goOn), `restart-${lines.length}.mjs`, { REDIS_URL: server.url });
      await waitFor(() => child.output().includes('once'), { what: 'the first lock' });
      await server.kill();
      await new Promise((resolve) => setTimeout(resolve, 200));
      await server.restart();
      const { code } = await exited(child.process);
      await server.discard();
      return { code, output: child.output() };
    }

    it('the process survives, and the lock works again', async () => {
      const { code, output } = await throughRestart(tenLines());
      expect(output, output).to.include('again');
      expect(code, output).to.equal(0);
    });

    it('without the listener, the process dies', async () => {
      const { code, output } = await throughRestart(tenLines().replace(/^client\.on\('error'.*$/m, ''));
      expect(code, output).to.equal(1);
    });
  });
});

function tenLines(): string {
  return blocksOf(pages[0]!).find(({ language }) => language === 'js')!.text;
}

// Programs.

const isProgram = (language: string): boolean => language === 'js' || language === 'ts';

/** Runs those of one page one after the other in one process: what became of each, by its place among the blocks. */
async function runPrograms(page: Page, blocks: readonly Block[]): Promise<ReadonlyMap<number, string>> {
  const outcomes = new Map<number, string>();
  const files = blocks.flatMap(({ language, text }, index) => {
    if (!isProgram(language)) return [];
    const file = join(scratch, `${page.file.replace(/\W/g, '-')}-${index}.m${language}`);
    writeFileSync(file, program(text, endOf(text)));
    return [[index, file] as const];
  });
  if (files.length === 0) return outcomes;
  const { url } = await sharedRedis();
  const servers = page.text.includes('REDIS_A') ? await threeServers() : {};
  const steps = files.map(([index, file]) => `await run(${index}, ${JSON.stringify(file)});`);
  const name = `${page.file.replace(/\W/g, '-')}.mjs`;
  const needsSqlite = blocks.some(({ text }) => /sharedMemoryStore\(|HostLock\(/.test(text));
  const node = needsSqlite ? needed(nodeWithSqlite(), noSqlite) : process.execPath;
  const child = start([stepByStep, ...steps, leave].join('\n'), name, { ...servers, REDIS_URL: url }, node);
  const { code } = await exited(child.process);
  const output = child.output();
  for (const [, index, outcome] of output.matchAll(/^@(\d+) ([\s\S]*?)@$/gm)) outcomes.set(Number(index), outcome!);
  const unfinished = files.find(([index]) => !outcomes.has(index));
  if (unfinished !== undefined) outcomes.set(unfinished[0], `ended with ${code}:\n${output}`);
  else if ([...outcomes.values()].every((each) => each === 'done')) expect(code, output).to.equal(0);
  return outcomes;
}

const stepByStep = `
let allDone = true;
async function run(index, file) {
  const outcome = await import(file).then(() => 'done', (error) => error.stack);
  allDone &&= outcome === 'done';
  console.log('@' + index + ' ' + outcome + '@');
}`;
/** @throws {Error} what the compiler says. */
async function compileUnderNodeNext(programs: readonly string[]): Promise<void> {
  const folder = join(scratch, 'nodenext');
  mkdirSync(folder);
  for (const [n, text] of programs.entries())
    writeFileSync(join(folder, `${n}.mts`), `declare const work: any, transfer: any;\n${text}`);
  const common = { target: 'es2022', types: ['node'], strict: false, noEmit: true, skipLibCheck: true };
  const compilerOptions = { module: 'nodenext', ...common };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts'] }));
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [compiler, '--project', folder]).catch(({ stdout }) => {
    throw new Error(stdout);
  });
}

/** By itself: nothing that a block closed keeps it alive. A block that failed has closed nothing. */
const leave = 'if (!allDone) process.exit(1);';

/** True if the block is a program: it makes its own client. Any other block is a part of a program. */
function isWhole(text: string): boolean {
  return /createClient\(|from '(?:ioredis|@upstash\/redis\/cloudflare)'/.test(text);
}

function program(text: string, end: string): string {
  const prelude = yours + (isWhole(text) ? '' : withClient);
  const imports = (text.match(/^import .*$/gm) ?? [])
    .map((line) => (isWhole(text) ? line : line.replace('import redisExpLock, {', 'import {')))
    .filter((line) => !prelude.includes(line));
  const body = text.replace(/^import .*$/gm, '');
  return [...imports, prelude, isWhole(text) ? body : `{\n${body}\n}`, end].join('\n');
}

/** A block without `client` closes what it opened. Callbacks may still be on their way when the last line is reached. */
function endOf(text: string): string {
  const pause = text.includes('done(') ? 'await new Promise((resolve) => setTimeout(resolve, 100));' : '';
  if (text.includes("from 'ioredis'")) return 'client.disconnect();';
  return isWhole(text) && !text.includes('const client = ') ? '' : `${pause} await client.close();`;
}

function start(text: string, name: string, env: Record<string, string>, node = process.execPath) {
  const file = join(scratch, name);
  writeFileSync(file, text);
  const child = spawn(node, [...(text.includes('.mts"') ? ['--import', 'tsx'] : []), file], {
    cwd: root,
    env: { ...process.env, ...env, NODE_ENV: '', XDG_RUNTIME_DIR: runtime },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 50_000, // one that does not end; a page takes ten seconds on a busy machine
  });
  track(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data;
    });
  }
  return { process: child, output: () => output };
}

/** Servers that do not tell that they were started just now. */
async function threeServers(): Promise<Record<string, string>> {
  const servers = await Promise.all(['A', 'B', 'C'].map(() => startRedis()));
  await Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
  return Object.fromEntries(servers.map((server, n) => [`REDIS_${'ABC'[n]}`, server.url]));
}

/** The format of a member of a sorted set is that of a member in the vectors. */
function checkFormat(format: string): void {
  const pattern = format.replaceAll(/<\w+>/g, '\\S*').replace(/\\S\*$/, '.*');
  const stored = vectorsUpTo(4).flatMap(({ after }) => Object.values(after));
  const members = stored.flatMap((each) => (each.type === 'zset' ? each.members.map(([member]) => member) : []));
  const same = members.filter((each) => new RegExp(`^${pattern}$`).test(each.replaceAll(/\{[^}]*\}/g, '0')));
  expect(same.length, format).to.be.greaterThan(0);
}

// Commands.

async function runCommands(text: string): Promise<void> {
  const commands = text.split('\n').map((line) => line.replace(/ +# .*$/, '').trim());
  for (const command of commands.filter((each) => !each.startsWith('redis-cli '))) checkCommand(command);
  const lines = commands.filter((each) => each.startsWith('redis-cli '));
  if (lines.length > 0) await askRedis(lines);
}

function checkCommand(command: string): void {
  const { scripts, name, peerDependencies } = manifest;
  const [, installed] = /^npm install (.+?)(?:@\d+)?$/.exec(command) ?? [];
  if (command === 'npm start') expect(scripts).to.have.property('start');
  else if (command === 'npm cit') expect(scripts).to.have.property('test');
  else if (command.startsWith('npm run wire')) expect(scripts).to.have.property('wire');
  else if (command.startsWith('npx redis-exp-lock ')) expect(tools).to.have.property(command.split(' ')[2]!);
  else expect([name, ...Object.keys(peerDependencies)], command).to.include.members(installed?.split(' ') ?? [command]);
}

/** Each command finds something, in a Redis where a lock is held and waited for, and another is held by a reader. */
async function askRedis(lines: readonly string[]): Promise<void> {
  const client = await connect((await sharedRedis()).url);
  // Held and waited for until all lines were asked, however slow the machine is.
  const patient = { timeout: 60_000, lifetime: 60_000, commandTimeout: 20_000 };
  const options = { redis: client, prefix: 'lk:', owner: 'web-1', ...patient };
  const withLock = redisExpLock(options);
  const reader = await new redisExpLock.RWLock('config', options).acquireRead();
  const lease = await withLock.promise('bankAccount', { autoExtend: true });
  const waiting = withLock.run('bankAccount', () => {});
  await waitFor(async () => (await withLock.inspect('bankAccount')).waiters === 1, { what: 'a queue' });
  for (const line of lines) {
    const reply = await ask(client, line.replace('<token>', lease.token));
    expect([null, 0, '0', ''], line).to.not.include(reply);
    expect(reply, line).to.not.deep.equal([]);
  }
  await Promise.all([lease.release(), waiting, reader.release()]);
  client.destroy();
}

async function ask(client: Client, line: string): Promise<unknown> {
  const words = (line.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).slice(1).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
  if (words[0] !== '--scan') return client.sendCommand(words);
  expect(words[1]).to.equal('--pattern');
  const keys: string[] = [];
  for await (const found of client.scanIterator({ MATCH: words[2]! })) keys.push(...found);
  return keys;
}

// SQL.

/** A table without the column, the block as printed; then two holders, of which the earlier one writes late. */
async function checkFencedUpdate(sql: string): Promise<void> {
  const { Database } = await initSqlJs();
  const db = new Database();
  const [alter, update] = sql.split('\n') as [string, string];
  db.run('CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER)');
  db.run("INSERT INTO account VALUES ('alice', 0)");
  db.run(alter);
  const write = (balance: number, fence: number): number => {
    db.run(update, { ':id': 'alice', ':balance': balance, ':fence': fence });
    return db.getRowsModified();
  };
  expect(write(1, 1795239862065541), 'the first holder').to.equal(1);
  expect(write(2, 1795239862065999), 'the next holder').to.equal(1);
  expect(write(3, 1795239862065541), 'the first one, late').to.equal(0);
  expect(db.exec('SELECT balance FROM account')[0]!.values).to.deep.equal([[2]]);
  expect(() => db.run('UPDATE account SET fence = NULL')).to.throw('NOT NULL');
  db.close();
  await checkBadColumns(update);
}

/** Checks what the docs say of other columns: NULL refuses every holder, and no fence fits into 4 bytes. */
async function checkBadColumns(update: string): Promise<void> {
  const { Database } = await initSqlJs();
  const db = new Database();
  db.run('CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER, fence INTEGER CHECK (fence < 2147483648))');
  const client = await connect((await sharedRedis()).url);
  const lease = await redisExpLock({ redis: client, lifetime: 60_000, commandTimeout: 20_000 }).promise('docs:column');
  const write = (initial: number | null): number => {
    db.run("INSERT OR REPLACE INTO account VALUES ('alice', 0, ?)", [initial]);
    db.run(update, { ':id': 'alice', ':balance': 1, ':fence': lease.fence });
    return db.getRowsModified();
  };
  expect(write(null), 'NULL').to.equal(0);
  expect(() => write(0), 'four bytes').to.throw('CHECK');
  await lease.release();
  client.destroy();
  db.close();
}

// Diagrams: what of mermaid's language they use. Its parser wants a browser.

function checkDiagram(text: string): void {
  const [first, ...lines] = text.split('\n').map((line) => line.trim());
  expect(first).to.equal('sequenceDiagram');
  const participants = new Set(lines.flatMap((line) => /^participant (\w+) as [^;#]+$/.exec(line)?.[1] ?? []));
  let depth = 0;
  for (const line of lines.filter((each) => !each.startsWith('participant'))) {
    const [, from, to] = /^(\w+)(?:->>|-->>|--x)(\w+): [^;#]+$/.exec(line) ?? [];
    const [, over] = /^Note over (\w+): [^;#]+$/.exec(line) ?? [];
    if (/^(?:loop|alt) \S/.test(line)) depth += 1;
    else if (line === 'end') depth -= 1;
    else if (!/^else \S/.test(line)) expect([...participants], line).to.include.members(over ? [over] : [from, to]);
  }
  expect(depth, 'each alt and loop has its end').to.equal(0);
  const scripts = readdirSync(join(root, 'src/store/redis/scripts'));
  expect(scripts).to.include.members(text.match(/\w+\.lua/g) ?? []);
}

// Links.

function leadsSomewhere(from: Page, file: string, anchor: string | undefined): boolean {
  const target = file === '' ? from.file : relative(root, join(root, dirname(from.file), file));
  if (!existsSync(join(root, target)) || (isShipped(from.file) && !isShipped(target))) return false;
  return anchor === undefined || anchorsOf(readFileSync(join(root, target), 'utf8')).includes(anchor);
}

/** True if `files` of package.json names the file; images are shown where the repository is. */
function isShipped(file: string): boolean {
  const isIn = (each: string) => `${file}/`.startsWith(`${each}/`);
  const { files } = manifest as { files: string[] };
  if (files.some((each) => each.startsWith('!') && !each.endsWith('/images') && isIn(each.slice(1)))) return false;
  return ['README.md', 'LICENSE', ...files].some(isIn);
}

/** The anchors that GitHub and npm make. */
function anchorsOf(text: string): string[] {
  const headings = text.replace(/^```.*?^```$/gms, '').matchAll(/^#+ (.*)$/gm);
  return Array.from(headings, ([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
