/**
 * Acquire, extend, release and abort in any order, against a model so small that it is plainly right: a map from key to holder.
 * One after the other every answer is foretold; at the same time, what must never be is looked for.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import redisExpLock from '../../src/index';
import { randomFactor, randomRuns } from '../support/random-runs';
import { type Client, connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { LONG_MS } from './faults';
import { rejectionOf } from './holding';

let server: RedisServer;
let clients: Client[];

before(async () => {
  server = await startRedis();
  clients = [await server.connect(), await connect(server.url, { RESP: 2 })];
});

after(async () => {
  for (const client of clients) client.destroy();
  await server.discard();
});

/** Keys of one run; the model speaks of them by number. */
const keyCount = 2;

function names(): string[] {
  return Array.from({ length: keyCount }, () => uniqueKey());
}

const key = fc.nat({ max: keyCount - 1 });
const who = fc.nat({ max: 1 });
/** Longer than any run takes: nothing ends by itself. */
const lifetime = fc.integer({ min: 40_000, max: 2 * LONG_MS });

// One after the other.

interface Held {
  readonly keys: readonly number[];
  /** The locks that Redis has lost; by key, because an operator may take one of several. */
  readonly lost: Set<number>;
  /** The state by the holder's own knowledge. */
  state: 'held' | 'released' | 'lost';
  /** The answer to the first release, and to every later one. */
  released?: boolean;
}

interface Model {
  /** Number of the hold, or of nobody we know. */
  readonly holders: Map<number, number | 'stranger'>;
  readonly holds: Held[];
}

interface Real {
  readonly names: readonly string[];
  readonly locks: readonly redisExpLock.WithLock[];
  readonly leases: redisExpLock.Lease[];
  readonly fences: Map<number, number>;
}

type Step = fc.AsyncCommand<Model, Real>;

abstract class Checked implements Step {
  check(_model: Readonly<Model>): boolean {
    return true;
  }

  abstract act(model: Model, real: Real): Promise<void>;

  async run(model: Model, real: Real): Promise<void> {
    await this.act(model, real);
    for (let n = 0; n < keyCount; n += 1) {
      const holder = model.holders.get(n);
      const expected = holder === undefined ? null : holder === 'stranger' ? 'stranger' : real.leases[holder]!.token;
      expect(await server.command('GET', real.names[n]!), `holder of key ${n}`).to.equal(expected);
    }
    for (const [n, { state }] of model.holds.entries()) {
      const lease = real.leases[n]!;
      expect(lease.remaining() > 0, `lease ${n} is valid`).to.equal(state === 'held');
      expect(lease.signal.aborted, `lease ${n} is told`).to.equal(state === 'lost');
    }
  }
}

class Acquire extends Checked {
  readonly #keys: readonly number[];
  readonly #who: number;
  readonly #lifetime: number;

  constructor(keys: readonly number[], by: number, ms: number) {
    super();
    this.#keys = [...new Set(keys)];
    this.#who = by;
    this.#lifetime = ms;
  }

