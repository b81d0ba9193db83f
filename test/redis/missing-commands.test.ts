/**
 * Commands that managed services take away, each in both ways: the server does not know it (`rename-command`), and the user may not
 * run it (ACL). docs/operations.md has a table of what still works; each of its rows is a test here (H54).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { stub } from 'sinon';
import redisExpLock from '../../src/index';
import { perform } from '../../src/tools/cli/main';
import { published } from '../contract/outcomes';
import { answer, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import {
  commandStats,
  connect,
  diffCommandStats,
  type RedisServer,
  startRedis,
  startReplica,
  uniqueKey,
} from '../support/redis';
import { backendError, LONG_MS } from './faults';

/** A server without some commands, two connections of each client, and what the warnings said. */
interface Place {
  readonly server: RedisServer;
  readonly way: Way;
  readonly url: string;
  /** Connections of one kind of client. */
  readonly clients: readonly any[];
  readonly warnings: readonly string[];
}

type Way = 'unknown to the server' | 'refused to the user';
const ways: readonly Way[] = ['unknown to the server', 'refused to the user'];

interface Row {
  /** The way in which a caller waits: in a queue, or by polling. */
  readonly waits?: 'polling';
  /** Codes of the warnings that a lock, a wait and a quorum lead to. Default: the server's policy evicts. */
  readonly warnings?: readonly string[];
  /** The lines of `doctor` about rights: the feature and, for an unknown command, its words and its status. */
  readonly doctor?: readonly [feature: string, text: string, status: string];
  /** Something that works or fails in a way of its own. */
  readonly check?: (place: Place) => Promise<unknown>;
  /** True if no lock works without the command. */
  readonly isVital?: true;
}

const oneByOne = 'the calls of a tick run one by one';

/** The rows of the table, by their first cell: the commands that are missing. */
const rows: Readonly<Record<string, Row>> = {
  '`CONFIG`': { warnings: [], doctor: ['eviction', 'no warning of a policy that evicts', 'ok'] },
  '`INFO`': {
    warnings: ['eviction', 'no-restart-guard'],
    doctor: ['quorum', 'a quorum notices neither a restart nor a second name of a server', 'ok'],
    check: scans,
  },
  '`CLIENT`': { check: waitsForReplicaInItsDatabase },
  '`SCRIPT`': {},
  '`MULTI`, `EXEC`': {},
  '`MGET`': { doctor: ['batch', oneByOne, 'ok'] },
  '`EXISTS`': { doctor: ['batch', oneByOne, 'ok'] },
  '`WAIT`': { doctor: ['min-replicas', 'this server has no WAIT', 'ok'], check: refusesReplicas },
  '`SUBSCRIBE`': {
    waits: 'polling',
    warnings: ['eviction', 'no-wake-ups'],
    doctor: ['queue', 'waiting polls', 'warn'],
  },
  '`PUBLISH`': {
    doctor: ['queue', 'a waiting process gets the lock up to a second after its release', 'warn'],
  },
  '`ACL`': { check: findsRightsByScript },
  '`EVAL`': { isVital: true, doctor: ['lock', 'this server has no EVAL', 'fail'] },
  '`EVALSHA`': { isVital: true, doctor: ['lock', 'this server has no EVALSHA', 'fail'] },
};

describe('commands that a server lacks', () => {
  for (const [name, row] of Object.entries(rows)) {
    for (const way of ways) it(`without ${name}, ${way} (H54)`, () => checkRow(name, row, way));
  }

  it('the scripts, which a failover forgot: each is sent once more, and nobody notices (H53)', async () => {
    const server = await startRedis();
    const client = await server.connect();
    const withLock = redisExpLock({ redis: client, ...options });
    const pair = async (): Promise<boolean> => (await withLock.promise(uniqueKey()))();
    await pair();
    await server.command('SCRIPT', 'FLUSH');
    const before = await commandStats(client);
    for (const _ of [1, 2]) expect(await pair()).to.equal(true);
    const { eval: texts, evalsha: shas } = diffCommandStats(before, await commandStats(client));
    expect([texts, shas]).to.deep.equal([2, 4]); // one text for the acquire and one for the release, behind a refused SHA each
    client.destroy();
    await server.discard();
  });

  it('a service that answers CONFIG GET with nothing: no warning of a policy that nobody knows (H60)', async () => {
    const server = await startRedis();
    const proxy = await startProxy(server.port);
    proxy.rule({ match: 'CONFIG' }, answer('*0\r\n'));
    const redis = await connect(proxy.url, { RESP: 2 });
    const withLock = redisExpLock({ redis, ...options });
    const warnings = await published('redis-exp-lock:warning', async () => {
      await (await withLock.promise(uniqueKey()))();
      await withLock.inspect(uniqueKey()); // its reply is behind that to CONFIG GET
    });
    expect([proxy.count('CONFIG'), warnings]).to.deep.equal([1, []]);
    redis.destroy();
    await proxy.stop();
    await server.discard();
  });

  it('each row of the table in docs/operations.md has its test', () => {
    const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
    const [, section] = /^## Commands that a server lacks\n(.*?)^## /ms.exec(page)!;
    const cells = [...section!.matchAll(/^\| (.*?) \|/gm)]
      .map(([, cell]) => cell!)
      .filter((cell) => !/^-|^without/.test(cell));
    expect(cells).to.have.members([...Object.keys(rows), 'the scripts, after a failover']);
  });
});

