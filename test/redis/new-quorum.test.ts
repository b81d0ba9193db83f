/**
 * A new quorum, on real servers that have just been started: it stands still for a lifetime, unless its operator has said, by the
 * command of docs/quorum.md, that there is nothing to forget.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type Client, closeAll, connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { LONG_MS, REDIAL } from './faults';
import { rejectionOf } from './holding';

const docs = readFileSync(join(__dirname, '../../docs/quorum.md'), 'utf8');
const [, script, keys] = /EVAL "(if [^"]+)" \\\n\s+2 (.+)\n/.exec(docs)!;

describe('a new quorum', () => {
  let servers: RedisServer[];
  let key: string;

  beforeEach(async () => {
    key = uniqueKey();
    servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
  });

  afterEach(() => Promise.all(servers.map((server) => server.discard())));
  after(() => closeAll());

  const dial = (): Promise<Client[]> => Promise.all(servers.map(({ url }) => connect(url, REDIAL)));
  const sayNew = (server: RedisServer): Promise<string> => server.command('EVAL', script!, 2, ...keys!.split(' '));
  async function refused(redis: Client[], lifetime = LONG_MS): Promise<void> {
    const error = await rejectionOf(redisExpLock({ redis, lifetime, commandTimeout: 10_000 }).promise(key));
    expect(error).to.include({ code: 'ERR_LOCK_BACKEND', retryable: true });
    expect(error.message).to.contain('started less than a lifetime ago');
  }

  it('has no vote for a lifetime; a wait with a `timeout` lasts until then', async () => {
    const redis = await dial();
    await refused(redis);
    const lease = await redisExpLock({ redis: await dial(), lifetime: 3000 }).promise(key, { timeout: 30_000 });
    expect(await lease.release()).to.equal(true);
  });

  it('grants at once where all are said to be new; a restart is no first start, whatever is said of it later', async () => {
    for (const server of servers) expect(await sayNew(server)).to.equal('OK');
    const redis = await dial();
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 10_000 });
    const first = await withLock.promise(key);
    expect(await first.release()).to.equal(true);
    // Those that have granted are no longer new: a majority, whichever was asked first.
    const isNew = await Promise.all(servers.map(sayNew));
    expect(isNew.filter((reply) => reply === 'NOT NEW')).to.have.length.of.at.least(2);
    // It restarts empty, while the others are older than a lifetime: said too late.
    await new Promise((resolve) => setTimeout(resolve, 6000));
    await servers[2]!.kill();
    await servers[2]!.start();
    expect(await sayNew(servers[2]!)).to.equal('OK');
    await waitFor(() => redis[2]!.isReady, { what: 'the client of the node that forgot' });
    // The restart is within it; a node has an eighth of it to reply.
    const two = redisExpLock({ redis: [redis[0]!, redis[2]!], lifetime: 5000 });
    const isTold = async (): Promise<boolean> =>
      (await rejectionOf(two.promise(key))).message.includes('started less than a lifetime ago');
    await waitFor(isTold, { what: 'the node that forgot to have no vote' });
    const later = await two.promise(key, { timeout: 30_000 });
    expect(later.fence).to.be.greaterThan(first.fence);
    expect(await later.release()).to.equal(true);
  });

  it('one that forgot its readers has no vote for an upgrade, although an extension has brought the reader back there', async () => {
    for (const server of servers) await sayNew(server);
    const [near, far] = [await dial(), await dial()].map(
      (redis) => new redisExpLock.RWLock(key, { redis, lifetime: LONG_MS, commandTimeout: 10_000, autoExtend: false }),
    );
    const [one, other] = [await near!.acquireRead(), await far!.acquireRead()];
    const readersAt = (server: RedisServer): Promise<string[]> => server.command('ZRANGE', key, 0, -1);
    const bothAt = async (server: RedisServer): Promise<boolean> => (await readersAt(server)).length === 2;
    for (const server of servers) await waitFor(() => bothAt(server), { what: 'both readers at each node' });
    // The other one is left at a majority: a node that refuses the upgrade, and one that forgets.
    const [ours] = (await readersAt(servers[0]!)).filter((member) => !member.includes(other.token));
    await servers[0]!.command('ZREMRANGEBYRANK', key, 0, -1);
    await servers[0]!.command('ZADD', key, Date.now() + LONG_MS, ours!);
    await servers[2]!.kill();
    await servers[2]!.start();
    const isBack = async (): Promise<boolean> =>
      (await one.extend()) && (await readersAt(servers[2]!)).some((member) => member.includes(one.token));
    await waitFor(isBack, { what: 'the reader at the node that forgot' });
    const error = await rejectionOf(one.upgrade({ maxRetries: 2 }));
    expect(error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    expect([one.mode, other.remaining() > 0]).to.deep.equal(['read', true]);
    await Promise.all([one.release(), other.release()]);
  });

  it('stands still where only some are said to be new', async () => {
    for (const server of servers.slice(0, 2)) await sayNew(server);
    await refused(await dial());
  });
});
