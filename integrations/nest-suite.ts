/** The suite of one major of Nest, which hands in its own packages and the library that is installed beside them. */
import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { waitFor } from '../test/support/processes';
import { type RedisServer, startRedis } from '../test/support/redis';

type Library = typeof import('redis-exp-lock/nestjs');

export function describeNest(major: number, load: NodeJS.Require): void {
  describe(`NestJS ${major}`, () => {
    const { Controller, Get, Inject, Injectable, Module, Param } = load('@nestjs/common');
    const { NestFactory } = load('@nestjs/core');
    const { currentLease, InjectLock, Locked, LockModule, Once }: Library = load('redis-exp-lock/nestjs');
    let server: RedisServer;
    let redis: Redis;
    const apps: any[] = [];

    /** The events of a test, in order. */
    let log: string[];
    let inside = 0;
    let most = 0;
    let open: () => void;
    let gate: Promise<void>;

    @Injectable()
    class Bank {
      readonly name = 'bank';
      @InjectLock() readonly withLock!: import('redis-exp-lock').WithLock;

      @Locked((account: string) => `account:${account}`, { timeout: 30_000 })
      async pay(account: string, amount: number): Promise<string> {
        inside += 1;
        most = Math.max(most, inside);
        await sleep(5);
        inside -= 1;
        return `${this.name} ${account} ${amount}`;
      }

      @Locked(function (this: Bank) {
        return [`${this.name}:a`, `${this.name}:b`];
      })
      async several(): Promise<readonly string[]> {
        await sleep(1);
        return currentLease()!.keys;
      }

      @Locked('failing')
      async fail(): Promise<never> {
        throw new TypeError('of the method');
      }

      @Locked('outer')
      async nested(): Promise<string[]> {
        const outer = currentLease()!;
        const inner = await this.inner();
        return [outer.key, inner, currentLease()!.key] as string[];
      }

      @Locked('inner')
      async inner(): Promise<string> {
        return currentLease()!.key as string;
      }

      @Locked('leaving')
      async leaves(): Promise<() => Promise<unknown>> {
        const later = sleep(20).then(() => currentLease());
        return () => later;
      }

      @Locked('slow')
      async slow(): Promise<string> {
        log.push('slow begins');
        await gate;
        log.push('slow ends');
        return 'done';
      }

      @Once('nightly', { every: 86_400_000 })
      async nightly(): Promise<string> {
        log.push('nightly');
        return 'ran';
      }
    }

    @Controller('accounts')
    class Accounts {
      private readonly bank: Bank;
      constructor(@Inject(Bank) bank: Bank) {
        this.bank = bank;
      }

      @Locked((id: string) => `http:${id}`)
      @Get(':id')
      async pay(@Param('id') id: string): Promise<string> {
        return `${await this.bank.pay(id, 1)} under ${currentLease()!.key}`;
      }
    }

    const client = Symbol('redis');

    @Module({ providers: [{ provide: client, useFactory: () => redis }], exports: [client] })
    class RedisModule {}

    function rootModule(locks: any): any {
      @Module({ imports: [locks], providers: [Bank], controllers: [Accounts] })
      class Root {}
      return Root;
    }

    const asynchronous = () =>
      LockModule.forRootAsync({
        imports: [RedisModule],
        inject: [client],
        useFactory: async (injected: Redis) => ({ redis: injected, lifetime: 10_000, prefix: 'nest:' }),
      });

    async function start(locks: any = asynchronous()): Promise<any> {
      const app = await NestFactory.create(rootModule(locks), { logger: false });
      apps.push(app);
      await app.init();
      return app;
    }

    before(async () => {
      server = await startRedis();
      redis = new Redis(server.url);
    });
    beforeEach(async () => {
      log = [];
      inside = 0;
      most = 0;
      gate = new Promise((resolve) => {
        open = resolve;
      });
      await server.command('FLUSHALL');
    });
    afterEach(async () => {
      open();
      for (const app of apps.splice(0)) await app.close();
    });
    after(async () => {
      redis.disconnect();
      await server.discard();
    });

    it('is the Nest that it says, with the packed library', () => {
      expect(load('@nestjs/core/package.json').version).to.match(new RegExp(`^${major}\\.`));
      expect(load.resolve('redis-exp-lock/nestjs')).to.contain('integrations').and.not.contain('src');
    });

    it('@Locked keeps this, arguments, value and error, and lets one in at a time, over two applications', async () => {
      const banks = [(await start()).get(Bank), (await start()).get(Bank)];
      const paid = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => banks[n % 2].pay('alice', n)));
      expect(paid).to.deep.equal([0, 1, 2, 3, 4, 5].map((n) => `bank alice ${n}`));
      expect(most).to.equal(1);
      const error = await banks[0].fail().catch((each: unknown) => each);
      expect(error).to.be.instanceOf(TypeError).with.property('message', 'of the method');
      expect(banks[0].pay.name).to.equal('pay');
      expect(banks[0].pay.length).to.equal(2);
      expect(await server.command('KEYS', 'nest:*')).to.deep.equal([]);
    });

    it('a key of several, made with this; forRoot', async () => {
      const app = await start(LockModule.forRoot({ redis, lifetime: 10_000 }));
      expect(await app.get(Bank).several()).to.deep.equal(['bank:a', 'bank:b']);
    });

    it('currentLease: the innermost, and undefined outside and afterwards', async () => {
      const bank = (await start()).get(Bank);
      expect(await bank.nested()).to.deep.equal(['outer', 'inner', 'outer']);
      expect(currentLease()).to.equal(undefined);
      expect(await (await bank.leaves())()).to.equal(undefined);
    });

    it('@InjectLock gives withLock, with the options of the module', async () => {
      const { withLock } = (await start()).get(Bank);
      await withLock.run('mine', async () => expect(await server.command('EXISTS', 'nest:mine')).to.equal(1));
    });

    it('@Once: one run in a slot, over two applications', async () => {
      const banks = [(await start()).get(Bank), (await start()).get(Bank)];
      const results = await Promise.all([0, 1, 0, 1].map((n) => banks[n].nightly()));
      expect(results.filter((each) => each === 'ran')).to.have.length(1);
      expect(results.filter((each) => each === undefined)).to.have.length(3);
      expect(log).to.deep.equal(['nightly']);
    });

    it('a locked route answers over HTTP, with what other decorators left on it', async () => {
      const app = await start();
      await app.listen(0, '127.0.0.1');
      const response = await fetch(`${await app.getUrl()}/accounts/bob`);
      expect([response.status, await response.text()]).to.deep.equal([200, 'bank bob 1 under http:bob']);
    });

    it('app.close() waits for the method that runs, rejects those that wait, and later calls; the client stays open', async () => {
      const app = await start();
      const bank = app.get(Bank);
      const slow = bank.slow();
      await waitFor(() => log.length === 1);
      const waiting = bank.withLock.promise('slow', { timeout: 60_000 }).catch((error: any) => error.code);
      const closed = app.close().then(() => log.push('closed'));
      expect(await waiting).to.equal('ERR_LOCK_CLOSED');
      expect(await bank.pay('alice', 1).catch((error: any) => error.code)).to.equal('ERR_LOCK_CLOSED');
      open();
      await closed;
      expect(await slow).to.equal('done');
      expect(log).to.deep.equal(['slow begins', 'slow ends', 'closed']);
      expect(await server.command('KEYS', 'nest:*')).to.deep.equal([]);
      expect(await redis.ping()).to.equal('PONG');
    });

    it('a method of an object that Nest did not make says so', async () => {
      const error = await new Bank().pay('alice', 1).catch((each: Error) => each);
      expect((error as Error).message).to.contain('LockModule');
    });
  });
}