  override async act(model: Model, real: Real): Promise<void> {
    const lock = real.locks[this.#who]!;
    const wanted = this.#keys.map((n) => real.names[n]!);
    const lease = await lock.tryLock(wanted.length === 1 ? wanted[0]! : wanted, { lifetime: this.#lifetime });
    const free = this.#keys.every((n) => !model.holders.has(n));
    expect(lease !== null, 'granted').to.equal(free);
    if (lease === null) return;
    for (const n of this.#keys) {
      expect(lease.fence).to.be.greaterThan(real.fences.get(n) ?? 0);
      real.fences.set(n, lease.fence);
      model.holders.set(n, model.holds.length);
    }
    model.holds.push({ keys: this.#keys, lost: new Set(), state: 'held' });
    real.leases.push(lease);
  }

  override toString(): string {
    return `acquire(${this.#keys}, by ${this.#who})`;
  }
}

abstract class OnHold extends Checked {
  readonly #n: number;

  constructor(n: number) {
    super();
    this.#n = n;
  }

  override check({ holds }: Readonly<Model>): boolean {
    return holds.length > 0;
  }

  override async act(model: Model, real: Real): Promise<void> {
    const n = this.#n % model.holds.length;
    await this.actOn(model.holds[n]!, real.leases[n]!, model, n);
  }

  abstract actOn(hold: Held, lease: redisExpLock.Lease, model: Model, n: number): Promise<void>;

  override toString(): string {
    return `${this.constructor.name}(${this.#n})`;
  }
}

class Extend extends OnHold {
  readonly #lifetime: number;

  constructor(n: number, ms: number) {
    super(n);
    this.#lifetime = ms;
  }

  async actOn(hold: Held, lease: redisExpLock.Lease): Promise<void> {
    const ours = hold.state === 'held' && hold.lost.size === 0;
    const startMs = performance.now();
    expect(await lease.extend(this.#lifetime), 'extended').to.equal(ours);
    const leftMs = lease.remaining();
    const least = this.#lifetime - 2_000 - (performance.now() - startMs);
    if (ours) expect(leftMs).to.be.within(least, this.#lifetime);
    else if (hold.state === 'held') hold.state = 'lost';
  }
}

class Release extends OnHold {
  async actOn(hold: Held, lease: redisExpLock.Lease, model: Model, n: number): Promise<void> {
    hold.released ??= hold.lost.size === 0;
    const again = lease.release();
    expect(await Promise.all([lease(), again, lease.release()])).to.deep.equal(Array(3).fill(hold.released));
    for (const each of hold.keys) if (model.holders.get(each) === n) model.holders.delete(each);
    if (hold.state === 'held') hold.state = 'released';
  }
}

/** The signal aborts while the request is on its way: nothing changes, whatever process holds it. */
class Abort extends Checked {
  readonly #key: number;
  readonly #who: number;

  constructor(n: number, by: number) {
    super();
    this.#key = n;
    this.#who = by;
  }

  override async act(_model: Model, real: Real): Promise<void> {
    const controller = new AbortController();
    const lost = rejectionOf(real.locks[this.#who]!.promise(real.names[this.#key]!, { signal: controller.signal }));
    const reason = new Error('aborted');
    controller.abort(reason);
    expect(await lost).to.equal(reason);
    await clients[this.#who]!.ping(); // behind what was sent, and what was sent to undo it
  }

  override toString(): string {
    return `abort(${this.#key}, by ${this.#who})`;
  }
}

/** A foreign client deletes the key, or takes it. */
class Interfere extends Checked {
  readonly #key: number;
  readonly #by: 'DEL' | 'SET';

  constructor(n: number, by: 'DEL' | 'SET') {
    super();
    this.#key = n;
    this.#by = by;
  }

  override async act({ holders, holds }: Model, real: Real): Promise<void> {
    const name = real.names[this.#key]!;
    const holder = holders.get(this.#key);
    if (typeof holder === 'number') holds[holder]!.lost.add(this.#key);
    if (this.#by === 'DEL') {
      await server.command('DEL', name);
      holders.delete(this.#key);
    } else {
      await server.command('SET', name, 'stranger', 'PX', LONG_MS);
      holders.set(this.#key, 'stranger');
    }
  }

  override toString(): string {
    return `${this.#by}(${this.#key})`;
  }
}

describe('any order of calls (H2, H8, H13, H22, H25, H36)', function () {
  this.timeout(60_000 * randomFactor); // as many random runs as are asked for

  it('one after the other: every answer, every holder and every validity is what the model says', async () => {
    const steps: fc.Arbitrary<Step>[] = [
      fc.tuple(fc.array(key, { minLength: 1, maxLength: 2 }), who, lifetime).map((args) => new Acquire(...args)),
      fc.tuple(key, who, lifetime).map(([n, by, ms]) => new Acquire([n], by, ms)),
      fc.tuple(fc.nat(), lifetime).map((args) => new Extend(...args)),
      fc.nat().map((n) => new Release(n)),
      fc.nat().map((n) => new Release(n)),
      fc.tuple(key, who).map((args) => new Abort(...args)),
      fc.tuple(key, fc.constantFrom('DEL' as const, 'SET' as const)).map((args) => new Interfere(...args)),
    ];
    await fc.assert(
      fc.asyncProperty(fc.commands(steps, { maxCommands: 40 }), async (commands) => {
        const locks = clients.map((redis) => redisExpLock({ redis, commandTimeout: 20_000 }));
        const real: Real = { names: names(), locks, leases: [], fences: new Map() };
        try {
          await fc.asyncModelRun(() => ({ model: { holders: new Map(), holds: [] }, real }), commands);
        } finally {
          await Promise.all(real.leases.map((lease) => lease.release()));
        }
      }),
      { numRuns: randomRuns(120) },
    );
  });

  // At the same time.

  interface Call {
    readonly what: 'acquire' | 'extend' | 'release' | 'abort';
    readonly key: number;
    readonly who: number;
    readonly afterMs: number;
  }

  it('at the same time: never two valid holders, never a fence that falls, nothing left at the end', async () => {
    const call: fc.Arbitrary<Call> = fc.record({
      what: fc.constantFrom('acquire', 'acquire', 'release', 'release', 'extend', 'abort'),
      key,
      who,
      afterMs: fc.constantFrom(0, 0, 0, 1, 2, 3),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 40 }), async (calls) => {
        const locks = clients.map((redis) =>
          redisExpLock({ redis, maxRetries: 3, retryTimeout: 1, lifetime: LONG_MS, commandTimeout: 20_000 }),
        );
        const keys = names();
        const leases: redisExpLock.Lease[] = [];
        const fences = new Map<string, number>();

        const make = async ({ what, key: n, who: by, afterMs }: Call): Promise<void> => {
          if (afterMs > 0) await sleep(afterMs);
          const name = keys[n]!;
          const mine = leases.filter((lease) => lease.key === name);
          if (what === 'extend') return void (await mine.at(-1)?.extend());
          if (what === 'release') return void (await mine.at(-1)?.release());
          const controller = new AbortController();
          const acquired = locks[by]!.promise(name, { signal: controller.signal });
          if (what === 'abort') setTimeout(() => controller.abort(), afterMs);
          const lease = await acquired.catch((error) => {
            if (error instanceof redisExpLock.TooManyLockAttemptsError || error.name === 'AbortError') return null;
            throw error;
          });
          if (lease === null) return;
          expect(leases.filter((other) => other.key === name && other.remaining() > 0)).to.have.length(0);
          expect(lease.fence).to.be.greaterThan(fences.get(name) ?? 0);
          fences.set(name, lease.fence);
          leases.push(lease);
        };
        await Promise.all(calls.map(make));

        for (const client of clients) await client.ping();
        for (const name of keys) {
          const valid = leases.filter((lease) => lease.key === name && lease.remaining() > 0);
          expect(await server.command('GET', name)).to.equal(valid[0]?.token ?? null);
          for (const lease of valid) expect(await lease.release()).to.equal(true);
          expect(await server.command('GET', name)).to.equal(null);
        }
      }),
      { numRuns: randomRuns(150) },
    );
  });
});
