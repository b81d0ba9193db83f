// The rights that docs/operations.md lists: a user who has them can do what the page says, and cannot when one of them is taken.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { startRedis, startReplica } from '../support/redis';

const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
const lines = page.match(/^ACL SETUSER lock .*$/gm)!;
const basic = lines[0]!;
/** No lock ends while it is looked at, and no reply comes too late. */
const terms = { lifetime: 30_000, commandTimeout: 10_000 };

describe('the rights in docs/operations.md are enough, and none can be taken', () => {
  for (const line of lines) {
    it(line.slice(0, 70), async () => {
      if (line.includes('+scan')) await checkRightsToList();
      else if (line.includes('+zscore')) await checkRightsOfSharedLocks(line);
      else if (line.includes('+subscribe')) await checkRightsToQueue(line);
      else if (!line.includes('-@all')) await checkRight(line);
      else await checkRights(line);
    });
  }
});

function wordsOf(line: string): string[] {
  return line.split(' ').map((word) => word.replaceAll("'", ''));
}

/** Checks the rights to be queued, on top of the line before. */
async function checkRightsToQueue(line: string): Promise<void> {
  const words = wordsOf(line);
  const wait = async (without?: string): Promise<string> => {
    const server = await startRedis();
    for (const each of [basic, line]) await server.command(...wordsOf(each));
    if (without?.startsWith('&')) await server.command('ACL', 'SETUSER', 'lock', 'resetchannels');
    else if (without) await server.command('ACL', 'SETUSER', 'lock', `-${without.slice(1)}`);
    const clients = await Promise.all([1, 2].map(() => server.connect({ username: 'lock', password: 'password' })));
    const [one, two] = clients.map((redis) => redisExpLock({ redis, prefix: 'lk:', ...terms, retryTimeout: 20 }));
    const held = await one!.promise('a');
    const calls = async (): Promise<number> => {
      const stats = await server.command<string>('INFO', 'commandstats');
      return [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    };
    const before = await calls();
    const waiting = two!.run('a', { timeout: 20_000 }, async (lease) => (lease.retries === 0 ? 'queued' : 'polling'));
    let settled = false;
    const outcomeOf = waiting
      .catch((error) => error.redisCode)
      .finally(() => {
        settled = true;
      });
    // The wait has failed, or has asked three times: at first, to be queued, and once more in the queue, after a second.
    const isDecided = async () => settled || (await calls()) > before + 2;
    await waitFor(isDecided, { what: 'the waiter to show how it waits' });
    await held();
    const outcome = await outcomeOf;
    await Promise.all([one!.close(), two!.close()]);
    for (const client of clients) client.destroy();
    await server.discard();
    return outcome;
  };
  expect(await wait()).to.equal('queued');
  for (const right of words.filter((word) => /^[+&]/.test(word) && !/unsubscribe/.test(word))) {
    const expected = /subscribe|^&/.test(right) ? 'polling' : right === '+publish' ? 'queued' : 'NOPERM';
    expect(await wait(right), `without ${right}`).to.equal(expected);
  }
}

/** Checks the rights of shared locks, on top of both lines before. */
async function checkRightsOfSharedLocks(line: string): Promise<void> {
  const server = await startRedis();
  for (const each of lines) await server.command(...wordsOf(each));
  const redis = await server.connect({ username: 'lock', password: 'password' });
  const options = { redis, prefix: 'lk:', ...terms };
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

/** Checks the rights to list, on top of all three lines. */
async function checkRightsToList(): Promise<void> {
  const server = await startRedis();
  for (const each of lines) await server.command(...wordsOf(each));
  const redis = await server.connect({ username: 'lock', password: 'password' });
  const withLock = redisExpLock({ redis, prefix: 'lk:', ...terms, register: true });
  const keys = async (scan: boolean): Promise<string[]> => {
    const all: string[] = [];
    for await (const { key } of withLock.list({ scan })) all.push(key);
    return all;
  };
  await withLock.promise('a');
  await waitFor(async () => (await keys(false)).length === 1);
  expect(await keys(true)).to.deep.equal(['lk:a']);
  for (const right of ['+scan']) {
    await server.command('ACL', 'SETUSER', 'lock', `-${right.slice(1)}`);
    expect(await keys(true).catch((error) => error.redisCode), `without ${right}`).to.equal('NOPERM');
    await server.command('ACL', 'SETUSER', 'lock', right);
  }
  expect(await withLock.free('a', { force: true })).to.equal(true);
  await withLock.close({ drain: false });
  redis.destroy();
  await server.discard();
}

/** Checks a right for one feature, on top of the first line: with it the feature works, without it there is an error by name. */
async function checkRight(line: string): Promise<void> {
  const server = await startRedis();
  const replica = line.includes('+wait') ? await startReplica(server) : undefined;
  await server.command(...wordsOf(basic));
  const use = async (isWarned: boolean): Promise<string[]> => {
    const warnings: string[] = [];
    const hear = (warning: unknown): void => void warnings.push((warning as { code: string }).code);
    subscribe('redis-exp-lock:warning', hear);
    const redis = await server.connect({ username: 'lock', password: 'password' });
    const options = line.includes('+persist') ? { lifetime: null } : { minReplicas: replica === undefined ? 0 : 1 };
    const withLock = redisExpLock({ redis, prefix: 'lk:', ...terms, ...options });
    try {
      const lease = await withLock.promise('a', { maxRetries: 100 });
      await lease();
      if (isWarned) await waitFor(() => warnings.length > 0, { what: 'the warning' });
      else if (line.includes('config')) await sleep(100);
      return warnings;
    } finally {
      unsubscribe('redis-exp-lock:warning', hear);
      await withLock.close(); // it may have a connection of its own
      redis.destroy();
    }
  };
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
  const without = await use(false).catch((error) => error);
  if (line.includes('config')) expect(without).to.deep.equal([]);
  else expect(without).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'NOPERM' });
  await server.command(...wordsOf(line));
  expect(await use(line.includes('config'))).to.deep.equal(line.includes('config') ? ['eviction'] : []);
  await Promise.all([server, replica].map((each) => each?.discard()));
}

async function checkRights(line: string): Promise<void> {
  const server = await startRedis();
  const words = wordsOf(line);
  await server.command(...words);
  const use = async (): Promise<void> => {
    const client = await server.connect({ username: 'lock', password: 'password' });
    const withLock = redisExpLock({ redis: client, prefix: 'lk:', ...terms });
    await withLock.run('a', async (lease) => {
      if (!(await lease.extend(50_000))) throw new Error('not extended');
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
    expect(failure.message, `without ${right}`).to.contain('npx redis-exp-lock doctor');
    await server.command('ACL', 'SETUSER', 'lock', right);
    for (const key of ['lk:a', 'lk:b']) await server.command('DEL', key);
  }
}
