// redis-exp-lock/edge in a realm that has the globals of the Web and nothing of Node, as Workers and browsers are: timers are numbers, and
// nothing can be imported. On Workers, timers and requests over the network end with the incoming request that began them. The tests in
// real ones are integrations/edge.test.ts.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { Redis } from '@upstash/redis';
import { expect } from 'chai';
import { buildSync } from 'esbuild';
import fc from 'fast-check';
import { sha1 } from '../src/core/stand-ins';
import type redisExpLock from '../src/index';
import { sharedRedis, uniqueKey } from './support/redis';
import { type Bridge, startBridge } from './support/upstash';

const src = join(__dirname, '../src');

/** The modules that the entry leads to, bundled for a browser: esbuild refuses a module of Node. The rest is in test/package. */
function bundle(): string {
  const modules = ['with-lock', 'lock', 'rw-lock', 'semaphore', 'election', 'store/embedded/memory', 'core/events'];
  const [file] = buildSync({
    stdin: { contents: modules.map((name) => `export * from './${name}';`).join('\n'), resolveDir: src },
    write: false,
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'edge',
    target: 'es2022',
    ignoreAnnotations: true,
  }).outputFiles;
  return file!.text;
}

const { setTimeout: start, clearTimeout: stop } = globalThis;

/** The globals of one realm. Its timers belong to the incoming request that set them, and end with it. */
class Realm {
  readonly incoming = new AsyncLocalStorage<string>();
  readonly warnings: string[] = [];
  readonly library: typeof redisExpLock & { redisExpLock: typeof redisExpLock };
  readonly #timers = new Map<number, { readonly timer: NodeJS.Timeout; readonly request: string | undefined }>();
  #last = 0;
  /** The clock of a realm of Workers stands still while a program runs. Set: it shows this. */
  nowMs: number | undefined;

  constructor(text: string, userAgent: string) {
    const { TextEncoder, TextDecoder, crypto, AbortController, AbortSignal, queueMicrotask } = globalThis;
    const context = createContext({
      ...{ TextEncoder, TextDecoder, crypto, AbortController, AbortSignal, queueMicrotask },
      performance: { now: () => this.nowMs ?? performance.now() },
      navigator: { userAgent },
      console: { warn: (text: string) => this.warnings.push(text) },
      setTimeout: (work: () => void, ms: number) => this.#set(work, ms),
      clearTimeout: (timer: unknown) => this.#clear(timer),
      ...{ setInterval, clearInterval },
    });
    runInContext('delete globalThis.WeakRef; delete globalThis.FinalizationRegistry;', context);
    this.library = runInContext(`${text}\nedge`, context);
  }

  /** Runs `work` as an incoming request that ends with it: its timers are gone then. */
  async serve<T>(request: string, work: () => Promise<T>): Promise<T> {
    try {
      return await this.incoming.run(request, work);
    } finally {
      for (const [id, { request: whose }] of this.#timers) if (whose === request) this.#clear(id);
    }
  }

  get timers(): number {
    return this.#timers.size;
  }

  #set(work: () => void, ms: number): number {
    this.#last += 1;
    const id = this.#last;
    const ring = (): void => {
      this.#timers.delete(id);
      work();
    };
    this.#timers.set(id, { timer: start(ring, ms), request: this.incoming.getStore() });
    return id;
  }

  #clear(id: unknown): void {
    if (id === undefined) return;
    if (typeof id !== 'number') throw new TypeError('timers are numbers');
    stop(this.#timers.get(id)?.timer);
    this.#timers.delete(id);
  }
}

