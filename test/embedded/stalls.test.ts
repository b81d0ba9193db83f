// A store in memory has no other users than this process. While its event loop is blocked nothing can be renewed, and nobody can take
// anything either: a held lock that is renewed outlives that. And a clock that is handed in owns all time there.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { blockFor, failure, pending } from '../contract/outcomes';
import { waitFor } from '../support/processes';

const { memoryStore, Lock, RWLock, Semaphore, Election } = redisExpLock;

describe('the memory store and a blocked event loop', () => {
  const lifetime = 100;
  let redis: redisExpLock.MemoryStore;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    redis = memoryStore();
    withLock = redisExpLock({ redis, lifetime });
  });

  type Work = (lease?: redisExpLock.Lease) => unknown;
  const ways: Record<string, (work: Work) => Promise<unknown>> = {
    run: (work) => withLock.run('key', work),
    'run on several keys': (work) => withLock.run(['key', 'other'], work),
    promise: async (work) => {
      const lease = await withLock.promise('key', { autoExtend: true });
      work(lease);
      expect(await lease()).to.equal(true);
    },
    read: (work) => new RWLock('key', { redis, lifetime }).read(work),
    'two reads that share a member': async (work) => {
      const lock = new RWLock('key', { redis, lifetime, timeout: 10_000 });
      const other = lock.acquireRead();
      await lock.read(async (lease) => {
        expect((await withLock.inspect('key')).holders).to.have.length(1);
        work(lease);
      });
      expect(await (await other).release()).to.equal(true);
    },
    write: (work) => new RWLock('key', { redis, lifetime }).write(work),
    'a permit': (work) => new Semaphore('key', 1, { redis, lifetime }).run(work),
    Lock: (work) => new Lock('key', { redis, lifetime, autoExtend: true }).synchronize(() => work()),
  };
  const rivals: Record<string, (name: string) => Promise<() => Promise<boolean>>> = {
    'in the queue': (name) => another(name, { timeout: 10_000 }),
    polling: (name) => another(name, { maxRetries: 100_000, retryTimeout: 3 }),
  };

  /** Nothing renews what the other caller is granted: it outlasts what a busy machine takes until its release. */
  async function another(name: string, wait: redisExpLock.Options): Promise<() => Promise<boolean>> {
    const options = { ...wait, lifetime: 20_000 };
    if (name === 'a permit') return new Semaphore('key', 1, { redis }).acquire(1, options);
    if (/read|write/.test(name)) return new RWLock('key', { redis }).acquireWrite(options);
    return withLock.promise('key', options);
  }

  for (const [name, hold] of Object.entries(ways)) {
    for (const [how, rival] of Object.entries(rivals)) {
      it(`${name}: not lost by 1.5 s of work, nor to another caller ${how}`, async () => {
        let over = false;
        let waiting!: Promise<() => Promise<boolean>>;
        const holding = hold((lease) => {
          waiting = rival(name).then((release) => {
            expect(over).to.equal(true);
            return release;
          });
          blockFor(15 * lifetime);
          if (lease !== undefined) {
            expect(lease.remaining()).to.be.within(1, lifetime);
            expect(lease.signal.aborted).to.equal(false);
          }
          over = true;
        });
        await holding;
        expect(await (await waiting)()).to.equal(true);
      });
    }
  }

  it('not lost by a stall between its steps, with timers of others due before its own', async () => {
    const waiting: Promise<redisExpLock.Lease>[] = [];
    const fences = await withLock.run('key', async ({ fence, signal }) => {
      for (let n = 0; n < 5; n += 1) waiting.push(withLock.promise('key', { maxRetries: 10_000, retryTimeout: 1 }));
      for (let n = 0; n < 5; n += 1) {
        blockFor(3 * lifetime);
        await sleep(2);
        expect((await withLock.inspect('key')).locked).to.equal(true);
        expect(await withLock.tryLock('key')).to.equal(null);
      }
      expect(signal.aborted).to.equal(false);
      return fence;
    });
    for (const each of waiting) {
      const lease = await each;
      expect(lease.fence).to.be.greaterThan(fences);
      await lease();
    }
  });

  it('not lost when the wall clock is put forward', async () => {
    const { now } = Date;
    try {
      await withLock.run('key', async ({ signal }) => {
        Date.now = () => now() + 3_600_000;
        await sleep(3 * lifetime);
        expect(signal.aborted).to.equal(false);
      });
    } finally {
      Date.now = now;
    }
  });

  it('not lost when the process stands still between any two readings of the clock', async () => {
    const { now } = performance;
    try {
      await withLock.run('key', async ({ signal }) => {
        let readings = 0;
        performance.now = () => now.call(performance) + 7 * readings++;
        for (let n = 0; n < 50; n += 1) expect(await withLock.tryLock('key')).to.equal(null);
        expect(readings).to.be.greaterThan(100);
        expect(signal.aborted).to.equal(false);
      });
    } finally {
      performance.now = now;
    }
  });

  const commands: Record<string, (locks: redisExpLock.WithLock, lease: redisExpLock.Lease) => Promise<unknown>> = {
    release: async () => true,
    'a request of another caller': async (locks) => (await locks.tryLock('key')) === null,
    'an extension': (_, lease) => lease.extend(),
    'an inspection': async (locks) => (await locks.inspect('key')).locked,
  };
  const clocks: Record<string, redisExpLock.MemoryStoreOptions> = {
    'the clock of the process': {},
    'a clock that is handed in': { now: () => performance.now() },
  };
  const stalls = { 'its lifetime': 1.5 * lifetime, 'ten lifetimes': 15 * lifetime };

  /** Clocks that move only when the monotonic one is read: by a microsecond, and by the stall before that reading. */
  function stubClocks(stallMs: () => number): { restore(): void } {
    const { now } = performance;
    const wall = Date.now;
    let nowMs = now.call(performance);
    const offsetMs = wall() - nowMs;
    performance.now = () => {
      nowMs += 0.001 + stallMs();
      return nowMs;
    };
    Date.now = () => Math.floor(nowMs + offsetMs);
    return {
      restore() {
        performance.now = now;
        Date.now = wall;
      },
    };
  }

  /**
   * Runs `work` for each pair of readings after `begin`, of the first twenty. The process stands still before both of them, by a clock
   * that moves only with its readings: the machine's own stalls do not count.
   */
  async function stallAtEachReading(
    stallMs: number,
    work: (begin: () => void, nth: string) => Promise<unknown>,
  ): Promise<void> {
    for (let first = 0; first < 20; first += 1) {
      for (let second = first; second < 20; second += 1) {
        let readings = Number.NEGATIVE_INFINITY;
        const stubbed = stubClocks(() => {
          const stallsNow = Number(readings === first) + Number(readings === second && second > first);
          readings += 1;
          return stallsNow * stallMs;
        });
        const begin = (): void => {
          readings = 0;
        };
        await work(begin, `${first} and ${second}`).finally(() => stubbed.restore());
      }
    }
  }

  for (const [longer, stallMs] of Object.entries(stalls)) {
    for (const [whose, options] of Object.entries(clocks)) {
      for (const [name, command] of Object.entries(commands)) {
        it(`not lost when the process stands still for longer than ${longer} at any reading of ${whose}: ${name}`, () =>
          stallAtEachReading(stallMs, async (begin, nth) => {
            const locks = redisExpLock({ redis: memoryStore(options), lifetime });
            await locks.run('key', async (lease) => {
              begin();
              expect(await command(locks, lease), `reading ${nth}`).to.equal(true);
            });
          }));
      }
    }
  }

  it('not lost when the process stands still at any reading of the clock: a release that requests the lock for the next caller', () =>
    stallAtEachReading(1.5 * lifetime, async (begin) => {
      const locks = redisExpLock({ redis: memoryStore(), lifetime, timeout: 10_000 });
      let next: Promise<unknown> | undefined;
      await locks.run('key', async (lease) => {
        next = locks.run('key', () => {});
        await lease.extend(lifetime + 1); // after which nothing is handed off without the store
        begin();
      });
      await next;
    }));

  it('not lost when the process stands still at any reading of the clock while the table is swept', async () => {
    for (let nth = 0; nth < 10; nth += 1) {
      const locks = redisExpLock({ redis: memoryStore(), lifetime });
      let readings = Number.NEGATIVE_INFINITY;
      const stubbed = stubClocks(() => {
        readings += 1;
        return readings === nth + 1 ? 1.5 * lifetime : 0;
      });
      const work = locks.run('first', () =>
        locks.run('second', async () => {
          for (let n = 0; n < 4_094; n += 1) await locks.promise(`many:${n}`, { lifetime: 60_000, fencing: false });
          readings = 0;
          expect(await locks.tryLock('first'), `reading ${nth}`).to.equal(null);
        }),
      );
      await work.finally(() => stubbed.restore());
      await locks.close({ drain: false });
    }
  });

  it('a leader: not lost by a stall before others ask for it', async () => {
    const election = new Election('key', { redis, lifetime });
    let seen: object | undefined;
    await election.lead(async ({ fence, signal }) => {
      blockFor(3 * lifetime);
      const leader = await election.leader();
      seen = { isLeader: leader?.term === fence, isLost: signal.aborted };
      void election.resign();
    });
    expect(seen).to.deep.equal({ isLeader: true, isLost: false });
  });

  it('not lost when the table forgets what is spare', async () => {
    await withLock.run('key', async () => {
      blockFor(3 * lifetime);
      for (let n = 0; n < 10_000; n += 1)
        await (await withLock.promise(`many:${n}`, { lifetime: 10_000, fencing: false }))();
      expect(await withLock.tryLock('key')).to.equal(null);
    });
  });

  it('lost by `expire`, `seize`, `maxHold` and `close`, whether or not it stalls, and for no other reason', async () => {
    const lost = async (reason: string, end: () => unknown, options: redisExpLock.Options = {}): Promise<void> => {
      const running = withLock.run('key', options, async ({ signal }) => {
        end();
        blockFor(3 * lifetime);
        await waitFor(() => signal.aborted);
      });
      expect(await failure(running)).to.include({ code: 'ERR_LOCK_LOST', reason });
      redis.expire('key');
    };
    await lost('missing', () => redis.expire('key'));
    await lost('taken', () => redis.seize('key'));
    await lost('expired', () => {}, { maxHold: lifetime });
    await lost('closed', () => void withLock.close({ drain: false }));
  });

  it('`maxHold` that is over in a stall: held to the end of its last lifetime, as without', async () => {
    // The stall is as long as the test says, and the machine's own do not count.
    let stallMs = 0;
    const stubbed = stubClocks(() => {
      const ms = stallMs;
      stallMs = 0;
      return ms;
    });
    try {
      const running = withLock.run('key', { lifetime: 1_000, maxHold: 1_500 }, async ({ signal }) => {
        stallMs = 1_800;
        expect(signal.aborted).to.equal(false);
        expect((await withLock.inspect('key')).locked).to.equal(true);
        stallMs = 1_000;
        await waitFor(() => signal.aborted);
      });
      expect(await failure(running)).to.include({ reason: 'expired' });
    } finally {
      stubbed.restore();
    }
  });

  it('what is not renewed ends with its lifetime, as ever', async () => {
    const lease = await withLock.promise('key');
    blockFor(2 * lifetime);
    expect(lease.remaining()).to.equal(0);
    expect(await lease()).to.equal(false);
  });

  it('a renewed lease that nobody keeps is freed', async () => {
    await withLock.promise('key', { autoExtend: true });
    await waitFor(async () => {
      globalThis.gc!();
      return !(await withLock.inspect('key')).locked;
    });
  });
});

