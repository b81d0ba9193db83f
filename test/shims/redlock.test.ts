// redis-exp-lock/redlock beside redlock itself. First one program for both, with one outcome; then what is kept only here.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Redis } from 'ioredis';
import * as shim from '../../src/compat/redlock';
import { abortOf, failure as failureOf } from '../contract/outcomes';
import { waitFor } from '../support/processes';
import { type RedisServer, sharedRedis, startRedis, uniqueKey } from '../support/redis';
import { connect, disconnectAll } from './connections';

/** Its types cannot be found through its `exports`. */
const peer = require('redlock') as typeof shim;

const quick = { retryDelay: 10, retryJitter: 5 };
const locked = (applied: number, count: number): string =>
  `The operation was applied to: ${applied} of the ${count} requested resources.`;

async function messagesAgainst({ attempts }: { attempts: readonly Promise<shim.ExecutionStats>[] }): Promise<string[]> {
  const stats = await Promise.all(attempts);
  return stats.flatMap(({ votesAgainst }) => [...votesAgainst.values()].map((error) => error.message));
}

after(() => {
  disconnectAll();
});

for (const [name, library] of Object.entries({ redlock: peer, 'redis-exp-lock/redlock': shim })) {
  const { default: Redlock, ExecutionError, Lock, ResourceLockedError } = library;

  describe(`${name}: what a program for redlock relies on`, () => {
    let redis: Redis;
    let redlock: shim.default;
    let key: string;
    let other: string;

    before(async () => {
      redis = connect((await sharedRedis()).port);
    });

    beforeEach(() => {
      redlock = new Redlock([redis]);
      key = uniqueKey('{redlock}');
      other = uniqueKey('{redlock}');
    });

    it('has its defaults, takes numbers for them, and keeps its clients', () => {
      expect(redlock.settings).to.deep.equal({
        ...{ driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100 },
        automaticExtensionThreshold: 500,
      });
      expect([...redlock.clients]).to.have.members([redis]);
      const given = new Redlock([redis], { retryCount: -1, retryDelay: '7' as any, driftFactor: 0 });
      expect(given.settings).to.include({ retryCount: -1, retryDelay: 200, driftFactor: 0 });
    });

    it('wants a client', () => {
      expect(() => new Redlock([])).to.throw('Redlock must be instantiated with at least one redis client.');
    });

    it('acquires, extends and releases a lock that lasts very long', async () => {
      const duration = Math.floor(Number.MAX_SAFE_INTEGER / 10);
      const lock = await redlock.acquire([key], duration);
      expect(lock).to.be.instanceOf(Lock);
      expect(await redis.get(key)).to.equal(lock.value);
      expect(await redis.pttl(key)).to.be.within(duration - 60_000, duration);
      expect(lock).to.include({ redlock });
      expect(lock.resources).to.deep.equal([key]);
      const extended = await lock.extend(3 * duration);
      expect(extended.value).to.equal(lock.value);
      expect(await redis.pttl(key)).to.be.within(3 * duration - 60_000, 3 * duration);
      expect(lock.expiration).to.equal(0);
      await extended.release();
      expect(extended.expiration).to.equal(0);
      expect(await redis.get(key)).to.equal(null);
    });

    it('takes all resources or none, with one value', async () => {
      const lock = await redlock.acquire([key, other], 5000);
      expect(await redis.mget(key, other)).to.deep.equal([lock.value, lock.value]);
      const third = uniqueKey('{redlock}');
      await failureOf(redlock.acquire([other, third], 5000, { retryCount: 0 }));
      expect(await redis.exists(third)).to.equal(0);
      await (await lock.extend(9000)).release();
      expect(await redis.exists(key, other)).to.equal(0);
    });

    it('says until when: the duration, less the drift and 2 ms', async () => {
      const before = Date.now();
      const lock = await redlock.acquire([key], 10_000);
      expect(lock.expiration).to.be.within(before + 10_000 - 102 - 1, Date.now() + 10_000 - 102);
      const other = await lock.extend(20_000);
      expect(other.expiration - lock.expiration).to.be.greaterThan(19_000);
      await redlock.release(other, { retryCount: 0 });
      const beforeExact = Date.now();
      const exact = await redlock.acquire([key], 10_000, { driftFactor: 0 });
      expect(exact.expiration).to.be.within(beforeExact + 10_000 - 2 - 1, Date.now() + 9998);
      await exact.release();
    });

    it('gives up after retryCount further attempts, each with its votes and an event', async () => {
      const lock = await redlock.acquire([key], 10_000);
      const events: Error[] = [];
      redlock.on('error', (error: Error) => events.push(error));
      const error = await failureOf(redlock.acquire([key], 5000, { ...quick, retryCount: 4 }));
      expect(error).to.be.instanceOf(ExecutionError);
      expect(error).to.include({
        name: 'ExecutionError',
        message: 'The operation was unable to achieve a quorum during its retry window.',
      });
      expect(error.attempts).to.have.length(5);
      for (const attempt of error.attempts) {
        const stats = await attempt;
        expect(stats).to.include({ membershipSize: 1, quorumSize: 1 });
        expect(stats.votesFor).to.have.property('size', 0);
        expect(stats.votesAgainst.get(redis)).to.be.instanceOf(ResourceLockedError);
        expect(stats.votesAgainst.get(redis)).to.include({ name: 'ResourceLockedError', message: locked(0, 1) });
      }
      // The last is of the release of what a minority may have granted.
      await waitFor(() => events.length >= 6, { what: 'all of them' });
      expect(events.map(({ message }) => message)).to.deep.equal(Array(6).fill(locked(0, 1)));
      expect(await redis.get(key)).to.equal(lock.value);
      await lock.release();
    });

    it('waits for as long as it may, and says in how many attempts it was got', async () => {
      const lock = await redlock.acquire([key], 10_000);
      const waiting = redlock.acquire([key], 5000, { ...quick, retryCount: -1 });
      await sleep(50);
      await lock.release();
      const next = await waiting;
      expect(next.attempts.length).to.be.greaterThan(1);
      const last = await next.attempts.at(-1)!;
      expect([...last.votesFor]).to.have.members([redis]);
      expect(await redis.get(key)).to.equal(next.value);
      await next.release();
    });

    it('gives up on several resources after as many attempts each, also beside others that wait', async () => {
      const lock = await redlock.acquire([key, other], 60_000);
      const settings = { retryCount: 3, ...quick };
      const failures = await Promise.all(
        Array.from({ length: 3 }, () => failureOf(redlock.acquire([other, key], 5000, settings))),
      );
      for (const failure of failures) {
        expect(failure).to.be.instanceOf(ExecutionError);
        expect(await messagesAgainst(failure)).to.deep.equal(Array(4).fill(locked(0, 2)));
      }
      await lock.release();
    });

    it('several resources: callers of one process are served one after the other', async () => {
      const lock = await redlock.acquire([key, other], 60_000);
      let inside = 0;
      const waiting = Array.from({ length: 4 }, async () => {
        const each = await redlock.acquire([key, other], 60_000, { retryCount: -1, ...quick });
        inside += 1;
        expect(inside).to.equal(1);
        await redis.ping();
        inside -= 1;
        await each.release();
      });
      await lock.release();
      await Promise.all(waiting);
      expect(await redis.exists(key, other)).to.equal(0);
    });

    it('gets a lock whose time is over', async () => {
      await redlock.acquire([key], 1_000);
      const next = await redlock.acquire([key], 5000, { ...quick, retryCount: -1 });
      expect(await redis.get(key)).to.equal(next.value);
      await next.release();
    });

    it('says how a release went, and that a second one applied to nothing', async () => {
      const lock = await redlock.acquire([key], 5000);
      const { attempts } = await lock.release();
      expect(attempts).to.have.length(1);
      expect([...(await attempts[0]!).votesFor]).to.have.members([redis]);
      const error = await failureOf(redlock.release(lock, { ...quick, retryCount: 2 }));
      expect(error).to.be.instanceOf(ExecutionError);
      expect(await messagesAgainst(error)).to.deep.equal(Array(3).fill(locked(0, 1)));
    });

    it('says of how many resources a release was left with nothing', async () => {
      const lock = await redlock.acquire([key, other], 5000);
      await redis.del(key);
      const error = await failureOf(redlock.release(lock, { retryCount: 0 }));
      expect(await messagesAgainst(error)).to.deep.equal([locked(1, 2)]);
      expect(await redis.exists(other)).to.equal(0);
    });

    it('leaves alone what somebody else has now', async () => {
      const lock = await redlock.acquire([key], 5000);
      await redis.set(key, 'another');
      expect(await messagesAgainst(await failureOf(redlock.release(lock, { retryCount: 0 })))).to.deep.equal([
        locked(0, 1),
      ]);
      expect(await messagesAgainst(await failureOf(redlock.acquire([key], 5000, { retryCount: 0 })))).to.deep.equal([
        locked(0, 1),
      ]);
      expect(await redis.get(key)).to.equal('another');
    });

    it('does not extend what has ended, or what somebody else has', async () => {
      const lock = await redlock.acquire([key], 1_000);
      await sleep(1_050);
      const late = await failureOf(lock.extend(5000));
      expect(late).to.be.instanceOf(ExecutionError);
      expect(late).to.include({ message: 'Cannot extend an already-expired lock.' });
      expect(late.attempts).to.deep.equal([]);
      const mine = await redlock.acquire([key], 5000);
      await redis.set(key, 'another');
      const error = await failureOf(redlock.extend(mine, 5000, { ...quick, retryCount: 1 }));
      expect(error).to.be.instanceOf(ExecutionError);
      expect(await messagesAgainst(error)).to.deep.equal([locked(0, 1), locked(0, 1)]);
      expect(await redis.get(key)).to.equal('another');
      await redis.del(key);
    });

    it('wants whole milliseconds', async () => {
      const lock = await redlock.acquire([key], 5000);
      const message = 'Duration must be an integer value in milliseconds.';
      for (const work of [
        redlock.acquire([other], 1.5),
        redlock.acquire([other], Number.NaN),
        redlock.extend(lock, 0.1),
        redlock.using([other], 1.5, async () => {}),
      ]) {
        expect(await failureOf(work)).to.have.property('message', message);
      }
      await lock.release();
      for (const impossible of [0, -1, Number.POSITIVE_INFINITY]) {
        const error = await failureOf(redlock.acquire([other], impossible, { retryCount: 0 }));
        expect(error).to.be.instanceOf(ExecutionError);
        expect(await redis.exists(other)).to.equal(0);
      }
    });

    it('releases by its value a lock that was handed over as text', async () => {
      const { resources, value, expiration } = await redlock.acquire([key], 5000);
      const again = new Lock(redlock, resources, value, [], expiration);
      const extended = await again.extend(9000);
      expect(await redis.pttl(key)).to.be.greaterThan(8000);
      await extended.release();
      expect(await redis.exists(key)).to.equal(0);
    });

    it('using: extends while the routine runs, gives its value, and releases', async () => {
      const value = await redlock.using([key], 4000, { automaticExtensionThreshold: 3000 }, async (signal) => {
        const token = await redis.get(key);
        await sleep(4300);
        expect(await redis.get(key)).to.equal(token);
        expect(signal.aborted).to.equal(false);
        expect(signal.error).to.equal(undefined);
        return 'value';
      });
      expect(value).to.equal('value');
      expect(await redis.exists(key)).to.equal(0);
    });

    it('using: takes the routine as the third argument, and throws what it threw', async () => {
      const failure = new Error('mine');
      const work = redlock.using([key, other], 5000, async () => {
        expect(await redis.exists(key, other)).to.equal(2);
        throw failure;
      });
      expect(await failureOf(work)).to.equal(failure);
      expect(await redis.exists(key, other)).to.equal(0);
    });

    it('using: one routine after the other', async () => {
      let inside = 0;
      const routine = async (): Promise<void> => {
        inside += 1;
        expect(inside).to.equal(1);
        await sleep(20);
        inside -= 1;
      };
      const settings = { ...quick, retryCount: -1 };
      await Promise.all(Array.from({ length: 5 }, () => redlock.using([key], 5000, settings, routine)));
    });

    it('using: wants a routine, and a duration longer than the threshold by 100 ms', async () => {
      expect(await failureOf(redlock.using([key], 5000, {}))).to.have.property(
        'message',
        'INVARIANT: routine is not a function.',
      );
      expect(await failureOf(redlock.using([key], 599, async () => {}))).to.have.property(
        'message',
        'A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.',
      );
      expect(await redis.exists(key)).to.equal(0);
    });

    it('using: the signal aborts when the lock is taken away, with the reason in `error`, and the release fails', async () => {
      let seen: unknown;
      const settings = { ...quick, retryCount: 1, automaticExtensionThreshold: 1500 };
      const strict = new Redlock([redis], settings);
      const work = strict.using([key], 2000, async (signal) => {
        await redis.set(key, 'another');
        await abortOf(signal);
        expect(signal.aborted).to.equal(true);
        seen = signal.error;
      });
      expect(await failureOf(work)).to.be.instanceOf(ExecutionError);
      expect(seen).to.be.instanceOf(ExecutionError);
      expect(await redis.get(key)).to.equal('another');
      await redis.del(key);
    });

    it('H18 using: settles when the lock is taken away and the routine then blocks the event loop beyond its end', async () => {
      // More than one attempt: a grant that is read after its 500 ms does not count.
      const settings = { ...quick, retryCount: 5, automaticExtensionThreshold: 300 };
      let seen: unknown;
      const work = new Redlock([redis], settings).using([key], 500, async (signal) => {
        await redis.set(key, 'another');
        const endMs = performance.now() + 700;
        while (performance.now() < endMs);
        await redis.get(key); // the signal may abort meanwhile
        await abortOf(signal);
        seen = signal.error;
      });
      expect(await failureOf(work)).to.be.instanceOf(ExecutionError);
      expect(seen).to.be.instanceOf(ExecutionError);
      expect(await redis.get(key)).to.equal('another');
      await redis.del(key);
    });

    it('a client that was closed votes against with its own words, in each attempt', async () => {
      const closed = connect(1, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
      const error = await failureOf(new Redlock([closed], { ...quick, retryCount: 3 }).acquire([key], 5000));
      expect(error).to.be.instanceOf(ExecutionError);
      expect(error.attempts).to.have.length(4);
      expect(await messagesAgainst(error)).to.deep.equal(Array(4).fill('Connection is closed.'));
    });

    it('connects a client that connects with its first command', async () => {
      const lazy = connect((await sharedRedis()).port, { lazyConnect: true });
      const lock = await new Redlock([lazy]).acquire([key], 5000);
      await lock.release();
    });

    it('quit: quits all clients', async () => {
      const client = connect((await sharedRedis()).port);
      await once(client, 'ready');
      const ended = once(client, 'end');
      await new Redlock([client]).quit();
      await ended;
      expect(client.status).to.equal('end');
    });
  });

  describe(`${name}: on three servers`, () => {
    let servers: RedisServer[];
    let nodes: Redis[];
    let redlock: shim.default;
    let key: string;

    before(async () => {
      servers = await Promise.all([1, 2, 3].map(() => startRedis()));
      // They do not tell that they were started just now; see "restart guard" below.
      await Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
      nodes = servers.map(({ port }) => connect(port, { enableReadyCheck: false }));
    });

    after(() => Promise.all(servers.map((server) => server.discard())));

    beforeEach(() => {
      redlock = new Redlock(nodes, quick);
      key = uniqueKey('{redlock}');
    });

    const values = (): Promise<(string | null)[]> => Promise.all(nodes.map((node) => node.get(key)));

    it('acquires, extends and releases on all, and reports each vote', async () => {
      // A server has an eighth of the duration for its vote, and a second at most.
      const lock = await redlock.acquire([key, `${key}2`], 60_000);
      const stats = await lock.attempts[0]!;
      expect(stats).to.include({ membershipSize: 3, quorumSize: 2 });
      expect([...stats.votesFor]).to.have.members(nodes);
      expect(await values()).to.deep.equal(Array(3).fill(lock.value));
      const extended = await lock.extend(120_000);
      await extended.attempts[0];
      for (const node of nodes) expect(await node.pttl(key)).to.be.greaterThan(60_000);
      const { attempts } = await extended.release();
      await attempts[0];
      expect(await values()).to.deep.equal([null, null, null]);
    });

    it('does without a minority, whose vote is reported', async () => {
      await nodes[2]!.set(key, 'another', 'PX', 60_000);
      const events: string[] = [];
      redlock.on('error', (error: Error) => events.push(error.message));
      const lock = await redlock.acquire([key], 60_000);
      const stats = await lock.attempts[0]!;
      expect([...stats.votesAgainst.keys()]).to.have.members([nodes[2]]);
      expect(stats.votesAgainst.get(nodes[2]!)).to.be.instanceOf(ResourceLockedError);
      expect(events).to.deep.equal([locked(0, 1)]);
      expect(await values()).to.deep.equal([lock.value, lock.value, 'another']);
      await (await lock.extend(90_000)).release();
      expect(await values()).to.deep.equal([null, null, 'another']);
    });

    it('fails without a majority, and rejects when what a minority granted is released', async () => {
      await Promise.all([1, 2].map((n) => nodes[n]!.set(key, 'another', 'PX', 60_000)));
      const error = await failureOf(redlock.acquire([key], 60_000, { retryCount: 2 }));
      expect(await values()).to.deep.equal([null, 'another', 'another']);
      expect(error).to.be.instanceOf(ExecutionError);
      expect(error.attempts).to.have.length(3);
      expect([...(await error.attempts[0]).votesFor]).to.have.members([nodes[0]]);
      for (const attempt of error.attempts) {
        const { votesAgainst } = await attempt;
        expect([...votesAgainst.keys()]).to.include.members([nodes[1], nodes[2]]);
        for (const each of votesAgainst.values()) expect(each).to.be.instanceOf(ResourceLockedError);
      }
    });

    it('excludes: one holder after the other', async () => {
      let inside = 0;
      const others = [1, 2, 3, 4].map(() => new Redlock(nodes, { ...quick, retryJitter: 10, retryCount: -1 }));
      const count = others.map(async (each) => {
        for (let n = 0; n < 5; n += 1) {
          await each.using([key], 5000, async () => {
            inside += 1;
            expect(inside).to.equal(1);
            await sleep(1);
            inside -= 1;
          });
        }
      });
      await Promise.all(count);
    });
  });
}

describe('redis-exp-lock/redlock: what is kept only here', () => {
  const { default: Redlock, ExecutionError } = shim;
  let redis: Redis;
  let redlock: shim.default;
  let key: string;

  before(async () => {
    redis = connect((await sharedRedis()).port);
  });

  beforeEach(() => {
    redlock = new Redlock([redis], quick);
    key = uniqueKey('{redlock}');
  });

  for (const script of ['acquireScript', 'extendScript', 'releaseScript']) {
    it(`refuses a ${script} in the constructor, by its name`, () => {
      for (const given of ['return 1', (text: string) => text]) {
        expect(() => new Redlock([redis], {}, { [script]: given }))
          .to.throw(TypeError, new RegExp(`^${script}: expected no script`))
          .with.property('code', 'ERR_LOCK_OPTION');
      }
      expect(() => new Redlock([redis], {}, { [script]: undefined })).to.not.throw();
    });
  }

  it('H12 refuses resources that are no array of keys, before any I/O', async () => {
    for (const impossible of ['key', [], [''], [1], [`${key}:queue`]] as any[]) {
      expect(await failureOf(redlock.acquire(impossible, 1000))).to.have.property('code', 'ERR_LOCK_OPTION');
    }
  });

  it('gives a fence that rises with each grant, and stays when the lock is extended', async () => {
    const lock = await redlock.acquire([key], 5000);
    const extended = await lock.extend(9000);
    expect(lock.fence).to.be.greaterThan(0);
    expect(extended.fence).to.equal(lock.fence);
    await extended.release();
    for (const resources of [[key], [key, `${key}2`]]) {
      const next = await redlock.acquire(resources, 5000);
      expect(next.fence).to.be.greaterThan(lock.fence);
      await next.release();
    }
  });

  for (const [what, more] of [
    ['one key', []],
    ['two keys', ['2']],
  ] as const) {
    describe(`the signal of a lock of ${what}`, () => {
      const resources = (): string[] => [key, ...more.map((each) => key + each)];

      it('aborts when the lock may have ended, not later', async () => {
        const startedMs = performance.now();
        const { signal } = await redlock.acquire(resources(), 1_000);
        await abortOf(signal);
        // Counted from before the request; 2 ms and a hundredth of the lifetime are not trusted, and a timer may be a ms early.
        const heldMs = performance.now() - startedMs;
        expect(heldMs).to.be.at.least(1_000 - 10 - 2 - 1);
        // On a busy machine the end may be noticed so late that it is called a stall.
        expect(signal.reason.code).to.equal('ERR_LOCK_LOST');
        expect(signal.reason.reason).to.be.oneOf(heldMs > 1_030 ? ['expired', 'stalled'] : ['expired']);
      });

      it('aborts as soon as an extension finds that it was taken', async () => {
        const lock = await redlock.acquire(resources(), 5000);
        const { signal } = lock;
        await redis.set(key, 'another');
        await failureOf(redlock.extend(lock, 5000, { retryCount: 0 }));
        expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'taken' });
        await redis.del(key);
      });

      it('does not abort on its own release, nor when it was extended in time', async () => {
        const lock = await redlock.acquire(resources(), 1_500);
        const { signal } = lock;
        const extended = await lock.extend(5000);
        expect(extended.signal.aborted).to.equal(false);
        await sleep(1_550);
        expect(signal.aborted).to.equal(false);
        await extended.release();
        await sleep(20);
        expect([signal.aborted, extended.signal.aborted]).to.deep.equal([false, false]);
      });
    });
  }

  it('H9 a listener that throws has no effect on the lock', async () => {
    const lock = await redlock.acquire([key], 5000);
    const thrown = new Error('from a listener');
    redlock.on('error', () => {
      throw thrown;
    });
    const before = process.listeners('uncaughtException');
    const seen: unknown[] = [];
    process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => seen.push(error));
    try {
      expect(await failureOf(redlock.acquire([key], 5000, { retryCount: 0 }))).to.be.instanceOf(ExecutionError);
      await waitFor(() => seen.length === 2);
      expect(seen).to.deep.equal([thrown, thrown]);
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const each of before) process.on('uncaughtException', each);
    }
    await lock.release();
  });

  it('using: reports the failed release, with what the routine threw as its cause', async () => {
    const failure = new Error('mine');
    const work = new Redlock([redis], { retryCount: 0 }).using([key], 5000, async () => {
      await redis.del(key);
      throw failure;
    });
    const error = await failureOf(work);
    expect(error).to.be.instanceOf(ExecutionError);
    expect(error.cause).to.equal(failure);
  });

  it('H17 using: the signal aborts within the duration of silence', async () => {
    const server = await startRedis();
    const silent = connect(server.port);
    await once(silent, 'ready'); // a single attempt does not wait long for a connection
    try {
      const strict = new Redlock([silent], { retryCount: 0, automaticExtensionThreshold: 1000 });
      let waitedMs = Number.POSITIVE_INFINITY;
      let reason: unknown;
      const work = strict.using([key], 5000, async (signal) => {
        await server.pause();
        const fromMs = performance.now();
        await abortOf(signal);
        waitedMs = performance.now() - fromMs;
        reason = signal.error;
        await server.resume();
      });
      // Only Redis knows whether the key had ended by the time of the release.
      await work.catch((error) => expect(error).to.be.instanceOf(ExecutionError));
      expect(waitedMs, 'less than two durations, however slow the machine').to.be.lessThan(10_000);
      expect(reason).to.be.instanceOf(ExecutionError);
      expect((reason as Error).cause).to.include({ code: 'ERR_LOCK_LOST' });
    } finally {
      await server.resume();
      await server.discard();
    }
  });

  it('H3 a request to a server that was paused does not take the lock afterwards', async () => {
    const server = await startRedis();
    const silent = connect(server.port);
    await once(silent, 'ready');
    await server.pause();
    const error = await failureOf(new Redlock([silent], { retryCount: 0 }).acquire([key], 60_000));
    expect(error).to.be.instanceOf(ExecutionError);
    await server.resume();
    const next = await new Redlock([connect(server.port)]).acquire([key], 5000);
    await next.release();
    await server.discard();
  });

  it('a waiter is handed the lock by a release, and does not poll for it', async () => {
    const lock = await redlock.acquire([key], 60_000);
    const fromMs = performance.now();
    const waiting = redlock.acquire([key], 60_000, { retryCount: 5, retryDelay: 30_000, retryJitter: 0 });
    await sleep(100);
    await lock.release();
    const next = await waiting;
    expect(performance.now() - fromMs, 'ms, less than a pause').to.be.lessThan(20_000); // a pause is 30 s
    expect(next.attempts.length).to.equal(2);
    expect(await redis.pttl(key)).to.be.greaterThan(30_000);
    await next.release();
    expect(await redis.exists(`{${key}}:queue`, key)).to.equal(0);
  });

  it('several keys: a release wakes the next caller of its process, within a pause that would last for ever', async () => {
    const resources = [uniqueKey('{wake}'), uniqueKey('{wake}')];
    const first = await redlock.acquire(resources, 60_000);
    let refusals = 0;
    redlock.on('error', () => {
      refusals += 1;
    });
    const second = redlock.acquire([...resources].reverse(), 60_000, { retryDelay: 1e8, retryJitter: 0 });
    await waitFor(() => refusals === 1);
    await first.release();
    await (await second).release();
  });

  it('H8 a waiter that gives up leaves neither a lock nor an entry behind', async () => {
    const lock = await redlock.acquire([key], 30_000);
    await failureOf(redlock.acquire([key], 5000, { retryCount: 2, retryDelay: 50 }));
    await lock.release();
    const next = await redlock.acquire([key], 5000, { retryCount: 0 });
    await next.release();
  });

  it('beside a process of redlock, which notifies nobody, it polls as that does', async () => {
    const old = new peer.default([redis], quick);
    const theirs = await old.acquire([key], 10_000);
    const waiting = redlock.acquire([key], 5000, { retryCount: -1, retryDelay: 20, retryJitter: 0 });
    await sleep(100);
    await theirs.release();
    const ours = await waiting;
    expect(await messagesAgainst(await failureOf(old.acquire([key], 1000, { retryCount: 0 })))).to.deep.equal([
      locked(0, 1),
    ]);
    await ours.release();
    await (await old.acquire([key], 1000)).release();
  });

  describe('on three servers', () => {
    let servers: RedisServer[];
    let nodes: Redis[];

    beforeEach(async () => {
      servers = await Promise.all([1, 2, 3].map(() => startRedis()));
      nodes = servers.map(({ port }) => connect(port));
      await Promise.all(nodes.map((node) => once(node, 'ready')));
    });

    /** Lets the servers vote at once: they no longer tell that they were started just now. */
    const grown = () => Promise.all(servers.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));

    it('waits for clients that are connecting, also in the first and only attempt', async () => {
      await grown();
      const fresh = servers.map(({ port }) => connect(port, { enableReadyCheck: false }));
      const lock = await new Redlock(fresh, { retryCount: 0 }).acquire([key], 5000);
      expect((await lock.attempts[0]!).votesFor.size).to.equal(3);
      await lock.release();
    });

    afterEach(() => Promise.all(servers.map((server) => server.discard())));

    it('restart guard: a node that was started less than the duration ago has no vote', async () => {
      const error = await failureOf(new Redlock(nodes, { retryCount: 0 }).acquire([key], 60_000));
      expect(error).to.be.instanceOf(ExecutionError);
      const { votesFor, votesAgainst } = await error.attempts[0];
      expect(votesFor.size).to.equal(0);
      for (const each of votesAgainst.values()) {
        expect(each).to.include({ code: 'ERR_LOCK_BACKEND' });
        expect(each.message).to.match(/started less than a duration ago|was silent before/);
      }
      expect(await Promise.all(nodes.map((node) => node.exists(key)))).to.deep.equal([0, 0, 0]);
      const redlock = new Redlock(nodes, { retryCount: -1 });
      const lock = await redlock.acquire([key], 1_000);
      // With a retryCount of -1 it would never end, where its second was over.
      await redlock.release(lock, { retryCount: 0 }).catch(() => {});
    });

    it('H66 a node that is paused costs little, and its vote is reported', async () => {
      await grown();
      const redlock = new Redlock(nodes, { ...quick, retryCount: -1 });
      await (await redlock.acquire([key], 60_000)).release();
      await servers[2]!.pause();
      const lock = await redlock.acquire([key], 60_000);
      const stats = await lock.attempts.at(-1)!;
      expect(stats.votesFor.size).to.equal(2);
      expect(stats.votesAgainst.get(nodes[2]!)).to.include({ code: 'ERR_LOCK_BACKEND' });
      await lock.release();
      // A node known as silent is no longer asked, and votes against all the same.
      const next = await redlock.acquire([key], 60_000);
      expect((await next.attempts.at(-1)!).votesAgainst.size).to.equal(1);
      await next.release();
      await servers[2]!.resume();
    });

    it('gives fences that rise, whatever majority granted', async () => {
      await grown();
      const redlock = new Redlock(nodes, { ...quick, retryCount: -1 });
      let last = 0;
      for (const absent of [0, 1, 2, 0]) {
        await nodes[absent]!.set(key, 'another', 'PX', 60_000);
        const lock = await redlock.acquire([key], 60_000);
        expect(lock.fence).to.be.greaterThan(last);
        last = lock.fence;
        await lock.release();
        await nodes[absent]!.del(key);
      }
    });
  });
});
