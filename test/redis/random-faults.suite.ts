/**
 * Thousands of random rounds of acquire, extend, release and abort, through connections that break, lose replies and stutter;
 * and then nothing is left: no key but the fences, no listener, no timer, no connection. While they run, no two leases of a
 * key are valid at the same time, and the fences rise in the order of the grants.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { fileOfCaller } from '../contract/outcomes';
import { mulberry32 } from '../simulation/events';
import {
  type Action,
  close,
  cutReplyAfter,
  delayReply,
  delayRequest,
  duplicateRequest,
  type FaultProxy,
  fallSilent,
  reset,
  startProxy,
} from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { randomFactor, randomRuns } from '../support/random-runs';
import { type Client, connect, type RedisServer, startRedis } from '../support/redis';

const rounds = randomRuns(4000);
const atOnce = 100;
const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const lines = 4;
const maxLifetimeMs = 1_500;
const commandTimeout = 1_000;

/** SEED=123 repeats the choices, though not the timing, of a run that failed. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32));

describe(`${rounds} random rounds with faults, seed ${seed}`, function () {
  this.timeout(180_000 * randomFactor); // as many rounds as are asked for

  const random = mulberry32(seed);
  const chance = (probability: number): boolean => random() < probability;
  const between = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1));
  const pick = <T>(from: readonly T[]): T => from[between(0, from.length - 1)]!;

  let server: RedisServer;
  let proxies: FaultProxy[];
  let clients: Client[];
  let locks: redisExpLock.WithLock[];

  before(async () => {
    server = await startRedis();
    proxies = await Promise.all(Array.from({ length: lines }, () => startProxy(server.port)));
    clients = await Promise.all(
      proxies.map(({ url }) =>
        connect(url, {
          commandOptions: { timeout: 0 }, // no timers of the client's own
          socket: { reconnectStrategy: 2 },
        }),
      ),
    );
    locks = clients.map((redis) => redisExpLock({ redis, commandTimeout, retryTimeout: 2 }));
  });

  after(async () => {
    for (const client of clients) client.destroy();
    await Promise.all(proxies.map((proxy) => proxy.stop()));
    await server.discard();
  });

  it('no two valid holders at once, fences rise, and nothing is left behind (H2, H3, H8, H16, H22, H36)', async () => {
    await sleep(0); // mocha sets its own timer once the test has begun
    const timers = new Timers();
    const before = {
      active: activeTimers(),
      listeners: clients.map(listenersOf),
      connections: await connections(server),
    };
    const signals: AbortSignal[] = [];
    const belief = new Belief();
    const outcomes = new Map<string, number>();
    const count = (what: string): void => void outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
    const faults = proxies.map((proxy) =>
      proxy.onCommand(({ name }) => (name === 'EVAL' || name === 'EVALSHA' ? fault() : undefined)),
    );

    function fault(): Action | undefined {
      const dice = random();
      if (dice < 0.0006) return reset();
      if (dice < 0.0012) return reset('before');
      if (dice < 0.0015) return close();
      if (dice < 0.0018) return cutReplyAfter(between(0, 20));
      if (dice < 0.0021) return fallSilent(60);
      if (dice < 0.0024) return fallSilent(60, 'before');
      if (dice < 0.012) return duplicateRequest();
      if (dice < 0.018) return delayReply(between(1, 20));
      if (dice < 0.024) return delayRequest(between(1, 20));
      return undefined;
    }

    async function round(): Promise<void> {
      const key = pick(keys);
      const controller = new AbortController();
      signals.push(controller.signal);
      const options: redisExpLock.Options = {
        lifetime: chance(0.5) ? between(20, 200) : between(200, maxLifetimeMs),
        signal: controller.signal,
        autoExtend: chance(0.1),
        ...pick([{}, { maxRetries: between(1, 5) }, { timeout: between(0, 60) }, { maxRetries: 3, timeout: 50 }]),
      };
      const acquiring = pick(locks).promise(key, options);
      if (chance(0.1)) setTimeout(() => controller.abort(new Error('aborted')), between(0, 20));
      let lease: redisExpLock.Lease;
      try {
        lease = await acquiring;
      } catch (error: any) {
        return count(error.code ?? error.message);
      }
      count('granted');
      belief.granted(key, lease);
      try {
        await use(lease);
      } catch (error: any) {
        expect(error, String(error?.stack)).to.be.instanceOf(redisExpLock.LockBackendError);
        count('granted, then silence');
      } finally {
        belief.over(key, lease);
      }
    }

    async function use(lease: redisExpLock.Lease): Promise<void> {
      if (chance(0.3)) lease.signal.addEventListener('abort', () => count('lost'));
      if (chance(0.3)) await sleep(between(0, 5));
      if (chance(0.2)) await lease.extend(chance(0.5) ? undefined : between(20, maxLifetimeMs));
      if (chance(0.02)) await sleep(between(0, 600));
      // Some forget, some do two things at once, most give it back.
      if (chance(0.01)) return;
      if (chance(0.2)) void lease.extend().catch(() => {});
      if (chance(0.1)) void lease.release().catch(() => {});
      await lease.release();
    }

    let made = 0;
    // On a machine that stands still most rounds time out; too few grants would prove nothing.
    const isEnough = (): boolean => made >= rounds && ((outcomes.get('granted') ?? 0) > 100 || made >= 10 * rounds);
    const worker = async (): Promise<void> => {
      while (!isEnough()) {
        made += 1;
        await round();
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));

    for (const rule of faults) rule.remove();
    await Promise.all(locks.map((lock) => lock.close({ drain: false })));
    // Requests that nobody awaited have been answered or given up; on a busy machine that takes a while.
    await waitFor(() => timers.pending.length === 0, { what: 'the last timer of the library' }).catch(() => {});
    await sleep(3 * commandTimeout); // and nothing begins again
    expect(timers.stop(), 'timers set by the library and never undone').to.deep.equal([]);
    await sleep(maxLifetimeMs);
    const told = JSON.stringify(Object.fromEntries(outcomes));
    expect(outcomes.get('granted'), told).to.be.greaterThan(100);
    for (const code of outcomes.keys())
      expect(code).to.be.oneOf([
        'granted',
        'granted, then silence',
        'lost',
        'aborted',
        'ERR_LOCK_ATTEMPTS',
        'ERR_LOCK_TIMEOUT',
        'ERR_LOCK_BACKEND',
      ]);

    const names: string[] = await server.command('KEYS', '*');
    // Marks may stay where the last entry was given up; they end ten seconds after it.
    const queues = names.filter((name) => name.endsWith(':queue'));
    for (const name of queues) expect(await server.command('ZRANGE', name, 0, -1), told).to.satisfy(areMarks);
    const fences = names.filter((name) => !queues.includes(name));
    expect(fences, told).to.deep.equal(['redis-exp-lock:fence']);
    for (const name of queues) {
      const leftMs = await server.command<number>('PTTL', name);
      if (leftMs !== -2) expect(leftMs).to.be.within(1, 10_000); // -2: it has ended since
    }
    expect(signals.flatMap((signal) => getEventListeners(signal, 'abort'))).to.deep.equal([]);
    await waitFor(() => clients.every((client) => client.isReady));
    expect(clients.map(listenersOf)).to.deep.equal(before.listeners);
    await waitFor(() => activeTimers() <= before.active, { what: 'the last timer to end' }); // those of this test as well
    await waitFor(async () => (await connections(server)) <= before.connections, {
      what: 'the last connection to end',
    });
    expect(await server.command('PUBSUB', 'CHANNELS')).to.deep.equal([]);
  });
});

/** The holders of each key, as far as the leases themselves say. */
class Belief {
  readonly #holders = new Map<string, Set<redisExpLock.Lease>>();
  readonly #fences = new Map<string, number>();

