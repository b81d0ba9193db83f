// One factory, several stores: what is kept for one of them is never served to a caller of another.
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { pending } from '../contract/outcomes';
import { waitFor } from '../support/processes';

describe('one factory, several stores', () => {
  it('H75: a queue is of its store: a release in one grants nothing in another', async () => {
    const withLock = redisExpLock({ lifetime: 10_000 });
    const [one, other] = [redisExpLock.memoryStore(), redisExpLock.memoryStore()];
    const [held, otherHeld] = await Promise.all([one, other].map((redis) => withLock.promise('key', { redis })));
    const waiting = withLock.promise('key', { redis: one, timeout: 10_000 });
    const otherWaiting = withLock.promise('key', { redis: other, timeout: 10_000 });
    await otherHeld!();
    const granted = await otherWaiting;
    expect(await pending(waiting)).to.equal(true);
    await Promise.all([held!(), granted()]);
    await (await waiting)();
    await withLock.close();
  });

  it('H75: a queue is of its prefix, owner, lifetime and fencing, too: each lease is as it was asked for', async () => {
    const redis = redisExpLock.memoryStore();
    const withLock = redisExpLock({ redis, lifetime: 10_000, timeout: 10_000 });
    const held = await withLock.promise('key');
    const asked: redisExpLock.Options[] = [{ owner: 'a' }, { owner: 'b' }, { lifetime: 5_000 }, { fencing: false }];
    const waiting = asked.map((options) => withLock.promise('key', options));
    const elsewhere = await withLock.promise('key', { prefix: 'p:' });
    await held();
    for (const [n, each] of waiting.entries()) {
      const lease = await each;
      const { owner, lifetime = 10_000, fencing = true } = asked[n]!;
      expect(lease.token.startsWith(`${owner}_`)).to.equal(owner !== undefined);
      // A grant by message is for two seconds until it is confirmed.
      await waitFor(() => lease.remaining() > lifetime! - 4_000, { what: 'the confirmation' });
      expect(lease.remaining()).to.be.at.most(lifetime!);
      expect(lease.fence > 0).to.equal(fencing);
      await lease();
    }
    await elsewhere();
    await withLock.close();
  });
});
