// `npm run prove:quorum`: five servers, of which one after the other is killed and restarted empty, stopped, or killed for a while,
// for a minute (or PROVE_SECONDS). Callers of two clients each take a mutex and a readers-writer lock. Fails when two have what
// excludes the other within their validity, when a fence does not rise, or when a wait does not end. The figures go to proof/quorum.json.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index';
import { killChildren, waitFor } from '../test/support/processes';
import { type Client, closeAll, connect, type RedisServer, startRedis } from '../test/support/redis';
import { versions } from '../torture/versions';

const seconds = Number(process.env.PROVE_SECONDS ?? 60);
const [size, sides, callersEach] = [5, 2, 4];
const lifetime = 1000;
const longestWaitMs = 30_000;

interface Inside {
  readonly lease: redisExpLock.Lease;
  readonly reads: boolean;
}

const figures = { mutex: 0, read: 0, write: 0, timeouts: 0, failures: 0, lost: 0, faults: 0 };
const lastFences = { mutex: 0, rw: 0 };
const inside = { mutex: new Set<Inside>(), rw: new Set<Inside>() };
let longestMs = 0;
let isOver = false;

function entered(lock: 'mutex' | 'rw', lease: redisExpLock.Lease, reads: boolean): Inside {
  for (const other of inside[lock]) {
    if (other.lease.remaining() > 0 && lease.remaining() > 0 && !(other.reads && reads)) {
      throw new Error(`two hold the ${lock}: fences ${other.lease.fence} and ${lease.fence}`);
    }
  }
  // Readers of one phase need not be in order; they exceed the writers before them.
  if (lease.fence <= lastFences[lock]) throw new Error(`${lock}: fence ${lease.fence} after ${lastFences[lock]}`);
  if (!reads) lastFences[lock] = lease.fence;
  const entry = { lease, reads };
  inside[lock].add(entry);
  return entry;
}

/** One caller, which takes turns at both locks until the end. */
async function call(redis: readonly Client[], n: number): Promise<void> {
  const options = { redis, lifetime, commandTimeout: 500, retryTimeout: 20 };
  const withLock = redisExpLock(options);
  const rw = new redisExpLock.RWLock('prove:rw', { ...options, lifetime });
  for (let turn = n; !isOver; turn++) {
    const kind = turn % 3 === 0 ? 'mutex' : turn % 3 === 1 ? 'read' : 'write';
    const began = performance.now();
    const wait = { timeout: longestWaitMs, autoExtend: true };
    const acquire = {
      mutex: () => withLock.promise('prove:mutex', wait),
      read: () => rw.acquireRead(wait),
      write: () => rw.acquireWrite(wait),
    };
    const lease = await acquire[kind]().catch((error) => {
      if (!redisExpLock.LockError.is(error)) throw error;
      figures[error.code === 'ERR_LOCK_TIMEOUT' ? 'timeouts' : 'failures'] += 1;
    });
    longestMs = Math.max(longestMs, performance.now() - began);
    if (!lease) continue;
    figures[kind] += 1;
    const lock = kind === 'mutex' ? 'mutex' : 'rw';
    const entry = entered(lock, lease, kind === 'read');
    await sleep(Math.random() * 20);
    if (lease.remaining() <= 0) figures.lost += 1;
    inside[lock].delete(entry);
    await lease.release().catch(() => {});
  }
  await Promise.all([withLock.close({ drain: false }), rw.close({ drain: false })]);
}

const faults: readonly ((server: RedisServer) => Promise<void>)[] = [
  async (server) => {
    await server.kill();
    await server.start();
  },
  async (server) => {
    await server.pause();
    await sleep(800);
    await server.resume();
  },
  async (server) => {
    await server.kill();
    await sleep(1500);
    await server.start();
  },
];

async function main(): Promise<void> {
  const servers = await Promise.all(Array.from({ length: size }, () => startRedis()));
  const dial = (): Promise<Client[]> =>
    Promise.all(servers.map(({ url }) => connect(url, { socket: { reconnectStrategy: 50 } })));
  const clients = await Promise.all(Array.from({ length: sides }, dial));
  await sleep(2 * lifetime + 1000); // they are new
  const callers = clients.flatMap((redis) => Array.from({ length: callersEach }, (_, n) => call(redis, n)));
  let broken: unknown;
  for (const caller of callers) caller.catch((error) => (broken ??= error));
  const endMs = performance.now() + seconds * 1000;
  for (; performance.now() < endMs && broken === undefined; figures.faults += 1) {
    await faults[figures.faults % faults.length]!(servers[figures.faults % size]!);
    await sleep(500 * Math.random());
  }
  isOver = true;
  const ends = Promise.all(callers).then(() => true);
  if (broken === undefined)
    await waitFor(() => Promise.race([ends, sleep(50, false)]), {
      timeoutMs: 2 * longestWaitMs,
      what: 'all waits to end',
    });
  const proof = { servers: size, seconds, ...figures, longestWaitMs: Math.round(longestMs) };
  console.log(JSON.stringify(proof));
  if (broken !== undefined) throw broken;
  if (longestMs > longestWaitMs + 5000) throw new Error(`a wait took ${Math.round(longestMs)} ms`);
  if (figures.mutex + figures.read + figures.write < seconds) throw new Error('hardly anything was granted');
  const text = JSON.stringify({ ...proof, versions: await versions() }, undefined, 2);
  writeFileSync(join(__dirname, '../proof/quorum.json'), `${text}\n`);
}

main()
  .catch((error) => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(async () => {
    closeAll();
    await killChildren();
    process.exit();
  });
