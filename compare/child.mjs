// One process that uses one library: `child.mjs <library> <url> <lifetime>`. It does what its parent says, one message each, and
// answers with what came of it. Moments are those of the monotonic clock, which all processes of a host share.
const [library, url, lifetime] = process.argv.slice(2);
const now = () => Number(process.hrtime.bigint() / 1000n) / 1000;
const locks = await (await import(`./adapters/${library}.mjs`)).open(url, { lifetime: Number(lifetime) });
let handle;
let finish;

/** The form that the library recommends for work under a lock; without one, a lock that is simply held. */
const hold = locks.hold ?? holdOnly;

async function holdOnly(key, work) {
  const held = await locks.acquire(key);
  await work({ notified: new Promise(() => {}), fence: held.fence }).finally(() => held.release());
}

const verbs = {
  async acquire({ key, wait }) {
    handle = await locks.acquire(key, wait);
    return { fence: handle.fence };
  },
  release: () => handle.release().then(() => undefined),
  async extend({ ms }) {
    if (!handle.extend) return { none: true };
    await handle.extend(ms);
  },
  /** Answers when the lock is held; `lost` follows if the holder is notified so. */
  hold: ({ key }) =>
    new Promise((resolve, reject) => {
      const ended = new Promise((end) => {
        finish = end;
      });
      hold(key, ({ notified, fence }) => {
        notified.then(() => process.send({ lost: now() }));
        resolve({ fence });
        return ended;
      }).catch(reject);
    }),
  finish: () => finish(),
  /** Lets `size` callers take the lock at once, each holding it for a millisecond. */
  async crowd({ key, size }) {
    const turns = [];
    const start = now();
    await Promise.all(
      Array.from({ length: size }, async (_, n) => {
        const held = await locks.acquire(key, 120_000);
        turns.push({ n, ms: now() - start });
        await new Promise((resolve) => setTimeout(resolve, 1));
        await held.release();
      }),
    );
    return { turns };
  },
};

process.on('message', async ({ id, verb, ...words }) => {
  const answer = await Promise.resolve(verbs[verb](words)).catch((error) => ({
    error: `${error?.name}: ${error?.message}`,
  }));
  process.send({ id, at: now(), ...answer });
});
process.on('uncaughtException', (error) => process.send({ crashed: String(error) }));
process.on('unhandledRejection', () => {});
// Scripts are in the server before anything is done to it, so that a fault meets the command that matters.
const warm = await locks.acquire('warm');
await warm.release();
process.send({ ready: locks.redisKey('k') });
