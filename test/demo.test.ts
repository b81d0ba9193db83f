/**
 * The demo, run as its user runs it: as a process of its own, in a process group of its own, so that one question to the
 * kernel tells whether anything of it is left. Nothing here asserts how long or how fast something was.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { nodeWithSqlite } from '../scripts/runtimes.cjs';
import { buildMs, built } from './support/built';
import { needed, noSqlite } from './support/missing';
import { exited, track, waitFor } from './support/processes';
import { connect, recordCommands, sharedRedis, uniqueKey } from './support/redis';

const ROOT = resolve(__dirname, '..');
/** The length of a phase: each worker has to begin a transfer in it, on a busy machine too. */
const second = '1';

describe('the demo', () => {
  let folder: string;

  before('is built', function () {
    this.timeout(buildMs); // a build
    return built();
  });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-demo-test-'));
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('loses nothing with withLock, and leaves no process and no server behind', async () => {
    const drawing = join(folder, 'holds.svg');
    const demo = start(['--seconds', second, '--workers', '3', '--svg', drawing]);
    expect(await demo.end()).to.equal(0, demo.output());

    expect(row(demo, 'interrupted transfers')[1]).to.equal('0');
    expect(row(demo, 'lost updates')[1]).to.equal('0');
    expect(row(demo, 'accounts with a wrong balance')[1]).to.equal('0 of 8');
    expect(row(demo, 'money at the end')[1]).to.equal(row(demo, 'money at the start')[1]);
    expect(row(demo, 'fences out of order')).to.deep.equal(['–', '0']);
    expect(acquires(demo), 'in the histogram, at least one for each transfer').to.be.at.least(
      Number(row(demo, 'transfers done')[1]!.replace(',', '')),
    );
    expect(sentences(demo), demo.output()).to.contain('With withLock nothing was lost');
    expect(demo.output(), 'escape codes without a terminal').not.to.contain('\x1b');
    expect(readFileSync(drawing, 'utf8')).to.match(/^<svg.*worker 3.*<\/svg>\s*$/s);
    await nothingIsLeftOf(demo);
  });

  it('ends its workers and its server on Ctrl-C, which a terminal sends to all of them', async () => {
    const demo = start(['--seconds', '30', '--workers', '2']);
    await waitFor(() => /without a lock +\d/.test(demo.output()), { what: 'the first news of the demo' });
    process.kill(-demo.pid, 'SIGINT');
    expect(await demo.end()).to.equal(130, demo.output());
    await nothingIsLeftOf(demo);
  });

  it('shows its locks on the page beside it with --page', async () => {
    const demo = start(['--seconds', '6', '--workers', '2', '--page']); // ended as soon as it has been read
    const url = await waitFor(() => /Page: (\S+)/.exec(demo.output())?.[1], { what: 'the page' });
    const response = await fetch(`${url}events`);
    let text = '';
    for await (const chunk of response.body!) {
      text += Buffer.from(chunk).toString();
      if (/"key":"\{redis-exp-lock-demo:\w+\}:bankAccount"/.test(text)) break;
    }
    expect(text).to.include('bankAccount');
    process.kill(demo.pid, 'SIGTERM');
    expect(await demo.end()).to.equal(143, demo.output());
    await nothingIsLeftOf(demo);
  });

  it('ends its page when it ends', async () => {
    const demo = start(['--seconds', second, '--workers', '2', '--page']);
    expect(await demo.end()).to.equal(0, demo.output());
    expect(demo.output()).to.match(/Page: http/);
    await nothingIsLeftOf(demo);
  });

  it('ends its workers and its server when it alone gets a signal', async () => {
    const demo = start(['--seconds', '30']);
    await waitFor(() => demo.output().includes('Server: '), { what: 'the server' });
    process.kill(demo.pid, 'SIGTERM');
    expect(await demo.end()).to.equal(143, demo.output());
    await nothingIsLeftOf(demo);
  });

  for (const signal of [undefined, 'SIGTERM'] as const) {
    it(`removes its own keys from the server in REDIS_URL, and no others${signal ? ', also when interrupted' : ''}`, async () => {
      const { url, port } = await sharedRedis();
      const client = await connect(url);
      const stranger = uniqueKey('not-the-demo');
      await client.set(stranger, 'untouched');

      const recording = await recordCommands({ port });
      const demo = start(['--seconds', signal ? '30' : second, '--workers', '2'], { env: { REDIS_URL: url } });
      if (signal) {
        const isThere = async () => (await client.keys('*redis-exp-lock-demo:*')).length > 0;
        await waitFor(isThere, { what: 'keys of the demo' });
        process.kill(demo.pid, signal);
      }
      expect(await demo.end()).to.equal(signal ? 143 : 0, demo.output());
      // Recorded: the keys of a demo that ends by itself are there for a moment.
      const written = (await recording.stop()).flatMap(({ args }) =>
        args.filter((arg) => arg !== '*redis-exp-lock-demo:*'),
      );
      expect(written.some((arg) => arg.includes('redis-exp-lock-demo:'))).to.equal(true);

      expect(await client.keys('*redis-exp-lock-demo:*')).to.deep.equal([]);
      expect(await client.getDel(stranger)).to.equal('untouched');
      expect(isGone(demo.pid), 'its processes are gone').to.equal(true);
    });
  }

  for (const args of [
    ['--wrokers', '4'],
    ['--workers', 'four'],
    ['--workers', '0'],
    ['--accounts', '1'],
    ['--seconds', ''],
    ['--svg', '/no/such/folder/holds.svg'],
  ]) {
    it(`names a wrong option: ${args.join(' ')}`, async () => {
      const demo = start(args);
      expect(await demo.end()).to.equal(2);
      expect(demo.output()).to.contain(args[0]);
      expect(demo.output().trim().split('\n')).to.have.length(1);
    });
  }

  const noRedis = () => ({ cwd: folder, env: { PATH: folder, REDISMS_SYSTEM_BINARY: undefined, TMPDIR: folder } });

  it('uses shared memory where there is no Redis, says so, and leaves nothing behind', async () => {
    needed(nodeWithSqlite(), noSqlite);
    copyDemo(folder);
    const links = ['node_modules/redis', 'test/runtimes', 'lib'];
    mkdirSync(join(folder, 'test'));
    for (const each of links) symlinkSync(join(ROOT, each), join(folder, each), 'junction');
    const demo = start(['--seconds', second, '--workers', '3'], noRedis());
    expect(await demo.end()).to.equal(0, demo.output());
    expect(sentences(demo)).to.contain(
      'Server: none: there is no Redis on this machine, so locks and accounts are in memory',
    );
    expect(Number(row(demo, 'transfers done')[1])).to.be.greaterThan(0);
    expect(row(demo, 'lost updates')[1]).to.equal('0');
    expect(row(demo, 'interrupted transfers')[1]).to.equal('0');
    expect(row(demo, 'fences out of order')).to.deep.equal(['–', '0']);
    expect(sentences(demo)).to.contain('With withLock nothing was lost');
    expect(readdirSync(folder).filter((each) => each.startsWith('redis-exp-lock-demo-'))).to.deep.equal([]);
    expect(isGone(demo.pid), 'its processes are gone').to.equal(true);
  });

  it('says in one sentence how to get a Redis, when there is none, and no SQLite either', async () => {
    copyDemo(folder);
    for (const name of ['redis', 'uuid']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name), 'junction');
    }
    // Another test tries whether a build takes away what an older one left.
    const filter = (source: string): boolean => !source.includes('left-over');
    cpSync(join(ROOT, 'lib'), join(folder, 'lib'), { recursive: true, filter });
    writeFileSync(join(folder, 'none.cjs'), 'process.getBuiltinModule = undefined;'); // a Node that has it loses it
    const { cwd, env } = noRedis();
    const demo = start([], { cwd, env: { ...env, NODE_OPTIONS: `--require=${join(folder, 'none.cjs')}` } });
    expect(await demo.end()).to.equal(1);
    expect(demo.output()).to.match(/^The demo needs a Redis: install [^\n]+ npm install better-sqlite3@12\)\.\n$/);
  });

  it('fails with a lock that does not lock', async () => {
    copyDemo(folder);
    for (const name of ['redis', 'redis-memory-server']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name), 'junction');
    }
    mkdirSync(join(folder, 'lib'));
    const noLock =
      'export default () => ({ run: (key, options, fn) => fn({ fence: 1 }) }); export const sharedMemoryStore = undefined;';
    writeFileSync(join(folder, 'lib/index.mjs'), noLock);

    const { findBinary } = require('../scripts/redis-binary.cjs');
    const demo = start(['--seconds', second, '--workers', '2'], {
      cwd: folder,
      env: { REDISMS_SYSTEM_BINARY: findBinary() },
    });
    expect(await demo.end()).to.equal(1, demo.output());
    expect(sentences(demo)).to.contain('fences were out of order: the lock did not do its work.');
    await nothingIsLeftOf(demo);
  });

  it('counts as lost exactly the updates that the last balance does not contain', async () => {
    const { audit } = await import(pathToFileURL(join(ROOT, 'demo/ledger.mjs')).href);
    const update = (place: number, read: number, fence = 0) => ({
      seen: read,
      place,
      fence,
      updates: [{ account: 0, delta: 1, read, made: place }],
    });
    // 1; 2, 3 and 4 have all read 1; 5 has read 4. The balance holds 1, 4 and 5.
    const transfers = [update(1, 0), update(2, 1), update(3, 1), update(4, 1), update(5, 4)];
    const figures = audit({ transfers, before: [10], after: [13], seconds: 1 });
    expect(figures).to.include({ done: 5, interrupted: 2, lost: 2, wrong: 1, moneyBefore: 10, moneyAfter: 13 });
  });

  it('counts each wait under the first bound that it does not exceed', async () => {
    const { histogram } = await import(pathToFileURL(join(ROOT, 'demo/ledger.mjs')).href);
    expect(histogram([])).to.deep.equal([]);
    const rows = histogram([1, 0.2, 7, 8, 8, 9, 6000]).map(({ label, count, bar }: any) => [
      label.trim(),
      count,
      bar.trim(),
    ]);
    expect(rows).to.deep.equal([
      ['≤ 1 ms', 2, '▇'.repeat(8)],
      ['≤ 5 ms', 0, ''],
      ['≤ 10 ms', 4, '▇'.repeat(16)],
      ['≤ 50 ms', 0, ''],
      ['≤ 100 ms', 0, ''],
      ['≤ 500 ms', 0, ''],
      ['≤ 1000 ms', 0, ''],
      ['≤ 5000 ms', 0, ''],
      ['> 5000 ms', 1, '▇'.repeat(4)],
    ]);
  });

  it('counts a fence that repeats or falls, in the order of the writes', async () => {
    const { audit } = await import(pathToFileURL(join(ROOT, 'demo/ledger.mjs')).href);
    const transfers = [5, 7, 7, 6, 9].map((fence, index) => ({ place: index + 1, fence, updates: [] })).reverse();
    expect(audit({ transfers, before: [], after: [], seconds: 1 })).to.include({ outOfOrder: 2, highestFence: 9 });
  });
});

