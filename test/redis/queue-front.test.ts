/**
 * A call about a key that several may hold reads the front of its queue, however many wait behind: what it costs the server before
 * 10,000 waiters is what it costs before 20.
 */
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { ownServer } from '../support/own-server';
import { type Client, uniqueKey } from '../support/redis';

const { RWLock, Semaphore } = redisExpLock;

describe('the front of a long queue (H81)', () => {
  const terms = { lifetime: 60_000, commandTimeout: 10_000 };
  let client: Client;

  ownServer((own) => {
    ({ client } = own);
  });

  /** `hold` has all of the key. One `attempt` is refused: others are queued before it. */
  interface Scene {
    hold(): Promise<redisExpLock.Lease>;
    attempt(): Promise<unknown>;
  }
  const scenes: [what: string, kind: 'w' | 'p', scene: (key: string) => Scene][] = [
    [
      'readers and writers',
      'w',
      (key) => {
        const lock = new RWLock(key, { redis: client, ...terms, prefer: 'fair' });
        return { hold: () => lock.acquireWrite(), attempt: () => lock.acquireRead({ maxRetries: 0 }) };
      },
    ],
    [
      'permits',
      'p',
      (key) => {
        const semaphore = new Semaphore(key, 2, { redis: client, ...terms });
        return { hold: () => semaphore.acquire(2), attempt: () => semaphore.acquire(1, { maxRetries: 0 }) };
      },
    ],
  ];

  /** Queues `count` waiters, each in its own process. */
  async function fill(key: string, kind: string, count: number): Promise<void> {
    const nowMs = Date.now();
    const members = Array.from({ length: count }, (_, n) => ({
      score: (nowMs - 1_000) * 1_000 + n,
      value: `2 ${nowMs + 9_000} ${n} ${kind} 1 f - 7 t${String(n).padStart(6, '0')}`,
    }));
    const queue = companionOf(key, 'queue');
    await client.del(queue);
    await client.zAdd(queue, members);
  }

  /** The cost of the cheapest of ten attempts, because the machine may be busy; in µs of the server. */
  async function cost(attempt: () => Promise<unknown>): Promise<number> {
    const each: number[] = [];
    for (let n = 0; n < 10; n += 1) {
      await client.configResetStat();
      expect(await attempt().catch(({ code }) => code)).to.equal('ERR_LOCK_ATTEMPTS');
      each.push(Number(/cmdstat_eval(?:sha)?:calls=1,usec=(\d+)/.exec(await client.info('commandstats'))![1]));
    }
    return Math.min(...each);
  }

  for (const [what, kind, scene] of scenes) {
    it(`${what}: a request costs no more before 10,000 waiters than before 20`, async () => {
      const key = uniqueKey('front');
      const { hold, attempt } = scene(key);
      const held = await hold();
      await fill(key, kind, 20);
      const few = await cost(attempt);
      await fill(key, kind, 10_000);
      expect(await cost(attempt), `µs of the server; before 20: ${few}`).to.be.below(5 * few);
      expect(await client.zCard(companionOf(key, 'queue')), 'they all wait').to.equal(10_000);
      await client.del(companionOf(key, 'queue'));
      expect(await held.release()).to.equal(true);
    });
  }
});
