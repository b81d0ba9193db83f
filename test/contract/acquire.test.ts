// Who gets a lock, when, and what it is then given. Waiting is in waiting.test.ts, the callback form in callback.test.ts.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { describeAtOnce } from '../support/at-once';
import { delayReply, holdReply, holdRequest } from '../support/fault-proxy';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure, pending, published, thrown, uncaught } from './outcomes';
import { describeEach, shortLifetime, stranger } from './places';

const uuid4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describeEach('acquire', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  /** Another process, as far as the place can tell. */
  let other: redisExpLock.WithLock;
  const lifetime = 60_000;
  /** A busy machine may hold up a reply for seconds. A node of a quorum has an eighth of the lifetime for it. */
  const patient = { lifetime, commandTimeout: 10_000 };

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...patient });
    other = redisExpLock({ redis: here.elsewhere, ...patient });
  });

  describe('one key', () => {
    it('a free key is granted: it holds the token, for the lifetime', async () => {
      const lease = await withLock.promise(key);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await here.leftMs(key)).to.be.within(1, lifetime);
      expect(lease.key).to.equal(key);
      expect(lease.keys).to.deep.equal([key]);
      expect(lease.retries).to.equal(0);
      expect(lease.remaining()).to.be.within(1, lifetime);
      expect(lease.signal.aborted).to.equal(false);
    });

    it('a held key is refused to everybody, its holder included', async () => {
      const lease = await withLock.promise(key);
      expect(await withLock.tryLock(key)).to.equal(null);
      expect(await other.tryLock(key)).to.equal(null);
      expect(await failure(other.promise(key))).to.be.instanceOf(redisExpLock.TooManyLockAttemptsError);
      expect(await here.holder(key)).to.equal(lease.token);
    });

    it('a released key is granted again', async () => {
      await (await withLock.promise(key))();
      const next = await other.promise(key);
      expect(await here.holder(key)).to.equal(next.token);
    });

    it('the lifetime frees the key by itself', async () => {
      // Requested again if its reply took longer than the lifetime.
      const forgotten = await withLock.promise(key, { lifetime: shortLifetime(here), maxRetries: 50 });
      const next = await other.promise(key, { timeout: 30_000 });
      expect(forgotten.remaining()).to.equal(0);
      expect(await here.holder(key)).to.equal(next.token);
    });

    it('the longest lifetime there is does not overflow', async () => {
      const lease = await withLock.promise(key, { lifetime: Number.MAX_SAFE_INTEGER });
      expect(await here.leftMs(key)).to.be.greaterThan(Number.MAX_SAFE_INTEGER - 60_000);
      expect(lease.signal.aborted).to.equal(false);
      expect(await lease()).to.equal(true);
    });

    it('different keys do not exclude one another', async () => {
      const leases = await Promise.all([key, `${key}:a`, `${key}:b`].map((each) => withLock.promise(each)));
      expect(await Promise.all(leases.map((lease) => lease()))).to.deep.equal([true, true, true]);
    });

    it('H12: a string is one lock and not its letters', async () => {
      const lease = await withLock.promise('abc');
      expect(lease.keys).to.deep.equal(['abc']);
      const letters = await Promise.all(['a', 'b', 'c'].map((letter) => other.tryLock(letter)));
      expect(letters).not.to.include(null);
      await Promise.all([lease, ...letters].map((each) => each!()));
    });

    it('`prefix` goes before the key, for the place alone', async () => {
      const prefixed = redisExpLock({ redis: here.redis, prefix: 'app:', ...patient });
      const lease = await prefixed.promise(key);
      expect(lease.key).to.equal(key);
      expect(await here.holder(`app:${key}`)).to.equal(lease.token);
      expect(await here.holder(key)).to.equal(null);
      expect(await other.tryLock(`app:${key}`)).to.equal(null);
      expect(await lease()).to.equal(true);
    });

    it('callers that contend never overlap, and all are served', async () => {
      let inside = 0;
      let served = 0;
      const contenders = [withLock, other].flatMap((side) => new Array(10).fill(side));
      await Promise.all(
        contenders.map(async (side: redisExpLock.WithLock) => {
          const lease = await side.promise(key, { timeout: 40_000, retryTimeout: 3, jitter: 0.5 });
          inside += 1;
          expect(inside).to.equal(1);
          await sleep(2);
          inside -= 1;
          served += 1;
          expect(await lease()).to.equal(true);
        }),
      );
      expect(served).to.equal(20);
    });

    it('H26: concurrent calls of one factory have a token each, and one winner', async () => {
      const results = await Promise.all(Array.from({ length: 10 }, () => withLock.tryLock(key)));
      expect(results.filter((lease) => lease !== null)).to.have.length(1);
      const leases = await Promise.all(Array.from({ length: 10 }, (_, n) => withLock.promise(`${key}${n}`)));
      expect(new Set(leases.map((lease) => lease.token)).size).to.equal(10);
    });
  });

  describe('tokens', () => {
    it('H11: a token is a random uuid, a new one for each grant', async () => {
      const tokens = new Set<string>();
      for (let n = 0; n < 20; n++) {
        const lease = await withLock.promise(key);
        expect(lease.token).to.match(uuid4);
        tokens.add(lease.token);
        await lease();
      }
      expect(tokens.size).to.equal(20);
    });

    it('H11: `owner` stands before the uuid', async () => {
      const lease = await withLock.promise(key, { owner: 'billing_1' });
      expect(lease.token.startsWith('billing_1_')).to.equal(true);
      expect(lease.token.slice('billing_1_'.length)).to.match(uuid4);
      expect(await here.holder(key)).to.equal(lease.token);
    });

    it('H11: no token in what is printed of a lease, of its errors, or of what listeners get', async () => {
      const told: unknown[] = [];
      let token = '';
      const channels = ['tracing:redis-exp-lock:acquire:asyncEnd', 'redis-exp-lock:release', 'redis-exp-lock:lost'];
      const listen = (work: () => Promise<void>): Promise<void> =>
        channels.reduceRight((inner, name) => async () => void told.push(...(await published(name, inner))), work)();
      await listen(async () => {
        const lease = await withLock.promise(key, { owner: 'billing' });
        token = lease.token;
        told.push(lease, { lease }, { ...lease }, await failure(other.promise(key)), Object.keys(lease));
        await here.seize(key);
        expect(await lease.extend()).to.equal(false);
        told.push(lease.signal.reason, lease.signal);
        await lease();
      });
      expect(told).to.have.length.greaterThan(7);
      for (const each of told) {
        expect(inspect(each, { depth: 9, showHidden: false })).not.to.contain(token);
        expect(JSON.stringify(each) ?? '').not.to.contain(token);
        expect(`${(each as Error).message}${(each as Error).stack}`).not.to.contain(token);
      }
    });
  });

  describe('fences', () => {
    it('a fence is a safe integer and rises with each grant, whatever process is granted', async () => {
      let last = 0;
      for (let n = 0; n < 20; n++) {
        const lease = await (n % 2 ? withLock : other).promise(key);
        expect(Number.isSafeInteger(lease.fence)).to.equal(true);
        expect(lease.fence).to.be.greaterThan(last);
        last = lease.fence;
        await lease();
      }
    });

    it('the fence rises when the lock expired and was not released', async () => {
      const stale = await withLock.promise(key, { lifetime: shortLifetime(here), maxRetries: 50 });
      const next = await other.promise(key, { timeout: 30_000 });
      expect(next.fence).to.be.greaterThan(stale.fence);
    });

    it('without `fencing` the fence is 0, and the lock excludes all the same', async () => {
      const lease = await withLock.promise(key, { fencing: false });
      expect(lease.fence).to.equal(0);
      expect(await other.tryLock(key)).to.equal(null);
      expect(await lease()).to.equal(true);
    });
  });

  describe('several keys', () => {
    it('all are held under one token and one fence, and released together', async () => {
      const keys = [`{${key}}:b`, `{${key}}:a`];
      const lease = await withLock.promise(keys);
      expect(lease.key).to.deep.equal(keys);
      expect(lease.keys).to.deep.equal(keys);
      for (const each of keys) {
        expect(await here.holder(each)).to.equal(lease.token);
        expect(await other.tryLock(each)).to.equal(null);
      }
      expect(await lease()).to.equal(true);
      for (const each of keys) expect(await here.holder(each)).to.equal(null);
    });

    it('a list that is changed afterwards changes nothing: neither what is held nor what is said of it', async () => {
      const keys = [`{${key}}:b`, `{${key}}:a`];
      const [given, changed] = [[...keys], (list: string[]) => list.splice(0, 2, 'else')];
      const asking = withLock.promise(given);
      changed(given);
      const lease = await asking;
      expect([lease.key, lease.keys]).to.deep.equal([keys, keys]);
      changed(lease.keys as string[]);
      expect(() => changed(lease.key as string[])).to.throw(TypeError);
      expect([lease.key, lease.keys]).to.deep.equal([keys, keys]);
      const again = [...keys];
      const refused = other.promise(again);
      changed(again);
      expect((await failure(refused)).key).to.deep.equal(keys);
      expect(await lease()).to.equal(true);
      for (const each of keys) expect(await here.holder(each)).to.equal(null);
    });

    it('all or nothing: one busy key, and none is taken', async () => {
      await here.seize(`{${key}}:b`);
      expect(await withLock.tryLock([`{${key}}:a`, `{${key}}:b`, `{${key}}:c`])).to.equal(null);
      expect(await here.holder(`{${key}}:a`)).to.equal(null);
      expect(await here.holder(`{${key}}:c`)).to.equal(null);
      expect(await here.holder(`{${key}}:b`)).to.equal(stranger);
    });

    it('their fence is larger than any that one of them had, and so is the next of each', async () => {
      const keys = [`{${key}}:a`, `{${key}}:b`];
      const before = await withLock.promise(keys[1]!);
      await before();
      const both = await withLock.promise(keys);
      await both();
      expect(both.fence).to.be.greaterThan(before.fence);
      for (const each of keys) expect((await other.promise(each)).fence).to.be.greaterThan(both.fence);
    });

    it('a key that is named twice is held once', async () => {
      const lease = await withLock.promise([key, key]);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(await lease()).to.equal(true);
      expect(await here.holder(key)).to.equal(null);
    });

    it('H71: a caller that waits for one of them has none of the others, which its holder may want next', async () => {
      const [a, b] = [`{${key}}:a`, `{${key}}:b`];
      const theirs = await other.promise(b, { lifetime: 60_000 });
      expect(await withLock.tryLock([a, b])).to.equal(null);
      const waiting = withLock.promise([a, b], { timeout: 40_000 });
      await withLock.inspect(b); // behind its first attempt
      const more = await other.tryLock(a);
      expect(more).to.not.equal(null);
      await Promise.all([more!.release(), theirs.release()]);
      expect(await (await waiting).release()).to.equal(true);
    });

    it('H71: opposite orders do not deadlock', async () => {
      const orders = [
        [`{${key}}:a`, `{${key}}:b`],
        [`{${key}}:b`, `{${key}}:a`],
      ];
      let inside = 0;
      const runs = Array.from({ length: 20 }, (_, n) =>
        (n % 2 ? withLock : other).run(orders[n % 2]!, { timeout: 40_000 }, async () => {
          inside += 1;
          expect(inside).to.equal(1);
          await sleep(1);
          inside -= 1;
        }),
      );
      await Promise.all(runs);
    });
  });

  describe('the error of a wait', () => {
    it('the stack of a rejection that came after a wait shows where it was waited', async () => {
      await here.seize(key);
      const waits = [{ maxRetries: 1, retryTimeout: 1 }, { timeout: 40 }, { maxRetries: 1, timeout: 4_000 }];
      const lock = new redisExpLock.Lock(key, { redis: here.redis, ...patient });
      for (const wait of waits) {
        const promised = async function promised(): Promise<void> {
          await withLock.promise(key, wait);
        };
        const ran = async function ran(): Promise<void> {
          await withLock.run(key, wait, () => {});
        };
        const locked = async function locked(): Promise<void> {
          await lock.lock(wait);
        };
        for (const caller of [promised, ran, locked]) {
          const error = await failure(caller());
          expect(error).to.be.instanceOf(redisExpLock.LockBusyError);
          expect(error.stack).to.contain(`${error.name}: ${error.message}\n`);
          expect(error.stack).to.match(new RegExp(`at async .*${caller.name}`));
        }
      }
    });

    it('a signal’s reason is left as it is, its stack too', async () => {
      await here.seize(key);
      const reason = new Error('enough');
      const { stack } = reason;
      const error = await failure(withLock.promise(key, { timeout: 5_000, signal: aborting(reason) }));
      expect(error).to.equal(reason);
      expect(error.stack).to.equal(stack);
    });
  });

  describe('tryLock', () => {
    it('makes one attempt, whatever the factory and the call say about waiting', async () => {
      const connection = await here.connection();
      const waiter = redisExpLock({ redis: connection.redis, ...patient, timeout: Number.POSITIVE_INFINITY });
      await here.seize(key);
      expect(await waiter.tryLock(key)).to.equal(null);
      expect(await waiter.tryLock(key, { maxRetries: 5 })).to.equal(null);
      expect(await connection.calls()).to.equal(2);
    });

    it('gives a lease when the key is free', async () => {
      const lease = await withLock.tryLock(key);
      expect(await here.holder(key)).to.equal(lease!.token);
      expect(await lease!()).to.equal(true);
    });

    it('H72: a place that nobody connected to is an error, and not null', async () => {
      const error = await failure(redisExpLock({ redis: here.unconnected() }).tryLock(key));
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error.message).to.contain(here.place.advice);
      expect(error.retryable).to.equal(here.place.hidesState === true);
    });
  });

  describe('lifetime: null', () => {
    if (here.place.isQuorum) return; // refused there: a node may forget

    for (const autoExtend of [false, true]) {
      it(`never ends by itself, with autoExtend ${autoExtend}, and is freed by its release`, async () => {
        const lease = await withLock.promise(key, { lifetime: null, autoExtend });
        expect(await here.leftMs(key)).to.equal(Number.POSITIVE_INFINITY);
        expect(lease.remaining()).to.equal(Number.POSITIVE_INFINITY);
        expect(lease.signal.aborted).to.equal(false);
        expect(await lease()).to.equal(true);
        expect(await here.holder(key)).to.equal(null);
      });
    }

    it('extend gives it an end, and takes it away again', async () => {
      const lease = await withLock.promise(key, { lifetime: null });
      expect(await lease.extend(50_000)).to.equal(true);
      expect(await here.leftMs(key)).to.be.within(1, 50_000);
      expect(lease.remaining()).to.be.within(1, 50_000);
      expect(await lease.extend()).to.equal(true);
      expect(await here.leftMs(key)).to.equal(Number.POSITIVE_INFINITY);
      expect(lease.remaining()).to.equal(Number.POSITIVE_INFINITY);
    });
  });

  describe('diagnostics', () => {
    it('an acquire, a release and a loss are published', async () => {
      const isOurs = (event: { key: unknown }): boolean => event.key === key; // the channels are the whole process's
      const traces = (
        await published('tracing:redis-exp-lock:acquire:start', async () => {
          const releases = (
            await published('redis-exp-lock:release', async () => {
              const lost = (
                await published('redis-exp-lock:lost', async () => {
                  const lease = await withLock.promise(key);
                  await here.remove(key);
                  expect(await lease()).to.equal(false);
                  expect(await lease.extend()).to.equal(false);
                })
              ).filter(isOurs);
              expect(lost).to.have.length(1);
              expect(lost[0]).to.include({ key, reason: 'missing' });
            })
          ).filter(isOurs);
          expect(releases).to.have.length(1);
          expect(releases[0]).to.include({ key, released: false });
        })
      ).filter(isOurs);
      expect(traces).to.have.length(1);
      expect(traces[0]).to.include({ key });
    });

    it('H12: what is impossible is thrown at once also while somebody listens', async () => {
      await published('tracing:redis-exp-lock:acquire:start', async () => {
        expect(thrown(() => withLock('', () => {})).code).to.equal('ERR_LOCK_OPTION');
        expect((await failure(withLock.promise(''))).code).to.equal('ERR_LOCK_OPTION');
      });
    });

    it('H9: listeners that throw do not reach the lock; what they throw reaches the process', async () => {
      // The channels are the whole process's: a lock of another test may end meanwhile. An abort event has no key.
      const bad = (event: unknown): void => {
        const { key: whose = key } = event as { key?: unknown };
        if (whose === key) throw new Error('a listener threw');
      };
      const channels = [
        ...['start', 'end', 'asyncStart', 'asyncEnd'].map((part) => `tracing:redis-exp-lock:acquire:${part}`),
        'redis-exp-lock:release',
        'redis-exp-lock:lost',
        'redis-exp-lock:warning',
      ];
      const { exceptions, rejections } = await uncaught(async () => {
        for (const channel of channels) subscribe(channel, bad);
        try {
          const lease = await withLock.promise(key);
          lease.signal.addEventListener('abort', bad);
          expect(await here.holder(key)).to.equal(lease.token);
          expect(await lease()).to.equal(true);

          const lost = await withLock.promise(key);
          lost.signal.addEventListener('abort', bad);
          await here.remove(key);
          expect(await lost.extend()).to.equal(false);
          expect(lost.signal.aborted).to.equal(true);
          expect(await withLock.run(key, () => 'done')).to.equal('done');
        } finally {
          for (const channel of channels) unsubscribe(channel, bad);
        }
      });
      expect(rejections).to.deep.equal([]);
      // 3 acquires of 4 parts, 2 releases, 1 loss and its signal.
      expect(exceptions.map(String)).to.deep.equal(new Array(16).fill('Error: a listener threw'));
    });
  });

  if (!here.place.faults) return;

  describe('replies that come late', () => {
    it('H6: a grant that took longer than its lifetime is not given out, and is released', async () => {
      const connection = await here.connection();
      connection.proxy.rule({ match: 'script', nth: 1 }, delayReply(400));
      const late = redisExpLock({ redis: connection.redis, lifetime: 300, commandTimeout: 30_000 });
      const error = await failure(late.promise(key));
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error.message).to.contain('300 ms');
      await waitFor(async () => (await here.holder(key)) === null);
    });

    it('H6: the time that a reply took is not part of the validity', async () => {
      const connection = await here.connection();
      connection.proxy.rule({ match: 'script', nth: 1 }, delayReply(500));
      const lease = await redisExpLock({ redis: connection.redis, ...patient }).promise(key);
      expect(lease.remaining()).to.be.within(1, 59_445);
    });

    it('H6: the time spent waiting is not taken off the validity', async () => {
      await here.seize(key, 1_000);
      const startMs = performance.now();
      const lease = await withLock.promise(key, { timeout: 40_000 });
      const leftMs = lease.remaining();
      expect(leftMs).to.be.within(1, lifetime);
      // Counted from the first attempt, both together would be the lifetime at most, however long the grant was on its way.
      expect(leftMs + performance.now() - startMs).to.be.at.least(lifetime + 500);
    });

    it('H8: a grant that arrives after the abort is handed back', async () => {
      const connection = await here.connection();
      const held = holdReply();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const abort = new AbortController();
      const waiting = redisExpLock({ redis: connection.redis, ...patient }).promise(key, { signal: abort.signal });
      await held.arrived; // the place has granted it
      expect(await here.holder(key)).not.to.equal(null);
      const reason = new Error('enough');
      abort.abort(reason);
      expect(await failure(waiting)).to.equal(reason);
      await waitFor(async () => (await here.holder(key)) === null);
      held.release();
      await connection.calls();
      expect(await here.holder(key)).to.equal(null);
      expect(await other.tryLock(key)).not.to.equal(null);
    });

    it('H8: a grant that arrives after the timeout is handed back', async () => {
      const connection = await here.connection();
      const held = holdReply();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      // Its failure is awaited from the start: on a busy machine it may come before the place has granted.
      const waiting = failure(redisExpLock({ redis: connection.redis, ...patient }).promise(key, { timeout: 400 }));
      await held.arrived;
      expect(await waiting).to.be.instanceOf(redisExpLock.LockTimeoutError);
      await waitFor(async () => (await here.holder(key)) === null);
      held.release();
    });
  });

  describeAtOnce('replies that come late', {
    'H6: it is requested again if the wait allows, and counts from before that attempt': async (key) => {
      const connection = await here.connection();
      // A busy machine may stop for most of the lifetime.
      const short = { lifetime: 3_000, commandTimeout: 30_000 };
      connection.proxy.rule({ match: 'script', nth: 1 }, delayReply(short.lifetime + 100));
      const late = redisExpLock({ redis: connection.redis, ...short });
      const tokens = new Set<string | null>();
      const seen = connection.proxy.seen({ match: 'script' }).then(async () => tokens.add(await here.holder(key)));
      const lease = await late.promise(key, { maxRetries: 50 });
      await seen;
      expect(lease.remaining()).to.be.within(1, short.lifetime);
      expect(await here.holder(key)).to.equal(lease.token);
      expect(lease.retries).to.be.greaterThan(0);
      expect(tokens.has(lease.token)).to.equal(false); // the late one was released: its token is never used again
      expect(await lease()).to.equal(true);
    },

    'H5: a reply that never comes: an error, and what was granted is released': async (key) => {
      const connection = await here.connection();
      const granted = connection.proxy.seen({ match: 'script' }).then(() => here.holder(key));
      connection.proxy.halfOpen();
      const far = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 4_000 });
      expect((await failure(far.promise(key))).code).to.equal('ERR_LOCK_BACKEND');
      await waitFor(async () => (await here.holder(key)) === null);
      expect(await granted, 'it was granted').to.not.equal(null);
      await connection.heal();
    },

    'H8: an attempt that is abandoned before it reached the place takes nothing': async (key) => {
      const connection = await here.connection();
      const held = holdRequest();
      connection.proxy.rule({ match: 'script', nth: 1 }, held);
      const abort = new AbortController();
      const other = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 4_000 });
      const waiting = other.promise(key, { signal: abort.signal });
      await held.arrived;
      abort.abort();
      expect((await failure(waiting)).name).to.equal('AbortError');
      held.release();
      await other.close(); // ends when what was abandoned is dealt with
      expect(await here.holder(key)).to.equal(null);
    },
  });

  it('H8: an attempt that was given up while the client was still connecting is not made at all', async () => {
    if (here.place.connectionless) return;
    const connection = await here.connection();
    const other = redisExpLock({ redis: connection.redis, lifetime: 60_000, commandTimeout: 5_000 });
    await (await other.promise(key))();
    connection.proxy.refuse();
    connection.proxy.resetAll();
    await waitFor(() => connection.proxy.open === 0);
    const abort = new AbortController();
    const waiting = other.promise(key, { signal: abort.signal });
    await sleep(20);
    abort.abort();
    await failure(waiting);
    const granted: string[] = [];
    connection.proxy.afterAnswer({ match: 'script' }, async () => {
      const holder = await here.holder(key);
      if (holder !== null) granted.push(holder);
    });
    await connection.heal();
    await sleep(50);
    await connection.calls();
    expect(granted).to.deep.equal([]);
  });

  describe('H72: what went wrong has a class and a code of its own', () => {
    it('busy, timed out, lost, out of reach, closed', async () => {
      const connection = await here.connection();
      const far = redisExpLock({ redis: connection.redis, commandTimeout: unansweredMs });
      await here.seize(key);

      const busy = await failure(withLock.promise(key));
      const timedOut = await failure(withLock.promise(key, { timeout: 0 }));
      const lost = await failure(withLock.run(`${key}:lost`, () => here.remove(`${key}:lost`)));
      connection.proxy.blackHole();
      const unreachable = await failure(far.promise(key));
      const notNull = await failure(far.tryLock(key));
      const notFree = await failure(far.inspect(key));
      connection.proxy.heal();
      await withLock.close();
      const closed = await failure(withLock.promise(key));

      const { LockBackendError, LockError } = redisExpLock;
      for (const [error, errorClass, code, retryable] of [
        [busy, redisExpLock.TooManyLockAttemptsError, 'ERR_LOCK_ATTEMPTS', true],
        [timedOut, redisExpLock.LockTimeoutError, 'ERR_LOCK_TIMEOUT', true],
        [lost, redisExpLock.LockLostError, 'ERR_LOCK_LOST', false],
        [unreachable, LockBackendError, 'ERR_LOCK_BACKEND', true],
        [notNull, LockBackendError, 'ERR_LOCK_BACKEND', true],
        [notFree, LockBackendError, 'ERR_LOCK_BACKEND', true],
        [closed, redisExpLock.LockClosedError, 'ERR_LOCK_CLOSED', false],
      ] as const) {
        expect(error).to.be.instanceOf(errorClass);
        expect(error).to.be.instanceOf(LockError);
        expect(error).to.include({ code, retryable, name: errorClass.name });
        expect(error.message).to.contain(error === closed || error === lost ? '' : JSON.stringify(key));
      }
      expect(busy.key).to.equal(key);
      expect(lost.key).to.equal(`${key}:lost`);
    });

    it('tryLock: null for busy alone', async () => {
      const connection = await here.connection();
      const far = redisExpLock({ redis: connection.redis, ...patient });
      await here.seize(key);
      expect(await far.tryLock(key)).to.equal(null);
      connection.proxy.blackHole();
      const asking = far.tryLock(key, { commandTimeout: unansweredMs });
      expect(await pending(asking)).to.equal(true);
      expect((await failure(asking)).code).to.equal('ERR_LOCK_BACKEND');
    });
  });
});

/** Aborts in a moment. */
function aborting(reason: Error): AbortSignal {
  const aborter = new AbortController();
  setTimeout(() => aborter.abort(reason), 20);
  return aborter.signal;
}
