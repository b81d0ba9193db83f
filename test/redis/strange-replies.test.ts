// Replies that no script gives, or that come too late: none means held, and every key is freed.
import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import * as scripts from '../../src/store/redis/scripts/generated';
import { blockFor, failure } from '../contract/outcomes';
import { replaceReply } from '../support/fault-proxy';
import type { Client, RedisServer } from '../support/redis';
import { useWire } from './wire';

describe('strange and late replies', () => {
  const stage = useWire();
  const { freed, recorded, proxied } = stage;
  let server: RedisServer;
  let client: Client;
  let key: string;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    ({ server, client, key, withLock } = stage);
  });

  describe('H5: only the exact reply means held', () => {
    const array = (...items: string[]): string => `*${items.length}\r\n${items.join('')}`;
    const int = (n: number): string => `:${n}\r\n`;
    const text = (word: string): string => `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
    const replies: Record<string, string> = {
      '"0"': text('0'),
      '"1"': text('1'),
      '""': text(''),
      null: '_\r\n',
      'null of RESP2': '$-1\r\n',
      '+QUEUED': '+QUEUED\r\n',
      '+OK': '+OK\r\n',
      'a bulk string': text(randomUUID()),
      'the number 1': int(1),
      'the number 0': int(0),
      'a number that is no time': int(1_000_000_000),
      'a time in an array of two': array(int(2e15), int(1)),
      true: '#t\r\n',
      'an empty array': array(),
      'an array that is too short': array(int(1), int(5), int(0)),
      'an array that is too long': array(int(1), int(5), int(0), int(1), int(1)),
      'an array of strings': array(text('1'), text('5'), text('0'), text('1')),
      'an array with one string': array(int(1), text('5'), int(0), int(1)),
      'an array with a null': array(int(1), '_\r\n', int(0), int(1)),
      'an array with a fraction': array(int(1), ',1.5\r\n', int(0), int(1)),
      'an array in an array': array(array(int(1), int(5), int(0), int(1))),
      'a status that nobody knows': array(int(7), int(5), int(0), int(1)),
    };
    const acquires = (args: readonly string[]): boolean =>
      /^EVAL(SHA)?$/i.test(args[0]!) &&
      scripts.scripts.some(({ name, sha, lua }) => name === 'acquire' && [sha, lua].includes(args[1]!));
    for (const [what, raw] of Object.entries(replies)) {
      it(`${what}: not held, ERR_LOCK_BACKEND, and the key is freed`, async () => {
        const { proxy, through } = await proxied();
        const lock = redisExpLock({ redis: through, lifetime: 60_000, commandTimeout: 10_000 });
        proxy.rule({ match: acquires }, replaceReply(raw));
        for (const wait of [{ maxRetries: 0 }, { maxRetries: 2 }]) {
          const error = await failure(lock.promise(key, wait));
          expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key });
          await freed();
        }
        expect((await failure(lock.tryLock(key))).code).to.equal('ERR_LOCK_BACKEND');
        await freed();
      });
    }

    it('a strange reply to an extension: an error, and neither held longer nor lost', async () => {
      const { proxy, through } = await proxied();
      const lease = await redisExpLock({ redis: through, lifetime: 10_000, commandTimeout: 10_000 }).promise(key);
      for (const raw of ['+OK\r\n', '_\r\n', int(1), array(int(1)), array(text('1'), text('1'))]) {
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lease.extend(60_000))).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
        expect(lease.remaining()).to.be.within(1, 10_000);
        expect(lease.signal.aborted).to.equal(false);
      }
      expect(await lease.extend(60_000)).to.equal(true);
    });

    it('a strange reply to a release: an error and not `true`; it can be tried again', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, lifetime: 10_000, commandTimeout: 10_000 });
      for (const raw of [
        '+OK\r\n',
        '_\r\n',
        int(0),
        int(2),
        text('1'),
        array(int(1), int(1)),
        array(text('1')),
        array(),
      ]) {
        const lease = await lock.promise(key);
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lease())).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
        expect(await lease()).to.equal(false); // the first one had freed it
      }
    });

    it('a strange reply to an inspection: an error', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, commandTimeout: 10_000 });
      for (const raw of ['+OK\r\n', '_\r\n', int(1), array(), array(int(1), int(1))]) {
        const rule = proxy.rule({ match: 'script', nth: 1 }, replaceReply(raw));
        expect((await failure(lock.inspect(key))).code).to.equal('ERR_LOCK_BACKEND');
        rule.remove();
      }
    });

    it('H11: no token in the error of a failed acquire', async () => {
      const { proxy, through } = await proxied();
      const lock = redisExpLock({ redis: through, owner: 'billing' });
      const tokens = (): string[] =>
        proxy.commands.flatMap(({ args }) => args.filter((arg) => arg.startsWith('billing_')));
      const rule = proxy.rule({ match: acquires }, replaceReply('+QUEUED\r\n'));
      const strange = await failure(lock.promise(key));
      rule.remove();
      await server.command('RPUSH', `${key}:list`, 'a');
      const refused = await failure(lock.promise(`${key}:list`));
      proxy.blackHole();
      const silent = await failure(lock.promise(key));
      expect(new Set(tokens()).size).to.be.greaterThan(2);
      for (const error of [strange, refused, silent]) {
        const shown = inspect(error, { depth: 9 }) + JSON.stringify(error) + error.stack;
        for (const token of tokens()) expect(shown).not.to.contain(token.slice('billing_'.length));
      }
    });
  });

  describe('H6 and H7: the time between', () => {
    it('H6: a server that is paused for longer than the lifetime: not granted, and released', async () => {
      await (await withLock.promise(key))();
      for (const stall of [
        ['CLIENT', 'PAUSE', '1000', 'ALL'],
        ['DEBUG', 'SLEEP', '1'],
      ]) {
        const { called } = await recorded(async () => {
          // Over the same connection, so that the request arrives behind it however slow this process is.
          const stalled = client.sendCommand(stall);
          const error = await failure(withLock.promise(key, { lifetime: 200, commandTimeout: 10_000 }));
          await stalled;
          expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key });
          await freed();
          await withLock.close();
        });
        expect(called.filter(([name]) => name === 'SETNX')).to.have.length(1);
        expect(called).to.deep.include(['DEL', key]);
        withLock = redisExpLock({ redis: client, lifetime: 10_000, commandTimeout: 10_000 });
      }
    });

    it('H7: a process that is paused between reply and callback: an error, and the key is released', async () => {
      let stalls = true;
      // A client whose reply is followed, in the same turn, by something that takes longer than the lifetime.
      const stalling = (work: Promise<unknown>): Promise<unknown> =>
        work.then((reply) => {
          if (stalls) process.nextTick(() => blockFor(1_100));
          stalls = false;
          return reply;
        });
      const slow = {
        isReady: true,
        isOpen: true,
        evalSha: (...args: Parameters<Client['evalSha']>) => stalling(client.evalSha(...args)),
        eval: (...args: Parameters<Client['eval']>) => stalling(client.eval(...args)),
      };
      const lock = redisExpLock({ redis: slow, lifetime: 1_000, commandTimeout: 10_000 });
      const { called } = await recorded(async () => {
        const results = await new Promise<unknown[]>((resolve) => lock(key, (...args: unknown[]) => resolve(args)));
        expect(results).to.have.length(1);
        expect(results[0]).to.be.instanceOf(redisExpLock.LockBackendError);
        await freed();
        await lock.close();
      });
      // It asked for the release itself: expiry is only the last resort.
      expect(called.filter(([name, each]) => name === 'GET' && each === key)).to.have.length(1);
    });
  });
});
