// Where the demo's Redis comes from: the one in REDIS_URL, or one started for this run and ended with it.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createClient } from 'redis';
import redisBinary from '../scripts/redis-binary.cjs';

/** Something to tell the user in one sentence; no stack trace would help them. */
export class Sorry extends Error {}

/** A connection that fails instead of hoping: a demo that waits for a server to come back shows nothing. */
export async function connect(url) {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 3000 } });
  client.on('error', () => {}); // told through the command that failed
  await client.connect();
  return client;
}

/**
 * Resolves the server's `url`, whether it is our `own`, and a line that says which it is.
 * What has to be ended is pushed to `closing` before it is started, so that an interrupt at any moment finds it there.
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
  if (!binary) {
    throw new Sorry(
      'The demo needs a Redis: install redis-server or valkey-server (apt-get install redis-server, brew install redis), or set REDIS_URL=redis://host:port.',
    );
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'redis-exp-lock-demo-'));
  closing.push(() => fs.rmSync(folder, { recursive: true, force: true }));

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
