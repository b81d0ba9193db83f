/**
 * A real failover by three sentinels (H59): with the key at the replica, and without. The double grant cannot be prevented here:
 * it is seen, the old holder is notified at its next extension, and its fence is refused. `minReplicas` narrows that. And the old
 * master that was only stopped (H92), which grants again when it goes on.
 */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { published } from '../contract/outcomes';
import { bundled } from '../support/bundle';
import { waitFor } from '../support/processes';
import { type Client, type RedisServer, startRedis, startReplica, uniqueKey } from '../support/redis';
import { patientMs, startSentinels, type TestSentinels } from '../support/sentinel';
import { backendError, LONG_MS } from './faults';
import { rejectionOf } from './holding';

interface Group {
  readonly master: RedisServer;
  readonly replicas: readonly RedisServer[];
}

const groups = { kept: 1, lost: 1, narrowed: 2, refused: 1, stopped: 1 } as const;
type Name = keyof typeof groups;

const writeIfNewer = `
  if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return 0 end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'balance', ARGV[2])
  return 1`;

type Answer = redisExpLock.Lease | null | Error;

describe('three sentinels fail a master over', () => {
  const all = {} as Record<Name, Group>;
  let sentinels: TestSentinels;
  let resource: RedisServer;
  const closing: (() => unknown)[] = [];

  before(async () => {
    resource = await startRedis();
    const start = async ([name, count]: [string, number]): Promise<void> => {
      const master = await startRedis();
      const replicas = await Promise.all(Array.from({ length: count }, () => startReplica(master)));
      // Counted is not yet fed: the stream begins with the replica's first acknowledgement, up to a second later.
      await master.command('SET', 'first', 'x');
      for (const replica of replicas) await waitFor(() => replica.command('GET', 'first'), { what: 'the stream' });
      all[name as Name] = { master, replicas };
    };
    await Promise.all(Object.entries(groups).map(start));
    sentinels = await startSentinels(
      Object.fromEntries(Object.entries(all).map(([name, { master }]) => [name, master])),
    );
    await Promise.all(Object.entries(groups).map(([name, count]) => sentinels.ready(name, count)));
  });

  after(async () => {
    await Promise.all(closing.map((close) => close()));
    await sentinels.stop();
    const servers = Object.values(all).flatMap(({ master, replicas }) => [master, ...replicas]);
    await Promise.all([resource, ...servers].map((server) => server.discard()));
  });

  const nodeRedis = (packageName: string) => async (name: Name) => {
    const redis = require(packageName).createSentinel({
      name,
      sentinelRootNodes: sentinels.ports.map((port) => ({ port, host: '127.0.0.1' })),
    });
    redis.on('error', () => {});
    closing.push(() => redis.destroy());
    await redis.connect();
    return redis;
  };
  const ioredis =
    (packageName: string, options: object = {}) =>
    async (name: Name) => {
      const IORedis = require(packageName);
      const places = sentinels.ports.map((port) => ({ port, host: '127.0.0.1' }));
      const redis = new IORedis({ ...options, name, sentinels: places, lazyConnect: true }).on('error', () => {});
      closing.push(() => redis.disconnect());
      await redis.connect();
      return redis;
    };
  const kinds: [name: string, dial: (name: Name) => Promise<any>][] = [
    ['node-redis 6', nodeRedis('redis')],
    ['node-redis 5', nodeRedis('redis-5')],
    ['ioredis 6', ioredis('ioredis')],
    ['ioredis 5', ioredis('ioredis-5')],
    ['iovalkey', ioredis('iovalkey')],
  ];

  /** Stops the replica: from now on nothing reaches it, not even what lies in its socket. */
  async function stopReplica({ master }: Group, replica: RedisServer): Promise<void> {
    await replica.pause();
    await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
  }

  async function promoted(name: string, server: RedisServer): Promise<void> {
    const isMaster = async () => /role:master/.test(await server.command('INFO', 'replication'));
    await waitFor(isMaster, { what: `${server.port} to be the master` });
    // A new master that a busy machine holds up must not be failed over.
    await sentinels.givesUpAfter(name, patientMs);
  }

  it('with the key: every holder keeps it and renews it there, and a waiter gets it afterwards (H59)', async () => {
    const { master, replicas } = all.kept;
    const [heir] = replicas;
    const stories = await Promise.all(
      kinds.map(async ([name, dial]) => {
        const options = { lifetime: 30_000, commandTimeout: 1_000 }; // the failover takes less than the lifetime
        const mine = redisExpLock({ redis: await dial('kept'), ...options });
        const others = redisExpLock({ redis: await dial('kept'), ...options });
        const key = uniqueKey();
        const lease = await mine.promise(key, { autoExtend: true, minReplicas: 1, commandTimeout: 10_000 });
        return { name, mine, others, key, lease };
      }),
    );
    for (const { key, lease } of stories) await waitFor(async () => (await heir!.command('GET', key)) === lease.token);
    await sentinels.givesUpAfter('kept', 500);
    await master.kill();
    const waiting = stories.map(({ others, key }) => others.run(key, { timeout: 50_000 }, ({ fence }) => fence));
    await promoted('kept', heir!);
    await Promise.all(
      stories.map(async ({ name, mine, key, lease }, i) => {
        const leftMs = lease.remaining();
        const isRenewed = async (): Promise<boolean> => {
          await lease.extend().catch((error) => expect(error).to.be.instanceOf(redisExpLock.LockBackendError));
          return lease.remaining() > leftMs;
        };
        await waitFor(isRenewed, { what: `${name} to renew` });
        expect(await heir!.command('GET', key), name).to.equal(lease.token);
        expect(await lease(), name).to.equal(true);
        expect(await waiting[i], name).to.be.greaterThan(lease.fence);
        // The connection for WAIT follows too: the new master has no replica.
        const refused = async (): Promise<unknown> =>
          (await backendError(mine.promise(`${key}-w`, { minReplicas: 1, commandTimeout: 2_000 }))).redisCode;
        await waitFor(async () => (await refused()) === 'NOREPLICAS', {
          what: `${name} to ask the new master`,
        });
      }),
    );
  });

  it('without the key: granted twice; the old holder is notified at its next extension, and its fence is refused (H4, H59)', async () => {
    const { master, replicas } = all.lost;
    const [heir] = replicas;
    const made = await Promise.all(
      kinds.map(async ([name, dial]) => {
        const redis = await dial('lost');
        return {
          name,
          key: uniqueKey(),
          withLock: redisExpLock({ redis, lifetime: LONG_MS, commandTimeout: 5_000 }),
          other: await dial('lost'),
        };
      }),
    );
    await stopReplica(all.lost, heir!);
    const held = await Promise.all(made.map(async (each) => ({ ...each, old: await each.withLock.promise(each.key) })));
    await sentinels.givesUpAfter('lost', 500);
    await master.kill();
    await heir!.resume();
    await promoted('lost', heir!);
    const row = await resource.connect();
    await Promise.all(
      held.map(async ({ name, key, other, old }) => {
        const next = await redisExpLock({ redis: other, lifetime: LONG_MS }).promise(key, { timeout: 30_000 });
        expect(
          Math.min(old.remaining(), next.remaining()),
          `${name}: both valid by their own clocks`,
        ).to.be.greaterThan(0);
        expect(next.fence, name).to.be.greaterThan(old.fence);
        expect(await write(row, key, next.fence), `${name}: the next writes`).to.equal(1);
        expect(await write(row, key, old.fence), `${name}: the old one is refused`).to.equal(0);
        const lost = lossOfAtExtension(old);
        expect(await lost, name).to.equal('taken');
        expect(await old(), name).to.equal(false);
        expect(await next(), `${name}: nobody else's release`).to.equal(true);
      }),
    );
  });

  /** Asked again until the client has found the new master. */
  async function lossOfAtExtension(lease: redisExpLock.Lease, onExtended = neverExtended): Promise<string> {
    for (;;) {
      const extended = await lease.extend().catch((error) => error);
      if (extended === false) return (lease.signal.reason as redisExpLock.LockLostError).reason;
      if (extended === true) onExtended();
      else expect(extended).to.be.instanceOf(redisExpLock.LockBackendError);
      await sleep(50);
    }
  }

  function neverExtended(): void {
    expect.fail('the new master extends it');
  }

  function write(row: Client, key: string, fence: number): Promise<unknown> {
    return row.eval(writeIfNewer, { keys: [key], arguments: [String(fence), 'x'] });
  }

  it('minReplicas, in the same story: not granted, so nobody is but the next (H59)', async () => {
    const { master, replicas } = all.refused;
    const [heir] = replicas;
    const redis = await ioredis('ioredis')('refused');
    const withLock = redisExpLock({ redis, lifetime: LONG_MS, minReplicas: 1, commandTimeout: 2_000 });
    const other = redisExpLock({ redis: await ioredis('ioredis')('refused'), lifetime: LONG_MS });
    const key = uniqueKey();
    // As in use: its connections stand before the fault.
    await (await withLock.promise(uniqueKey(), { timeout: 20_000 }))();
    await stopReplica(all.refused, heir!);
    const error = await backendError(withLock.promise(key));
    expect([error.redisCode, error.retryable]).to.deep.equal(['NOREPLICAS', true]);
    await sentinels.givesUpAfter('refused', 500);
    await master.kill();
    await heir!.resume();
    await promoted('refused', heir!);
    const next = await other.promise(key, { timeout: 30_000 });
    expect(await heir!.command('GET', key)).to.equal(next.token);
    await withLock.close();
    expect(await heir!.command('GET', key)).to.equal(next.token);
  });

  it('minReplicas 1 of 2: the replica that has it dies with the master, and it is granted twice; 2 of 2 would not be (H59)', async () => {
    const { master, replicas } = all.narrowed;
    const [witness, heir] = replicas;
    const dial = ioredis('ioredis');
    const withLock = redisExpLock({ redis: await dial('narrowed'), lifetime: LONG_MS, commandTimeout: 1_500 });
    const other = redisExpLock({ redis: await dial('narrowed'), lifetime: LONG_MS });
    const key = uniqueKey();
    const both = await withLock.promise(key, { minReplicas: 2, commandTimeout: 10_000 });
    for (const replica of replicas) expect(await replica.command('GET', key)).to.equal(both.token);
    await both();
    await waitFor(async () => (await heir!.command('EXISTS', key)) === 0);
    await heir!.pause();
    expect(await rejectionOf(withLock.promise(key, { minReplicas: 2, commandTimeout: 2_000 }))).to.include({
      redisCode: 'NOREPLICAS',
    });
    await waitFor(async () => (await master.command('EXISTS', key)) === 0);
    await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
    const back = async () => /state=online/.test(await master.command('INFO', 'replication'));
    await waitFor(back, { what: 'the witness to be back' });
    const old = await withLock.promise(key, { minReplicas: 1, timeout: 20_000 });
    expect(await witness!.command('GET', key)).to.equal(old.token);
    await sentinels.givesUpAfter('narrowed', 500);
    await Promise.all([master.kill(), witness!.kill()]);
    await heir!.resume();
    await promoted('narrowed', heir!);
    const next = await other.promise(key, { timeout: 30_000 });
    expect(Math.min(old.remaining(), next.remaining()), 'both valid by their own clocks').to.be.greaterThan(0);
    expect(next.fence).to.be.greaterThan(old.fence);
  });

  describe('the old master was only stopped, and goes on (H92)', () => {
    const detecting = { failoverDetector: true };
    const isMoved = {
      stays: () => true,
      // It ends the connection to the old master, and two seconds later it has another one.
      ioredis: ({ status, stream }: any) =>
        status !== 'ready' || !stream.writable || stream.remotePort === all.stopped.replicas[0]!.port,
      nodeRedis: (redis: any) => redis.getMasterNode()?.port === all.stopped.replicas[0]!.port,
    };
    const packages = ['ioredis', 'ioredis-5', 'iovalkey'];
    const unprotected = packages.map((name) => [name, ioredis(name), 0, isMoved.stays] as const);
    const protectedKinds = [
      ...['redis', 'redis-5'].flatMap((name) => [
        [name, nodeRedis(name), 0, isMoved.nodeRedis] as const,
        [`${name} with minReplicas`, nodeRedis(name), 1, isMoved.nodeRedis] as const,
      ]),
      ...packages.flatMap((name) => [
        [`${name} with failoverDetector`, ioredis(name, detecting), 0, isMoved.ioredis] as const,
        [`${name} with minReplicas`, ioredis(name), 1, isMoved.stays] as const,
      ]),
    ];
    /** The answer that each caller got for a key that is held at the new master, if that could be renewed, and that holder's lease. */
    const answers = new Map<string, { answer: Answer; renewed: boolean; next: redisExpLock.Lease }>();

    before('one failover for all', async function () {
      this.timeout(60_000); // down-after, a vote, and a promotion, on a busy machine
      const { master, replicas } = all.stopped;
      const [heir] = replicas;
      const connected = await Promise.all(
        [...unprotected, ...protectedKinds].map(async ([name, dial, minReplicas, hasMoved]) => {
          const redis = await dial('stopped');
          const withLock = redisExpLock({ redis, lifetime: LONG_MS, minReplicas, commandTimeout: 10_000 });
          // As in use: its connections stand before the fault.
          await (await withLock.promise(uniqueKey()))();
          return { name, redis, withLock, hasMoved, key: uniqueKey() };
        }),
      );
      await sentinels.givesUpAfter('stopped', 500);
      await master.pause();
      await promoted('stopped', heir!);
      await sentinels.switched('stopped', heir!.port);
      for (const { name, redis, hasMoved } of connected)
        await waitFor(() => hasMoved(redis), { what: `${name} to leave the old master` });
      const newMaster = redisExpLock({ redis: await heir!.connect(), lifetime: LONG_MS, commandTimeout: 10_000 });
      const held = await Promise.all(
        connected.map(async (each) => ({ ...each, next: await newMaster.promise(each.key) })),
      );
      await master.resume();
      await Promise.all(
        held.map(async ({ name, withLock, key, next }) => {
          const answer = await answered(withLock, key);
          // Renewed at once: the old master is a replica some seconds later.
          const renewed = typeof answer === 'function' && (await answer.extend());
          answers.set(name, { answer, renewed, next });
        }),
      );
    });

    /** Asked again while the client looks for its master. */
    async function answered(withLock: redisExpLock.WithLock, key: string): Promise<Answer> {
      const untilMs = performance.now() + 20_000;
      for (;;) {
        const answer = await withLock.tryLock(key).catch((error) => error);
        const isFinal = !(answer instanceof Error) || (answer as any).redisCode === 'NOREPLICAS';
        if (isFinal || performance.now() > untilMs) return answer;
        await sleep(50);
      }
    }

    it('ioredis without failoverDetector: granted and renewed there, with the larger fence, until it is a replica', () =>
      Promise.all(
        unprotected.map(async ([name]) => {
          const { answer, renewed, next } = answers.get(name)!;
          const lease = answer as redisExpLock.Lease;
          expect(lease, name).to.be.a('function');
          expect(lease.fence, name).to.be.greaterThan(next.fence);
          expect([renewed, next.remaining() > 0], `${name}: beside the new holder`).to.deep.equal([true, true]);
          expect(await lossOfAtExtension(lease, () => {}), name).to.equal('taken');
          expect(await next.extend(), name).to.equal(true);
        }),
      ));

    for (const [name, , minReplicas] of protectedKinds) {
      it(`${name}: never granted there`, async () => {
        const { answer, next } = answers.get(name)!;
        const refused = minReplicas > 0 && (answer as any)?.redisCode === 'NOREPLICAS';
        expect(refused ? null : answer).to.equal(null);
        expect(await next.extend()).to.equal(true);
      });
    }

    for (const [name, dial, minReplicas] of [...unprotected, ...protectedKinds]) {
      const isWarned = unprotected.some(([each]) => each === name);
      it(`${name}: ${isWarned ? 'one warning' : 'no warning'} of it`, async () => {
        const redis = await dial('stopped');
        const warnings = await published('redis-exp-lock:warning', async () => {
          for (let n = 0; n < 3; n++) {
            const commandTimeout = minReplicas > 0 ? 1_000 : 10_000; // a WAIT in vain takes all of it
            const withLock = redisExpLock({ redis, minReplicas, lifetime: LONG_MS, commandTimeout });
            // The old master is a replica only after some seconds.
            await withLock.run(uniqueKey(), () => {}).catch((error) => expect(error.redisCode).to.equal('NOREPLICAS'));
          }
        });
        expect(warnings.map(({ code, key }) => [code, key])).to.deep.equal(isWarned ? [['missed-failover', null]] : []);
        for (const { message } of warnings) {
          expect(message).to.contain('failoverDetector: true').and.to.contain('minReplicas');
        }
      });
    }

    it('doctor says so of a server that sentinels watch, and nothing of another', async () => {
      const { stdout } = await doctor(all.stopped.replicas[0]!);
      expect(stdout).to.match(/^ok +sentinels +3 watch this server: .*failoverDetector: true.*minReplicas/m);
      expect((await doctor(resource)).stdout).to.not.contain('sentinels');
    });

    /** Runs `doctor`, whose exit code says that these servers keep nothing on disk. */
    function doctor({ url }: RedisServer): Promise<{ stdout: string }> {
      const program = bundled(join(__dirname, '../../src/tools/cli.ts'));
      return promisify(execFile)(process.execPath, [program, 'doctor', '--url', url]).catch((error) => {
        if (error.code !== 1) throw error;
        return error;
      });
    }
  });
});
