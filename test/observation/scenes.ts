/** Every way in which an acquire ends, on a store in memory: what is called, and what observers have to hear of it. */

import redisExpLock from '../../src/index';
import { failure } from '../contract/outcomes';

export interface Scene {
  readonly what: string;
  readonly kind: string;
  readonly outcome: string;
  /** The code of the error; undefined: there is none. */
  readonly code?: string;
  readonly contended: boolean;
  /** Calls, and resolves when all of it is over; `observe` is called right before the acquire that is meant. */
  play(observe: () => void): Promise<unknown>;
}

const name = 'scene';
const key = 'secret-key';
const stranger = 9_999_999;

function seized(): redisExpLock.MemoryStore {
  const redis = redisExpLock.memoryStore();
  redis.seize(`p:${key}`, stranger);
  return redis;
}

function factory(redis: redisExpLock.RedisLike = redisExpLock.memoryStore()): redisExpLock.WithLock {
  return redisExpLock({ redis, name, prefix: 'p:' });
}

export const scenes: readonly Scene[] = [
  {
    what: 'a grant',
    kind: 'mutex',
    outcome: 'granted',
    contended: false,
    async play(observe) {
      observe();
      await factory().run(key, () => {});
    },
  },
  {
    what: 'a grant in a queue that nobody else is in',
    kind: 'mutex',
    outcome: 'granted',
    contended: false,
    async play(observe) {
      const withLock = factory();
      observe();
      await withLock.run(key, { timeout: 5000 }, () => {});
    },
  },
  {
    what: 'a grant after a wait in a queue',
    kind: 'mutex',
    outcome: 'granted',
    contended: true,
    async play(observe) {
      const withLock = factory();
      const held = await withLock.promise(key);
      observe();
      const waiting = withLock.run(key, { timeout: 5000 }, () => {});
      await new Promise((resolve) => setTimeout(resolve, 20));
      await held.release();
      await waiting;
    },
  },
  {
    what: 'a grant after further attempts',
    kind: 'mutex',
    outcome: 'granted',
    contended: true,
    async play(observe) {
      const withLock = factory();
      const held = await withLock.promise(key);
      observe();
      const waiting = withLock.run(key, { maxRetries: 1000 }, () => {});
      await held.release();
      await waiting;
    },
  },
  {
    what: 'tryLock in vain',
    kind: 'mutex',
    outcome: 'busy',
    contended: true,
    async play(observe) {
      observe();
      if ((await factory(seized()).tryLock(key)) !== null) throw new Error('it was to be busy');
    },
  },
  {
    what: 'tryRun in vain',
    kind: 'mutex',
    outcome: 'busy',
    contended: true,
    async play(observe) {
      observe();
      if ((await factory(seized()).tryRun(key, () => {})).ran) throw new Error('it was to be busy');
    },
  },
  {
    what: 'no attempts left',
    kind: 'mutex',
    outcome: 'busy',
    code: 'ERR_LOCK_ATTEMPTS',
    contended: true,
    async play(observe) {
      observe();
      await failure(factory(seized()).promise(key, { maxRetries: 1, retryTimeout: 1 }));
    },
  },
  {
    what: 'timeout: 0',
    kind: 'mutex',
    outcome: 'timeout',
    code: 'ERR_LOCK_TIMEOUT',
    contended: true,
    async play(observe) {
      observe();
      await failure(factory(seized()).promise(key, { timeout: 0 }));
    },
  },
  {
    what: 'the timeout of a queued caller',
    kind: 'mutex',
    outcome: 'timeout',
    code: 'ERR_LOCK_TIMEOUT',
    contended: true,
    async play(observe) {
      observe();
      await failure(factory(seized()).promise(key, { timeout: 20 }));
    },
  },
  {
    what: 'a signal that aborts the wait, whatever its reason',
    kind: 'mutex',
    outcome: 'aborted',
    code: 'ERR_LOCK_LOST',
    contended: true,
    async play(observe) {
      const { signal, abort } = aborter();
      observe();
      const waiting = failure(factory(seized()).promise(key, { timeout: 5000, signal }));
      setTimeout(() => abort(new redisExpLock.LockLostError('another lock')), 5);
      await waiting;
    },
  },
  {
    what: 'a signal that aborts the pause after the first attempt',
    kind: 'mutex',
    outcome: 'aborted',
    code: 'ERR_LOCK_LOST',
    contended: true,
    async play(observe) {
      const { signal, abort } = aborter();
      observe();
      const polling = { maxRetries: 9, retryTimeout: 60_000, maxRetryTimeout: 60_000, signal };
      const waiting = failure(factory(seized()).promise(key, polling));
      setTimeout(() => abort(new redisExpLock.LockLostError('another lock')), 5);
      await waiting;
    },
  },
  {
    what: 'a signal that had aborted before, without an Error',
    kind: 'mutex',
    outcome: 'aborted',
    code: 'ABORT_ERR',
    contended: false,
    async play(observe) {
      observe();
      await failure(factory().promise(key, { signal: AbortSignal.abort('enough') }));
    },
  },
  {
    what: 'close() during the wait',
    kind: 'mutex',
    outcome: 'aborted',
    code: 'ERR_LOCK_CLOSED',
    contended: true,
    async play(observe) {
      const withLock = factory(seized());
      observe();
      const waiting = failure(withLock.promise(key, { timeout: 5000 }));
      await new Promise((resolve) => setTimeout(resolve, 5));
      await withLock.close();
      await waiting;
    },
  },
  {
    what: 'the upgrade of a reader that has lost its lock',
    kind: 'write',
    outcome: 'lost',
    code: 'ERR_LOCK_LOST',
    contended: true,
    async play(observe) {
      const redis = redisExpLock.memoryStore();
      const rw = new redisExpLock.RWLock(key, { redis, name, prefix: 'p:', autoExtend: false });
      const other = await rw.acquireRead({ lifetime: 60_000 });
      const reader = await rw.acquireRead({ lifetime: 60_000 });
      observe();
      const upgraded = failure(reader.upgrade({ timeout: 60_000 }));
      await reader.extend(100); // it is lost while it waits, and not before
      await upgraded;
      await other.release();
    },
  },
  {
    what: 'the upgrade of a reader that is released meanwhile',
    kind: 'write',
    outcome: 'error',
    code: 'ERR_LOCK_NOT_ACQUIRED',
    contended: true,
    async play(observe) {
      const rw = new redisExpLock.RWLock(key, { redis: redisExpLock.memoryStore(), name, prefix: 'p:' });
      const [other, reader] = [await rw.acquireRead(), await rw.acquireRead()];
      observe();
      const upgraded = failure(reader.upgrade({ timeout: 5000 }));
      await new Promise((resolve) => setTimeout(resolve, 5));
      await reader.release();
      await other.release();
      await upgraded;
    },
  },
  {
    what: 'an upgrade',
    kind: 'write',
    outcome: 'granted',
    contended: false,
    async play(observe) {
      const rw = new redisExpLock.RWLock(key, { redis: redisExpLock.memoryStore(), name, prefix: 'p:' });
      const reader = await rw.acquireRead();
      observe();
      await reader.upgrade();
      await reader.downgrade();
      await reader.release();
    },
  },
  {
    what: 'permits',
    kind: 'permits',
    outcome: 'granted',
    contended: false,
    async play(observe) {
      observe();
      const semaphore = new redisExpLock.Semaphore(key, 3, { redis: redisExpLock.memoryStore(), name, prefix: 'p:' });
      await semaphore.run({ permits: 2 }, () => {});
    },
  },
  {
    what: 'an endless wait for the caller’s own lock',
    kind: 'mutex',
    outcome: 'error',
    code: 'ERR_LOCK_DEADLOCK',
    contended: false,
    async play(observe) {
      const withLock = factory();
      await withLock.run(key, async () => {
        observe();
        await failure(withLock.promise(key, { timeout: Number.POSITIVE_INFINITY }));
      });
    },
  },
  {
    what: 'a store that does not answer',
    kind: 'mutex',
    outcome: 'error',
    code: 'ERR_LOCK_BACKEND',
    contended: false,
    async play(observe) {
      const redis = redisExpLock.memoryStore();
      const withLock = factory(redis);
      await redis.close();
      observe();
      await failure(withLock.promise(key));
    },
  },
];

function aborter(): { signal: AbortSignal; abort: (reason: unknown) => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason) => controller.abort(reason) };
}
