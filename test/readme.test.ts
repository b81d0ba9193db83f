// Every code block of the README is run: programs against a real Redis, commands by name, SQL in SQLite, the ACL line as a
// user whose rights suffice and from whom none can be taken. A block in a language that nobody runs here fails the test.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import initSqlJs from 'sql.js';
import redisExpLock from '../src/index';
import { sharedRedis, startRedis } from './support/redis';

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
        await runProgram(text, `${index}.m${language}`, url);
      });
    } else if (language === 'sh') {
      it(title, () => checkCommand(text.trim()));
    } else if (language === 'sql') {
      it(title, () => checkFencedUpdate(text));
    } else {
      it(title, async () => {
        expect(text).to.match(/^ACL SETUSER /);
        await checkRights(text.trim());
      });
    }
  }
});

async function runProgram(text: string, name: string, url: string): Promise<void> {
  const whole = text.includes('createClient(');
  const imports = (text.match(/^import .*$/gm) ?? []).map((line) =>
    whole ? line : line.replace('import redisExpLock, {', 'import {'),
  );
  const body = text.replace(/^import .*$/gm, '');
  const prelude = yours + (whole ? '' : withClient);
  const known = imports.filter((line) => !prelude.includes(line)).join('\n');
  const file = join(scratch, name);
  // Callbacks may still be on their way when the last line is reached.
  const end = 'await new Promise((resolve) => setTimeout(resolve, 100)); await client.close();';
  writeFileSync(
    file,
    whole ? `${known}\n${prelude}\n${body}\n${end}\n` : `${known}\n${prelude}\n{\n${body}\n}\n${end}\n`,
  );
  await promisify(execFile)(process.execPath, ['--import', 'tsx', file], {
    cwd: root,
    env: { ...process.env, REDIS_URL: url, NODE_ENV: '', XDG_RUNTIME_DIR: runtime },
    timeout: 15_000,
  });
}

function checkCommand(command: string): void {
  const { scripts, name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  if (command === 'npm start') expect(scripts).to.have.property('start');
  else if (command === 'npm cit') expect(scripts).to.have.property('test');
  else expect([`npm install ${name} redis`, 'npm install lmdb']).to.include(command);
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

async function checkRights(line: string): Promise<void> {
  const server = await startRedis();
  const words = line.split(' ').map((word) => word.replaceAll("'", ''));
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
