// `inspect`: what the place knows of a key. It asks, and changes nothing.
import { createHash } from 'node:crypto';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { unansweredMs } from '../support/patience';
import { waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import { failure } from './outcomes';
import { describeEach, stranger } from './places';

/** As redis-cli users work it out: printf %s "$token" | sha1sum. */
const idOf = (token: string): string => createHash('sha1').update(token).digest('hex').slice(0, 8);

const free = { locked: false, owner: null, remaining: 0, waiters: 0, fence: 0, mode: null, holders: [], queue: [] };

describeEach('inspect', (here) => {
  let key: string;
  let withLock: redisExpLock.WithLock;
  /** A busy machine may hold up a reply for seconds. A node of a quorum has an eighth of the lifetime for it. */
  const patient = { lifetime: 60_000, commandTimeout: 10_000 };

  beforeEach(() => {
    key = uniqueKey();
    withLock = redisExpLock({ redis: here.redis, ...patient });
  });

  it('a key that was never held', async () => {
    expect(await withLock.inspect(key)).to.deep.equal(free);
    expect(await here.holder(key)).to.equal(null);
  });

  it('a held key: its owner, its end and its fence, also seen from elsewhere', async () => {
    const lease = await withLock.promise(key, { owner: 'billing_1' });
    for (const side of [withLock, redisExpLock({ redis: here.elsewhere, ...patient })]) {
      const state = await side.inspect(key);
      expect(state.remaining).to.be.within(1, patient.lifetime);
      expect(state).to.deep.equal({
        locked: true,
        owner: 'billing_1',
        remaining: state.remaining,
        waiters: 0,
        fence: lease.fence,
        mode: 'exclusive',
        holders: [
          { id: idOf(lease.token), owner: 'billing_1', kind: 'exclusive', permits: 1, remaining: state.remaining },
        ],
        queue: [],
      });
    }
    expect(await here.holder(key)).to.equal(lease.token);
    await lease();
  });

  it('a Lock asks for its own hold: true while the place has it, false once a stranger does', async () => {
    const [lock, other] = [0, 1].map(() => new redisExpLock.Lock(key, { redis: here.redis, ...patient }));
    expect(await lock!.keyOwned()).to.equal(false);
    await lock!.lock();
    expect([await lock!.keyLocked(), await lock!.keyOwned(), await other!.keyOwned()]).to.deep.equal([
      true,
      true,
      false,
    ]);
    await here.seize(key);
    expect([await lock!.keyLocked(), await lock!.keyOwned()]).to.deep.equal([true, false]);
  });

  it('a holder without a label has no owner', async () => {
    const lease = await withLock.promise(key);
    expect(await withLock.inspect(key)).to.include({ locked: true, owner: null });
    await lease();
  });

  it('an owner may be any text, with line breaks and underscores too', async () => {
    for (const owner of [
      'a',
      'a_b',
      '_',
      'zwei\nZeilen',
      'ü😀',
      ' ',
      `x_${'0'.repeat(8)}-0000-4000-8000-000000000000`,
    ]) {
      const lease = await withLock.promise(key, { owner });
      expect((await withLock.inspect(key)).owner).to.equal(owner);
      await lease();
    }
  });

  it('a released key is free, and its last fence is remembered', async () => {
    const lease = await withLock.promise(key);
    await lease();
    expect(await withLock.inspect(key)).to.deep.equal({ ...free, fence: lease.fence });
  });

  it('the fence is the last one given to any lock (of its slot, if there are shards); without fencing none is', async () => {
    const other = await withLock.promise(`{${key}}:other`);
    const { fence } = await withLock.inspect(key);
    expect(fence).to.be.at.least(other.fence);
    const lease = await withLock.promise(key, { fencing: false });
    expect(await withLock.inspect(key)).to.include({ locked: true, fence });
    await Promise.all([lease(), other()]);
  });

  if (!here.place.isQuorum) {
    it('what never ends has Infinity left', async () => {
      const lease = await withLock.promise(key, { lifetime: null });
      expect(await withLock.inspect(key)).to.include({ locked: true, remaining: Number.POSITIVE_INFINITY });
      await lease();
    });
  }

  it('the prefix of the factory counts', async () => {
    const prefixed = redisExpLock({ redis: here.redis, prefix: 'app:', ...patient });
    const lease = await prefixed.promise(key);
    expect(await prefixed.inspect(key)).to.include({ locked: true });
    expect(await withLock.inspect(key)).to.include({ locked: false });
    expect(await withLock.inspect(`app:${key}`)).to.include({ locked: true });
    await lease();
  });

  it('H10: a foreign holder without an end is locked, without an owner, for ever', async () => {
    await here.seize(key, null);
    const { fence } = await withLock.inspect(key);
    expect(await withLock.tryLock(key)).to.equal(null);
    expect(await withLock.inspect(key)).to.deep.equal({
      locked: true,
      owner: null,
      remaining: Number.POSITIVE_INFINITY,
      waiters: 0,
      fence,
      mode: 'exclusive',
      holders: [
        { id: idOf(stranger), owner: null, kind: 'exclusive', permits: 1, remaining: Number.POSITIVE_INFINITY },
      ],
      queue: [],
    });
  });

  it('H36: a caller that gave up is in no queue that it inspects right afterwards', async () => {
    const { RWLock, Semaphore } = redisExpLock;
    const options = { redis: here.redis, ...patient };
    const rwLock = new RWLock(`${key}:rw`, options);
    const semaphore = new Semaphore(`${key}:permits`, 1, options);
    const held = [await withLock.promise(key), await rwLock.acquireRead(), await semaphore.acquire()];
    const waits: [string, (wait: redisExpLock.Options) => Promise<unknown>][] = [
      [key, (wait) => withLock.promise(key, wait)],
      [rwLock.key, (wait) => rwLock.acquireWrite(wait)],
      [semaphore.key, (wait) => semaphore.acquire(1, wait)],
    ];
    for (const [waitedFor, wait] of waits) {
      const stop = new AbortController();
      const waiting = failure(wait({ timeout: 60_000, signal: stop.signal }));
      if (!here.place.polls && !here.place.isQuorum)
        await waitFor(async () => (await withLock.inspect(waitedFor)).waiters === 1);
      stop.abort();
      await waiting;
      expect(await withLock.inspect(waitedFor)).to.include({ waiters: 0 });
      await failure(wait({ timeout: 20 }));
      expect(await withLock.inspect(waitedFor)).to.include({ waiters: 0 });
    }
    for (const lease of held) await lease();
  });

  it('H36: of many callers that gave up at once, none is in a queue that is inspected right afterwards', async () => {
    const { RWLock } = redisExpLock;
    const options = { redis: here.redis, ...patient };
    // More than leave together.
    const mutexes = Array.from({ length: 150 }, (_, n) => `${key}:${n}`);
    const readers = Array.from({ length: 80 }, (_, n) => new RWLock(`${key}:rw:${n}`, options));
    const keys = [...mutexes, ...readers.map((each) => each.key)];
    const held = await Promise.all([
      ...mutexes.map((each) => withLock.promise(each)),
      ...readers.map((each) => each.acquireRead()),
    ]);
    const stop = new AbortController();
    const wait = { timeout: 60_000, signal: stop.signal };
    const waits = [
      ...mutexes.map((each) => failure(withLock.promise(each, wait))),
      ...readers.map((each) => failure(each.acquireWrite(wait))),
    ];
    const queuesOf = () => Promise.all(keys.map((each) => withLock.inspect(each)));
    if (!here.place.polls && !here.place.isQuorum)
      await waitFor(async () => (await queuesOf()).every(({ waiters }) => waiters === 1));
    stop.abort();
    await Promise.all(waits);
    for (const last of [mutexes.at(-1)!, keys.at(-1)!]) expect(await withLock.inspect(last)).to.include({ waiters: 0 });
    for (const { waiters } of await queuesOf()) expect(waiters).to.equal(0);
    await Promise.all(held.map((lease) => lease()));
  });

  it('the token is not shown', async () => {
    const lease = await withLock.promise(key, { owner: 'billing' });
    expect(JSON.stringify(await withLock.inspect(key))).not.to.contain(lease.token.slice('billing_'.length));
    await lease();
  });

  it('H12: an impossible key, or no place to ask, is refused before any I/O', async () => {
    const connection = await here.connection();
    const asking = redisExpLock({ redis: connection.redis });
    for (const bad of ['', 5, null, undefined, [key], {}, 'a\ud800', `${key}:fence`, 'x'.repeat(1025)]) {
      expect((await failure(asking.inspect(bad as string))).code).to.equal('ERR_LOCK_OPTION');
    }
    expect((await failure(redisExpLock().inspect(key))).code).to.equal('ERR_LOCK_OPTION');
    expect(await connection.calls()).to.equal(0);
  });

  it('H72: a place that cannot be asked is an error, and not "free"', async () => {
    const error = await failure(redisExpLock({ redis: here.unconnected() }).inspect(key));
    expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
    expect(error.message).to.contain(here.place.advice);
  });

  if (!here.place.faults) return;

  it('H72: a place that is silent is an error', async () => {
    const connection = await here.connection();
    connection.proxy.blackHole();
    const error = await failure(redisExpLock({ redis: connection.redis, commandTimeout: unansweredMs }).inspect(key));
    expect(error).to.include({ code: 'ERR_LOCK_BACKEND', retryable: true });
  });
});
