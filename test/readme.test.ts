// Every code block of the README is run: programs against a real Redis, commands by name, SQL in SQLite, the ACL line as a
// user whose rights suffice and from whom none can be taken. A block in a language that nobody runs here fails the test.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import initSqlJs from 'sql.js';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import redisExpLock from '../src/index';
import { published } from './contract/outcomes';
import { sharedRedis, startRedis, startReplica } from './support/redis';

const root = join(__dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, text], index) => ({
  language: language!,
  text: text!,
  title: `block ${index + 1} (${language || 'plain'}): ${text!.trim().split('\n')[0]!.slice(0, 60)}`,
}));
const scratch = join(root, 'test', '.readme');

/** What the README leaves to its reader. */
const yours = `
import { createClient } from 'redis';
const work = async () => {};
const print = async () => {};
const transfer = async ({ fence }) => { if (!(fence > 0)) throw new Error('no fence'); };
const readAndUpdate = async () => 100;
const fetchPage = async () => {};
`;
const withClient = `
import redisExpLock from 'redis-exp-lock';
const client = await createClient({ url: process.env.REDIS_URL }).connect();
const withLock = redisExpLock({ redis: client, prefix: 'readme:' });
`;

let runtime: string;

describe('README: every code block works as printed', () => {
  before(async function () {
    this.timeout(60_000);
    await promisify(execFile)('npm', ['run', '--silent', 'build'], { cwd: root });
    mkdirSync(scratch, { recursive: true });
    runtime = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
  });

  after(() => {
    for (const folder of [scratch, runtime]) rmSync(folder, { recursive: true, force: true });
  });

  for (const [index, { language, text, title }] of blocks.entries()) {
    if (language === 'js' || language === 'ts') {
      it(title, async () => {
        const { url } = await sharedRedis();
        await runProgram(text, `${index}.m${language}`, url, text.includes('REDIS_A') ? await quorum() : {});
      });
    } else if (language === 'sh') {
      it(title, () => checkCommand(text.trim()));
    } else if (language === 'sql') {
      it(title, () => checkFencedUpdate(text));
    } else {
      it(title, async () => {
        expect(text).to.match(/^ACL SETUSER /);
        if (text.includes('+zscore')) await checkRightsOfMembers(text.trim());
        else if (text.includes('+subscribe')) await checkRightsInLine(text.trim());
        else if (!text.includes('-@all')) await checkRight(text.trim());
        else await checkRights(text.trim());
      });
    }
  }
});

/** Three servers that do not tell that they were started just now. */
async function quorum(): Promise<Record<string, string>> {
  const servers = await Promise.all(['A', 'B', 'C'].map(() => startRedis()));
  await Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
  return Object.fromEntries(servers.map((server, n) => [`REDIS_${'ABC'[n]}`, server.url]));
}

async function runProgram(text: string, name: string, url: string, more: Record<string, string>): Promise<void> {
  const whole = text.includes('createClient(');
  const imports = (text.match(/^import .*$/gm) ?? []).map((line) =>
    whole ? line : line.replace('import redisExpLock, {', 'import {'),
  );
  const body = text.replace(/^import .*$/gm, '');
  const prelude = yours + (whole ? '' : withClient);
  const known = imports.filter((line) => !prelude.includes(line)).join('\n');
  const file = join(scratch, name);
  // Callbacks may still be on their way when the last line is reached.
  const end = `await new Promise((resolve) => setTimeout(resolve, 100));${text.includes('const client = ') || !whole ? ' await client.close();' : ''}`;
  writeFileSync(
    file,
    whole ? `${known}\n${prelude}\n${body}\n${end}\n` : `${known}\n${prelude}\n{\n${body}\n}\n${end}\n`,
  );
  const program = /sharedMemoryStore|HostLock/.test(text) ? nodeWithSqlite()! : process.execPath;
  await promisify(execFile)(program, [...(name.endsWith('ts') ? ['--import', 'tsx'] : []), file], {
    cwd: root,
    env: { ...process.env, ...more, REDIS_URL: url, NODE_ENV: '', XDG_RUNTIME_DIR: runtime },
    timeout: 15_000,
  });
}

