/**
 * A token is enough to release the lock, and errors end up in logs. So none of ours, no event and no warning leads to a token:
 * not by its text, not by its cause, not by a property of any kind at any depth. Every client puts something else into its errors.
 */

import { channel, tracingChannel } from 'node:diagnostics_channel';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import type { Connection, Here } from '../contract/places';
import { redisPlaces } from '../contract/places';
import { type Action, answer, dropReply, reset } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { isAcquire, isExtension, isRelease, rejectionOf } from './holding';
import { textsIn } from './texts';

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const channels = ['release', 'lost', 'warning', 'extend'];
const parts = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const;

/** The answer of Redis to an unknown command: it repeats all that it was sent. */
const tellAll: Action = {
  request: (link, exchange) => {
    const said = exchange.command.args.map((arg) => `'${arg.replaceAll(/[\r\n]/g, ' ')}'`).join(' ');
    link.answer(exchange, Buffer.from(`-ERR unknown command 'X', with args beginning with: ${said}\r\n`));
  },
};
/** The error of a script that met something unforeseen. */
const quoteAll: Action = {
  request: (link, exchange) => {
    const said = exchange.command.args.join(' ').replaceAll(/[\r\n]/g, ' ');
    link.answer(exchange, Buffer.from(`-WRONGTYPE ${said} is no string\r\n`));
  },
};

const refusals: Record<string, () => Action> = {
  NOAUTH: () => answer('-NOAUTH Authentication required.\r\n'),
  NOPERM: () => answer("-NOPERM User lock has no permissions to run the 'evalsha' command\r\n"),
  OOM: () => answer("-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
  'an unknown command': () => tellAll,
  'a text with all arguments': () => quoteAll,
  'a connection that breaks': () => reset(),
  silence: () => dropReply(),
};

for (const place of redisPlaces) {
  describe(`H78: secrets of ${place.name}`, () => {
    let keys = 0;
    /** No uuid in it: that would look like a token. */
    let key: string;
    let here: Here;
    const connections: Connection[] = [];
    const opened: Here[] = [];
    const heard: unknown[] = [];
    const undo: (() => void)[] = [];

    before(async () => {
      here = place.create();
      opened.push(here);
      await here.open();
      const listener = (message: unknown): void => void heard.push({ ...(message as object) });
      for (const name of channels) {
        channel(`redis-exp-lock:${name}`).subscribe(listener);
        undo.push(() => channel(`redis-exp-lock:${name}`).unsubscribe(listener));
      }
      const traces = tracingChannel('redis-exp-lock:acquire');
      const subscribers = Object.fromEntries(parts.map((part) => [part, listener])) as any;
      traces.subscribe(subscribers);
      undo.push(() => traces.unsubscribe(subscribers));
    });

    beforeEach(() => {
      keys += 1;
      key = `bank${keys}`;
      heard.length = 0;
      connections.length = 0;
    });

    after(async () => {
      for (const each of undo) each();
      await Promise.all(opened.map((each) => each.close()));
    });

    async function connected(): Promise<Connection> {
      const made = await here.connection();
      connections.push(made);
      return made;
    }

    /** Every token that left this process over the connections of this test; there are some. */
    function tokens(): Set<string> {
      const words = connections.flatMap(({ proxy }) => proxy.commands.flatMap(({ args }) => args));
      const found = new Set(
        words.flatMap((word) => (word.startsWith('redis-exp-lock:') ? [] : (word.match(uuid) ?? []))),
      );
      expect(found.size).to.be.greaterThan(0);
      return found;
    }

    function expectNoToken(...errors: unknown[]): void {
      for (const error of errors) expect(error).to.be.instanceOf(redisExpLock.LockError);
      const said = textsIn([errors, heard]).join('\n');
      // A part of one is too much as well.
      for (const token of tokens()) expect(said).not.to.contain(token.slice(0, 13));
    }

    for (const [name, action] of Object.entries(refusals)) {
      it(`acquire, extend, release: ${name}`, async () => {
        const asked: [
          (args: readonly string[]) => boolean,
          (lease: redisExpLock.Lease, other: string, withLock: redisExpLock.WithLock) => Promise<unknown>,
        ][] = [
          [isExtension, (lease) => lease.extend()],
          [isRelease, (lease) => lease.release()],
          [isAcquire, (_, other, withLock) => withLock.promise(other)],
        ];
        const refused = asked.map(async ([match, work], n) => {
          const { redis, proxy } = await connected();
          // Silence takes all of it, and so do some clients whose connection breaks.
          const commandTimeout = /silence|breaks/.test(name) ? 1_000 : 10_000;
          const withLock = redisExpLock({ redis, lifetime: 20_000, owner: 'me', commandTimeout });
          const held = await withLock.promise(key + n);
          proxy.rule({ match }, action());
          const error = await rejectionOf(work(held, `another${key}${n}`, withLock));
          expect(error.cause === undefined || error.cause instanceof Error).to.equal(true);
          return error;
        });
        const errors = await Promise.all(refused);
        expectNoToken(...errors);
      });
    }

    it('busy, a wait that ends, a renewal and a release behind a result that fail', async () => {
      const { redis, proxy } = await connected();
      const withLock = redisExpLock({ redis, lifetime: 6_000, commandTimeout: 5_000 });
      const held = await withLock.promise(`held${key}`, { lifetime: 60_000 });
      const errors = [
        await rejectionOf(withLock.promise(`held${key}`)),
        await rejectionOf(withLock.promise(`held${key}`, { timeout: 60 })),
      ];
      const has = (code: string) => () => heard.some((each: any) => each.code === code);
      const renewals = proxy.rule({ match: isExtension }, quoteAll);
      const releases = proxy.rule({ match: isRelease }, tellAll);
      await withLock.run(key, { lifetime: 6_000 }, async () => {
        await waitFor(has('renewal-failed'));
        renewals.remove();
      });
      await waitFor(has('release-failed'));
      releases.remove();
      await held();
      expectNoToken(...errors);
    });

    it('a quorum that fails', async () => {
      const others = [place.create(), place.create()];
      opened.push(...others);
      await Promise.all(others.map((each) => each.open()));
      const some = [await connected(), ...(await Promise.all(others.map((each) => each.connection())))];
      connections.push(...some.slice(1));
      for (const { proxy } of some) proxy.rule({ match: isAcquire }, quoteAll);
      const redis = some.map((each) => each.redis) as unknown as redisExpLock.RedisLike[];
      const error = await rejectionOf(
        redisExpLock({ redis, commandTimeout: 1_000 }).promise(key, { lifetime: 10_000 }),
      );
      expect(error.message).to.contain('no majority');
      expectNoToken(error);
    });
  });
}