describe('redis-exp-lock/edge, without anything of Node', () => {
  let text: string;
  let bridge: Bridge;
  const realm = (userAgent = 'Cloudflare-Workers'): Realm => new Realm(text, userAgent);
  const upstash = (): Redis => new Redis({ url: bridge.url, token: bridge.token, enableTelemetry: false });

  before(async () => {
    text = bundle();
    bridge = await startBridge((await sharedRedis()).url);
  });

  after(() => bridge?.close());

  for (const userAgent of ['Cloudflare-Workers', 'Mozilla/5.0']) {
    for (const kind of ['memory', 'Upstash']) {
      it(`H90: every way in settles with its grant (${kind}, ${userAgent})`, async () => {
        const { library } = realm(userAgent);
        const redis: any = kind === 'memory' ? library.memoryStore() : upstash();
        const prefix = uniqueKey('edge');
        // Each call is a request of HTTP, which a busy machine may keep for a second.
        const options = { redis, prefix, lifetime: 10_000, commandTimeout: 10_000, register: kind === 'memory' };
        const withLock = library.redisExpLock(options);
        let runs = 0;
        const ran = await withLock.run('run', async (lease) => {
          runs += 1;
          expect(lease.signal.aborted).to.equal(false);
          return lease.fence;
        });
        expect([runs, ran > 0]).to.deep.equal([1, true]);

        const order: number[] = [];
        const holders = [1, 2, 3].map((n) =>
          withLock.run('wait', { timeout: 20_000 }, async ({ fence }) => void order.push(n && fence)),
        );
        await Promise.all(holders);
        expect(order).to.deep.equal(order.toSorted((one, other) => one - other));
        expect(new Set(order).size).to.equal(3);

        const waited = withLock.promise('poll', { maxRetries: 10_000, retryTimeout: 5 });
        expect(await (await waited).release()).to.equal(true);
        expect(await withLock.tryRun('try', () => 'ran')).to.deep.equal({ ran: true, value: 'ran' });
        const called = new Promise((resolve) => withLock('call', (error, done) => done!(() => resolve(error))));
        expect(await called).to.equal(null);
        const loads = [1, 2].map((n) => withLock.cached('cached', { ttl: 10_000 }, async () => n));
        expect(new Set(await Promise.all(loads)).size).to.equal(1);
        const slots = [1, 2].map(() => withLock.once('once', { every: 3_600_000 }, () => 'done'));
        expect((await Promise.all(slots)).map(({ ran }) => ran).toSorted()).to.deep.equal([false, true]);
        const semaphore = new library.Semaphore('permits', 2, options);
        const permits = [1, 2, 3].map((n) => semaphore.run({ timeout: 20_000 }, async () => n));
        expect(await Promise.all(permits)).to.deep.equal([1, 2, 3]);
        const rwLock = new library.RWLock('rw', { ...options, timeout: 20_000 });
        const [read, wrote] = await Promise.all([rwLock.read(() => 'read'), rwLock.write(() => 'wrote')]);
        expect([read, wrote]).to.deep.equal(['read', 'wrote']);
        const lock = new library.Lock('lock', options);
        expect(await lock.lock()).to.equal(1);
        expect(await lock.unlock()).to.equal(true);
        await withLock.close();
      });
    }
  }

  it('H90: an incoming request that ends takes no timer of another with it', async () => {
    const workers = realm();
    workers.nowMs = 1000;
    const { redisExpLock, memoryStore } = workers.library;
    // No message tells of the end of a lifetime: each of the two has a timer for it.
    const withLock = redisExpLock({ redis: memoryStore({ now: () => workers.nowMs! }), lifetime: 50 });
    await workers.serve('the holder', () => withLock.promise('key'));
    const first = new AbortController();
    const polling = { maxRetries: 1000, retryTimeout: 20, lifetime: 1000 };
    const leaving = workers.serve('the first', () => withLock.promise('key', { ...polling, signal: first.signal }));
    await new Promise(setImmediate);
    const staying = workers.incoming.run('the second', () => withLock.promise('key', polling));
    await new Promise(setImmediate); // both wait for the same time by now
    first.abort(new Error('its client is gone'));
    expect((await leaving.catch((error) => error)).cause).to.equal(first.signal.reason);
    expect(workers.timers).to.be.above(0);
    workers.nowMs = 2000;
    expect(await (await staying).release()).to.equal(true);
  });

  it('H90: no call leaves with the calls of another incoming request', async () => {
    const workers = realm();
    const { redisExpLock, RWLock, Semaphore } = workers.library;
    const redis: any = upstash();
    const sent: string[] = [];
    const { client } = redis;
    const request = client.request.bind(client);
    client.request = (given: { body: string[] }) => {
      sent.push(`${workers.incoming.getStore()}: ${given.body.filter((word) => word.startsWith('edge')).length}`);
      return request(given);
    };
    const keys = ['one', 'two'].map((name) => uniqueKey(`edge-${name}`));
    const turn = (): Promise<void> => new Promise((resolve) => queueMicrotask(() => queueMicrotask(resolve)));
    const asked: Promise<unknown>[] = [];
    for (const key of keys) {
      // A request of HTTP may take a second on a busy machine.
      const semaphore = new Semaphore(key, 1, { redis, lifetime: 30_000, commandTimeout: 30_000 });
      asked.push(workers.incoming.run(key, () => semaphore.run(async () => key)));
      await turn();
    }
    expect(sent).to.have.length(2);
    expect(await Promise.all(asked)).to.deep.equal(keys);
    for (const key of keys) expect(sent.filter((each) => each.startsWith(`${key}: `)).length).to.be.above(1);
    expect([redisExpLock, RWLock].map((each) => typeof each)).to.deep.equal(['function', 'function']);
  });

  it('tells its events on channels of its own, and its warnings on the console', async () => {
    const { library, warnings } = realm();
    const { redisExpLock, memoryStore, eventChannel } = library;
    const store = memoryStore();
    const withLock = redisExpLock({ redis: store, owner: 'me' });
    const told: unknown[] = [];
    const tell = ({ key }: { key: unknown }): void => void told.push(key);
    const names = ['redis-exp-lock:lost', 'tracing:redis-exp-lock:acquire:asyncEnd'] as const;
    for (const name of names) eventChannel(name).subscribe(tell);
    const lease = await withLock.promise('key');
    const [holder] = (await withLock.inspect('key')).holders;
    expect(holder!.id).to.equal(createHash('sha1').update(lease.token).digest('hex').slice(0, 8));
    store.seize('key');
    expect(await lease.extend()).to.equal(false);
    for (const name of names) eventChannel(name).unsubscribe(tell);
    await withLock.tryLock('other');
    expect(told).to.deep.equal(['key', 'key']);
    expect(eventChannel('redis-exp-lock:lost').hasSubscribers).to.equal(false);
    expect(warnings).to.deep.equal([]);
  });

  it('an option that is none is refused by name, with what came', async () => {
    const { redisExpLock, memoryStore } = realm().library;
    const make = (lifetime: any) => () => redisExpLock({ redis: memoryStore(), lifetime });
    expect(make('long')).to.throw('lifetime: expected');
    expect(make('long')).to.throw('"long"');
    expect(make(-1)).to.throw('-1');
  });

  it('the ids of holders are those that Redis knows: its SHA-1', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 300 });
    const isSame = (given: string): void => {
      expect(sha1(new TextEncoder().encode(given))).to.equal(createHash('sha1').update(given).digest('hex'));
    };
    for (const length of [0, 55, 56, 63, 64, 119, 120]) isSame('a'.repeat(length));
    fc.assert(fc.property(text, isSame));
  });
});
