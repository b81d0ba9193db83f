// Bun, Deno and newer Nodes: the packed library does there what it does here. A platform without a package of one of them says so.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { bun, deno, node, nodeWithSqlite } from '../scripts/runtimes.cjs';
import { type RedisServer, startRedis } from '../test/support/redis';

const run = promisify(execFile);
const script = join(__dirname, 'smoke.mjs');

interface Runtime {
  readonly program: string | undefined;
  readonly args?: Readonly<Record<string, readonly string[]>>;
  readonly places: readonly string[];
}

/** Deno has no permission but those that a place needs: none for a memory. */
const ofDeno = ['run', '--quiet', '--no-prompt', '--no-config', '--node-modules-dir=manual'];
const network = ['--allow-net=127.0.0.1', '--allow-env', '--allow-read', '--allow-sys'];
const runtimes: Readonly<Record<string, Runtime>> = {
  [`Node ${process.version}`]: { program: process.execPath, places: ['memory', 'redis', 'ioredis'] },
  'Node 22': { program: node(22), places: ['memory', 'shared', 'redis', 'ioredis'] },
  'Node 24': { program: node(24), places: ['memory', 'shared', 'redis', 'ioredis'] },
  'Node 26': { program: node(26), places: ['memory', 'shared', 'redis', 'ioredis'] },
  Bun: { program: bun(), places: ['memory', 'shared', 'redis', 'ioredis', 'bun'] },
  Deno: {
    program: deno(),
    places: ['memory', 'shared', 'redis', 'ioredis'],
    args: {
      memory: ofDeno,
      shared: [...ofDeno, '--allow-all'],
      redis: [...ofDeno, ...network],
      ioredis: [...ofDeno, ...network],
    },
  },
};

describe('the smoke suite', () => {
  let server: RedisServer;
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-smoke-'));

  before(async () => {
    server = await startRedis();
  });
  after(async () => {
    await server.discard();
    rmSync(folder, { recursive: true, force: true });
  });

  it('shared memory has an engine somewhere', () => expect(nodeWithSqlite()).to.be.a('string'));

  for (const [name, { program, places, args = {} }] of Object.entries(runtimes)) {
    if (program === undefined) {
      it(`pending: ${name} has no package for ${process.platform} on ${process.arch}, or it is not installed`);
      continue;
    }
    for (const place of places) {
      it(`${name}, ${place}: all that a lock does, and the process ends by itself`, async () => {
        const address = place === 'shared' ? name.replaceAll(/\W/g, '') : server.url;
        const env = { ...process.env, XDG_RUNTIME_DIR: folder, NO_COLOR: '1' };
        const words = [...(args[place] ?? []), script, place, address];
        const { stdout } = await run(program, words, { cwd: __dirname, env, timeout: 50_000 });
        expect(stdout).to.match(/^18 ok: one copy by import and by require, busy, /m);
      });
    }
  }
});
