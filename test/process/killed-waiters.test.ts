/**
 * Readers, writers and permits among processes: a waiter that is killed in the queue delays the others by no more than its own short
 * deadline, five of them no longer than one. A crowd that waits costs a constant number of commands for each release.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { noEngine } from '../embedded/engine';
import { kill9, startChild, waitFor } from '../support/processes';
import { type Client, commandStats, diffCommandStats, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const { RWLock, Semaphore, sharedMemoryStore } = redisExpLock;
/** Two questions of 1 s each without a sign; the rest is for the machine. Five one after the other would be 10 s. */
const oneDelayMs = 2 * 1_000 + 5_000;

describe('readers, writers and permits among processes', () => {
  let server: RedisServer;
  let client: Client;
  let folder: string;
  let given: string | undefined;

  before(async () => {
    server = await startRedis();
    client = await server.connect();
    given = process.env.XDG_RUNTIME_DIR;
    folder = process.env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
  });

  after(async () => {
    client.destroy();
    await server.discard();
    if (given === undefined) delete process.env.XDG_RUNTIME_DIR;
    else process.env.XDG_RUNTIME_DIR = given;
    rmSync(folder, { recursive: true, force: true });
  });

  for (const place of ['Redis', 'shared memory']) {
    const test = place === 'shared memory' && noEngine !== undefined ? it.skip : it;
    test(`H29, H43: five of each are killed (kill -9): the next behind them has it after one delay, on ${place}`, async () => {
      const name = 'killed';
      const redis = place === 'Redis' ? client : sharedMemoryStore(name);
      const base = uniqueKey('killed');
      const options = { redis, lifetime: 60_000, timeout: 60_000 };
      const written = new RWLock(`${base}:written`, options);
      const counted = new RWLock(`${base}:counted`, options);
      const read = new RWLock(`${base}:read`, { ...options, prefer: 'fair' });
      const permits = new Semaphore(`${base}:permits`, 3, options);
      const look = redisExpLock({ redis });
      const names = ['written', 'counted', 'read', 'permits'];
      const stand = (waiters: number) =>
        waitFor(
          async () => {
            const states = await Promise.all(names.map((each) => look.inspect(`${base}:${each}`)));
            return states.every((state) => state.waiters === waiters);
          },
          { what: `${waiters} to be in each queue` },
        );

      const held = [await written.acquireRead(), await counted.acquireRead(), await permits.acquire(1)];
      const writing = await read.acquireWrite();
      const address = place === 'Redis' ? server.url : name;
      const child = startChild(join(__dirname, 'children', 'queued.ts'), [place, address, base]);
      expect(await child.receive()).to.equal('ready');
      await stand(5);
      const behind = [written.acquireRead(), counted.acquireRead(), read.acquireRead(), permits.acquire(1)];
      await stand(6);
      await kill9(child);
      const startedMs = performance.now();
      expect(await writing.release()).to.equal(true);
      const leases = await Promise.all(behind);
      expect(performance.now() - startedMs).to.be.below(oneDelayMs); // five delays are 10 s
      for (const lease of [...held, ...leases]) expect(await lease.release()).to.equal(true);
      await stand(0);
      if (place !== 'Redis') await (redis as redisExpLock.Store).close();
    });
  }

  const crowds: [what: string, make: (key: string) => { hold(): Promise<unknown>; use(): Promise<void> }][] = [
    [
      'for permits',
      (key) => {
        const semaphore = new Semaphore(key, 2, { redis: client, lifetime: 60_000, timeout: 60_000 });
        const hold = async () => {
          const leases = [await semaphore.acquire(), await semaphore.acquire()];
          return () => Promise.all(leases.map((lease) => lease.release()));
        };
        // Each with an entry of its own: those of one lock object hand permits off.
        const use = () => new Semaphore(key, 2, { redis: client, lifetime: 60_000, timeout: 60_000 }).run(() => {});
        return { hold, use };
      },
    ],
    [
      'to write',
      (key) => {
        const lock = new RWLock(key, { redis: client, lifetime: 60_000, timeout: 60_000 });
        const hold = async () => {
          const lease = await lock.acquireRead();
          return () => lease.release();
        };
        return { hold, use: () => lock.write(() => {}) };
      },
    ],
  ];
  for (const [what, make] of crowds) {
    it(`H30: commands for each release do not grow with the waiters ${what}: 20, and 200`, async () => {
      const each: number[] = [];
      const ear = await server.connect();
      for (const waiters of [20, 200]) {
        const key = uniqueKey('crowd');
        const { hold, use } = make(key);
        const release = (await hold()) as () => Promise<unknown>;
        const served = Promise.all(Array.from({ length: waiters }, use));
        const look = redisExpLock({ redis: client });
        await waitFor(async () => (await look.inspect(key)).waiters === waiters, { what: 'a crowd' });
        let told = 0;
        await ear.pSubscribe('redis-exp-lock:1:*', (message) => {
          if (message.endsWith(` ${key}`)) told += message.split(',').length;
        });
        const before = await commandStats(client);
        await release();
        await served;
        const { eval: whole = 0, evalsha = 0, publish = 0 } = diffCommandStats(before, await commandStats(client));
        // A question, a release and a message each; and now and then a question of who was not told, or too early.
        expect((whole + evalsha) / waiters, `${waiters} waiters`).to.be.at.most(2.5);
        expect(publish / waiters, `${waiters} waiters`).to.be.at.most(2.5);
        // Nobody is told for whom there is no room; many of one process share a command.
        expect(told / waiters, `waiters told, of ${waiters}`).to.be.at.most(1.5);
        await ear.pUnsubscribe();
        each.push((whole + evalsha) / waiters);
      }
      expect(each[1]).to.be.at.most(each[0]! * 1.3 + 0.2);
      ear.destroy();
    });
  }
});
