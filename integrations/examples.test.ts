// The programs in examples/, each in use, on a real Redis.
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { expect } from 'chai';
import { drizzle } from 'drizzle-orm/sql-js';
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import redisExpLock from 'redis-exp-lock';
import initSqlJs from 'sql.js';
import { exited, track, waitFor } from '../test/support/processes';
import { type RedisServer, startRedis } from '../test/support/redis';
import { startWorker } from './examples/bullmq-worker';
import { everySecond } from './examples/cron';
import { accounts, setBalance } from './examples/drizzle-fence';
import { locks } from './examples/fastify-plugin';

const LONG_MS = 30_000;

describe('examples in integrations', () => {
  let server: RedisServer;
  let redis: Redis;

  before(async () => {
    server = await startRedis();
    redis = new Redis(server.url, { maxRetriesPerRequest: null });
  });
  beforeEach(() => server.command('FLUSHALL'));
  after(async () => {
    redis.disconnect();
    await server.discard();
  });

  const gate = (): { opened: Promise<void>; open: () => void } => {
    let open!: () => void;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    return { opened, open };
  };

  describe('Fastify', () => {
    it('one request at a time for each key; close() lets the one inside end, and rejects the one that waits', async () => {
      const app = Fastify();
      await app.register(locks, { redis, lifetime: LONG_MS });
      const { opened, open } = gate();
      let inside = 0;
      app.post('/orders/:id', async (request) => {
        const { id } = request.params as { id: string };
        return app.withLock.run(`order:${id}`, { timeout: LONG_MS }, async () => {
          inside += 1;
          await opened;
          return `done ${inside}`;
        });
      });
      const first = app.inject({ method: 'POST', url: '/orders/7' });
      await waitFor(() => inside === 1);
      const second = app.inject({ method: 'POST', url: '/orders/7' });
      await waitFor(async () => (await app.withLock.inspect('order:7')).waiters === 1);
      expect(inside).to.equal(1);
      const closed = app.close();
      expect((await second).json()).to.include({ code: 'ERR_LOCK_CLOSED' });
      open();
      expect((await first).body).to.equal('done 1');
      await closed;
      expect(await redis.exists('order:7')).to.equal(0);
      expect(await redis.ping()).to.equal('PONG');
    });
  });

  describe('Express', () => {
    it('under SIGTERM: the request that is there ends under its lock, and the process ends by itself', async () => {
      const env = { ...process.env, REDIS_URL: server.url };
      const program = `${__dirname}/examples/express-server.ts`;
      const child = spawn(process.execPath, ['--import', 'tsx', program], { cwd: __dirname, env });
      track(child);
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (text) => {
          output += text;
        });
      }
      const port = (await waitFor(() => /port (\d+)/.exec(output), { timeoutMs: 30_000 }))[1];
      const request = fetch(`http://127.0.0.1:${port}/orders/7?ms=500`, { method: 'POST' });
      await waitFor(() => output.includes('working'));
      child.kill('SIGTERM');
      await waitFor(() => output.includes('SIGTERM'));
      expect(await redis.exists('order:7')).to.equal(1);
      expect(await (await request).text()).to.equal('done');
      expect(await exited(child), output).to.deep.equal({ code: 0, signal: null });
      expect(output).to.match(/closed\n$/);
      expect(await redis.exists('order:7')).to.equal(0);
    });
  });

  describe('BullMQ', () => {
    it('two workers: jobs of one tenant never together, those of others meanwhile; all are done', async () => {
      const connection = { url: server.url, maxRetriesPerRequest: null };
      const queue = new Queue('invoices', { connection });
      const withLock = redisExpLock({ redis, lifetime: LONG_MS });
      const inside = new Map<string, number>();
      const done: string[] = [];
      let most = 0;
      let together = 0;
      const work = async ({ data }: { data: { tenant: string; n: number } }): Promise<void> => {
        const count = (inside.get(data.tenant) ?? 0) + 1;
        inside.set(data.tenant, count);
        most = Math.max(most, count);
        together = Math.max(
          together,
          [...inside.values()].reduce((sum, each) => sum + each, 0),
        );
        await sleep(100);
        inside.set(data.tenant, inside.get(data.tenant)! - 1);
        done.push(`${data.tenant}${data.n}`);
      };
      const jobs = ['ann', 'bob'].flatMap((tenant) => [0, 1, 2, 3].map((n) => ({ name: 'job', data: { tenant, n } })));
      await queue.addBulk(jobs);
      const workers = [startWorker(connection, withLock, work), startWorker(connection, withLock, work)];
      const failures: Error[] = [];
      for (const worker of workers) worker.on('failed', (_, error) => void failures.push(error));
      await waitFor(() => done.length === jobs.length, { timeoutMs: 30_000 });
      expect(most).to.equal(1);
      expect(together).to.equal(2);
      expect(failures).to.deep.equal([]);
      expect(new Set(done).size).to.equal(jobs.length);
      await Promise.all(workers.map((worker) => worker.close()));
      await queue.close();
    });
  });

  describe('cron', () => {
    it('three coordinators: each second is run once, by one of them', async () => {
      const ran: { by: number; slot: number }[] = [];
      const factories = [0, 1, 2].map(() => redisExpLock({ redis, lifetime: LONG_MS }));
      const crons = factories.map((withLock, by) =>
        everySecond(withLock, (_, { index }) => void ran.push({ by, slot: index })),
      );
      await waitFor(() => ran.length >= 3, { timeoutMs: 20_000 });
      for (const cron of crons) cron.stop();
      await Promise.all(factories.map((withLock) => withLock.close()));
      const slots = ran.map(({ slot }) => slot);
      expect(new Set(slots).size).to.equal(slots.length);
    });
  });

  describe('Drizzle', () => {
    it('the write of a holder that was overtaken changes nothing', async () => {
      const SQL = await initSqlJs();
      const raw = new SQL.Database();
      raw.run(
        'CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0)',
      );
      raw.run("INSERT INTO accounts (id, balance) VALUES ('alice', 100)");
      const database = drizzle(raw);
      const withLock = redisExpLock({ redis, lifetime: LONG_MS });
      const stale = await withLock.promise('account:alice');
      await redis.del('account:alice'); // as if its lifetime had ended while it stood still
      await withLock.run('account:alice', async (lease) => {
        expect(setBalance(database, lease, 'alice', 150)).to.equal(true);
      });
      expect(setBalance(database, stale, 'alice', 80)).to.equal(false);
      expect(database.select().from(accounts).all()).to.have.nested.property('[0].balance', 150);
    });
  });

  describe('Lambda', () => {
    it('one call at a time for each key, an answer at once, nothing left when the container is frozen', async () => {
      process.env.REDIS_URL = server.url;
      const { handler, redis: ofContainer } = require('./examples/lambda') as typeof import('./examples/lambda');
      const context = { getRemainingTimeInMillis: () => 3_000 };
      const call = (id: string) => handler({ pathParameters: { id } }, context);
      const answers = await Promise.all([call('7'), call('7'), call('8')]);
      expect(answers.map(({ statusCode }) => statusCode).sort()).to.deep.equal([200, 200, 409]);
      expect(await redis.keys('order:*')).to.deep.equal([]);
      const later = await call('7');
      expect(JSON.parse(later.body)).to.have.property('fence').that.is.greaterThan(0);
      ofContainer.disconnect();
    });
  });
});