describe('a clock that is handed in', () => {
  let nowMs: number;
  let redis: redisExpLock.MemoryStore;
  let withLock: redisExpLock.WithLock;

  beforeEach(() => {
    nowMs = 1_000;
    redis = memoryStore({ now: () => nowMs });
    withLock = redisExpLock({ redis, lifetime: 1_000 });
  });

  it('owns leases: they last while it stands, and end when it leaps', async () => {
    const lease = await withLock.promise('key', { lifetime: 50 });
    const { signal } = lease;
    await sleep(120);
    expect(lease.remaining()).to.be.within(49, 50);
    expect(signal.aborted).to.equal(false);
    expect((await withLock.inspect('key')).remaining).to.equal(50);
    nowMs += 30;
    expect(lease.remaining()).to.be.within(19, 20);
    nowMs += 30;
    expect(lease.remaining()).to.equal(0);
    await waitFor(() => signal.aborted);
    expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST' });
    expect((await withLock.inspect('key')).locked).to.equal(false);
  });

  it('owns waits: polled, queued, and their timeouts', async () => {
    const lease = await withLock.promise('key', { lifetime: 10_000 });
    const queued = withLock.promise('key', { timeout: 5_000 });
    const polling = withLock.promise('key', { maxRetries: 1, retryTimeout: 5_000 });
    for (const wait of [queued, polling]) wait.catch(() => {});
    await sleep(100);
    expect(await pending(queued)).to.equal(true);
    expect(await pending(polling)).to.equal(true);
    nowMs += 5_001;
    expect(await failure(queued)).to.include({ code: 'ERR_LOCK_TIMEOUT' });
    expect(await failure(polling)).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    const next = withLock.promise('key', { timeout: 60_000 });
    nowMs += 5_000;
    expect((await next).fence).to.be.greaterThan(lease.fence);
    await (await next)();
    expect(await lease()).to.equal(false);
  });

  it('owns the waits of readers, writers and permits', async () => {
    const rw = new RWLock('rw', { redis, lifetime: 1_000, autoExtend: false });
    const semaphore = new Semaphore('permits', 1, { redis, lifetime: 1_000 });
    const held = [await rw.acquireWrite(), await semaphore.acquire()];
    const waits = [rw.acquireRead({ timeout: 5_000 }), semaphore.acquire(1, { timeout: 5_000 })];
    const late = rw.acquireWrite({ timeout: 500 });
    nowMs += 501;
    expect(await failure(late)).to.include({ code: 'ERR_LOCK_TIMEOUT' });
    nowMs += 500;
    const next = await Promise.all(waits);
    for (const lease of next) expect(await lease()).to.equal(true);
    for (const lease of held) expect(await lease()).to.equal(false);
  });

  it('owns renewal and `maxHold`', async () => {
    const running = withLock.run('key', { maxHold: 5_000 }, async ({ signal }) => {
      for (let n = 0; n < 4; n += 1) {
        nowMs += 1_200;
        await sleep(15);
        expect(signal.aborted).to.equal(false);
      }
      nowMs += 2_000;
      await waitFor(() => signal.aborted);
    });
    expect(await failure(running)).to.include({ code: 'ERR_LOCK_LOST', reason: 'expired' });
  });

  it('owns what is cached', async () => {
    let loads = 0;
    const ask = () => withLock.cached('key', { ttl: 1_000 }, () => ++loads);
    expect([await ask(), await ask()]).to.deep.equal([1, 1]);
    nowMs += 1_001;
    expect(await ask()).to.equal(2);
  });

  it('`close` awaits holders by it', async () => {
    const lease = await withLock.promise('key', { lifetime: 60_000 });
    const closing = withLock.close();
    await sleep(30);
    expect(await pending(closing)).to.equal(true);
    nowMs += 60_001;
    await closing;
    expect(await lease()).to.equal(false);
  });

  it('goes forward only: one that is put back goes on from there', async () => {
    const lease = await withLock.promise('key');
    nowMs = 0;
    expect(lease.remaining()).to.be.within(990, 1_000);
    nowMs += 400;
    expect(lease.remaining()).to.be.within(590, 600);
    await lease();
  });
});