  granted(key: string, lease: redisExpLock.Lease): void {
    const holders = this.#holders.get(key) ?? new Set();
    this.#holders.set(key, holders);
    // Read in this order: who has time left at the second look had it at the first.
    const others = [...holders].filter((other) => other.remaining() > 0);
    if (lease.remaining() > 0)
      expect(
        others.map(({ fence }) => fence),
        `two hold ${key}`,
      ).to.deep.equal([]);
    holders.add(lease);
    expect(lease.fence, `fence of ${key}`).to.be.greaterThan(this.#fences.get(key) ?? 0);
    this.#fences.set(key, lease.fence);
  }

  over(key: string, lease: redisExpLock.Lease): void {
    if (lease.remaining() === 0) this.#holders.get(key)!.delete(lease);
  }
}

/** The timers that our sources set on behalf of this test, and that neither fired nor were cleared. */
class Timers {
  readonly #mine = new AsyncLocalStorage<true>();
  readonly #pending = new Map<NodeJS.Timeout, string>();
  readonly #set = globalThis.setTimeout;
  readonly #clear = globalThis.clearTimeout;

  constructor() {
    this.#mine.enterWith(true);
    const set = (callback: (...args: any[]) => void, ms?: number, ...args: any[]): NodeJS.Timeout => {
      const from = fileOfCaller();
      const timer = this.#set(
        (...given: any[]) => {
          this.#pending.delete(timer);
          callback(...given);
        },
        ms,
        ...args,
      );
      if (this.#mine.getStore() && /[/\\]src[/\\]/.test(from)) this.#pending.set(timer, from);
      return timer;
    };
    globalThis.setTimeout = Object.assign(set, this.#set) as typeof setTimeout;
    globalThis.clearTimeout = ((timer: NodeJS.Timeout) => {
      this.#pending.delete(timer);
      this.#clear(timer);
    }) as typeof clearTimeout;
  }

  get pending(): string[] {
    return [...this.#pending.values()];
  }

  stop(): string[] {
    this.#mine.disable();
    globalThis.setTimeout = this.#set;
    globalThis.clearTimeout = this.#clear;
    return this.pending;
  }
}

function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}

function listenersOf(client: Client): Record<string, number> {
  return Object.fromEntries(client.eventNames().map((name) => [String(name), client.listenerCount(name)]));
}

async function connections(server: RedisServer): Promise<number> {
  return (await server.command<string>('CLIENT', 'LIST')).trim().split('\n').length;
}

/** The marks that may stay in a queue without entries until it expires: how often it was handed off, and how callers polled. */
function areMarks(left: unknown): boolean {
  return (left as string[]).every((mark) => mark === 'passes' || /^poll \d+ \d+$/.test(mark));
}
