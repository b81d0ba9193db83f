// A process of its own that does one thing with a lock and is then left to end by itself. Run by close.test.ts.
import redisExpLock from '../../src/index';
import { places } from './places';

const deeds: Record<string, (withLock: redisExpLock.WithLock, key: string) => Promise<unknown>> = {
  /** Holds, releases, closes. */
  async close(withLock, key) {
    await withLock.run(key, () => {});
    await withLock.close();
  },
  /** Holds for an hour, renewed and watched, and never gives it back. */
  async hold(withLock, key) {
    const lease = await withLock.promise(key, { lifetime: 3_600_000, autoExtend: true });
    void lease.signal;
    Object.assign(globalThis, { lease }); // not to be collected
  },
  /** The same, renewed every second. */
  async renew(withLock, key) {
    const lease = await withLock.promise(key, { lifetime: 3_000, autoExtend: true });
    void lease.signal;
    Object.assign(globalThis, { lease });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
  },
  /** Gave up a wait and went on. */
  async abort(withLock, key) {
    const waiting = withLock.promise(key, { timeout: 3_600_000, signal: AbortSignal.timeout(50) });
    await waiting.catch(() => {});
  },
  /** Closed while others wait and hold. */
  async 'close while in use'(withLock, key) {
    const waiting = withLock.promise(key, { timeout: 3_600_000 }).catch((error) => error.code);
    const lease = await withLock.promise(`${key}:held`, { lifetime: 3_600_000, autoExtend: true });
    void lease.signal;
    await withLock.close({ drain: 50 });
    await waiting;
  },
};

async function main(): Promise<void> {
  const [place, address, deed, key, seized] = process.argv.slice(2) as [string, string, string, string, string];
  const { redis, leave } = await places.find(({ name }) => name === place)!.join(address, seized);
  // A busy machine may hold up a reply, or this process, for seconds.
  await deeds[deed]!(redisExpLock({ redis, lifetime: 60_000, commandTimeout: 10_000 }), key);
  process.send!('done', () => process.disconnect());
  await leave();
}

void main();