async function checkRow(name: string, row: Row, way: Way): Promise<void> {
  const commands = [...name.matchAll(/`(\w+)`/g)].map(([, command]) => command!);
  const renamed = way === 'refused to the user' ? [] : commands;
  const policy = ['--maxmemory-policy', 'volatile-ttl'];
  const args = [...policy, ...renamed.flatMap((command) => ['--rename-command', command, ''])];
  const server = await startRedis({ args });
  const user = way === 'refused to the user' ? { username: 'lock', password: 'password' } : {};
  if (way === 'refused to the user') {
    const rights = commands.map((command) => `-${command.toLowerCase()}`);
    await server.command('ACL', 'SETUSER', 'lock', 'on', '>password', '~*', '&*', '+@all', ...rights);
  }
  const url = way === 'refused to the user' ? server.url.replace('//', '//lock:password@') : server.url;
  for (const make of [nodeRedis, ioredis]) {
    const clients = await Promise.all([1, 2, 3].map(() => make()));
    const warnings: string[] = [];
    const place: Place = { server, way, url, clients, warnings };
    if (row.isVital) await nothingWorks(place, commands[0]!);
    else {
      const codes = (await published('redis-exp-lock:warning', () => locksWork(place, row.waits ?? 'queued'))).map(
        ({ code }) => code,
      );
      const expected = row.warnings ?? ['eviction'];
      expect([...new Set(codes)].filter((code) => code !== 'quorum-size')).to.have.members(expected);
      await row.check?.(place);
    }
    for (const client of clients) (client.destroy ?? client.disconnect).call(client);
  }
  if (row.doctor) await doctorSays(url, way, commands, row.doctor);
  await server.discard();

  async function nodeRedis(): Promise<any> {
    return connect(server.url, user);
  }

  /** A client of ioredis that does not send INFO itself. */
  async function ioredis(): Promise<any> {
    const client = new Redis(server.url, { ...user, lazyConnect: true, enableReadyCheck: false });
    client.on('error', () => {});
    await client.connect();
    return client;
  }
}

const options = { lifetime: LONG_MS, retryTimeout: 20, commandTimeout: 10_000 };

/** A lock, an extension, exclusion, several calls of a tick, a wait of each kind, and a quorum. */
async function locksWork({ clients, server }: Place, waits: 'queued' | 'polling'): Promise<void> {
  const [one, other] = clients.map((redis) => redisExpLock({ redis, ...options })) as [
    redisExpLock.WithLock,
    redisExpLock.WithLock,
  ];
  const key = uniqueKey();
  for (const _ of [1, 2]) {
    const lease = await one.promise(key);
    expect(await other.tryLock(key)).to.equal(null);
    expect(await lease.extend()).to.equal(true);
    expect(await lease()).to.equal(true);
  }
  const many = await Promise.all([1, 2, 3].map((n) => one.promise(`${key}-${n}`)));
  expect(await Promise.all(many.map((each) => each()))).to.deep.equal([true, true, true]);
  const held = await one.promise(key);
  const calls = async (): Promise<number> => {
    const stats = await server.command<string>('INFO', 'commandstats');
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
  };
  const before = waits === 'polling' ? await calls() : 0;
  const waiting = other.promise(key, { timeout: LONG_MS });
  if (waits === 'queued')
    await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a queued waiter' });
  else await waitFor(async () => (await calls()) > before + 2, { what: 'a waiter that polls' });
  expect(await held()).to.equal(true);
  const next = await waiting;
  expect(next.fence).to.be.greaterThan(held.fence);
  if (waits === 'queued') expect(next.retries).to.equal(0);
  else expect(next.retries).to.be.greaterThan(0);
  expect(await next()).to.equal(true);

  const writer = await new redisExpLock.RWLock(`${key}-rw`, { redis: clients[0], ...options }).acquireWrite();
  const reading = new redisExpLock.RWLock(`${key}-rw`, {
    redis: clients[1],
    ...options,
    timeout: LONG_MS,
  }).acquireRead();
  expect(await writer.release()).to.equal(true);
  expect(await (await reading).release()).to.equal(true);
  const permit = await new redisExpLock.Semaphore(`${key}-s`, 1, { redis: clients[0], ...options }).acquire();
  expect(await permit.release()).to.equal(true);
  const endless = await one.promise(key, { lifetime: null });
  expect(await endless()).to.equal(true);
  await Promise.all([one.close(), other.close()]);

  // These are one server under three names, which only a quorum that may read INFO can tell.
  const quorum = redisExpLock({ redis: clients as any, ...options });
  await quorum.promise(`${key}-q`).then(
    (lease) => lease(),
    ({ message }) => expect(message).to.match(/are the same server|less than a lifetime/),
  );
  await quorum.close();
}

