// The scene of the queue tests: a key, its callers, and how the lock goes round.
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import type { Action } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, connect, uniqueKey } from '../support/redis';
import type { Here, Redis } from './places';

export type Options = redisExpLock.Options;
export type Lease = redisExpLock.Lease;

export const channels = 'redis-exp-lock:1:*';
/** Long enough for nothing but the event itself to end a wait, and for the replies of a busy machine. */
export const patient: Options = { lifetime: 10_000, timeout: 15_000, commandTimeout: 10_000 };
/** For a lock with a request that the test cuts off: `close` waits for the end of its command timeout. */
export const cutOff: Options = { commandTimeout: 1_000 };

/** A key, those who want it, and what Redis knows of their queue. */
export class Scene {
  readonly here: Here;
  direct!: Client;
  key = '';
  readonly #locks: redisExpLock.WithLock[] = [];

  constructor(here: Here) {
    this.here = here;
    before(async () => {
      this.direct = await connect(here.address);
    });
    after(() => this.direct.destroy());
    beforeEach(() => {
      this.key = uniqueKey();
    });
    afterEach(async () => {
      await Promise.all(this.#locks.splice(0).map((lock) => lock.close({ drain: false })));
    });
  }

  /** A factory that is closed with the test. */
  lock(redis: Redis, options: Options = {}): redisExpLock.WithLock {
    const lock = redisExpLock({ redis, ...patient, ...options });
    this.#locks.push(lock);
    return lock;
  }

  get queue(): string {
    return companionOf(this.key, 'queue');
  }

  queueLength(key = this.key): Promise<number> {
    return this.direct.zCount(companionOf(key, 'queue'), 0, '+inf');
  }

  /** Waits until `processes` processes are queued. */
  async queued(count: number, key = this.key, timeoutMs = 50_000): Promise<void> {
    await waitFor(async () => (await this.queueLength(key)) === count, { what: `${count} queued`, timeoutMs });
  }

  /** The key is free, and nothing but its fence is left of it. */
  async nothingLeft(key = this.key): Promise<void> {
    await waitFor(async () => (await this.direct.exists([key, companionOf(key, 'queue')])) === 0, {
      what: 'the lock and its queue to be gone',
    });
  }

  openChannels(): Promise<string[]> {
    return this.direct.pubSubChannels(channels) as Promise<string[]>;
  }

  async connections(): Promise<number> {
    return String(await this.direct.sendCommand(['CLIENT', 'LIST']))
      .trim()
      .split('\n').length;
  }
}

/** Loses everything that follows the confirmation of a subscription, and keeps the connection. */
export const loseMessages: Action = {
  async reply(link, reply) {
    await link.toClient(reply);
    link.mute();
  },
};

export async function takeAndGive(
  waits: readonly Promise<Lease>[],
  each: (lease: Lease, n: number) => unknown,
): Promise<void> {
  await Promise.all(
    waits.map(async (wait, n) => {
      const lease = await wait;
      await each(lease, n);
      expect(await lease.release()).to.equal(true);
    }),
  );
}
