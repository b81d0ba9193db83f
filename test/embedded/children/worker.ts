// A process of its own at a table of this host, told by its parent what to do. Run by the tests in this folder.
import { readFileSync, writeFileSync } from 'node:fs';
import redisExpLock from '../../../src/index';

const deeds: Record<string, (name: string, ...args: string[]) => Promise<unknown>> = {
  /** Adds one to the number in a file, the given number of times: reads, thinks, writes. */
  async count(name, file, times) {
    const withLock = redisExpLock({ redis: redisExpLock.sharedMemoryStore(name), lifetime: 10_000, timeout: 60_000 });
    for (let n = 0; n < Number(times); n++) {
      await withLock.run('counter', async () => {
        const count = Number(readFileSync(file!, 'utf8'));
        if (n % 8 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        writeFileSync(file!, String(count + 1));
      });
    }
    await withLock.close();
  },
  /** The same with a HostLock. */
  async countByHostLock(name, file, times) {
    const lock = new redisExpLock.HostLock(name, { timeout: 30_000, maxStep: 5 });
    for (let n = 0; n < Number(times); n++) {
      await lock.lock('counter');
      writeFileSync(file!, String(Number(readFileSync(file!, 'utf8')) + 1));
      await lock.unlock();
    }
  },
  /** Takes a key and keeps it, until somebody kills us. */
  async hold(name, key, lifetime) {
    const lease = await redisExpLock({ redis: redisExpLock.sharedMemoryStore(name) }).promise(key!, {
      lifetime: Number(lifetime),
    });
    process.send!({ held: lease.fence, detached: { key, token: lease.token, fence: lease.fence, until: 0 } });
    await new Promise(() => setInterval(() => {}, 1000));
  },
  /** Waits for a key by place; says so when it has it. */
  async wait(name, key) {
    const withLock = redisExpLock({ redis: redisExpLock.sharedMemoryStore(name), lifetime: 60_000 });
    process.send!('waiting');
    const lease = await withLock.promise(key!, { timeout: 60_000 });
    process.send!({ held: lease.fence, at: Date.now() });
    await new Promise(() => setInterval(() => {}, 1000));
  },
  /** Takes and releases as fast as it can, until somebody kills us: most of the time in the middle of a write. */
  async write(name) {
    const withLock = redisExpLock({ redis: redisExpLock.sharedMemoryStore(name), lifetime: 500 });
    for (let n = 0; ; n++) {
      try {
        const lease = await withLock.tryLock(`key ${n % 100} ${'x'.repeat(n % 900)}`);
        if (n % 3 !== 0) await lease?.release();
      } catch (error) {
        if (!(error instanceof redisExpLock.LockError)) throw error; // a grant that came too late, on a busy machine
      }
      if (n === 100) process.send!('writing');
      if (n % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  },
};

const [deed, name, ...args] = process.argv.slice(2) as [string, string, ...string[]];
void deeds[deed]!(name, ...args).then(
  () => process.send!('done', () => process.disconnect()),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
