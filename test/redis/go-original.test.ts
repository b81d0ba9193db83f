// H37 to H45, each as one scene that is played twice: with the Go original's scripts, where it goes wrong, and with ours.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { GoOriginal } from '../support/go-original';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';

interface Held {
  leave(): Promise<unknown>;
  /** Extends it, and says whether its holder still counts it as held. */
  refresh(): Promise<boolean>;
}

/** An object of one of them. Each asks once, unless said otherwise; undefined: refused. */
interface Side {
  read(lifetimeMs?: number): Promise<Held | undefined>;
  write(lifetimeMs?: number): Promise<Held | undefined>;
  /** Asks to write while it cannot, and goes on waiting. */
  waitToWrite(): Promise<void>;
  /** Asks to write while it cannot, and gives up. */
  giveUpWriting(): Promise<void>;
}

type Make = (how?: { readonly prefer?: 'reader'; readonly group?: string }) => Side;

const long = 30_000;
const short = 1_000;
const end = () => sleep(short + 100);

describe('readers and writers, by the Go original’s scripts and by ours', () => {
  let client: Client;
  let key: string;
  const open: redisExpLock.RWLock[] = [];

  before(async () => {
    client = await connect((await sharedRedis()).url);
  });

  beforeEach(() => {
    key = uniqueKey('rw');
  });

  afterEach(() => Promise.all(open.splice(0).map((lock) => lock.close({ drain: false }))));
  after(() => client.destroy());

  const theirs: Make = ({ prefer } = {}) => {
    const lock = new GoOriginal(client, key, prefer !== 'reader');
    const refresh = async () => true;
    return {
      read: async (ms = long) => ((await lock.readLock(ms)) ? { leave: () => lock.readUnlock(), refresh } : undefined),
      async write(ms = long) {
        if (!(await lock.writeLock(ms))) return undefined;
        return { leave: () => lock.writeUnlock(), refresh: () => lock.refreshWriter(long).then(refresh) };
      },
      waitToWrite: async () => void (await lock.writeLock(long)),
      giveUpWriting: async () => void (await lock.writeLock(long)),
    };
  };

  const ours: Make = ({ prefer, group = '' } = {}) => {
    const terms = { redis: client, prefer, readers: group, autoExtend: false, maxRetries: 0, commandTimeout: long };
    const lock = new redisExpLock.RWLock(key, terms);
    open.push(lock);
    const held = (lease: redisExpLock.RWLease): Held => ({
      leave: () => lease.release(),
      refresh: () => lease.extend(long),
    });
    const queued = async (): Promise<void> => {
      const look = redisExpLock({ redis: client, commandTimeout: long });
      while ((await look.inspect(key)).waiters === 0) await sleep(2);
    };
    const refused = (error: redisExpLock.LockError): undefined => {
      expect(error.code).to.equal('ERR_LOCK_ATTEMPTS');
    };
    return {
      read: (lifetime = long) => lock.acquireRead({ lifetime }).then(held, refused),
      write: (lifetime = long) => lock.acquireWrite({ lifetime }).then(held, refused),
      async waitToWrite() {
        lock.acquireWrite({ timeout: long, lifetime: long }).catch(() => {});
        await queued();
      },
      async giveUpWriting() {
        const stop = new AbortController();
        const waiting = lock.acquireWrite({ timeout: long, signal: stop.signal }).catch((error) => error);
        await queued();
        stop.abort(new Error('enough'));
        // Its entry is taken back before it is told, over the connection that the next reader asks on.
        expect(await waiting).to.include({ message: 'enough' });
      },
    };
  };

  /** The scenes and their outcomes: by the original’s scripts, and by ours. */
  const scenes: [what: string, scene: (make: Make) => Promise<boolean>, original: boolean, own: boolean][] = [
    [
      'H37: a reader that prefers readers passes a writer that waits',
      async (make) => {
        await make({ prefer: 'reader' }).read();
        await make({ prefer: 'reader' }).waitToWrite();
        return (await make({ prefer: 'reader' }).read()) !== undefined;
      },
      false,
      true,
    ],
    [
      'H38: after a reader died, a writer gets in beside the next reader',
      async (make) => {
        await make().read(short);
        await end();
        expect(await make().read()).not.to.equal(undefined);
        return (await make().write()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H39: after a stale reader left, a reader gets in beside a writer',
      async (make) => {
        const stale = await make().read(short);
        await end();
        expect(await make().write()).not.to.equal(undefined);
        await stale!.leave();
        return (await make().read()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H40: a reader that joined later ends with the first one, and a writer gets in beside it',
      async (make) => {
        await make().read(short);
        await make().read(long);
        await end();
        return (await make().write()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H41: a reader that leaves twice takes the lock from another reader',
      async (make) => {
        const [first] = [await make().read(), await make().read()];
        await first!.leave();
        await first!.leave();
        return (await make().write()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H42: readers of another group read under this group’s lock',
      async (make) => {
        await make({ group: 'one' }).read();
        return (await make({ group: 'two' }).read()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H43: a writer that gave up keeps readers from a free lock',
      async (make) => {
        const reader = await make().read();
        await make().giveUpWriting();
        await reader!.leave();
        return (await make().read()) === undefined;
      },
      true,
      false,
    ],
    [
      'H43: a writer that is granted lets readers pass the other writer that waits',
      async (make) => {
        const first = await make().write();
        await make().waitToWrite();
        await first!.leave();
        const second = await make({ group: 'none' }).write();
        if (second === undefined) return false; // the one that waits is first
        await second.leave();
        return (await make().read()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H44: two writes of one object share a hold',
      async (make) => {
        const one = make();
        await one.write();
        return (await one.write()) !== undefined;
      },
      true,
      false,
    ],
    [
      'H45: a writer goes on after its lock was taken away',
      async (make) => {
        const writer = await make().write();
        await client.del(key);
        return writer!.refresh();
      },
      true,
      false,
    ],
  ];
  for (const [what, scene, original, own] of scenes) {
    it(what.startsWith('H37') ? what : `${what}: not here`, async () => {
      expect(await scene(theirs), 'the original').to.equal(original);
      key = uniqueKey('rw');
      expect(await scene(ours), 'ours').to.equal(own);
    });
  }
});