function checkCommand(command: string): void {
  const { scripts, name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  if (command === 'npm start') expect(scripts).to.have.property('start');
  else if (command === 'npm cit') expect(scripts).to.have.property('test');
  else expect([`npm install ${name} redis`, 'npm install better-sqlite3@12']).to.include(command);
}

async function checkFencedUpdate(sql: string): Promise<void> {
  const { Database } = await initSqlJs();
  const db = new Database();
  db.run('CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER, fence INTEGER)');
  db.run("INSERT INTO account VALUES ('alice', 0, 0)");
  const write = (balance: number, fence: number): number => {
    db.run(sql, { ':id': 'alice', ':balance': balance, ':fence': fence });
    return db.getRowsModified();
  };
  expect(write(1, 1795239862065541), 'the first holder').to.equal(1);
  expect(write(2, 1795239862065999), 'the next holder').to.equal(1);
  expect(write(3, 1795239862065541), 'the first one, late').to.equal(0);
  expect(db.exec('SELECT balance FROM account')[0]!.values).to.deep.equal([[2]]);
  db.close();
}

function wordsOf(line: string): string[] {
  return line.split(' ').map((word) => word.replaceAll("'", ''));
}

/** On top of the line before it. */
async function checkRightsInLine(line: string): Promise<void> {
  const basic = blocks.find(({ text }) => text.startsWith('ACL SETUSER'))!.text.trim();
  const words = wordsOf(line);
  const wait = async (without?: string): Promise<string> => {
    const server = await startRedis();
    for (const each of [basic, line]) await server.command(...wordsOf(each));
    if (without?.startsWith('&')) await server.command('ACL', 'SETUSER', 'lock', 'resetchannels');
    else if (without) await server.command('ACL', 'SETUSER', 'lock', `-${without.slice(1)}`);
    const clients = await Promise.all([1, 2].map(() => server.connect({ username: 'lock', password: 'password' })));
    const [one, two] = clients.map((redis) => redisExpLock({ redis, prefix: 'lk:', lifetime: 1500, retryTimeout: 20 }));
    const held = await one!.promise('a');
    const waiting = two!.run('a', { timeout: 5000 }, async (lease) =>
      lease.retries === 0 ? 'in line' : 'by counting',
    );
    const outcomeOf = waiting.catch((error) => error.redisCode);
    // One who waits has stood in line, or has asked more than once.
    await new Promise((resolve) => setTimeout(resolve, 100));
    await held();
    const outcome = await outcomeOf;
    for (const client of clients) client.destroy();
    await server.discard();
    return outcome;
  };
  expect(await wait()).to.equal('in line');
  for (const right of words.filter((word) => /^[+&]/.test(word) && !/unsubscribe/.test(word))) {
    const expected = /subscribe|^&/.test(right) ? 'by counting' : right === '+publish' ? 'in line' : 'NOPERM';
    expect(await wait(right), `without ${right}`).to.equal(expected);
  }
}

/** On top of both lines before it. */
async function checkRightsOfMembers(line: string): Promise<void> {
  const lines = blocks.map(({ text }) => text.trim()).filter((text) => text.startsWith('ACL SETUSER'));
  const server = await startRedis();
  for (const each of lines) await server.command(...wordsOf(each));
  const redis = await server.connect({ username: 'lock', password: 'password' });
  const options = { redis, prefix: 'lk:', lifetime: 5000 };
  const use = async (): Promise<void> => {
    const reader = await new redisExpLock.RWLock('rw', options).acquireRead();
    await reader.upgrade();
    expect(await reader.release()).to.equal(true);
    await new redisExpLock.Semaphore('permits', 3, options).run({ permits: 2 }, () => {});
  };
  await use();
  for (const right of wordsOf(line).filter((word) => word.startsWith('+'))) {
    await server.command('ACL', 'SETUSER', 'lock', `-${right.slice(1)}`);
    const outcome = await use().catch((error) => error.redisCode);
    expect(outcome, `without ${right}`).to.equal('NOPERM');
    await server.command('ACL', 'SETUSER', 'lock', right);
    await server.command('DEL', 'lk:rw', 'lk:permits');
  }
  redis.destroy();
  await server.discard();
}

/** One right for one feature, on top of the first line: with it the feature works, without it there is an error by name. */
async function checkRight(line: string): Promise<void> {
  const basic = blocks.find(({ text }) => text.startsWith('ACL SETUSER'))!.text.trim();
  const server = await startRedis();
  const replica = line.includes('+wait') ? await startReplica(server) : undefined;
  await server.command(...wordsOf(basic));
  const use = async (): Promise<string[]> => {
    const redis = await server.connect({ username: 'lock', password: 'password' });
    const options = line.includes('+persist') ? { lifetime: null } : { minReplicas: replica === undefined ? 0 : 1 };
    const withLock = redisExpLock({ redis, prefix: 'lk:', commandTimeout: 5000, ...options });
    const warnings = await published('redis-exp-lock:warning', async () => {
      const lease = await withLock.promise('a', { maxRetries: 100 });
      await lease();
      if (line.includes('config')) await new Promise((resolve) => setTimeout(resolve, 100));
    });
    await withLock.close();
    redis.destroy();
    return warnings.map(({ code }) => code);
  };
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
  const without = await use().catch((error) => error);
  if (line.includes('config')) expect(without).to.deep.equal([]);
  else expect(without).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM' });
  await server.command(...wordsOf(line));
  expect(await use()).to.deep.equal(line.includes('config') ? ['eviction'] : []);
  await Promise.all([server, replica].map((each) => each?.discard()));
}

async function checkRights(line: string): Promise<void> {
  const server = await startRedis();
  const words = wordsOf(line);
  await server.command(...words);
  const use = async (): Promise<void> => {
    const client = await server.connect({ username: 'lock', password: 'password' });
    const withLock = redisExpLock({ redis: client, prefix: 'lk:', commandTimeout: 5000 });
    await withLock.run('a', async (lease) => {
      if (!(await lease.extend(5000))) throw new Error('not extended');
    });
    const held = await withLock.promise('b');
    if ((await withLock.tryLock('b')) !== null) throw new Error('not excluded');
    await withLock.inspect('b');
    await held();
    await client.close();
  };
  await use();
  for (const right of words.filter((word) => word.startsWith('+') && !/hello|auth|ping/.test(word))) {
    await server.command('ACL', 'SETUSER', 'lock', `-${right.slice(1)}`);
    const failure = await use().then(
      () => undefined,
      (error) => error,
    );
    expect(failure, `without ${right}`).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM' });
    await server.command('ACL', 'SETUSER', 'lock', right);
    for (const key of ['lk:a', 'lk:b']) await server.command('DEL', key);
  }
}
