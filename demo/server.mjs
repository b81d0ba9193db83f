// Where the demo's locks and accounts live: in the Redis of REDIS_URL, in one started for this run and ended with it, or, on a
// machine that has none, in memory that its processes share.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createClient } from 'redis';
import { sharedMemoryStore } from 'redis-exp-lock';
import redisBinary from '../scripts/redis-binary.cjs';
import runtimes from '../scripts/runtimes.cjs';
import { FileVault, RedisVault } from './vaults.mjs';

/** Thrown where another Node can do it: its program. */
export class Elsewhere extends Error {
  constructor(program) {
    super(`This Node has no SQLite; ${program} has.`);
    this.program = program;
  }
}

/** A problem that one sentence explains; a stack trace would not help. */
export class Sorry extends Error {}

/** A connection that fails instead of hoping: a demo that waits for a server to come back shows nothing. */
export async function connect(url) {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 3000 } });
  client.on('error', () => {}); // the command that failed reports it
  await client.connect();
  return client;
}

/** Opens all that a process of the demo works with: the vault, the value of the option `redis`, and a function that closes both. */
export async function enter(setup) {
  if (setup.url === undefined) {
    const redis = sharedMemoryStore('locks');
    const vault = new FileVault(path.join(setup.folder, 'accounts.sqlite'));
    return { vault, redis, leave: () => Promise.all([redis.close(), vault.close()]) };
  }
  const redis = await connect(setup.url);
  return { vault: new RedisVault(redis, setup), redis, leave: () => redis.destroy() };
}

/**
 * Resolves the server's `url` (without one: the `folder` to share), whether it is our `own`, and a line that says which it is.
 * The server is pushed to `closing` before it is started, so that an interrupt at any moment finds it there.
 */
export async function findServer(closing) {
  return process.env.REDIS_URL ? givenServer(process.env.REDIS_URL) : ownServer(closing);
}

async function givenServer(url) {
  let host = '';
  try {
    host = new URL(url).host; // never the URL itself: it may hold a password
    return { url, own: false, line: `${await nameAndVersion(url)} at ${host}, from REDIS_URL` };
  } catch (error) {
    throw new Sorry(`REDIS_URL${host && ` (${host})`} cannot be used: ${error.message || error.code}.`);
  }
}

async function ownServer(closing) {
  const binary = foundBinary();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'redis-exp-lock-demo-'));
  closing.push(() => fs.rmSync(folder, { recursive: true, force: true }));
  if (!binary) return noServer(folder);

  // Takes a free port, waits until the server answers, and ends it by id, even after a kill -9 of this process.
  const { RedisMemoryServer } = await import('redis-memory-server');
  const server = new RedisMemoryServer({ binary: { systemBinary: binary }, instance: { args: ['--dir', folder] } });
  const started = server.start();
  closing.push(async () => {
    if (await started.catch(() => false)) await server.stop();
  });
  await started.catch((error) => {
    throw new Sorry(`${binary} did not start: ${error?.message ?? error}.`);
  });

  const address = `${await server.getHost()}:${await server.getPort()}`;
  const url = `redis://${address}`;
  return { url, own: true, line: `${await nameAndVersion(url)}, started for this run on ${address}` };
}

/** No Redis on this machine: its shared memory does for the processes of one machine. */
function noServer(folder) {
  process.env.XDG_RUNTIME_DIR = folder; // the workers inherit it: the tables lie there, and go with it
  try {
    void sharedMemoryStore('locks').close();
  } catch (error) {
    // This Node has no SQLite: one that came with `npm install` does it.
    const program = runtimes.nodeWithSqlite();
    if (program !== undefined && program !== process.execPath) throw new Elsewhere(program);
    throw new Sorry(
      `The demo needs a Redis: install redis-server or valkey-server (apt-get install redis-server, brew install redis), or set REDIS_URL=redis://host:port (without one it would use shared memory, but ${error.message}).`,
    );
  }
  const line = 'none: there is no Redis on this machine, so locks and accounts are in memory shared by these processes';
  return { folder, own: false, line };
}

async function nameAndVersion(url) {
  const client = await connect(url);
  try {
    const info = await client.info('server');
    const [, name, version] = /^(valkey)_version:(\S+)/m.exec(info) ?? /^(redis)_version:(\S+)/m.exec(info) ?? [];
    return `${name} ${version}`;
  } finally {
    client.destroy();
  }
}

function foundBinary() {
  try {
    return redisBinary.findBinary();
  } catch (error) {
    throw new Sorry(`${error.message}.`);
  }
}