interface Demo {
  readonly pid: number;
  /** The output so far, of both channels. */
  output(): string;
  /** Ends the demo. @returns Its exit code. */
  end(): Promise<number | null>;
}

function start(args: string[], { cwd = ROOT, env = {} }: { cwd?: string; env?: NodeJS.ProcessEnv } = {}): Demo {
  const child = spawn(process.execPath, ['demo/main.mjs', ...args], {
    cwd,
    detached: true, // a group of its own
    env: { ...process.env, REDIS_URL: undefined, FORCE_COLOR: undefined, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  track(child);
  let output = '';
  for (const channel of [child.stdout, child.stderr]) {
    channel.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const closed = once(child, 'close'); // not 'exit' alone: the last words may still be under way then
  return {
    pid: child.pid!,
    output: () => output,
    async end() {
      await closed;
      return (await exited(child)).code;
    },
  };
}

/** The demo without the library and without dependencies: what a test puts beside it is all it has. */
function copyDemo(folder: string): void {
  cpSync(join(ROOT, 'demo'), join(folder, 'demo'), { recursive: true });
  for (const script of ['redis-binary.cjs', 'runtimes.cjs']) {
    cpSync(join(ROOT, 'scripts', script), join(folder, 'scripts', script));
  }
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  mkdirSync(join(folder, 'node_modules'));
}

/** The output, with its folded lines joined. */
function sentences(demo: Demo): string {
  return demo.output().replace(/\s+/g, ' ');
}

/** A row of the closing table: [without a lock, with withLock]. */
function row(demo: Demo, name: string): string[] {
  const line = demo.output().match(new RegExp(`^ *${name}.*$`, 'm'))?.[0];
  if (!line) throw new Error(`no row '${name}' in:\n${demo.output()}`);
  return line.trim().split(/ {3,}/).slice(1);
}

/** All that the histogram of the closing table counts. */
function acquires(demo: Demo): number {
  const rows = [...demo.output().matchAll(/^ *acquire took +[≤>] \d+ ms ⁶ +▇* +([\d,]+)$/gm)];
  return rows.reduce((sum, [, count]) => sum + Number(count!.replace(',', '')), 0);
}

async function nothingIsLeftOf(demo: Demo): Promise<void> {
  const port = Number(/started for this run on 127\.0\.0\.1:(\d+)/.exec(demo.output())?.[1]);
  expect(port, 'the port its server had').to.be.greaterThan(0);
  expect(await answers(port), 'its server still answers').to.equal(false);
  expect(isGone(demo.pid), 'its processes are gone').to.equal(true);
}

/** No process of the group is left. */
function isGone(group: number): boolean {
  try {
    process.kill(-group, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = dial({ port, host: '127.0.0.1' });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
