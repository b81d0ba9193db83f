// Hosts other than Node. Where timers are numbers, as on Cloudflare Workers, a grant must come to its caller all the same; and whatever breaks
// while it is handed over, the call settles and the lock is given back.
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { failure } from '../contract/outcomes';
import { startChild, waitFor } from '../support/processes';
import { connect, sharedRedis, uniqueKey } from '../support/redis';

describe('a host whose timers are numbers, and whose AsyncLocalStorage can be neither disabled nor entered', function () {
  this.timeout(120_000); // a child goes through 40 ways in, one after the other

  for (const kind of ['node-redis', 'ioredis', 'memory', 'a clock']) {
    it(`H90: every way in settles with its grant, free, queued and polling (${kind})`, async () => {
      const { url } = await sharedRedis();
      const child = startChild(join(__dirname, 'children/ways-in.ts'), [kind, url]);
      for (let ways = 0; ways < 40; ways += 1) {
        const { name, outcome } = await child.receive();
        expect(outcome, `${name} ${child.output()}`).to.equal(true);
      }
      expect(await child.receive()).to.deep.equal({ name: 'errors that nobody heard', outcome: [] });
    });
  }
});

function brokenWeakRef(): never {
  throw new Error('no WeakRef today');
}

describe('an exception while a grant is handed to its caller', () => {
  const { WeakRef: given } = globalThis;

  afterEach(() => {
    globalThis.WeakRef = given;
  });

  const waits: Record<string, redisExpLock.Options> = {
    'a single attempt': { maxRetries: 0 },
    'a queue': { timeout: 20_000 },
    polling: { maxRetries: 10_000, retryTimeout: 5 },
    'a wait with a signal': { timeout: 20_000, signal: new AbortController().signal },
  };
  for (const [where, wait] of Object.entries(waits)) {
    it(`H90: the call rejects with it, and the lock is given back (${where})`, async () => {
      const withLock = redisExpLock({ redis: await connect((await sharedRedis()).url), lifetime: 60_000 });
      const key = uniqueKey('broken');
      const holder = where === 'a single attempt' ? undefined : await withLock.promise(key);
      const waiting = withLock.promise(key, { ...wait, autoExtend: true });
      const outcome = failure(waiting);
      if (where.includes('queue')) await waitFor(async () => (await withLock.inspect(key)).waiters === 1);
      globalThis.WeakRef = brokenWeakRef as never; // which a renewed lease needs
      await holder?.release();
      expect((await outcome).message).to.include('WeakRef');
      globalThis.WeakRef = given;
      await (await withLock.promise(key, { timeout: 20_000 })).release();
      await withLock.close();
    });
  }
});
