/**
 * A server that cannot or will not execute a command: states that pass are waited for, within the wait; states that somebody has to
 * change are told at once, by name. In none of them is a key left that nothing would ever free.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createClient } from 'redis';
import { fenceKeyBeside } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { startCluster } from '../support/cluster';
import { answer, replaceReply, startProxy } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis, startReplica, uniqueKey } from '../support/redis';
import { backendError, LONG_MS, REDIAL, unreachable, useStage } from './faults';
import { isAcquire, lossOf } from './holding';

/** No lock ends while it is looked at, and no reply comes too late. */
const patient = { lifetime: LONG_MS, commandTimeout: 10_000 };

describe('a state of the server that passes (H54)', () => {
  const stage = useStage();
  /** Long enough for any state here to pass. */
  const waitOptions = { timeout: 30_000, retryTimeout: 20, lifetime: LONG_MS };

  /** Told, with the code, by a call that does not wait; served, once the state has passed, by one that does. */
  async function waitedFor(redis: Client, code: string, pass: () => Promise<unknown>, key = stage.key): Promise<void> {
    const withLock = redisExpLock({ redis, commandTimeout: 10_000 });
    const error = await backendError(withLock.promise(key));
    expect([error.redisCode, error.retryable]).to.deep.equal([code, true]);
    // A timeout of 0 is one attempt, however long its answer takes: a longer one might end before a slow server's answer.
    for (const wait of [{ timeout: 0 }, { maxRetries: 2 }]) {
      const over = await backendError(withLock.promise(key, wait));
      expect([over.redisCode, over.retryable]).to.deep.equal([code, true]);
    }

    const attempts = attemptsOf(redis);
    const acquired = withLock.promise(key, waitOptions);
    await waitFor(() => attempts() > 2, { what: 'further attempts, after the first was refused' });
    await pass();
    const lease = await acquired;
    expect(lease.retries).to.be.greaterThan(0);
    expect(await lease.release()).to.equal(true);
  }

  /** Counts the scripts that are sent over this client from now on. */
  function attemptsOf(redis: Client): () => number {
    let count = 0;
    for (const name of ['eval', 'evalSha'] as const) {
      const send = redis[name].bind(redis) as (...args: unknown[]) => Promise<unknown>;
      Object.assign(redis, {
        [name]: (...args: unknown[]) => {
          count += 1;
          return send(...args);
        },
      });
    }
    return () => count;
  }

  it('max number of clients, as an answer: retryable (H54)', async () => {
    const rule = stage.proxy.rule({ match: isAcquire }, answer('-ERR max number of clients reached\r\n'));
    const withLock = redisExpLock({ redis: await stage.through(), ...patient });
    expect((await backendError(withLock.promise(stage.key))).retryable).to.equal(true);
    const acquired = withLock.promise(stage.key, waitOptions);
    await sleep(50);
    rule.remove();
    const lease = await acquired;
    expect(await stage.holder()).to.equal(lease.token);
  });

  it('BUSY: a script runs for ever, until somebody kills it (H54)', async () => {
    const { server } = stage;
    await server.command('CONFIG', 'SET', 'busy-reply-threshold', 20);
    const culprit = (await stage.direct()).eval('while true do end').catch(() => {});
    await sleep(100);
    await waitedFor(await stage.direct(), 'BUSY', () => server.command('SCRIPT', 'KILL'));
    await culprit;
  });

  it('NOREPLICAS: not enough replicas to write (H54)', async () => {
    const { server } = stage;
    await server.command('CONFIG', 'SET', 'min-replicas-to-write', 1);
    await waitedFor(await stage.direct(), 'NOREPLICAS', () =>
      server.command('CONFIG', 'SET', 'min-replicas-to-write', 0),
    );
  });

  it('LOADING: the server reads its data back after a restart (H54)', async () => {
    // It would take 12 s, were it not for the change below: however slow this process is, it meets the state.
    const slowly = ['--key-load-delay', '10000', '--loading-process-events-interval-bytes', '1024'];
    const server = await startRedis({ args: slowly });
    await server.command('EVAL', "for i = 1, 1200 do redis.call('SET', 'filler' .. i, string.rep('x', 100)) end", 0);
    await server.command('SAVE');
    const redis = stage.owns(await server.connect(REDIAL));
    await server.kill();
    await waitFor(() => !redis.isReady); // the end of the process may be heard of before that of its connection
    const restarted = server.restart(); // resolves when it has loaded
    await waitFor(() => redis.isReady); // connected, while it loads
    const pass = async (): Promise<void> => {
      await server.command('CONFIG', 'SET', 'key-load-delay', 0);
      await restarted;
    };
    await waitedFor(redis, 'LOADING', pass, uniqueKey());
    await server.discard();
  });

  it('READONLY: a replica, until it is promoted (H54)', async () => {
    const replica = await startReplica(stage.server);
    await waitedFor(stage.owns(await replica.connect(REDIAL)), 'READONLY', () =>
      replica.command('REPLICAOF', 'NO', 'ONE'),
    );
    await replica.discard();
  });

  it('MASTERDOWN: a replica that lost its master and serves nothing old (H54)', async () => {
    const master = await startRedis();
    const replica = await startReplica(master, { args: ['--replica-serve-stale-data', 'no'] });
    const redis = stage.owns(await replica.connect(REDIAL));
    await master.discard();
    await waitFor(async () => /master_link_status:down/.test(await replica.command('INFO', 'replication')));
    await waitedFor(redis, 'MASTERDOWN', () => replica.command('REPLICAOF', 'NO', 'ONE'));
    await replica.discard();
  });

  it('CLUSTERDOWN: a cluster whose slots nobody serves (H54)', async () => {
    const server = await startRedis({ args: ['--cluster-enabled', 'yes'] });
    const redis = stage.owns(await server.connect(REDIAL));
    // In the slot of the fence counter: all others are refused to a client that knows no slots.
    const key = `{redis-exp-lock:fence}:${uniqueKey()}`;
    await waitedFor(redis, 'CLUSTERDOWN', () => server.command('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383), key);
    await server.discard();
  });

  it('H57: a plain client of a cluster node: a key of another node is refused by name, with what to do', async () => {
    const cluster = await startCluster(2);
    const [node] = cluster.nodes as [RedisServer];
    const withLock = redisExpLock({ redis: stage.owns(await node.connect(REDIAL)), ...patient });
    const keys = Array.from({ length: 20 }, () => uniqueKey());
    const owners = await Promise.all(keys.map((key) => cluster.nodeOf(key)));
    const far = keys.filter((_, n) => owners[n] !== node);
    const near = keys.filter((_, n) => owners[n] === node);
    for (const wait of [{}, { timeout: LONG_MS }, { maxRetries: Number.POSITIVE_INFINITY }]) {
      const error = await backendError(withLock.promise(far[0]!, wait));
      expect([error.redisCode, error.retryable]).to.deep.equal(['CROSSSLOT', false]);
      expect(error.message).to.contain('cluster client');
    }
    const all = await Promise.allSettled(keys.map((key) => withLock.promise(key)));
    for (const [n, { status }] of all.entries()) expect(status === 'fulfilled').to.equal(near.includes(keys[n]!));
    expect((await Promise.all(cluster.nodes.map((each) => each.command('DBSIZE'))))[1]).to.equal(0);
    // As a cluster client would have it.
    for (const key of near) expect(await node.command('EXISTS', key, fenceKeyBeside(key))).to.equal(2);
    await cluster.stop();
  });

  it('TRYAGAIN: the keys of a slot are on their way to another node (H54)', async () => {
    const { proxy } = stage;
    const rule = proxy.rule(
      { match: isAcquire },
      answer('-TRYAGAIN Multiple keys request during rehashing of slot\r\n'),
    );
    await waitedFor(await stage.through(), 'TRYAGAIN', async () => rule.remove());
  });

  it('a state that outlasts the timeout: its own error, not that of a lock that somebody holds (H54, H72)', async () => {
    const { proxy, key } = stage;
    proxy.rule({ match: isAcquire }, answer('-LOADING Redis is loading the dataset in memory\r\n'));
    const withLock = redisExpLock({ redis: await stage.through(), ...patient });
    const error = await backendError(withLock.promise(key, { timeout: 1_000, retryTimeout: 50 }));
    expect([error.redisCode, error.retryable]).to.deep.equal(['LOADING', true]);
    expect(proxy.count(isAcquire)).to.be.greaterThan(1);
  });

  it('max number of clients: a client that is turned away is waited for (H54)', async () => {
    const { server, key } = stage;
    await server.command('CONFIG', 'SET', 'maxclients', 1);
    const redis = stage.owns(createClient({ ...REDIAL, url: server.url }) as unknown as Client);
    redis.on('error', () => {});
    const connected = redis.connect();
    const withLock = redisExpLock({ redis });
    const error = await backendError(withLock.promise(key, { maxRetries: 2, commandTimeout: unansweredMs }));
    expect(error.retryable).to.equal(true);
    const acquired = withLock.promise(key, waitOptions);
    await sleep(300);
    await server.command('CONFIG', 'SET', 'maxclients', 10_000);
    const lease = await acquired;
    expect(await stage.holder()).to.equal(lease.token);
    await connected;
  });

  it('a lock held before is kept through such a state, and renewed when it has passed (H14, H54)', async () => {
    const { server, key } = stage;
    // Renewed after three seconds: the state may last for six more.
    const options = { lifetime: 9_000, commandTimeout: 10_000, autoExtend: true };
    const lease = await redisExpLock({ redis: await stage.direct(), ...options }).promise(key);
    const endMs = (): number => performance.now() + lease.remaining();
    const firstEndMs = endMs();
    const codes: string[] = [];
    const hear = (warning: unknown): void => void codes.push((warning as { code: string }).code);
    subscribe('redis-exp-lock:warning', hear);
    await server.command('CONFIG', 'SET', 'min-replicas-to-write', 1);
    await waitFor(() => codes.includes('renewal-failed'), { what: 'a renewal to be refused' });
    unsubscribe('redis-exp-lock:warning', hear);
    await server.command('CONFIG', 'SET', 'min-replicas-to-write', 0);
    await waitFor(() => endMs() > firstEndMs + 1_000, { what: 'the renewal' });
    expect(lease.signal.aborted).to.equal(false);
    expect(await stage.holder()).to.equal(lease.token);
    expect(await lease.release()).to.equal(true);
  });
});

describe('a state of the server that somebody has to change (H54)', () => {
  const stage = useStage();
  const waitOptions = { timeout: LONG_MS, retryTimeout: 5 };

  /** Told by name after one attempt, whatever wait was allowed. */
  async function toldAtOnce(redis: Client, code: string): Promise<redisExpLock.LockBackendError> {
    const { proxy, key } = stage;
    const withLock = redisExpLock({ redis, ...patient });
    const asked = proxy.count('script');
    const error = await backendError(withLock.promise(key, waitOptions));
    expect([error.redisCode, error.retryable]).to.deep.equal([code, false]);
    await redis.ping().catch(() => {}); // behind everything that was sent
    expect(proxy.count('script') - asked).to.equal(1);
    expect(error.message).to.contain(key);
    return error;
  }

  it('NOAUTH: a client that did not authenticate (H54)', async () => {
    const { server } = stage;
    await server.command('ACL', 'SETUSER', 'default', 'on', '>secret');
    try {
      // RESP2 does without HELLO, so that the refusal comes with the first command.
      await toldAtOnce(await stage.through({ ...REDIAL, RESP: 2, disableClientInfo: true }), 'NOAUTH');
    } finally {
      await server.command('ACL', 'SETUSER', 'default', 'nopass');
    }
    expect(await stage.holder()).to.equal(null);
  });

  it('WRONGPASS: whose password has changed (H54)', async () => {
    stage.proxy.rule({ match: 'script' }, answer('-WRONGPASS invalid username-password pair or user is disabled.\r\n'));
    await toldAtOnce(await stage.through(), 'WRONGPASS');
  });

  it('WRONGTYPE: the key is something else (H10, H54)', async () => {
    const { server, key } = stage;
    await server.command('RPUSH', key, 'x');
    await toldAtOnce(await stage.through(), 'WRONGTYPE');
    expect(await server.command('TYPE', key)).to.equal('list');
  });

  it('CROSSSLOT: several keys of different slots, named (H54, H57)', async () => {
    const { proxy, key } = stage;
    proxy.rule({ match: isAcquire }, answer("-CROSSSLOT Keys in request don't hash to the same slot\r\n"));
    const withLock = redisExpLock({ redis: await stage.through(), ...patient });
    const error = await backendError(withLock.promise([`${key}-a`, `${key}-b`], waitOptions));
    expect([error.redisCode, error.retryable]).to.deep.equal(['CROSSSLOT', false]);
    expect(error.message).to.contain(`${key}-a`).and.to.contain(`${key}-b`);
    expect(proxy.count(isAcquire)).to.equal(1);
  });

  it('an unknown command: EVALSHA was renamed away (H54)', async () => {
    const server = await startRedis({ args: ['--rename-command', 'EVALSHA', ''] });
    const proxy = await startProxy(server.port);
    const redis = stage.owns(await connect(proxy.url, REDIAL));
    const withLock = redisExpLock({ redis, ...patient });
    const lease = await withLock.promise(stage.key); // by EVAL: the script is new to the server
    const error = await backendError(withLock.promise(`${stage.key}-other`, waitOptions));
    expect(error.retryable).to.equal(false);
    expect(error.message).to.match(/unknown command/i);
    expect(proxy.count('EVALSHA')).to.equal(1);
    expect(await lease.release()).to.equal(true);
    await proxy.stop();
    await server.discard();
  });

  it('no scripts at all, in the words of servers, services and proxies: the error says so in a sentence (H54, H96)', async () => {
    const { proxy } = stage;
    for (const words of [
      "ERR unknown command 'EVAL', with args beginning with: ",
      'ERR unknown command `eval`, with args beginning with: ',
      'ERR command eval not support for your account',
      'ERR EVAL command is not allowed on this service',
      'ERR The command EVAL is disabled',
    ]) {
      const rule = proxy.rule({ match: 'script' }, replaceReply(`-${words}\r\n`));
      const error = await toldAtOnce(await stage.through(), 'ERR');
      expect(error.message).to.contain('this server does not run scripts, and no lock works without EVAL');
      rule.remove();
    }
    proxy.rule({ match: 'script' }, replaceReply("-NOPERM User a has no permissions to run the 'eval' command\r\n"));
    const error = await toldAtOnce(await stage.through(), 'NOPERM');
    expect(error.message).to.contain('doctor').and.not.to.contain('does not run scripts');
  });

  describe('NOPERM', () => {
    /** The commands that a lock needs, and no others. */
    const commands = [
      '+get',
      '+set',
      '+del',
      '+setnx',
      '+pexpire',
      '+persist',
      '+pttl',
      '+time',
      '+zcard',
      '+zcount',
      '+eval',
      '+evalsha',
    ];
    const connecting = ['+hello', '+auth', '+ping', '+client', '+command'];

    async function userWith(rights: readonly string[], keys = '~*'): Promise<Client> {
      const user = { username: `user-${stage.key}`, password: 'pw' };
      await stage.server.command('ACL', 'SETUSER', user.username, 'reset', 'on', '>pw', keys, '-@all', ...connecting);
      await stage.server.command('ACL', 'SETUSER', user.username, ...rights);
      return stage.through({ ...REDIAL, ...user });
    }

    it('nothing missing: acquire, extend, inspect and release work, also with lifetime null (H58)', async () => {
      const withLock = redisExpLock({ redis: await userWith(commands), ...patient });
      for (const lifetime of [LONG_MS, null]) {
        const lease = await withLock.promise(stage.key, { lifetime });
        expect(await lease.extend()).to.equal(true);
        expect((await withLock.inspect(stage.key)).locked).to.equal(true);
        expect(await lease.release()).to.equal(true);
      }
    });

    for (const missing of ['evalsha', 'eval']) {
      it(`no ${missing}: an error at once (H54)`, async () => {
        const redis = await userWith(commands.filter((command) => command !== `+${missing}`));
        if (missing === 'evalsha')
          await (await redisExpLock({ redis, ...patient }).promise(`${stage.key}-first`)).release();
        await toldAtOnce(redis, 'NOPERM');
        expect(await stage.holder()).to.equal(null);
      });
    }

    for (const missing of ['time', 'get', 'zcard', 'set', 'setnx', 'pexpire']) {
      it(`no ${missing} within the script: an error at once, by name, and nothing is left behind (H54)`, async () => {
        const redis = await userWith(commands.filter((command) => command !== `+${missing}`));
        await toldAtOnce(redis, 'NOPERM');
        expect(await stage.holder()).to.equal(null);
      });
    }

    it('no pttl within the script: an error at once where it is needed (H54)', async () => {
      await stage.server.command('SET', stage.key, 'somebody else', 'PX', LONG_MS);
      await toldAtOnce(await userWith(commands.filter((command) => command !== '+pttl')), 'NOPERM');
      expect(await stage.holder()).to.equal('somebody else');
    });

    for (const missing of [
      ['pexpire', 'del'],
      ['pexpire', 'persist', 'del', 'pttl'],
    ]) {
      it(`neither ${missing.join(' nor ')}: no key stays for ever (H54)`, async () => {
        const redis = await userWith(commands.filter((command) => !missing.includes(command.slice(1))));
        const error = await backendError(redisExpLock({ redis, ...patient }).promise(stage.key));
        expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
        expect(await stage.leftMs()).not.to.equal(-1);
      });
    }

    it('neither pexpire nor del, several keys: no key stays for ever (H54)', async () => {
      const redis = await userWith(commands.filter((command) => !['+pexpire', '+del'].includes(command)));
      const keys = [`${stage.key}-a`, `${stage.key}-b`];
      await backendError(redisExpLock({ redis, ...patient }).promise(keys));
      for (const key of keys) expect(await stage.leftMs(key)).not.to.equal(-1);
    });

    it('no del: the holder gets an error at the release, and the lifetime frees the key (H54)', async () => {
      const redis = await userWith(commands.filter((command) => command !== '+del'));
      const lease = await redisExpLock({ redis, ...patient }).promise(stage.key);
      const error = await backendError(lease.release());
      expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
      expect(await stage.leftMs())
        .to.be.within(-2, LONG_MS)
        .and.not.to.equal(-1);
    });

    it('no persist, lifetime null: an error at once, and what was granted for a start is released (H54)', async () => {
      const redis = await userWith(commands.filter((command) => command !== '+persist'));
      const withLock = redisExpLock({ redis, lifetime: null, commandTimeout: 5_000 });
      const error = await backendError(withLock.promise(stage.key, waitOptions));
      expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
      await stage.freed(stage.key, 8_000); // the 10 s it starts with would free it later
    });

    it('rights taken away from a holder: lost when its validity ends, not before (H54)', async () => {
      const redis = await userWith(commands);
      const lease = await redisExpLock({ redis, lifetime: 2_000 }).promise(stage.key, { autoExtend: true });
      await stage.server.command('ACL', 'SETUSER', `user-${stage.key}`, '-pexpire');
      const error = await lossOf(lease);
      expect(error.reason).to.be.oneOf(unreachable);
      expect(lease.remaining()).to.equal(0);
    });

    describe('of keys (H58)', () => {
      const names = ['~lk:*', '~{lk:*', '~redis-exp-lock:fence*'];

      it('a user that may touch only the lock’s own names can do everything (H58)', async () => {
        const redis = await userWith([...commands, ...names.slice(1)], names[0]);
        const withLock = redisExpLock({ redis, ...patient, prefix: 'lk:' });
        for (const lifetime of [LONG_MS, null]) {
          const lease = await withLock.promise(stage.key, { lifetime });
          expect(await lease.extend()).to.equal(true);
          const state = await withLock.inspect(stage.key);
          expect([state.locked, state.fence]).to.deep.equal([true, lease.fence]);
          expect(await withLock.tryLock(stage.key)).to.equal(null);
          expect(await lease.release()).to.equal(true);
        }
        const both = await withLock.promise([`${stage.key}-a`, `${stage.key}-b`]);
        expect(await both.release()).to.equal(true);
      });

      it('callers of one tick: only the one with another name is refused (H58)', async () => {
        const redis = await userWith([...commands, ...names.slice(1)], names[0]);
        const withLock = redisExpLock({ redis, ...patient });
        const [mine, other, more] = await Promise.allSettled([
          withLock.promise(`lk:${stage.key}-a`),
          withLock.promise(`other:${stage.key}`),
          withLock.promise(`lk:${stage.key}-b`),
        ]);
        expect([mine.status, other.status, more.status]).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
        expect((other as PromiseRejectedResult).reason.redisCode).to.equal('NOPERM');
        expect(await stage.holder(`other:${stage.key}`)).to.equal(null);
      });

      it('another name, or no right to the companions: an error at once, by name, and nothing is written (H58)', async () => {
        const redis = await userWith(commands, names[0]);
        const withLock = redisExpLock({ redis, ...patient });
        for (const options of [{ prefix: 'other:' }, { prefix: 'lk:' }]) {
          const error = await backendError(withLock.promise(stage.key, { ...options, ...waitOptions }));
          expect([error.redisCode, error.retryable]).to.deep.equal(['NOPERM', false]);
          expect(await stage.holder(options.prefix + stage.key)).to.equal(null);
        }
      });
    });
  });
});

describe('a server that may not write (H55)', () => {
  const stage = useStage();

  it('OOM: an acquire is refused by name and writes nothing; what was held before can be kept and released (H55)', async () => {
    const { server, key } = stage;
    const withLock = redisExpLock({ redis: await stage.direct(), ...patient });
    const [held, kept] = [await withLock.promise(`${key}-held`), await withLock.promise(`${key}-kept`)];
    await server.command('CONFIG', 'SET', 'maxmemory', 1);
    try {
      const error = await backendError(withLock.promise(key));
      expect(error.redisCode).to.equal('OOM');
      expect(await server.command('EXISTS', key)).to.equal(0);
      expect(await held.extend(2 * LONG_MS)).to.equal(true);
      expect(await stage.leftMs(`${key}-held`)).to.be.greaterThan(LONG_MS);
      expect(await held.release()).to.equal(true);
      expect(await stage.holder(`${key}-held`)).to.equal(null);
      expect(await kept.release()).to.equal(true);
      expect((await withLock.inspect(key)).locked).to.equal(false);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', 0);
    }
    await stage.expectFree();
  });

  for (const fencing of [true, false]) {
    const what = fencing ? '' : ', without fences';
    it(`OOM, callers of one tick${what}: the acquire is refused, the release is not (H55)`, async () => {
      const { server, key } = stage;
      const withLock = redisExpLock({ redis: await stage.direct(), ...patient, fencing });
      const held = await withLock.promise(`${key}-held`);
      await server.command('CONFIG', 'SET', 'maxmemory', 1);
      try {
        const [error, released] = await Promise.all([backendError(withLock.promise(key)), held.release()]);
        expect([error.redisCode, released]).to.deep.equal(['OOM', true]);
      } finally {
        await server.command('CONFIG', 'SET', 'maxmemory', 0);
      }
      expect(await server.command('EXISTS', key)).to.equal(0);
    });
  }

  it('OOM: a caller that is queued keeps its place, and is handed the lock (H55)', async () => {
    const { server, key } = stage;
    const held = await redisExpLock({ redis: await stage.direct(), ...patient }).promise(key);
    const waiting = redisExpLock({ redis: await stage.direct(), ...patient }).promise(key, { timeout: LONG_MS });
    const entry = async (): Promise<string> => String(await server.command('ZRANGE', `{${key}}:queue`, 0, -1));
    await waitFor(async () => (await entry()) !== '');
    await server.command('CONFIG', 'SET', 'maxmemory', 1);
    try {
      const first = await entry();
      await waitFor(async () => (await entry()) !== first, { what: 'its next request' });
      expect(await held.release()).to.equal(true);
      expect(await (await waiting).release()).to.equal(true);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', 0);
    }
  });

  it('OOM that passes: waited for (H54, H55)', async () => {
    const { server, key } = stage;
    await server.command('CONFIG', 'SET', 'maxmemory', 1);
    const acquired = redisExpLock({ redis: await stage.direct(), ...patient }).promise(key, { timeout: 20_000 });
    await sleep(100);
    await server.command('CONFIG', 'SET', 'maxmemory', 0);
    expect(await (await acquired).release()).to.equal(true);
  });

  it('MISCONF: even the release fails, with an error; it can be tried again (H55)', async () => {
    const { key } = stage;
    // Writes are refused only where snapshots are asked for, and the last one failed.
    const server = await startRedis({ args: ['--save', '3600 1'] });
    const withLock = redisExpLock({ redis: stage.owns(await server.connect(REDIAL)), ...patient });
    const lease = await withLock.promise(key);
    await failSnapshot(server);

    // All are awaited at once: the replies need not come in one piece, nor in this order.
    const calls = [withLock.promise(`${key}-other`), lease.release(), lease.release()];
    for (const error of await Promise.all(calls.map(backendError))) {
      expect([error.redisCode, error.retryable]).to.deep.equal(['MISCONF', true]);
    }
    expect(await server.command('EXISTS', `${key}-other`)).to.equal(0);
    expect(await server.command('GET', key)).to.equal(lease.token);
    await server.command('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no');
    expect(await lease.release()).to.equal(true);
    await server.discard();
  });

  it('MISCONF under run: the result is kept, and the key is free soon after the state has passed (H24, H55)', async () => {
    const { key } = stage;
    const server = await startRedis({ args: ['--save', '3600 1'] });
    const redis = stage.owns(await server.connect(REDIAL));
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 1_000 });
    const result = await withLock.run(key, async () => {
      await failSnapshot(server);
      return 'done';
    });
    expect(result).to.equal('done');
    expect(await server.command('EXISTS', key)).to.equal(1);
    await server.command('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no');
    await waitFor(async () => (await server.command('EXISTS', key)) === 0);
    await server.discard();
  });

  /** Kills the child that writes a snapshot: from now on the server refuses every write. */
  async function failSnapshot(server: RedisServer): Promise<void> {
    await server.command('CONFIG', 'SET', 'rdb-key-save-delay', 30_000_000);
    await server.command('SET', 'something to save', 'x');
    await server.command('BGSAVE');
    const child = await waitFor(() => childOf(server));
    process.kill(child, 'SIGKILL');
    await waitFor(async () => /rdb_last_bgsave_status:err/.test(await server.command('INFO', 'persistence')));
  }

  /** The process that writes the snapshot, by the server's own word. */
  function childOf(server: RedisServer): number {
    const log = readFileSync(`${server.dir}/redis.log`, 'utf8');
    return Number(/Background saving started by pid (\d+)/.exec(log)?.[1] ?? 0);
  }
});
