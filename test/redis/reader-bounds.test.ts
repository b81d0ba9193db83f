/** Readers, writers and time: how long readers may pass a writer, and what a request that comes twice leaves behind. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import * as scripts from '../../src/store/redis/scripts/generated';
import { ownServer } from '../support/own-server';
import { type Client, uniqueKey } from '../support/redis';

const { RWLock } = redisExpLock;

describe('readers that go first, and requests that come twice', () => {
  const terms = { lifetime: 10_000, commandTimeout: 10_000 };
  let client: Client;
  let key: string;

  ownServer((own) => {
    ({ client } = own);
  });

  beforeEach(() => {
    key = uniqueKey('readers');
  });

  it("'reader': 64 readers without a pause let a writer in after half a second, each time", async () => {
    const lock = new RWLock(key, { redis: client, ...terms, prefer: 'reader', timeout: 20_000 });
    let over = false;
    let reads = 0;
    const readers = Array.from({ length: 64 }, async () => {
      while (!over)
        await lock.read(() => {
          reads += 1;
          return sleep(20 + Math.random() * 20);
        });
    });
    await sleep(200);
    const passed: number[] = [];
    for (let n = 0; n < 4; n++) {
      const before = reads;
      await lock.write(() => passed.push(reads - before));
      await sleep(50);
    }
    over = true;
    await Promise.all(readers);
    // What they read in half a second, in the turn that is inside then, and in two seconds for the machine. No reads are counted while it
    // stands still.
    expect(Math.max(...passed), `${passed}`).to.be.below((64 * (500 + 40 + 2_000)) / 30);
  });

  for (const prefer of ['writer', 'fair'] as const) {
    it(`'${prefer}': no reader goes on for as long as others of its lock object read: a writer is passed a few times at most`, async () => {
      const make = (): redisExpLock.RWLock => {
        return new RWLock(key, { redis: client, ...terms, prefer, timeout: 20_000 });
      };
      const [lock, writers] = [make(), make()];
      const reads: number[] = Array(12).fill(0);
      let over = false;
      const readers = reads.map(async (_, n) => {
        for (; !over; reads[n]! += 1) await lock.read(() => sleep(20 + Math.random() * 20));
      });
      await writers.write(() => {});
      for (let n = 0; n < 4; n++) {
        const before = [...reads];
        const passed = await writers.write(() => reads.map((count, at) => count - before[at]!));
        // That which it reads, the turn of the readers before the writer, and what the machine does before the writer is queued.
        expect(Math.max(...passed), `${passed}`).to.be.at.most(4);
      }
      over = true;
      await Promise.all(readers);
    });
  }

  /** The acquire as it was sent for this lease: another copy of it, as a client sends one after it has reconnected. */
  function acquireAgain(token: string, kind: 'r' | 'w'): Promise<unknown> {
    const names = [key, 'redis-exp-lock:fence', companionOf(key, 'queue'), companionOf(key, 'limit')] as const;
    const call = scripts.acquireShared(...names, token, 10_000, Date.now() + 1_000, 1, kind, 'w', 1, 0, 0, '', []);
    const batch = scripts.batchShared(call.keys, [`acquireShared 4 ${call.args.length}`, ...call.args]);
    return client.eval(batch.script.lua, { keys: [...batch.keys], arguments: [...batch.args] });
  }

  it('an acquire of a reader that comes again finds its member, though a writer waits and other readers end later', async () => {
    const lock = new RWLock(key, { redis: client, ...terms, autoExtend: false, timeout: 10_000 });
    const readers = [await lock.acquireRead(), await new RWLock(key, { redis: client, ...terms }).acquireRead()];
    const writer = lock.acquireWrite();
    while ((await client.zCard(companionOf(key, 'queue'))) === 0) await sleep(5);
    const [, outcome, fence] = (await acquireAgain(readers[0]!.token, 'r')) as number[];
    expect([outcome, fence]).to.deep.equal([1, readers[0]!.fence]);
    expect(await client.zCard(companionOf(key, 'queue'))).to.equal(1);
    expect(await client.zCard(key)).to.equal(2);
    for (const each of readers) expect(await each.release()).to.equal(true);
    expect(await (await writer).release()).to.equal(true);
  });

  it('H46: a second reader that wants to write is refused while the first waits to', async () => {
    const readers = await Promise.all(
      [1, 2].map(() => new RWLock(key, { redis: client, ...terms, autoExtend: false, timeout: 10_000 }).acquireRead()),
    );
    const [first, second] = readers as [redisExpLock.RWLease, redisExpLock.RWLease];
    const upgrade = first.upgrade();
    while ((await client.zCard(companionOf(key, 'queue'))) === 0) await sleep(5);
    const error = await second.upgrade().catch((reason) => reason);
    expect(error).to.be.an.instanceOf(redisExpLock.LockDeadlockError);
    expect(await second.release()).to.equal(true);
    await upgrade;
    expect(await first.release()).to.equal(true);
  });

  for (const kind of ['r', 'w'] as const) {
    it(`an acquire (${kind}) that comes again after changes in place leaves no second reader`, async () => {
      const lock = new RWLock(key, { redis: client, ...terms, maxRetries: 0, autoExtend: false });
      const lease = kind === 'r' ? await lock.acquireRead() : await lock.acquireWrite();
      if (kind === 'r') await lease.upgrade();
      await lease.downgrade();
      const others = [await lock.acquireRead(), await lock.acquireRead()];
      await acquireAgain(lease.token, kind);
      expect(await client.zCard(key)).to.equal(3);
      for (const each of others) expect(await each.release()).to.equal(true);
      await lease.upgrade();
      expect(lease.mode).to.equal('write');
      await lease.downgrade();
      expect(await lease.release()).to.equal(true);
      expect(await client.exists([key, companionOf(key, 'limit')])).to.equal(0);
    });
  }
});
