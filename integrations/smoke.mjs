// A program for any runtime that uses the packed library. `node smoke.mjs memory`, or a place and its address:
// `redis redis://…`, `ioredis redis://…`, `bun redis://…`, `shared name`. Prints what it has tried; an error ends it.
import { createRequire } from 'node:module';
import redisExpLock, {
  LockBusyError,
  LockError,
  LockLostError,
  memoryStore,
  RWLock,
  Semaphore,
  sharedMemoryStore,
} from 'redis-exp-lock';

const [place, address] = globalThis.Deno?.args ?? process.argv.slice(2);
const done = [];

function check(what, isTrue) {
  if (!isTrue) throw new Error(`not so: ${what}`);
  done.push(what);
}

async function open() {
  if (place === 'memory') return [memoryStore(), () => {}];
  if (place === 'shared') return [sharedMemoryStore(address), () => {}];
  if (place === 'bun') {
    const client = new Bun.RedisClient(address);
    return [client, () => client.close()];
  }
  if (place === 'ioredis') {
    const { Redis } = await import('ioredis');
    const client = new Redis(address);
    return [client, () => client.disconnect()];
  }
  const { createClient } = await import('redis');
  const client = createClient({ url: address }).on('error', () => {});
  await client.connect();
  return [client, () => client.destroy()];
}

const [redis, leave] = await open();
const key = `smoke:${place}:${Date.now()}`;
const withLock = redisExpLock({ redis, lifetime: 30_000, owner: 'smoke' });
check('one copy by import and by require', createRequire(import.meta.url)('redis-exp-lock') === redisExpLock);

const first = await withLock.promise(key);
check('busy', (await withLock.tryLock(key)) === null);
const { locked, owner } = await withLock.inspect(key);
check('inspect', locked && owner === 'smoke');
const error = await withLock.promise(key, { maxRetries: 1 }).catch((each) => each);
check('a busy error', error instanceof LockBusyError && LockError.is(error) && error.code === 'ERR_LOCK_ATTEMPTS');
const queued = withLock.run(key, { timeout: 20_000 }, (lease) => lease.fence);
check('extend', await first.extend(20_000));
check('release', await first.release());
check('a hand-off under a larger fence', (await queued) > first.fence);

const together = await Promise.all([1, 2, 3].map((n) => withLock.promise(`${key}:${n}`)));
check('a batch', (await Promise.all(together.map((lease) => lease()))).every(Boolean));
check(
  'callback',
  await new Promise((resolve) => withLock(key, (err, release) => release((_, released) => resolve(!err && released)))),
);
check('cached', (await withLock.cached(key, { ttl: 1000 }, () => 42)) === 42);
check('once', (await withLock.once(`${key}:once`, { every: 86_400_000 }, () => 1)).ran);
check('tryRun', (await withLock.tryRun(key, () => 7)).value === 7);
check('several keys', (await withLock.run([`${key}:a`, `${key}:b`], (lease) => lease.keys.length)) === 2);
check('readers', (await Promise.all([1, 2].map(() => new RWLock(`${key}:rw`, { redis }).read(() => 1)))).length === 2);
check('permits', (await new Semaphore(`${key}:sem`, 2, { redis }).run(() => 1)) === 1);
const aborted = await withLock
  .run(key, () => withLock.promise(`${key}:x`, { signal: AbortSignal.abort(new Error('given up')) }))
  .catch((each) => each);
check('an abort', aborted.message === 'given up');
const brief = await withLock.promise(`${key}:brief`, { lifetime: 50 });
await new Promise((resolve) => setTimeout(resolve, 100));
check('a loss', brief.remaining() === 0 && brief.signal.aborted && brief.signal.reason instanceof LockLostError);
await withLock.close();
const closed = await withLock.promise(key).catch((each) => each.code);
check('closed', closed === 'ERR_LOCK_CLOSED');
leave();
console.log(`${done.length} ok: ${done.join(', ')}`);