/** The first call of a script goes by EVAL, the next by EVALSHA: the one that needs what is missing fails by name, however long it may wait. */
async function nothingWorks({ clients: [redis], way, server }: Place, command: string): Promise<void> {
  const withLock = redisExpLock({ redis, ...options, timeout: LONG_MS });
  const key = uniqueKey();
  if (command === 'EVALSHA') expect(await (await withLock.promise(key))()).to.equal(true);
  const error = await backendError(withLock.promise(key));
  expect(error).to.include(refusalBy(way));
  expect(error.message.toUpperCase()).to.contain(`'${command}'`);
  expect(await server.command('EXISTS', key)).to.equal(0);
  await withLock.close();
}

function refusalBy(way: Way): object {
  return { redisCode: way === 'refused to the user' ? 'NOPERM' : 'ERR', retryable: false };
}

async function refusesReplicas({ clients: [redis], way, server }: Place): Promise<void> {
  // `close` waits until no request of unknown outcome can still run.
  const withLock = redisExpLock({ redis, ...options, commandTimeout: 2_000, minReplicas: 1 });
  for (const wait of [{}, { timeout: LONG_MS }]) {
    const key = uniqueKey();
    const error = await backendError(withLock.promise(key, wait));
    expect(error).to.include(refusalBy(way));
    expect(error.message).to.match(/'wait'/i);
    await waitFor(async () => (await server.command('EXISTS', key)) === 0, { what: 'what was written to be released' });
  }
  await withLock.close();
}

async function scans({ clients: [redis] }: Place): Promise<void> {
  const withLock = redisExpLock({ redis, ...options });
  const key = uniqueKey();
  const lease = await withLock.promise(key);
  const found: string[] = [];
  for await (const state of withLock.list({ prefix: key, scan: true })) found.push(state.key);
  expect(found).to.deep.equal([key]);
  await lease();
  await withLock.close();
}

/** Our own connection cannot ask which database the client has selected: it is that of the client's options. */
async function waitsForReplicaInItsDatabase({ server, way }: Place): Promise<void> {
  const replica = await startReplica(server);
  const user = way === 'refused to the user' ? { username: 'lock', password: 'password' } : {};
  const redis = await connect(server.url, { ...user, database: 2 });
  const withLock = redisExpLock({ redis, ...options, minReplicas: 1 });
  const lease = await withLock.promise(uniqueKey(), { maxRetries: 100 });
  expect(await lease.extend()).to.equal(true);
  expect(await lease()).to.equal(true);
  await withLock.close();
  redis.destroy();
  await replica.discard();
}

async function findsRightsByScript({ url }: Place): Promise<void> {
  const { code, rows: lines } = await doctor(url);
  expect(lines.find(({ check }) => check === 'rights: queue')).to.include({ status: 'ok', remedy: '' });
  expect(code).to.equal(1); // no append-only file
}

/** Runs `doctor` in this process. @returns The exit code, and the rows that it printed. */
async function doctor(url: string): Promise<{ code: number; rows: any[] }> {
  let out = '';
  const written = stub(process.stdout, 'write').callsFake(((text: unknown, onWritten?: () => void) => {
    out += String(text);
    onWritten?.();
    return true;
  }) as never);
  try {
    const code = await perform(['doctor', '--json', '-q', '--url', url]);
    const lines = out.split('\n').filter((line) => line.startsWith('{'));
    return { code, rows: lines.map((line) => JSON.parse(line)) };
  } finally {
    written.restore();
  }
}

async function doctorSays(
  url: string,
  way: Way,
  commands: readonly string[],
  [feature, text, status]: readonly [string, string, string],
): Promise<void> {
  const { rows: lines } = await doctor(url);
  expect(lines.map(({ check }) => check)).to.include('locks without end', 'it came to its end');
  const line = lines.find(({ check }) => check.startsWith(`rights: ${feature}`));
  const { status: said, remedy } = line;
  if (way === 'unknown to the server') {
    expect([said, remedy.includes(text)], remedy).to.deep.equal([status, true]);
    expect(remedy).to.contain(`this server has no ${commands[0]}`);
  } else if (said === 'ok') expect(remedy).to.equal(`not permitted; where it is needed: doctor --for ${feature}`);
  else expect(remedy).to.contain(`+${commands[0]!.toLowerCase()}`);
}
