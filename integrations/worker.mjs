// A Worker that takes locks: what each path does, as JSON. Env: URL and TOKEN of the Upstash REST protocol.
import { Redis } from '@upstash/redis/cloudflare';
import redisExpLock, { HostLock, memoryStore, RWLock, Semaphore, sharedMemoryStore } from 'redis-exp-lock';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const messageOf = async (work) => {
  try {
    return await work();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};
/** A factory that all requests of an isolate share. */
const ofIsolate = redisExpLock({ redis: memoryStore() });
let ofIsolateOverHttp;

const paths = {
  async run(key, { withLock }) {
    let runs = 0;
    const value = await withLock.run(key, ({ fence, signal }) => {
      runs += 1;
      return fence > 0 && !signal.aborted;
    });
    return [value, runs];
  },
  renewed: (key, { withLock }) =>
    withLock.run(key, { lifetime: 1000 }, async (lease) => {
      await pause(2500);
      return lease.extend();
    }),
  wait: (key, { withLock }) =>
    withLock.run(key, { timeout: 30_000 }, async ({ fence }) => {
      await pause(100);
      return fence;
    }),
  shared(key, { redis }) {
    ofIsolateOverHttp ??= redisExpLock({ redis });
    return ofIsolateOverHttp.run(key, { timeout: 30_000 }, ({ fence }) => fence);
  },
  memory: (key) =>
    ofIsolate.run(key, { timeout: 30_000 }, async ({ fence }) => {
      await pause(20);
      return fence;
    }),
  once: async (key, { withLock }) => (await withLock.once(key, { every: 3_600_000 }, () => 'done')).ran,
  cached: (key, { withLock }) => withLock.cached(key, { ttl: 60_000 }, () => crypto.randomUUID()),
  permits: (key, { redis }) => new Semaphore(key, 2, { redis }).run({ timeout: 30_000 }, () => 'permit'),
  async rw(key, { redis }) {
    const lock = new RWLock(key, { redis });
    return Promise.all([lock.read(() => 'read'), lock.write(() => 'wrote')]);
  },
  promise: async (key, { withLock }) => {
    const release = await withLock.promise(key);
    return [await withLock.tryRun(key, () => 'ran'), await release(), await withLock.tryRun(key, () => 'ran')];
  },
  self: (key, { withLock }) =>
    messageOf(() => withLock.run(key, () => withLock.run(key, { timeout: 100 }, () => 'never'))),
  absent: async () => [await messageOf(() => new HostLock('name')), await messageOf(() => sharedMemoryStore('name'))],
};

export default {
  async fetch(request, env, ctx) {
    const [, path, key] = new URL(request.url).pathname.split('/');
    const redis = new Redis({ url: env.URL, token: env.TOKEN });
    const withLock = redisExpLock({ redis, lifetime: 10_000 });
    try {
      return Response.json(await paths[path](key, { redis, withLock }));
    } catch (error) {
      return new Response(error.stack, { status: 500 });
    } finally {
      ctx.waitUntil(withLock.close());
    }
  },
};
